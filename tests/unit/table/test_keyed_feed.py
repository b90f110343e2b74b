"""Change feeds of primary-key tables; ``tests/property/test_keyed_tables.py`` has histories."""

from pathlib import Path
from typing import Any

import pyarrow as pa

from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.library.table import Table
from tests.property.test_keyed_tables import GONE, batch, keyed_table

Change = tuple[str, int, str]


def told(table: Table, **given: Any) -> list[tuple[int, Change]]:
    """Return the changes of a window, each with its version."""
    feed = table.scan(changes=True, **given).to_arrow().to_pylist()
    return [(r["_segtable_version"], (r["_segtable_change"], r["key"], r["text"])) for r in feed]


def upserted(table: Table, seq: int, text: str, *keys: int, gone: bool = False) -> int:
    """Upsert keys, and return the event's number."""
    rows = [{"key": key, "seq": seq, "text": text, GONE: gone} for key in keys]
    return table.upsert(batch(rows), deleted=GONE).n


def test_late_records_and_restores(tmp_path: Path) -> None:
    """A record that loses changes nothing; a restore is compared by key."""
    table = keyed_table(str(tmp_path), PrimaryKey(key=("key",), buckets=2, ordering="seq"))
    first = upserted(table, 5, "a", 1, 2, 3)
    upserted(table, 3, "late", 1, 2)
    gone = upserted(table, 6, "x", 2, gone=True)
    changed = upserted(table, 7, "b", 1, 4)
    assert sorted(told(table, since_version=first)) == [
        (gone, ("delete", 2, "a")),
        (changed, ("insert", 4, "b")),
        (changed, ("update_after", 1, "b")),
        (changed, ("update_before", 1, "a")),
    ]
    restored = table.restore(version=first).n
    assert sorted(told(table, since_version=changed)) == [
        (restored, ("delete", 4, "b")),
        (restored, ("insert", 2, "a")),
        (restored, ("update_after", 1, "a")),
        (restored, ("update_before", 1, "b")),
    ]
    assert table.scan(since_version=first).count() == 0
    last = upserted(table, 9, "c", 4, 5)
    assert told(table, since_version=restored, where="key = 5") == [(last, ("insert", 5, "c"))]
    only = table.scan(since_version=0, changes=True, columns=["_segtable_change", "key"])
    assert only.to_arrow().column_names == ["_segtable_change", "key"]
    assert only.count() == 3 + 4 + 4 + 2


def test_a_dropped_tombstone_is_dropped_in_the_feed(tmp_path: Path) -> None:
    """After a base compaction a late record brings its key back, for readers and in the feed."""
    table = keyed_table(str(tmp_path), PrimaryKey(key=("key",), buckets=1, ordering="seq"))
    table.alter(set={"retention.tombstone_hours": "0"})
    first = upserted(table, 5, "a", 1, 2)
    gone = upserted(table, 9, "x", 1, gone=True)
    upserted(table, 6, "late", 1)
    table.compact("semi-major")
    back = upserted(table, 7, "later", 1)
    assert told(table, since_version=first) == [
        (gone, ("delete", 1, "a")),
        (back, ("insert", 1, "later")),
    ]


def test_a_register_that_is_deleted_is_an_update(tmp_path: Path) -> None:
    """A tombstone that spares a group deletes the other columns: the feed has the row, updated."""
    schema = pa.schema(
        [("key", pa.int64()), ("day", pa.date32())]
        + [(name, pa.int64()) for name in ("x", "seq", "grouped")]
    )
    table = Table.create(
        str(tmp_path),
        schema=schema,
        time_column="day",
        granularity="all",
        primary_key="key",
        merge="partial_update",
        groups={"seq": ["grouped"]},
    )
    first = table.upsert(pa.table([[1], [0], [7], [5], [6]], schema=schema)).n
    gone = schema.append(pa.field("gone", pa.bool_()))
    row = [[1], [0], [None], [None], [None], [True]]
    table.upsert(pa.table(row, schema=gone), deleted="gone")
    feed = table.scan(since_version=first, changes=True).to_arrow().to_pylist()
    found = [(r["_segtable_change"], r["x"], r["seq"], r["grouped"]) for r in feed]
    assert found == [("update_before", 7, 5, 6), ("update_after", None, 5, 6)]
