"""Ranges of the sort key, and the choice of their bounds.

1. The key of a row: its target time chunk, its place on the z-order curve (if that is the order),
   the order's columns, the rest of the dimensions (rollup), the event time. Rows with equal keys
   are distinguished by their *ordinal*: input number, then row number. So any rows can be cut.
2. A *mark* is the lower bound of a range: the leading ``depth`` components of the key of an
   existing row (all: ordinal included). Components left out compare below all values, so the mark
   is the first possible row with its values. Range n holds rows from mark n-1 on, before mark n.
3. Range bounds come from a sample, with a sampled row between any two, so no range is empty.
4. A mark is put where the order's columns change, if they change near the wanted place; else where
   the event time changes; else between rows of equal keys, which rollup forbids.
5. A z-order is over ranks: each column is cut at the quantiles of the sample, so skew and units do
   not matter; a value that fills several quantiles has the rank of the first.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_provider_segtable.core.errors import RowsOutOfBalance
from airflow_provider_segtable.core.time import Interval, iso
from airflow_provider_segtable.data.rows import instants
from airflow_provider_segtable.data.sort.sort_keys import (
    Codes,
    column_codes,
    composed,
    number_codes,
)

ORDINAL_BITS = 40
"""The bits of an ordinal below the input's number: the row number."""
GRID_BITS = 10

Ordinals = npt.NDArray[np.int64]
Slices = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Grid:
    """The ranks of one column in a z-order: distinct values in order, and the rank of each."""

    values: pa.Array
    ranks: npt.NDArray[np.uint64]


@dataclass(frozen=True, kw_only=True)
class Keying:
    """The definition of the sort key.

    ``order`` is the number of the order's columns, which come first in ``columns``. ``columns``
    includes the event time, last if the order does not name it.
    """

    columns: tuple[str, ...]
    order: int
    time_column: str
    intervals: tuple[Interval, ...]
    grids: tuple[Grid, ...] = ()

    @cached_property
    def _starts(self) -> Ordinals:
        return np.array([interval.start for interval in self.intervals], np.int64)

    @cached_property
    def _ends(self) -> Ordinals:
        return np.array([interval.end for interval in self.intervals], np.int64)

    @property
    def many(self) -> bool:
        """Return whether the key begins with the target chunk."""
        return len(self.intervals) > 1

    @property
    def order_depth(self) -> int:
        """Return the number of key components that make up the order."""
        return self.order + self.many + bool(self.grids)

    @property
    def depth(self) -> int:
        """Return the number of key components, without the ordinal."""
        return len(self.columns) + self.many + bool(self.grids)

    def chunks(self, rows: pa.Table) -> Ordinals:
        """Return the number of each row's target chunk.

        Raises:
            RowsOutOfBalance: a row lies in no target chunk and would be lost.
        """
        times = np.asarray(instants(rows.column(self.time_column)).to_numpy(zero_copy_only=False))
        found = np.searchsorted(self._starts, times, side="right") - 1
        lost = (found < 0) | (times >= self._ends[found])
        if lost.any():
            at = int(times[np.argmax(lost)])
            raise RowsOutOfBalance(
                f"{int(lost.sum())} rows, the first at {iso(at)}, lie in none of the "
                f"{len(self.intervals)} target time chunks from {self.intervals[0]} on"
            )
        return found

    def components(self, rows: pa.Table, marks: "RangeBounds") -> list[Codes]:
        """Return the codes of rows and marks for each component of the key."""
        count = len(marks)
        codes: list[Codes] = []
        if self.many:
            chunks = (self.chunks(rows) + 1).astype(np.uint64)
            codes.append(number_codes(chunks, marks.chunks.astype(np.uint64) + np.uint64(1)))
        columns = [
            column_codes(_whole(rows.column(name)), _whole(marks.values.column(name)))
            for name in self.columns
        ]
        if self.grids:
            codes.append(self._curve(rows, marks))
        codes += columns
        if count:
            codes = [
                Codes(c.rows, np.where(marks.depths > level, c.marks, 0).astype(np.uint64), c.top)
                for level, c in enumerate(codes)
            ]
        return codes

    def _curve(self, rows: pa.Table, marks: "RangeBounds") -> Codes:
        both = [
            (_ranks(rows.column(name), grid), _ranks(marks.values.column(name), grid))
            for name, grid in zip(self.columns, self.grids, strict=False)
        ]
        return number_codes(
            _interleaved([of_rows for of_rows, _ in both]),
            _interleaved([of_marks for _, of_marks in both]),
        )

    def keys(self, rows: pa.Table) -> Codes:
        """Return the rows' keys."""
        return composed(self.components(rows, RangeBounds.none(self, rows.schema)))


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeBounds:
    """The lower bounds of ranges, in order: key column values, chunks, ordinals, depths."""

    values: pa.Table
    chunks: Ordinals
    ordinals: Ordinals
    depths: npt.NDArray[np.int64]

    def __len__(self) -> int:
        """Return the number of marks, one less than the ranges."""
        return len(self.depths)

    @staticmethod
    def none(keying: Keying, schema: pa.Schema) -> "RangeBounds":
        """Return no marks."""
        nothing = np.zeros(0, np.int64)
        fields = [pa.field(n, plain(schema.field(n).type)) for n in keying.columns]
        values = pa.schema(fields).empty_table()
        return RangeBounds(values=values, chunks=nothing, ordinals=nothing, depths=nothing)

    def some(self, which: Sequence[int]) -> "RangeBounds":
        """Return the marks of these numbers."""
        places = np.array(which, np.int64)
        return RangeBounds(
            values=self.values.take(pa.array(places)),
            chunks=self.chunks[places],
            ordinals=self.ordinals[places],
            depths=self.depths[places],
        )


def plain(kind: pa.DataType) -> pa.DataType:
    """Return the value type of a dictionary type; other types unchanged."""
    return kind.value_type if pa.types.is_dictionary(kind) else kind


def _whole(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    if pa.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
    whole = column.combine_chunks()
    return whole.combine_chunks() if isinstance(whole, pa.ChunkedArray) else whole


def assigned(keying: Keying, rows: pa.Table, ordinals: Ordinals, marks: RangeBounds) -> Slices:
    """Return the number of each row's range."""
    if not len(marks):
        return np.zeros(rows.num_rows, np.int64)
    keys = composed(keying.components(rows, marks))
    begins = np.maximum.accumulate(keys.marks)
    slices = np.searchsorted(begins, keys.rows, side="right")
    full = marks.depths > keying.depth
    for number in np.flatnonzero(full)[::-1]:  # rows with the mark's key, but a lower ordinal
        equal = (slices == number + 1) & (keys.rows == keys.marks[number])
        slices[equal & (ordinals < marks.ordinals[number])] = number
    return slices


def _ranks(column: pa.ChunkedArray, grid: Grid) -> npt.NDArray[np.uint64]:
    codes = column_codes(_whole(column), grid.values)
    below = np.searchsorted(np.maximum.accumulate(codes.marks), codes.rows, side="right")
    return np.concatenate([np.zeros(1, np.uint64), grid.ranks])[below]


def _interleaved(ranks: Sequence[npt.NDArray[np.uint64]]) -> npt.NDArray[np.uint64]:
    woven = np.zeros(len(ranks[0]), np.uint64)
    for bit in range(GRID_BITS):
        for place, rank in enumerate(reversed(ranks)):
            one = (rank >> np.uint64(bit)) & np.uint64(1)
            woven |= one << np.uint64(bit * len(ranks) + place)
    return woven


def grid_of(values: pa.Array) -> Grid:
    """Return a column's grid from a sample of its values."""
    codes = column_codes(values, values.slice(0, 0))
    order = np.argsort(codes.rows, kind="stable")
    ordered = codes.rows[order]
    steps = np.unique(np.linspace(0, len(order) - 1, 1 << GRID_BITS).astype(np.int64))
    first = np.unique(ordered[steps], return_index=True)[1]
    places = steps[first]
    ranks = (places * ((1 << GRID_BITS) - 1) // max(1, len(order) - 1)).astype(np.uint64)
    return Grid(_decoded(values.take(pa.array(order[places]))), ranks)


def _decoded(array: pa.Array) -> pa.Array:
    return array.dictionary_decode() if pa.types.is_dictionary(array.type) else array


@dataclass(frozen=True, slots=True, kw_only=True)
class Sample:
    """Sampled rows: values of the key's columns, ordinals, and the rows that each represents."""

    values: pa.Table
    ordinals: Ordinals
    weights: npt.NDArray[np.float64]


def joined(samples: Sequence[Sample]) -> Sample:
    """Return the concatenation of samples."""
    return Sample(
        values=pa.concat_tables([sample.values for sample in samples]).combine_chunks(),
        ordinals=np.concatenate([sample.ordinals for sample in samples]),
        weights=np.concatenate([sample.weights for sample in samples]),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Ranges:
    """All ranges: the marks between them, each one's target chunk, and its estimated rows."""

    marks: RangeBounds
    chunks: tuple[int, ...]
    rows: tuple[float, ...]

    @property
    def count(self) -> int:
        """Return the number of ranges."""
        return len(self.chunks)


def cut(
    keying: Keying,
    sample: Sample,
    counts: Sequence[int],
    wanted: Sequence[int],
    *,
    divisible: bool,
) -> Ranges:
    """Cut the key of the sampled rows into ranges.

    Args:
        keying: the sort key.
        sample: sampled rows.
        counts: the exact number of rows in each target chunk.
        wanted: the approximate number of ranges for each target chunk.
        divisible: whether rows of equal keys may be separated.
    """
    codes = keying.components(sample.values, RangeBounds.none(keying, sample.values.schema))
    codes.append(number_codes(sample.ordinals.astype(np.uint64), np.zeros(0, np.uint64)))
    order = np.lexsort([c.rows for c in reversed(codes)])
    differs = _first_difference([c.rows[order] for c in codes])
    if not divisible:
        differs[differs >= keying.depth] = len(codes)
    chunks = keying.chunks(sample.values)[order]
    weights = sample.weights[order]
    levels = np.array([keying.order_depth, keying.depth, keying.depth + 1])
    depths = levels[np.minimum(np.searchsorted(levels, differs, side="right"), 2)]
    usable = differs <= keying.depth
    places: list[int] = []
    found: list[tuple[int, int, float]] = []  # the chunk, the place of its mark, the rows
    for chunk in np.flatnonzero(np.asarray(counts)).tolist():
        first, last = np.searchsorted(chunks, [chunk, chunk + 1])
        inner = _places(weights[first:last], depths[first:last], usable[first:last], wanted[chunk])
        begins = [-1, *(int(first + place) for place in inner)]
        shares = _shares(weights[first:last], inner) * counts[chunk]
        found += [
            (int(chunk), place, float(share)) for place, share in zip(begins, shares, strict=True)
        ]
        places += begins
    return _ranges(sample, order, depths, found)


def _ranges(
    sample: Sample,
    order: Ordinals,
    depths: npt.NDArray[np.int64],
    found: Sequence[tuple[int, int, float]],
) -> Ranges:
    rest = found[1:]
    places = np.array([place for _, place, _ in rest], np.int64)
    picks = order[places] if len(places) else places
    whole = places < 0  # the mark is the chunk itself
    values = sample.values.take(pa.array(picks))
    columns = [_decoded(_whole(values.column(name))) for name in values.column_names]
    return Ranges(
        marks=RangeBounds(
            values=pa.table(columns, names=values.column_names),
            chunks=np.array([chunk for chunk, _, _ in rest], np.int64),
            ordinals=sample.ordinals[picks],
            depths=np.where(whole, 1, depths[places] if len(places) else 0).astype(np.int64),
        ),
        chunks=tuple(chunk for chunk, _, _ in found),
        rows=tuple(rows for _, _, rows in found),
    )


def _first_difference(columns: Sequence[npt.NDArray[np.uint64]]) -> npt.NDArray[np.int64]:
    """Return for each row the first column in which it differs from the row before."""
    differs = np.full(len(columns[0]), len(columns), np.int64)
    for level, column in reversed(list(enumerate(columns))):
        differs[1:][column[1:] != column[:-1]] = level
    return differs


def _places(
    weights: npt.NDArray[np.float64],
    depths: npt.NDArray[np.int64],
    usable: npt.NDArray[np.bool_],
    wanted: int,
) -> list[int]:
    """Return the cuts of sorted rows into ``wanted`` parts, each at the best place nearby."""
    if wanted < 2 or len(weights) < 2:
        return []
    before = np.concatenate([[0.0], np.cumsum(weights)])[:-1]
    step = float(weights.sum()) / wanted
    places: list[int] = []
    for number in range(1, wanted):
        low, high = np.searchsorted(before, [(number - 0.35) * step, (number + 0.35) * step])
        low = max(int(low), places[-1] + 1 if places else 1)
        window = np.arange(low, max(int(high), low + 1))
        window = window[window < len(weights)]
        window = window[usable[window]]
        if len(window):
            best = window[depths[window] == depths[window].min()]
            places.append(int(best[np.argmin(np.abs(before[best] - number * step))]))
    return places


def _shares(weights: npt.NDArray[np.float64], places: Sequence[int]) -> npt.NDArray[np.float64]:
    if not len(weights):
        return np.ones(1)
    shares: npt.NDArray[np.float64] = np.add.reduceat(weights, [0, *places]) / weights.sum()
    return shares
