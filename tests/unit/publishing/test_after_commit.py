"""Publishing after commits: every version, and never at the commit's expense."""

import itertools
import logging
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_segtable.core.errors import (
    InvalidInput,
    PublishingRefused,
    StorageFull,
)
from airflow_provider_segtable.core.tables.evolution import AddColumn
from airflow_provider_segtable.formats.format import Published
from airflow_provider_segtable.storage.memory_storage import MemoryStorage
from airflow_provider_segtable.table.log_store.union_scan import over
from airflow_provider_segtable.table.publishing.after_commit import publish_after_commit
from airflow_provider_segtable.table.table import Table, create_table
from tests.support.in_memory import context_in_memory
from tests.unit.publishing.conftest import DEFINITION, Plain, again
from tests.unit.publishing.plain_format import FOLDER, PlainTarget
from tests.unit.publishing.test_publisher import Beside, is_published, target, versions
from tests.unit.table.conftest import numbers, rows


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [each.getMessage() for each in caplog.records if each.levelno == logging.WARNING]


def test_a_new_table_is_published_without_rows(published: Table) -> None:
    """Readers can open it before the first append."""
    found = target(published).load()
    assert found is not None
    assert (found.event, found.files) == (0, {})


def test_each_commit_is_published(published: Table) -> None:
    """Appends and deletes are versions, tags are not; the versions have the events' numbers."""
    published.append(rows(range(10)))
    published.tag("one")
    published.delete("row = 3")
    assert is_published(published)
    events = [PlainTarget(published.ports.storage).version(n).event for n in range(3)]
    assert events == [0, 1, 3]


def test_a_table_that_is_not_published_has_no_target(table: Table) -> None:
    """By default nothing is published."""
    table.append(rows(range(10)))
    assert versions(table) == []
    assert table.published() == {}
    with pytest.raises(InvalidInput, match="published in no format: name one of delta, or set"):
        table.publish()
    with pytest.raises(InvalidInput, match="format 'hudi' is unknown: choose one of delta"):
        table.publish(formats=["hudi"])


def test_the_property_publishes_what_is_there(table: Table) -> None:
    """Switched on, all is published at once; off, it stays and lags; on again, it catches up."""
    table.append(rows(range(10)))
    table.alter(set={"publish.delta": "true"})
    assert is_published(table)
    table.alter(set={"publish.delta": "off"})
    table.append(rows(range(10, 20)))
    table.ports.clock.advance(5.0)  # type: ignore[attr-defined]
    table.append(rows(range(20, 30)))
    late = table.published()["delta"]
    assert (late.enabled, late.event, late.lag_events) == (False, 2, 2)
    assert late.lag_seconds == pytest.approx(5.0, abs=0.1)
    table.alter(set={"publish.delta": "on"})
    assert is_published(table)
    assert len(versions(table)) == 2


def test_commits_may_leave_it_to_others(table: Table) -> None:
    """With ``publish.on_commit=off`` versions are published when ``publish`` is called."""
    table.alter(set={"publish.delta": "on", "publish.on_commit": "off"})
    table.append(rows(range(10)))
    assert versions(table) == []
    assert table.published()["delta"].event is None
    table.publish()
    assert is_published(table)


def test_a_failing_storage_fails_no_commit(
    published: Table, caplog: pytest.LogCaptureFixture
) -> None:
    """The rows are there, one warning says why they are not published, and the lag is shown."""

    def full() -> None:
        raise StorageFull("no space is left")

    storage = Beside(published.ports.storage, "create", FOLDER, [full, full])
    broken = Table(replace(published.ports, storage=storage))  # type: ignore[arg-type]
    for turn in range(2):
        broken.append(rows(range(turn * 10, turn * 10 + 10)))
    assert numbers(published) == [*range(20)]
    assert warnings(caplog) == [
        "memory://t: version not published as delta: StorageFull: no space is left"
    ]
    assert published.published()["delta"].lag_events == 2
    broken.append(rows(range(20, 30)))
    assert is_published(published)
    storage.acts.append(full)
    broken.append(rows(range(30, 40)))
    assert len(warnings(caplog)) == 2


def test_a_foreign_table_fails_no_commit(
    published: Table, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither is it written over; the status has the error."""
    for path in versions(published):
        published.ports.storage.replace(path, b'{"by": "hand"}')
    table = again(published)
    for turn in range(2):
        table.append(rows(range(turn * 10, turn * 10 + 10)))
    (warning,) = warnings(caplog)
    assert "ForeignTable" in warning
    assert "ForeignTable" in table.published()["delta"].error
    assert len(versions(table)) == 1


def test_a_refusal_fails_no_commit(
    published: Table, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is one warning for any number of commits, and the status has it, too."""
    count = itertools.count()
    monkeypatch.setattr(Plain, "refusal", lambda *_: f"{next(count)} days are left: wait")
    for turn in range(2):
        published.append(rows(range(turn * 10, turn * 10 + 10)))
    (warning,) = warnings(caplog)
    assert warning.startswith("memory://t: version not published as delta: ")
    assert warning.endswith("days are left: wait")
    found = published.published()["delta"]
    assert (found.event, found.lag_events) == (0, 2)
    assert "days are left: wait" in found.refusal


def test_a_catalog_that_fails_is_left_alone_for_a_while(
    published: Table, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The version is published, one warning names the catalog, which is asked again later."""
    asked: list[int] = []

    def register(_: Plain, version: Published, properties: Mapping[str, str]) -> str:
        assert properties["publish.delta"] == "on"
        asked.append(version.event)
        return "the catalog is away" if len(asked) < 3 else ""

    monkeypatch.setattr(Plain, "register", register)
    for turn in range(4):
        published.append(rows(range(turn * 10, turn * 10 + 10)))
        published.ports.clock.advance(40.0)  # type: ignore[attr-defined]
    assert is_published(published)
    assert asked == [1, 3, 4][: len(asked)]
    assert warnings(caplog) == ["memory://t: version not registered as delta: the catalog is away"]
    published.ports.clock.advance(40.0)  # type: ignore[attr-defined]
    assert [each.unregistered for each in published.publish()] == [""]  # type: ignore[union-attr]
    assert asked == [1, 3, 4]
    published.publish()
    assert asked == [1, 3, 4]


def test_whatever_goes_wrong_fails_no_commit(
    published: Table, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A library that is missing is one of these things."""

    def missing(*_: Any) -> None:
        raise ImportError("no module named x")

    monkeypatch.setattr(Plain, "target", missing)
    published.append(rows(range(10)))
    assert warnings(caplog) == [
        "memory://t: version not published as delta: ImportError: no module named x"
    ]


def test_settings_of_a_newer_segtable_fail_no_commit(
    table: Table, caplog: pytest.LogCaptureFixture
) -> None:
    """A property that is unknown here is named, and nothing is published."""
    state = table.state()
    properties = {"publish.delta": "on", "publish.hudi": "on"}
    newer = replace(state, table=replace(state.table, properties=properties))
    publish_after_commit(table.ports, newer)
    assert "'publish.hudi' is not a property" in warnings(caplog)[0]
    assert versions(table) == []


@pytest.mark.parametrize("changed", [False, True])
def test_a_table_that_cannot_be_published_is_refused(table: Table, *, changed: bool) -> None:
    """At creation and at alteration, with the property and the way out; nothing is written."""
    message = r"property publish.delta of t: schema \d has a column 'person': drop it"
    if changed:
        table.alter(set={"publish.delta": "on"})
        with pytest.raises(PublishingRefused, match=message):
            table.alter(columns=[AddColumn(name="person", type="string")])
        return
    table.alter(columns=[AddColumn(name="person", type="string")])
    with pytest.raises(PublishingRefused, match=message):
        table.alter(set={"publish.delta": "on"})
    schema = replace(table.state().table.schema, number=0)
    ports = context_in_memory()
    with pytest.raises(PublishingRefused, match=message):
        create_table(ports, replace(DEFINITION, schema=schema, properties={"publish.delta": "on"}))
    assert isinstance(ports.storage, MemoryStorage)
    assert [*ports.storage.list("")] == []


def test_threads_publish_each_version_or_a_newer_one(published: Table) -> None:
    """Appends of one process at the same time are all published when they return."""

    def append(turn: int) -> int:
        n = published.append(rows(range(turn * 10, turn * 10 + 10))).n
        found = target(published).load()
        assert found is not None
        return found.event - n

    with ThreadPoolExecutor(4) as pool:
        assert min(pool.map(append, range(8))) >= 0
    assert is_published(published)


def test_a_rehearsal_is_not_published(published: Table) -> None:
    """What a read of the live tail commits in memory is no version."""
    ports = over(published.ports, published.state())
    Table(ports).append(rows(range(10)))
    assert Table(ports).published() == {}
    assert [*ports.storage.list(FOLDER)] == [*published.ports.storage.list(FOLDER)]
