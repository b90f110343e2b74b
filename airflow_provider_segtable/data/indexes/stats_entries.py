"""Entries of the index ``column_stats``: bounds, nulls and a sketch of each column and row group.

1. They are computed from the values, not taken from the footer: writers differ in which bounds
   they keep, and a sketch needs the values anyway.
2. Bounds are inclusive. Texts are cut to ``MOST_TEXT`` characters: the lower bound is then less
   than the value, and the upper one more.
3. NaN is in no bounds; an entry says whether there is any.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.indexes.index_kind import (
    ROW_GROUP,
    ROWS,
    ColumnStats,
    distinct,
    high,
    low,
    nan,
    nulls,
)
from airflow_provider_segtable.core.log.families.table_events import TableCreated
from airflow_provider_segtable.core.predicate import Among, Comparison, Predicate
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.data.indexes.column_values import row_groups
from airflow_provider_segtable.data.indexes.indexed_columns import indexed_columns, needed_columns
from airflow_provider_segtable.data.indexes.known_files import TRUST_COLUMNS
from airflow_provider_segtable.data.indexes.stats_view import StatsView
from airflow_provider_segtable.data.sketches.distinct_sketch import sketch
from airflow_provider_segtable.data.sketches.value_hashes import column_hashes
from airflow_provider_segtable.ports.files import DataFiles

MOST_TEXT = 64
"""Number of characters of a bound."""

_LAST = 0x10FFFF
_SURROGATES = range(0xD800, 0xE000)


class StatsEntries:
    """Makes one entry a row group."""

    def entries(
        self, kind: ColumnStats, table: TableCreated, segment: Segment, files: DataFiles
    ) -> pa.Table:
        """Return the statistics of each row group."""
        found = [
            {ROW_GROUP: number, ROWS: rows.num_rows, **_of_columns(kind.columns, rows)}
            for number, rows in enumerate(row_groups(kind.columns, table, segment, files))
        ]
        columns = kind.entry_columns(table)
        names = (*(column.name for column in columns), ROWS)
        return pa.table({name: pa.array([each[name] for each in found]) for name in names})

    def columns_for(
        self, kind: ColumnStats, table: TableCreated, test: Predicate
    ) -> tuple[str, ...]:
        """Return the bounds of the columns that the condition names."""
        indexed = indexed_columns(kind.columns, table)
        used = needed_columns(test, indexed, _has_bounds)
        stats = (name(number) for number in used for name in (low, high, nulls, nan))
        return (*TRUST_COLUMNS, ROW_GROUP, *stats) if used else ()

    def view(self, kind: ColumnStats, table: TableCreated, entries: pa.Table) -> StatsView:
        """Return the bounds of row groups."""
        return StatsView(indexed_columns(kind.columns, table), entries)


def _has_bounds(comparison: Comparison, wanted: bool) -> bool:  # noqa: FBT001
    """Return whether bounds can exclude a comparison: no value is in an empty set."""
    return wanted or not isinstance(comparison, Among)


def _of_columns(ids: Sequence[int], rows: pa.Table) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for number, column in zip(ids, rows.columns, strict=True):
        known, has_nan = column, False
        if pa.types.is_floating(column.type):
            is_nan = pc.is_nan(column)
            has_nan = bool(pc.any(is_nan).as_py())
            known = column.filter(pc.invert(is_nan)) if has_nan else column
        bounds = pc.min_max(known)
        found |= {
            low(number): _lower(bounds["min"]),
            high(number): _upper(bounds["max"]),
            nulls(number): column.null_count,
            nan(number): has_nan,
            distinct(number): sketch(column_hashes(column)),
        }
    return found


def _lower(bound: pa.Scalar) -> pa.Scalar:
    value = bound.as_py() if _is_text(bound.type) else None
    return bound if value is None else pa.scalar(value[:MOST_TEXT], bound.type)


def _upper(bound: pa.Scalar) -> pa.Scalar:
    value = bound.as_py() if _is_text(bound.type) else None
    if value is None or len(value) <= MOST_TEXT:
        return bound
    return pa.scalar(_after(value[:MOST_TEXT]), bound.type)


def _after(start: str) -> str | None:
    """Return a text that is more than all that begin with ``start``; None if there is none."""
    kept = start.rstrip(chr(_LAST))
    if not kept:
        return None
    following = ord(kept[-1]) + 1
    return kept[:-1] + chr(_SURROGATES.stop if following in _SURROGATES else following)


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind))
