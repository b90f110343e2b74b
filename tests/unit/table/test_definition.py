"""Schemas that no table can have are refused when they are given."""

import pyarrow as pa
import pytest

from airflow_provider_segtable.core.errors import SchemaMismatch
from airflow_provider_segtable.core.tables.evolution import AddColumn
from airflow_provider_segtable.table.definition import checked_schema
from airflow_provider_segtable.table.table import Table

UTC = pa.timestamp("us", "UTC")
NOWHERE = pa.timestamp("us", "Mars/X")


@pytest.mark.parametrize(
    ("fields", "word"),
    [
        ([("at", NOWHERE)], "'Mars/X', which does not exist"),
        ([("at", UTC), ("x", pa.list_(NOWHERE))], "column 'x' has the time zone 'Mars/X'"),
        ([("at", UTC), ("x", pa.struct([("y", pa.timestamp("us", "+25:00"))]))], "'\\+25:00'"),
        ([("at", UTC), ("at", UTC)], "several columns 'at'"),
        ([("at", UTC), ("x", pa.int64()), ("x", pa.int8())], "several columns 'x'"),
    ],
)
def test_zones_and_names(fields: list[tuple[str, pa.DataType]], word: str) -> None:
    """A zone must exist, at any depth, and a name is there once; the error names both."""
    with pytest.raises(SchemaMismatch, match=word):
        checked_schema(pa.schema(fields), "at")


@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "+01:00", "-0530", "Etc/GMT+3", None])
def test_zones_that_exist(zone: str | None) -> None:
    """Names and offsets are as Arrow reads them."""
    assert checked_schema(pa.schema([("at", pa.timestamp("us", zone))]), "at").names == ("at",)


def test_a_column_added_later(table: Table) -> None:
    """Its zone must exist, too."""
    with pytest.raises(SchemaMismatch, match="'Mars/X', which does not exist"):
        table.alter(columns=[AddColumn(name="x", type="timestamp[us, tz=Mars/X]")])
