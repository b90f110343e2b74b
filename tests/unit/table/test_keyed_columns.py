"""Columns of primary-key tables: what an alteration keeps, and what it refuses."""

from shutil import rmtree
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.tables.evolution import (
    AddColumn,
    ColumnChange,
    DropColumn,
    MakeNullable,
    RenameColumn,
    Reorder,
    WidenColumn,
)
from airflow_provider_segtable.core.tables.field_ids import field_ids
from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.core.tables.merge_rules import ROOT_OF, ColumnGroup, MergeEngine
from airflow_provider_segtable.health.repair import plan_repair, repair
from airflow_provider_segtable.health.verify import verify
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.table.upsert import records_of, upsert
from tests.property.test_keyed_tables import keyed_table

LATEST = PrimaryKey(key=("key",), buckets=2, ordering="seq")
NOW = 1_356_998_400_000_000


def partial(*groups: ColumnGroup, ordering: str = "") -> PrimaryKey:
    """Return the kind of a table whose records fill each other."""
    engine = MergeEngine.PARTIAL_UPDATE
    return PrimaryKey(key=("key",), buckets=2, ordering=ordering, merge=engine, groups=groups)


def rows(table: Table, *given: dict[str, Any]) -> pa.Table:
    """Return records in the table's present columns, as far as they have them."""
    schema = table.snapshot().schema
    names = {"at", *(name for row in given for name in row)}
    fields = [each for each in schema if each.name in names]
    return pa.Table.from_pylist([{"at": NOW, **row} for row in given], pa.schema(fields))


def found(table: Table, **version: int) -> list[dict[str, Any]]:
    """Return the rows of a version, by key, without their event time."""
    read = table.scan(**version).to_arrow().drop_columns(["at"]).to_pylist()
    return sorted(read, key=lambda row: row["key"])


def test_a_late_record_of_before_sets_no_default_over_a_value(tmp_path: Any) -> None:
    """Where records fill each other, a record that lacks a column does not set it."""
    table = keyed_table(str(tmp_path), partial())
    before = table.state()
    late = records_of(rows(table, {"key": 1, "text": "late"}), before)
    table.alter(columns=[AddColumn(name="count", type="int32", default="7")])
    table.upsert(rows(table, {"key": 1, "count": 3}, {"key": 2, "text": "b"}))
    upsert(table.ports, late, commit_id="late", state=before)
    expected = [
        {"key": 1, "seq": None, "text": "late", "count": 3},
        {"key": 2, "seq": None, "text": "b", "count": 7},
    ]
    assert found(table) == expected
    for kind in ("minor", "semi-major"):
        table.compact(kind)
        assert found(table) == expected
    assert table.scan(where="count = 7").count() == 1


def test_a_writer_of_before_keeps_its_columns_when_buckets_change(tmp_path: Any) -> None:
    """An upsert that is split again, for other buckets, is still one of its own columns."""
    table = keyed_table(str(tmp_path), LATEST)
    table.upsert(rows(table, *({"key": key, "text": "old"} for key in range(6))))
    before = table.state()
    late = records_of(rows(table, *({"key": key, "text": "late"} for key in range(3))), before)
    table.alter(columns=[RenameColumn(name="text", new="label")])
    table.compact("major", buckets=3)
    upsert(table.ports, late, commit_id="late", state=before)
    assert [row["label"] for row in found(table)] == ["late"] * 3 + ["old"] * 3
    assert verify(table.ports, deep=True).findings == ()


@pytest.mark.parametrize("ordering", ["", "seq"])
def test_registers_keep_their_order_under_other_names(tmp_path: Any, ordering: str) -> None:
    """A name that moves to another column does not take the order of the first one along."""
    table = keyed_table(str(tmp_path), partial(ordering=ordering))
    table.alter(columns=[AddColumn(name="a", type="int64"), AddColumn(name="b", type="int64")])
    table.upsert(rows(table, {"key": 1, "seq": 5, "a": 5, "text": "five"}))
    table.upsert(rows(table, {"key": 1, "seq": 3, "b": 3}))
    table.upsert(rows(table, {"key": 1, "seq": 9}))
    table.compact("minor")  # one row, whose registers have orders of their own
    table.alter(
        columns=[
            DropColumn(name="a"),
            RenameColumn(name="b", new="a"),
            AddColumn(name="b", type="int64"),
        ]
    )
    table.upsert(rows(table, {"key": 1, "seq": 4, "a": 4, "b": 40}))
    expected = {"key": 1, "seq": 9 if ordering else 4, "text": "five", "a": 4, "b": 40}
    assert found(table) == [expected]
    table.compact("semi-major")
    assert found(table) == [expected]
    late = {"key": 1, "seq": 2, "a": 2, "b": 2}
    table.upsert(rows(table, late))
    assert found(table) == [expected if ordering else {**expected, **late}]
    assert verify(table.ports, deep=True, all_versions=True).findings == ()


def test_a_column_joins_the_group_that_is_named(tmp_path: Any) -> None:
    """It is set with its group, also to null; a column of no group keeps its last value."""
    table = keyed_table(str(tmp_path), partial(ColumnGroup(columns=("text",), ordering="seq")))
    table.alter(
        columns=[
            AddColumn(name="device", type="string", group="seq"),
            AddColumn(name="alone", type="string"),
            RenameColumn(name="device", new="agent"),
        ]
    )
    assert table.state().table.kind.facts()["groups"] == ["text, agent by seq"]
    table.upsert(rows(table, {"key": 1, "seq": 2, "text": "a", "agent": "x", "alone": "y"}))
    table.upsert(rows(table, {"key": 1, "seq": 1, "agent": "late"}))
    (row,) = found(table)
    assert (row["text"], row["agent"], row["alone"]) == ("a", "x", "y")
    table.upsert(rows(table, {"key": 1, "seq": 3, "text": "b"}))
    (row,) = found(table)
    assert (row["text"], row["agent"], row["alone"]) == ("b", None, "y")


@pytest.mark.parametrize(
    ("change", "says"),
    [
        (DropColumn(name="key"), "'key' of keyed cannot be dropped: it is part of the primary key"),
        (RenameColumn(name="key", new="id"), "cannot be renamed: it is part of the primary key"),
        (WidenColumn(name="key", type="int64"), "changed in type: it is part of the primary key"),
        (MakeNullable(name="key"), "made nullable: it is part of the primary key"),
        (DropColumn(name="seq"), "'seq' of keyed cannot be dropped: it is the ordering column,"),
        (RenameColumn(name="seen", new="x"), "the ordering column of a group.*upsert the rows"),
        (DropColumn(name="at"), "'at' is the event time"),
        (AddColumn(name="x", type="string", group="seq"), "does not have: its groups are seen"),
        (AddColumn(name="x", type="int32", group="seen", default="1"), "joins the group 'seen'"),
    ],
)
def test_columns_that_decide_which_record_wins_stay(
    tmp_path: Any, change: ColumnChange, says: str
) -> None:
    """The error names the column, its role and the way out, and nothing is written."""
    table = keyed_table(str(tmp_path / "plain"), LATEST)
    table.alter(columns=[AddColumn(name="seen", type="int64")])
    grouped = Table.create(
        str(tmp_path / "grouped"),
        schema=table.snapshot().schema,
        name="keyed",
        time_column="at",
        primary_key="key",
        ordering="seq",
        merge="partial_update",
        groups={"seen": ["text"]},
    )
    with pytest.raises(InvalidInput, match=says):
        grouped.alter(columns=[change])
    assert grouped.state().n == 0


def test_only_a_table_with_groups_has_columns_that_join_one(tmp_path: Any) -> None:
    """A table without a primary key refuses a group by name."""
    table = Table.create(
        str(tmp_path), schema=pa.schema([("at", pa.timestamp("us"))]), time_column="at"
    )
    with pytest.raises(InvalidInput, match="so it has no column groups"):
        table.alter(columns=[AddColumn(name="x", type="int32", group="seen")])


def test_hidden_columns_keep_their_ids(tmp_path: Any) -> None:
    """An id belongs to one register for ever: its files are known by it."""
    table = keyed_table(str(tmp_path), partial())
    first = table.state().table
    before = field_ids(first.schema, first.kind)
    table.alter(columns=[AddColumn(name="text2", type="string"), Reorder(names=("text2",))])
    table.alter(columns=[DropColumn(name="text"), RenameColumn(name="text2", new="text")])
    later = table.state().table
    after = field_ids(later.schema, later.kind)
    assert after[ROOT_OF + "seq"] == before[ROOT_OF + "seq"]
    assert after[ROOT_OF + "text"] not in before.values()
    assert later.kind_of(0) == first.kind
    assert later.schema_of(0) == first.schema


def test_a_repair_without_the_log_knows_the_columns(tmp_path: Any) -> None:
    """Footers have the definition of their time, kind and schema history included."""
    table = keyed_table(str(tmp_path), partial(ColumnGroup(columns=("text",), ordering="seq")))
    table.upsert(rows(table, {"key": 1, "seq": 1, "text": "a"}))
    table.alter(
        columns=[
            AddColumn(name="device", type="string", group="seq"),
            AddColumn(name="count", type="int32", default="7"),
        ]
    )
    table.upsert(rows(table, {"key": 1, "seq": 2, "text": "b", "device": "x"}))
    definition, rows_before = table.state().table, found(table)
    rmtree(tmp_path / "_segtable")
    repair(table.ports, plan_repair(table.ports))
    assert found(table) == rows_before
    again = table.state().table
    assert (again.schema, again.kind) == (definition.schema, definition.kind)
    assert again.earlier_kinds == definition.earlier_kinds
