"""Bounds of row groups from the index ``column_stats``, compared with conditions.

A file may have a matching row if one of its row groups may, by ``core.deletes.predicate_bounds``.
Bounds of a column are decoded when a condition first names it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.indexes.index_kind import (
    ROW_GROUP,
    ROWS,
    distinct,
    high,
    low,
    nan,
    nulls,
)
from airflow_provider_segtable.core.predicate import Bounds, Day, Moment, Predicate, Value, can_be
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.data.indexes.entry_kind import ColumnSummary
from airflow_provider_segtable.data.indexes.known_files import KnownFiles
from airflow_provider_segtable.data.sketches.distinct_sketch import estimated, merged

_UNITS = {"s": (1_000_000, 1), "ms": (1_000, 1), "us": (1, 1), "ns": (1, 1_000)}


class StatsView:
    """The bounds of row groups."""

    def __init__(self, indexed: Mapping[str, int], entries: pa.Table) -> None:
        """Find the files; ``indexed`` has the ids of columns by their present names."""
        self._indexed = indexed
        self._entries = entries
        self._known = KnownFiles(entries, ROW_GROUP)
        self._bounds: dict[str, Sequence[Bounds] | None] = {}

    def knows(self, segment: Segment) -> bool:
        """Return whether all row groups of a file are known."""
        return bool(self._places(segment))

    def may_hold(self, segment: Segment, test: Predicate) -> bool:
        """Return whether a row of a file may match; True if it is not known."""
        places = self._places(segment)
        return not places or any(self._can_be(test, place) for place in places)

    def summaries(self, segments: Iterable[Segment]) -> tuple[ColumnSummary, ...]:
        """Return the values of each column in the known ones of some files."""
        found = [places for segment in segments if (places := self._places(segment))]
        every = pa.array([place for places in found for place in places], pa.int64())
        rows = self._entries.take(every)
        return tuple(
            _summary(name, number, rows, files=len(found)) for name, number in self._indexed.items()
        )

    def _places(self, segment: Segment) -> list[int]:
        return self._known.places(segment, segment.row_groups)

    def _can_be(self, test: Predicate, place: int) -> bool:
        def bounds_of(column: str) -> Bounds | None:
            found = self._of_column(column)
            return None if found is None else found[place]

        return can_be(test, bounds_of)

    def _of_column(self, column: str) -> Sequence[Bounds] | None:
        if column not in self._bounds:
            self._bounds[column] = self._decoded(column)
        return self._bounds[column]

    def _decoded(self, column: str) -> Sequence[Bounds] | None:
        number, entries = self._indexed.get(column), self._entries
        if number is None or low(number) not in entries.column_names:
            return None
        columns = (
            _values(entries.column(low(number)), last=False),
            _values(entries.column(high(number)), last=True),
            *(entries.column(name).to_pylist() for name in (nulls(number), ROWS, nan(number))),
        )
        return [
            Bounds(low=least, high=most, nulls=count, rows=rows, nan=has_nan is not False)
            for least, most, count, rows, has_nan in zip(*columns, strict=True)
        ]


def _summary(name: str, number: int, rows: pa.Table, *, files: int) -> ColumnSummary:
    sketches = rows.column(distinct(number)).drop_null().to_pylist()
    whole = pc.sum(rows.column(ROWS)).as_py() or 0
    empty = pc.sum(rows.column(nulls(number))).as_py() or 0
    return ColumnSummary(
        column=name,
        low=pc.min(rows.column(low(number))).as_py(),
        high=_highest(rows.column(high(number)), rows.column(low(number))),
        nulls=empty,
        nan=bool(pc.any(rows.column(nan(number))).as_py()),
        distinct=min(round(estimated(merged(sketches))), whole - empty),
        rows=whole,
        files=files,
    )


def _highest(highs: pa.ChunkedArray, lows: pa.ChunkedArray) -> object:
    """Return the greatest upper bound; None if a part that has values has no upper bound."""
    unknown = pc.and_(pc.is_null(highs), pc.is_valid(lows))
    return None if pc.any(unknown).as_py() else pc.max(highs).as_py()


def _values(column: pa.ChunkedArray, *, last: bool) -> Sequence[Value]:
    """Return bounds as predicates have values; times to the microsecond before or after."""
    kind = column.type
    if pa.types.is_timestamp(kind):
        times, parts = _UNITS[kind.unit]
        up = parts - 1 if last else 0
        found = column.cast(pa.int64()).to_pylist()
        return [None if v is None else Moment((v * times + up) // parts) for v in found]
    if pa.types.is_date(kind):
        days = column.cast(pa.int32()).to_pylist()
        return [None if value is None else Day(value) for value in days]
    values: Sequence[Any] = column.to_pylist()
    return values
