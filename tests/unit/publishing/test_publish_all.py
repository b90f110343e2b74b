"""A planner publishes all formats: one that fails keeps back neither the others nor a plan."""

from dataclasses import replace
from typing import ClassVar, Never

from airflow_provider_segtable.ports.storage import Storage
from airflow_provider_segtable.services.publishing import publish_all
from airflow_provider_segtable.table.publishing.publisher import PublishedNow
from airflow_provider_segtable.table.table import Table, create_table
from tests.support.in_memory import context_in_memory
from tests.unit.publishing.conftest import DEFINITION, Plain
from tests.unit.table.conftest import rows

OFF = {"publish.on_commit": "off"}


class Broken(Plain):
    """A format whose library fails with an error of its own."""

    name: ClassVar[str] = "iceberg"

    def target(self, storage: Storage, randomness: object = None) -> Never:  # noqa: ARG002
        """Fail as no adapter should."""
        raise RuntimeError(f"no target in {storage.uri}")


def test_a_format_that_fails_does_not_keep_back_another() -> None:
    """Whatever it raises is named; what is published already is published once."""
    ports = replace(context_in_memory(), formats={"iceberg": Broken(), "delta": Plain()})
    switched = {"publish.delta": "on", "publish.iceberg": "on", **OFF}
    table = create_table(ports, replace(DEFINITION, properties=switched))
    table.append(rows(range(10)))
    run = publish_all(ports)
    (outcome,) = run.outcomes
    assert isinstance(outcome, PublishedNow)
    assert (outcome.format, outcome.event) == ("delta", table.state().n)
    assert run.failed == {"iceberg": "RuntimeError: no target in memory://"}
    assert [type(each).__name__ for each in publish_all(ports).outcomes] == ["AlreadyPublished"]


def test_a_table_without_formats_is_left_alone(table: Table) -> None:
    """The planner runs over tables that nobody publishes, too."""
    run = publish_all(table.ports)
    assert (run.outcomes, run.failed) == ((), {})
