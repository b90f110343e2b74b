"""The least and the greatest value of a column of a scan, reading as little as possible.

1. A file all of whose rows are shown gives them by its footer, if its statistics are exact
   (``data.parquet.column_extremes``): no row is read.
2. Of any other file the statistics are bounds from outside: of a file with deleted rows or records
   that lost, of text, of rows that are merged, and with a condition. It is read unless its bounds
   lie between values that are known already. Of a file that is read, pages are left out whose
   bounds do (``data.parquet.page_index``).
3. First read are the file with the least lower bound and the one with the greatest upper bound:
   mostly these have the values.
4. Merged rows consist of values in the files that they are merged from (with ``partial_update``
   column by column), so the bounds of these files are theirs. A default in place of nulls is not
   in a file: then all rows of the column are read.
5. Windows, change feeds, reads with a limit, merged rows of rollup tables and hidden columns are
   read as any scan reads them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.predicate import AnyOf, Compare, Compares, Day, Moment, Value
from airflow_provider_segtable.data.conditions import Condition, by_predicate
from airflow_provider_segtable.data.files_ahead import in_turn
from airflow_provider_segtable.data.keyed.file_groups import FileGroup
from airflow_provider_segtable.data.open_files import is_remote
from airflow_provider_segtable.data.parquet.checked_tail import Views
from airflow_provider_segtable.data.parquet.column_extremes import StoredExtremes, extremes_of
from airflow_provider_segtable.data.parquet.descriptor import THREADS
from airflow_provider_segtable.data.parquet.segment_scan import SegmentRead
from airflow_provider_segtable.ports.files import DataFiles
from airflow_provider_segtable.table.parts import MergedRows, MergedScan


class MinMax(NamedTuple):
    """The least and the greatest value of a column; None without any value."""

    min: Any
    max: Any


_NONE = MinMax(None, None)
Batches = Iterable[pa.RecordBatch]


class _Piece(NamedTuple):
    """Rows that are read together.

    Attributes:
        bounds: bounds of their values; None if they are not known.
        rows: reads them; those that match a condition are enough.
    """

    bounds: StoredExtremes | None
    rows: Callable[[Condition | None], Batches]


@dataclass(slots=True)
class _Known:
    """The extremes that are known; ``values`` are as of ``extremes_of``."""

    column: str
    values: pa.Array

    def add(self, values: pa.Array | pa.ChunkedArray) -> None:
        """Take values into account."""
        self.values = extremes_of(pa.concat_arrays([self.values, extremes_of(values)]))

    @property
    def ends(self) -> MinMax:
        """Return the extremes as Python values."""
        return MinMax(*(end.as_py() for end in self.values)) if len(self.values) else _NONE

    def encloses(self, bounds: StoredExtremes | None) -> bool:
        """Return whether no value within bounds would change the extremes."""
        if bounds is None:
            return False
        whole = pa.concat_arrays([self.values, bounds.values])
        return bool(extremes_of(whole).equals(self.values))

    def beyond(self, time_column: str) -> Condition | None:
        """Return a condition that values satisfy which would change the extremes, if known."""
        ends = [_as_value(end) for end in self.values]
        if not ends or None in ends:
            return None
        less = Compare(self.column, Compares.LESS, ends[0])
        more = Compare(self.column, Compares.MORE, ends[1])
        return by_predicate(AnyOf((less, more)), time_column)


def _as_value(end: pa.Scalar) -> Value:
    """Return a value as predicates have it; None of a type for which they lose digits."""
    is_, kind = pa.types, end.type
    if is_.is_timestamp(kind) and kind.unit != "ns":
        return Moment(end.cast(pa.timestamp("us", kind.tz)).value)
    if is_.is_date32(kind):
        return Day(end.value)
    if is_.is_signed_integer(kind) or is_.is_string(kind) or is_.is_float64(kind):
        value: Value = end.as_py()
        return value
    return None


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnEnds:
    """The least and the greatest value of a column, to be found in rows of one table.

    Attributes:
        column: the column.
        kind: its type.
        where: a condition on the rows.
        time_column: the event time.
        files: the table's data files.
        views: tails of files that were read before.
    """

    column: str
    kind: pa.DataType
    where: Condition | None
    time_column: str
    files: DataFiles
    views: Views

    def of_batches(self, batches: Batches) -> MinMax:
        """Return the ends of rows that are read as any scan reads them (rule 5).

        Raises:
            InvalidInput: the column's type has no order.
        """
        known = self._begun()
        for batch in batches:
            known.add(batch.column(self.column))
        return known.ends

    def of_files(self, reads: Sequence[SegmentRead]) -> MinMax:
        """Return the ends of the rows of files; errors as ``of_batches``."""
        return self._of(self._plain(reads))

    def of_groups(self, merged: MergedScan) -> MinMax:
        """Return the ends of the rows of a table with a primary key; errors as ``of_batches``."""
        return self._of(self._pieces(merged))

    def _begun(self) -> _Known:
        try:
            return _Known(self.column, extremes_of(pa.array([], self.kind)))
        except pa.ArrowNotImplementedError:
            raise InvalidInput(
                f"column {self.column!r} has the type {self.kind}, which has no order: min and max "
                "are of numbers, text, times and dates"
            ) from None

    def _of(self, pieces: Iterable[_Piece]) -> MinMax:
        known, where, inexact = self._begun(), self.where, list[_Piece]()
        for piece in pieces:
            if piece.bounds is not None and piece.bounds.exact:
                known.add(piece.bounds.values)
            else:
                inexact.append(piece)
        for piece in _in_turn(inexact):
            if known.encloses(piece.bounds):
                continue
            for batch in piece.rows(None if where else known.beyond(self.time_column)):
                kept = batch if where is None else where.keep(batch)
                known.add(kept.column(self.column))
        return known.ends

    def _plain(self, reads: Sequence[SegmentRead]) -> Iterator[_Piece]:
        """Yield files whose rows are shown as they are."""
        kept = [replace(read, views=self.views) for read in reads]
        for read, bounds in zip(kept, self._bounds(kept), strict=True):
            exact = bounds is not None and bounds.exact and self.where is None
            yield _Piece(bounds and StoredExtremes(bounds.values, exact), _rows_of(read))

    def _bounds(self, reads: Sequence[SegmentRead]) -> Iterator[StoredExtremes | None]:
        """Yield the bounds of files, whose footers are read at once where that is a round trip."""
        if not is_remote(self.files) or len(reads) == 1:
            yield from (read.extremes(self.column) for read in reads)
            return
        with ThreadPoolExecutor(THREADS, "segtable-footers") as pool:
            yield from pool.map(lambda read: read.extremes(self.column), reads)

    def _pieces(self, merged: MergedScan) -> Iterator[_Piece]:
        """Yield the files of file groups, and the rows of groups that are merged."""
        groups, read = merged.found.left, partial(self._of_group, merged)
        return in_turn(self.files, groups, read, lambda _: 0)

    def _of_group(self, merged: MergedScan, group: FileGroup) -> Iterator[_Piece]:
        plain, rest = merged.apart(group)
        yield from self._plain(plain)
        if rest is not None:
            bounds = [*self._bounds(merged.whole_files(rest.segments))]
            yield _Piece(_joined(bounds), _merged_rows(rest))


def _in_turn(pieces: Sequence[_Piece]) -> Iterator[_Piece]:
    """Yield first those without bounds, then the lowest one and the highest one (rule 3)."""
    bounded = [piece for piece in pieces if piece.bounds is not None and len(piece.bounds.values)]
    yield from (piece for piece in pieces if piece.bounds is None)
    if not bounded:
        return
    lows = pa.concat_arrays([piece.bounds.values[:1] for piece in bounded if piece.bounds])
    highs = pa.concat_arrays([piece.bounds.values[1:] for piece in bounded if piece.bounds])
    first, last = pc.index(lows, pc.min(lows)).as_py(), pc.index(highs, pc.max(highs)).as_py()
    order = dict.fromkeys([first, last, *range(len(bounded))])
    yield from (bounded[at] for at in order)


def _rows_of(read: SegmentRead) -> Callable[[Condition | None], Batches]:
    return lambda where: (read if where is None else replace(read, where=where)).batches()


def _merged_rows(rest: MergedRows) -> Callable[[Condition | None], Batches]:
    return lambda _: (batch for rows in rest.rows() for batch in rows.to_batches())


def _joined(bounds: Sequence[StoredExtremes | None]) -> StoredExtremes | None:
    """Return the bounds of rows that consist of values of some files; None if one has none."""
    known = [each.values for each in bounds if each is not None]
    if len(known) < len(bounds):
        return None
    return StoredExtremes(extremes_of(pa.concat_arrays(known)), exact=False)
