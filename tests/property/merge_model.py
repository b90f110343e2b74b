"""Records of a primary-key table, and their merge as its rules say it: one record after another."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_provider_segtable.core.tables.merge_rules import ColumnGroup, MergeEngine, MergeRules
from airflow_provider_segtable.data.keyed.key_groups import Root, RootOrders
from airflow_provider_segtable.data.keyed.keyed_rows import log_rows, with_root

Row = dict[str, Any]
GROUPS = (
    ColumnGroup(columns=("a", "b"), ordering="seq_ab"),
    ColumnGroup(columns=("c",), ordering="seq_c"),
)
FIXED = "day"


@dataclass(frozen=True, slots=True)
class Record:
    """One written record: the table's columns, and whether it is a tombstone."""

    row: Row
    deletes: bool


@dataclass(frozen=True, slots=True)
class File:
    """The records of one log file, in order, and its root."""

    root: Root
    records: tuple[Record, ...]


def schema(keys: Sequence[pa.DataType], ordering: pa.DataType) -> pa.Schema:
    """Return a table's columns, with some types."""
    return pa.schema(
        [
            *((f"k{at}", kind) for at, kind in enumerate(keys)),
            ("seq", ordering),
            ("seq_ab", pa.int64()),
            ("a", pa.int64()),
            ("b", pa.string()),
            ("seq_c", pa.timestamp("us", "UTC")),
            ("c", pa.list_(pa.int64())),
            ("x", pa.string()),
            ("y", pa.int32()),
            (FIXED, pa.date32()),
        ]
    )


def rules(keys: int, *, partial: bool, ordering: bool) -> MergeRules:
    """Return rules over these columns."""
    return MergeRules(
        key=tuple(f"k{at}" for at in range(keys)),
        ordering="seq" if ordering else "",
        engine=MergeEngine.PARTIAL_UPDATE if partial else MergeEngine.LATEST,
        groups=GROUPS if partial else (),
        fixed=(FIXED,) if partial else (),
    )


def run_of(file: File, columns: pa.Schema, how: MergeRules) -> pa.Table:
    """Return a file's rows as its readers see them."""
    table = pa.Table.from_pylist([record.row for record in file.records], schema=columns)
    flags = np.array([record.deletes for record in file.records], bool)
    return with_root(log_rows(table, how, flags), file.root.partition)


def roots_of(files: Sequence[File]) -> RootOrders:
    """Return the order of the files' roots."""
    return RootOrders.of(file.root for file in files)


Placed = tuple[Record, tuple[Any, ...]]
"""A record, and all that orders it besides an ordering column."""


def _placed(files: Sequence[File]) -> Iterator[Placed]:
    for file in files:
        for at, record in enumerate(file.records):
            root = file.root
            yield record, (root.instant, root.log_version, root.write_token, at)


def _order(placed: Placed, column: str) -> tuple[Any, ...]:
    record, place = placed
    value = record.row[column] if column else None
    return (value is not None, 0 if value is None else value, *place)


def visible(files: Sequence[File], how: MergeRules, columns: pa.Schema) -> list[Row]:
    """Return the rows that readers see, sorted by key."""
    by_key: dict[tuple[Any, ...], list[Placed]] = {}
    for one in _placed(files):
        by_key.setdefault(tuple(one[0].row[name] for name in how.key), []).append(one)
    merge = _partial if how.partial else _latest
    rows = [merge(by_key[key], how, columns) for key in sorted(by_key)]
    return [row for row in rows if row is not None]


def _latest(records: list[Placed], how: MergeRules, _: pa.Schema) -> Row | None:
    record, _ = max(records, key=lambda one: _order(one, how.ordering))
    return None if record.deletes else record.row


def _partial(records: list[Placed], how: MergeRules, columns: pa.Schema) -> Row | None:
    row = dict.fromkeys(columns.names)
    row.update({name: records[0][0].row[name] for name in how.key})
    days = [one.row[FIXED] for one, _ in records if one.row[FIXED] is not None]
    row[FIXED] = max(days, default=None)
    top = _winner(records, how.ordering, "")
    if top:
        row["seq"] = top.row["seq"] if how.ordering else None
    singles = [name for name in ("x", "y", "seq") if name != how.ordering]
    for name in singles:
        found = _winner(records, how.ordering, name)
        row[name] = found.row[name] if found else None
    present = top is not None
    for group in how.groups:
        found = _winner(records, group.ordering, group.ordering)
        present |= found is not None
        for name in group.names:
            row[name] = found.row[name] if found else None
    return row if present else None


def _winner(records: list[Placed], ordering: str, sets: str) -> Record | None:
    """Return the highest record that sets a register, unless a tombstone is higher.

    A record sets it if it has a value in column ``sets`` (any, if that is empty); a tombstone
    deletes it always, but a group only if it has a value in the group's ordering column.
    """
    group = bool(sets) and sets == ordering
    those = [
        one
        for one in records
        if (one[0].deletes and not group) or not sets or one[0].row[sets] is not None
    ]
    if not those:
        return None
    record, _ = max(those, key=lambda one: _order(one, ordering))
    return None if record.deletes else record
