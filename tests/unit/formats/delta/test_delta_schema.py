"""Delta Lake is refused what its readers would not read right."""

from dataclasses import replace
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest

from airflow_provider_segtable.core.schema import Column, Schema
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.tables.evolution import (
    AddColumn,
    ColumnChange,
    DropColumn,
    MakeNullable,
    RenameColumn,
    Reorder,
    WidenColumn,
    evolved,
)
from airflow_provider_segtable.formats.delta.delta_target import DeltaFormat
from tests.unit.formats.delta.making import TABLE, Lake, rows_of

FORMAT = DeltaFormat()


def altered(table: TableDefinition, *changes: ColumnChange) -> TableDefinition:
    """Return a table after changes of its columns."""
    schema = evolved(table.schema, table.earlier, changes, table.time_column)
    return replace(table, schema=schema, earlier=(*table.earlier, table.schema))


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ((AddColumn(name="new", type="int32"),), ""),
        ((DropColumn(name="carrier"),), ""),
        ((Reorder(names=("delay",)),), ""),
        ((MakeNullable(name="carrier"),), ""),
        (
            (AddColumn(name="new", type="int32", default="1"),),
            "'new' (default 1) is missing in older files",
        ),
        ((RenameColumn(name="carrier", new="line"),), "'line' is named 'carrier'"),
        ((WidenColumn(name="number", type="int64"),), "'number' has type int32"),
        (
            (DropColumn(name="carrier"), AddColumn(name="Carrier", type="string")),
            "'Carrier' is another column",
        ),
        (
            (RenameColumn(name="carrier", new="line"), RenameColumn(name="delay", new="carrier")),
            "'line' is named 'carrier'",
        ),
    ],
)
def test_older_files_are_refused_if_names_mislead(
    changes: tuple[ColumnChange, ...], reason: str
) -> None:
    """A version with files of an older schema is refused unless names alone read them right."""
    number = Column(name="number", type="int32")
    table = replace(TABLE, schema=Schema((*TABLE.schema.columns, number)))
    changed = altered(table, *changes)
    found = FORMAT.refusal(changed, {0, 1})
    assert reason in found
    assert bool(found) == bool(reason) == ("segtable compact TABLE" in found)
    assert FORMAT.refusal(changed, {1}) == ""


@pytest.mark.parametrize(
    "kind",
    [
        *("uint32", "uint64", "timestamp[ns]", "timestamp[ns, tz=UTC]", "date64[ms]", "null"),
        *("time64[us]", "time32[s]", "halffloat", "duration[us]", "fixed_size_binary[3]"),
        *("decimal128(5, -2)", "list<item: uint32>", "struct<a: int64, b: map<string, uint8>>"),
    ],
)
def test_types_are_refused_by_name(kind: str) -> None:
    """The reason names the column and the type that readers do not share."""
    table = replace(TABLE, schema=Schema((*TABLE.schema.columns, Column(name="odd", type=kind))))
    assert "column 'odd' has type" in FORMAT.refusal(table, {0})


def test_names_that_differ_in_case_are_refused() -> None:
    """Readers of Delta Lake hold them for one."""
    table = replace(
        TABLE, schema=Schema((*TABLE.schema.columns, Column(name="Delay", type="int8")))
    )
    assert "rename" in FORMAT.refusal(table, {0})


def test_an_added_column_is_null_in_older_files(tmp_path: Path) -> None:
    """The metadata changes with the version, and earlier versions keep theirs."""
    lake = Lake(tmp_path)
    lake.put(lake.file(1))
    lake.table = altered(TABLE, AddColumn(name="new", type="int32"), DropColumn(name="delay"))
    more = rows_of(2).append_column("new", pa.array(range(10), pa.int32())).drop_columns("delay")
    lake.put(lake.file(2, write=more))
    found = pl.scan_delta(str(tmp_path)).filter(pl.col("new").is_null()).collect()
    assert found.columns == ["time_hour", "carrier", "new"]
    assert found.height == 10
    assert pl.scan_delta(str(tmp_path), version=0).collect().columns[2] == "delay"
