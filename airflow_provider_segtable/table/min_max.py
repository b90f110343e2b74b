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
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.predicate import AnyOf, Compare, Compares, Day, Moment, Value
from airflow_provider_segtable.core.tables.merge_rules import MergeRules
from airflow_provider_segtable.data.conditions import Condition, by_predicate
from airflow_provider_segtable.data.keyed.group_reader import shown_defaults
from airflow_provider_segtable.data.open_files import is_remote
from airflow_provider_segtable.data.parquet.column_extremes import StoredExtremes, extremes_of
from airflow_provider_segtable.data.parquet.descriptor import THREADS
from airflow_provider_segtable.data.parquet.segment_scan import SegmentRead
from airflow_provider_segtable.table.parts import MergedRows

if TYPE_CHECKING:
    from airflow_provider_segtable.table.scan import Scan


class MinMax(NamedTuple):
    """The least and the greatest value of a column; None without any value."""

    min: Any
    max: Any


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


def min_max(scan: "Scan", column: str) -> MinMax:
    """Return the least and the greatest value of a column of a scan's rows.

    Raises:
        SchemaMismatch: there is no such column.
        InvalidInput: the column's type has no order.
    """
    narrow = replace(scan, request=replace(scan.request, columns=(column,), where=scan.where))
    kind = narrow.schema.field(column).type
    try:
        known = _Known(column, extremes_of(pa.array([], kind)))
    except pa.ArrowNotImplementedError:
        raise InvalidInput(
            f"column {column!r} has the type {kind}, which has no order: min and max are of "
            "numbers, text, times and dates"
        ) from None
    if _is_read_whole(narrow, column):
        for batch in narrow.to_batches():
            known.add(batch.column(column))
    else:
        _look(narrow, known)
    return (
        MinMax(*(end.as_py() for end in known.values)) if len(known.values) else MinMax(None, None)
    )


def _is_read_whole(scan: "Scan", column: str) -> bool:
    """Return whether rows are read as any scan reads them (rule 5, and defaults)."""
    request, table = scan.request, scan.state.table
    defaults = shown_defaults(table)
    return (
        scan.start is not None
        or request.changes
        or request.limit is not None
        or (request.rolled_up and table.kind.merges)
        or bool(scan.origin_columns)
        or column in defaults
        or bool(defaults and scan.where)
    )


def _look(scan: "Scan", known: _Known) -> None:
    """Find the extremes of a scan's rows."""
    rules = scan.state.table.kind.rules
    pieces = _of_files(scan) if rules is None else _of_groups(scan, rules)
    open_: list[_Piece] = []
    for piece in pieces:
        if piece.bounds is not None and piece.bounds.exact:
            known.add(piece.bounds.values)
        else:
            open_.append(piece)
    time = scan.state.table.time_column
    for piece in _in_turn(open_):
        if not known.encloses(piece.bounds):
            for batch in piece.rows(None if scan.where else known.beyond(time)):
                kept = batch if scan.where is None else scan.where.keep(batch)
                known.add(kept.column(known.column))


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


def _of_files(scan: "Scan") -> Iterator[_Piece]:
    """Yield the files of a table without a primary key."""
    reads = [read for _, read in scan.readings(scan.chosen(scan.selection()))]
    yield from _plain(scan, reads)


def _plain(scan: "Scan", reads: Sequence[SegmentRead]) -> Iterator[_Piece]:
    """Yield files whose rows are shown as they are."""
    (column,) = scan.schema.names
    kept = [replace(read, views=scan.ports.entries) for read in reads]
    for read, bounds in zip(kept, _bounds(scan, kept, column), strict=True):
        outer = bounds and StoredExtremes(bounds.values, bounds.exact and scan.where is None)
        yield _Piece(outer, _rows_of(read))


def _rows_of(read: SegmentRead) -> Callable[[Condition | None], Batches]:
    return lambda where: (read if where is None else replace(read, where=where)).batches()


def _bounds(
    scan: "Scan", reads: Sequence[SegmentRead], column: str
) -> Iterator[StoredExtremes | None]:
    """Yield the bounds of files, whose footers are read at once where requests are round trips."""
    if not is_remote(scan.ports.files) or len(reads) == 1:
        yield from (read.extremes(column) for read in reads)
        return
    with ThreadPoolExecutor(THREADS, "segtable-footers") as pool:
        yield from pool.map(lambda read: read.extremes(column), reads)


def _of_groups(scan: "Scan", rules: MergeRules) -> Iterator[_Piece]:
    """Yield the files of a table with a primary key, and the rows of groups that are merged."""
    (column,) = scan.schema.names
    merged = scan.merged_scan(rules)
    for group in merged.found.left:
        plain, rest = merged.apart(group)
        yield from _plain(scan, plain)
        if rest is not None:
            bounds = [*_bounds(scan, merged.whole_files(rest.segments), column)]
            yield _Piece(_joined(bounds), _merged_rows(rest))


def _merged_rows(rest: MergedRows) -> Callable[[Condition | None], Batches]:
    return lambda _: (batch for rows in rest.rows() for batch in rows.to_batches())


def _joined(bounds: Sequence[StoredExtremes | None]) -> StoredExtremes | None:
    """Return the bounds of rows that consist of values of some files; None if one has none."""
    known = [each.values for each in bounds if each is not None]
    if len(known) < len(bounds):
        return None
    return StoredExtremes(extremes_of(pa.concat_arrays(known)), exact=False)
