"""Make and read the entries of the indexes ``files``, ``column_stats`` and ``bloom_filter``.

Index ``files``:

1. An entry has the log's record of one file: its size, rows and chunk. The file is not opened.

Index ``column_stats``: bounds, nulls and a sketch of each column and row group.

2. They are computed from the values, not taken from the footer: writers differ in which bounds
   they keep, and a sketch needs the values anyway.
3. Bounds are inclusive. Texts are cut to ``MOST_TEXT`` characters: the lower bound is then less
   than the value, and the upper one more.
4. No bound is NaN; an entry has a flag for whether there is any.
5. A file may have a matching row if one of its row groups may, by ``core.predicate``.
6. Bounds of a column are decoded when a condition first names it.

Index ``bloom_filter``: a filter of the values of each column and file.

7. A filter is sized by the number of distinct values in the file, and by the rate of false
   positives. If it would be too large, there is none, and the file may have any value.
8. Nulls are no values: a file that has only nulls has an empty filter.
9. A condition's value is looked up in the column's type, as rows are compared with it. A value of
   another kind than the column excludes nothing, as with bounds.
"""

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.indexes.index_kind import (
    BYTES,
    END,
    ROW_GROUP,
    ROWS,
    BloomFilter,
    ColumnStats,
    FileList,
    bits,
    distinct,
    high,
    low,
    nan,
    nulls,
)
from airflow_provider_segtable.core.predicate import (
    Among,
    Bounds,
    Comparison,
    Day,
    Moment,
    Predicate,
    Value,
    can_be,
    can_equal,
    excluded_by,
    text_above,
)
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.data.arrow_schema import is_text, of_any_length, parse_type
from airflow_provider_segtable.data.conditions import scalar
from airflow_provider_segtable.data.indexes.entries import (
    TRUST_COLUMNS,
    ColumnSummary,
    KnownFiles,
    indexed_columns,
    needed_columns,
)
from airflow_provider_segtable.data.indexes.file_rows import FileRows
from airflow_provider_segtable.data.rows import US_PER_UNIT
from airflow_provider_segtable.data.sketches import (
    Hashes,
    Probe,
    bloom_filter,
    column_hashes,
    estimated,
    joined,
    merged,
    sketch,
    value_hashes,
)


# Entries of the index of files
class FileEntries:
    """Makes one entry a file."""

    def entries(self, kind: FileList, of: FileRows) -> pa.Table:
        """Return the end of the file's time chunk, and its size."""
        del kind
        segment = of.segment
        end = pa.scalar(segment.file_id.interval.end, pa.timestamp("us", "UTC"))
        return pa.table({END: [end], BYTES: pa.array([segment.size], pa.int64())})

    def columns_for(
        self, kind: FileList, table: TableDefinition, test: Predicate
    ) -> tuple[str, ...]:
        """Return none: files are listed, and not compared."""
        del kind, table, test
        return ()

    def view(self, kind: FileList, table: TableDefinition, entries: pa.Table) -> "FileView":
        """Return the files that are listed."""
        del kind, table
        return FileView(entries)


class FileView:
    """The files that are listed; their rows are not known."""

    def __init__(self, entries: pa.Table) -> None:
        """Find the files."""
        self._known = KnownFiles(entries)

    def knows(self, segment: Segment) -> bool:
        """Return whether a file is listed."""
        return bool(self._known.places(segment))

    def may_hold(self, segment: Segment, test: Predicate) -> bool:
        """Return True."""
        del segment, test
        return True


# Entries of column statistics


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
        times = US_PER_UNIT.get(kind.unit, 1)
        parts = 1_000 if kind.unit == "ns" else 1
        up = parts - 1 if last else 0
        found = column.cast(pa.int64()).to_pylist()
        return [None if v is None else Moment((v * times + up) // parts) for v in found]
    if pa.types.is_date(kind):
        days = column.cast(pa.int32()).to_pylist()
        return [None if value is None else Day(value) for value in days]
    values: Sequence[Any] = column.to_pylist()
    return values


MOST_TEXT = 64
"""Number of characters of a bound."""


class StatsEntries:
    """Makes one entry a row group."""

    def entries(self, kind: ColumnStats, of: FileRows) -> pa.Table:
        """Return the statistics of each row group."""
        found = [
            {ROW_GROUP: number, ROWS: rows.num_rows, **_of_columns(kind.columns, rows)}
            for number, rows in enumerate(of.groups(kind.columns))
        ]
        stats = (name(number) for number in kind.columns for name in _STATS)
        names = (ROW_GROUP, ROWS, *stats)
        return pa.table({name: pa.array([each[name] for each in found]) for name in names})

    def columns_for(
        self, kind: ColumnStats, table: TableDefinition, test: Predicate
    ) -> tuple[str, ...]:
        """Return the bounds of the columns that the condition names."""
        indexed = indexed_columns(kind.columns, table)
        used = needed_columns(test, indexed, _has_bounds)
        stats = (name(number) for number in used for name in (low, high, nulls, nan))
        return (*TRUST_COLUMNS, ROW_GROUP, *stats) if used else ()

    def view(self, kind: ColumnStats, table: TableDefinition, entries: pa.Table) -> StatsView:
        """Return the bounds of row groups."""
        return StatsView(indexed_columns(kind.columns, table), entries)


_STATS = (low, high, nulls, nan, distinct)
"""The names of the statistics of a column, by its id."""


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
    value = bound.as_py() if is_text(bound.type) else None
    return bound if value is None else pa.scalar(value[:MOST_TEXT], bound.type)


def _upper(bound: pa.Scalar) -> pa.Scalar:
    value = bound.as_py() if is_text(bound.type) else None
    return bound if value is None else pa.scalar(text_above(value, MOST_TEXT), bound.type)


# Entries of Bloom filters
class BloomEntries:
    """Makes one entry a file."""

    def entries(self, kind: BloomFilter, of: FileRows) -> pa.Table:
        """Return the filter of each column."""
        hashes: dict[int, list[Hashes]] = {number: [] for number in kind.columns}
        for rows in of.groups(kind.columns):
            for number, column in zip(kind.columns, rows.columns, strict=True):
                hashes[number].append(column_hashes(column))
        filters = {
            bits(number): bloom_filter(joined(parts), kind.rate) for number, parts in hashes.items()
        }
        return pa.table({name: pa.array([each], pa.binary()) for name, each in filters.items()})

    def columns_for(
        self, kind: BloomFilter, table: TableDefinition, test: Predicate
    ) -> tuple[str, ...]:
        """Return the filters of the columns that the condition compares for equality."""
        indexed = indexed_columns(kind.columns, table)
        used = needed_columns(test, indexed, _has_values)
        return (*TRUST_COLUMNS, *map(bits, used)) if used else ()

    def view(self, kind: BloomFilter, table: TableDefinition, entries: pa.Table) -> "BloomView":
        """Return the filters of files."""
        types = {column.name: parse_type(column.type) for column in table.schema.columns}
        there = {*entries.column_names}
        filters = {
            name: (types[name], _cells(entries.column(bits(number))))
            for name, number in indexed_columns(kind.columns, table).items()
            if bits(number) in there
        }
        return BloomView(filters, entries)


def _has_values(comparison: Comparison, wanted: bool) -> bool:  # noqa: FBT001
    return excluded_by(comparison, wanted=wanted) is not None


def _cells(column: pa.ChunkedArray) -> list[memoryview | None]:
    """Return the cells of a column of bytes, without a copy."""
    return [
        None if (found := cell.as_buffer()) is None else memoryview(found)
        for chunk in column.chunks
        for cell in chunk
    ]


class BloomView:
    """The filters of files."""

    def __init__(
        self,
        filters: Mapping[str, tuple[pa.DataType, list[memoryview | None]]],
        entries: pa.Table,
    ) -> None:
        """Find the files.

        Args:
            filters: for each column its type, and its filter in each entry.
            entries: the entries.
        """
        self._filters = filters
        self._known = KnownFiles(entries)

    def knows(self, segment: Segment) -> bool:
        """Return whether the filters of a file are known."""
        return bool(self._known.places(segment))

    def may_hold(self, segment: Segment, test: Predicate) -> bool:
        """Return whether a row of a file may match; True if it is not known."""
        places = self._known.places(segment)
        if not places:
            return True

        def may_have(column: str, value: Value) -> bool:
            kind, cells = self._filters.get(column, (None, ()))
            cell = cells[places[0]] if cells else None
            probe = None if cell is None else _probe(value, kind)
            return cell is None or probe is None or probe.may_be_in(cell)

        return can_equal(test, may_have)


@lru_cache(maxsize=4096, typed=True)  # True equals 1, and they are different values
def _probe(value: Value, kind: pa.DataType) -> Probe | None:
    """Return how to look up a value in filters of a column; None if they are not comparable."""
    if not _comparable(value, kind):
        return None
    try:
        found: Any = pa.array([scalar(value, kind, "")], kind)
    except InvalidInput:
        return None
    return Probe(int(value_hashes(found)[0]))


def _comparable(value: Value, kind: pa.DataType) -> bool:
    is_ = pa.types
    match value:
        case bool():
            return bool(is_.is_boolean(kind))
        case int():
            return bool(is_.is_signed_integer(kind) or is_.is_decimal128(kind))
        case Decimal():
            return bool(is_.is_decimal128(kind))
        case str():
            return of_any_length(kind)
        case Moment():
            return bool(is_.is_timestamp(kind))
        case Day():
            return bool(is_.is_date32(kind))
        case _:
            return False
