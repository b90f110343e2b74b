"""A table in memory that is published in the format of these tests, and a reader of it."""

from collections.abc import Collection
from dataclasses import replace
from typing import ClassVar

import pytest

from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.formats.formats import FORMATS
from airflow_provider_segtable.table.table import Table, create_table
from tests.support.clock import FakeRandomness
from tests.support.in_memory import context_in_memory, defined_by
from tests.unit.publishing.plain_format import PlainFormat
from tests.unit.table.conftest import SCHEMA

DEFINITION = defined_by(SCHEMA)


class Plain(PlainFormat):
    """The smallest format, by a name that the properties know; it refuses names of people."""

    name: ClassVar[str] = "delta"

    def refusal(self, table: TableDefinition, schemas: Collection[int]) -> str:
        """Refuse files with a column ``person``."""
        found = [number for number in schemas if table.schema_of(number).find("person")]
        return f"schema {found[0]} has a column 'person': drop it" if found else ""


@pytest.fixture(autouse=True)
def plain(monkeypatch: pytest.MonkeyPatch) -> None:
    """Publish in one format, the smallest."""
    for name in tuple(FORMATS):
        monkeypatch.delitem(FORMATS, name)  # type: ignore[arg-type]
    monkeypatch.setitem(FORMATS, "delta", Plain())  # type: ignore[arg-type]


@pytest.fixture
def table() -> Table:
    """An empty table by the hour that is not published yet."""
    return create_table(context_in_memory(), DEFINITION)


@pytest.fixture
def published() -> Table:
    """An empty table by the hour, published after each commit."""
    definition = replace(DEFINITION, properties={"publish.delta": "on"})
    return create_table(context_in_memory(), definition)


def again(table: Table, seed: int = 1) -> Table:
    """Return the table as another process has it, with the same coordinator."""
    return Table(replace(table.ports, author=f"other {seed}", randomness=FakeRandomness(seed)))
