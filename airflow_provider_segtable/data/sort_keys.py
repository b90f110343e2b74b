"""Sort keys: several columns as one integer per row, and the ranges that the key is cut into.

Codes of rows: integers are compared in place of values.

1. Each column's values become *codes*: integers from 1 on, in the column's order (nulls first, NaN
   last, -0.0 equal to 0.0). Numbers and times keep their distances; text and all other types are
   ranked among the distinct values that occur, dictionaries by their distinct values alone.
2. Rows are compared with *marks*: values that are coded together with the rows' values. Code 0 is
   below all rows. A mark outside the rows' values keeps its side, so marks never widen the codes.
3. Codes of several columns are combined into 64 bits. If they need more, the code combined so far
   is replaced by its rank, which always frees enough bits.
4. Codes are comparable only if they were made by the same call.
5. Sorting is stable: the row number goes into the free bits if it fits (then plain integers are
   sorted), else ties are put in order afterwards.

Ranges of the sort key, and the choice of their bounds:

6. The key of a row: its target time chunk, its place on the z-order curve (if that is the order),
   the order's columns, the rest of the dimensions (rollup), the event time. Rows with equal keys
   are distinguished by their *ordinal*: input number, then row number. So any rows can be cut.
7. The lower bound of a range is a mark: the leading ``depth`` components of the key of an
   existing row (all: ordinal included). Components left out compare below all values, so the mark
   is the first possible row with its values. Range n holds rows from mark n-1 on, before mark n.
8. Range bounds come from a sample, with a sampled row between any two, so no range is empty.
9. A mark is put where the order's columns change, if they change near the wanted place; else where
   the event time changes; else between rows of equal keys, which rollup forbids.
10. A z-order is over ranks: each column is cut at the quantiles of the sample, so skew and units do
    not matter; a value that fills several quantiles has the rank of the first.

Source of the idea: normalised keys as in Graefe, "Implementing sorting in database systems" (2006).
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput, RowsOutOfBalance
from airflow_provider_segtable.core.time import Interval, iso
from airflow_provider_segtable.data.arrow_schema import is_numeric
from airflow_provider_segtable.data.rows import instants

# Codes of rows
Numbers = npt.NDArray[np.uint64]
Indices = npt.NDArray[np.int64]

_WIDEST = 1 << 62
_SIGN = np.uint64(1 << 63)
_LAST = np.uint64(2**64 - 1)


@dataclass(frozen=True, slots=True)
class Codes:
    """Codes of rows (1 and more) and of marks; ``top`` is at least the largest code."""

    rows: Numbers
    marks: Numbers
    top: int


def check_sortable(name: str, kind: pa.DataType) -> None:
    """Refuse a column that cannot be a sort column.

    Raises:
        InvalidInput: naming the column and its type.
    """
    if pa.types.is_nested(kind) or pa.types.is_null(kind):
        raise InvalidInput(f"column {name!r} is {kind}: rows can not be sorted by it; leave it out")


def column_codes(rows: pa.Array, marks: pa.Array) -> Codes:
    """Code one column, and marks of its (plain) type."""
    if is_numeric(rows.type):
        return _spaced(rows, marks)
    return _ranked(rows, marks)


def number_codes(rows: Numbers, marks: Numbers) -> Codes:
    """Code unsigned numbers."""
    return _clipped(rows, np.ones(len(rows), bool), marks, np.ones(len(marks), bool))


def ordered_bits(column: pa.Array) -> Numbers | None:
    """Return numbers and times as unsigned numbers of the same order, or None for other types.

    The numbers of nulls are arbitrary.
    """
    return _bits(column).copy() if is_numeric(column.type) else None


def spread(values: Numbers) -> Numbers:
    """Spread every bit over the word (the finaliser of SplitMix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    mixed: Numbers = values ^ (values >> np.uint64(31))
    return mixed


def _spaced(rows: pa.Array, marks: pa.Array) -> Codes:
    return _clipped(_bits(rows), valid(rows), _bits(marks), valid(marks))


def valid(array: pa.Array) -> npt.NDArray[np.bool_]:
    """Return which values are not null."""
    if not array.null_count:
        return np.ones(len(array), bool)
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False))


def _bits(array: pa.Array) -> Numbers:
    """Return numbers as unsigned ones of the same order; nulls have arbitrary ones."""
    kind = array.type
    if pa.types.is_floating(kind):
        return _float_bits(array.cast(pa.float64()))
    if pa.types.is_unsigned_integer(kind) or pa.types.is_boolean(kind):
        return _plain(array.cast(pa.uint64()), np.uint64)
    if pa.types.is_date32(kind) or pa.types.is_time32(kind):
        array = array.cast(pa.int32())
    return _plain(array.cast(pa.int64()), np.int64).view(np.uint64) ^ _SIGN


def _float_bits(array: pa.Array) -> Numbers:
    values: npt.NDArray[np.float64] = _plain(array, np.float64) + 0.0  # -0.0 + 0.0 is 0.0
    bits = values.view(np.uint64)
    ordered: Numbers = np.where(bits >= _SIGN, ~bits, bits | _SIGN)
    ordered[np.isnan(values)] = _LAST
    return ordered


def _plain(array: pa.Array, kind: type[Any]) -> npt.NDArray[Any]:
    filled = array.fill_null(0) if array.null_count else array
    return np.asarray(filled.to_numpy(zero_copy_only=False), dtype=kind)


def _clipped(
    rows: Numbers, valid: npt.NDArray[np.bool_], marks: Numbers, sound: npt.NDArray[np.bool_]
) -> Codes:
    """Code numbers by their distance from the least: null 1, a gap, then the values."""
    every = bool(valid.all())
    some = rows if every else rows[valid]
    if not len(some):
        return Codes(np.ones(len(rows), np.uint64), np.where(sound, 2, 1).astype(np.uint64), 2)
    low, high = some.min(), some.max()
    if int(high) - int(low) >= _WIDEST:
        domain = np.unique(np.concatenate([some, marks[sound]]))
        rows, marks = _places(domain, rows), _places(domain, marks)
        some = rows if every else rows[valid]
        low, high = some.min(), some.max()
    base = np.uint64(1 if every else 3)
    codes = rows - low + base
    if not every:
        codes[~valid] = 1
    below, above = marks < low, marks > high
    coded = np.clip(marks, low, high) - low + base
    coded[below] = base - np.uint64(1)
    coded[above] = high - low + base + np.uint64(1)
    coded[~sound] = 0 if every else 1
    return Codes(codes, coded, int(high - low) + int(base) + 1)


def _places(domain: Numbers, values: Numbers) -> Numbers:
    return np.searchsorted(domain, values).astype(np.uint64)


def _ranked(rows: pa.Array, marks: pa.Array) -> Codes:
    """Code values of any type by their rank among the distinct values."""
    if not pa.types.is_dictionary(rows.type):
        rows = rows.dictionary_encode()
    words = rows.dictionary
    marks = marks.cast(words.type)
    domain = pc.unique(pa.concat_arrays([words.drop_null(), marks.drop_null()]))
    ranks = np.empty(len(domain) + 1, np.uint64)
    ranks[np.asarray(pc.sort_indices(domain))] = np.arange(2, len(domain) + 2)
    ranks[len(domain)] = 1  # null
    of_words = ranks[_found(words, domain)]
    if len(of_words):
        indices = rows.indices
        codes = of_words[_plain(indices, np.int64)]
        if indices.null_count:
            codes[~valid(indices)] = 1
    else:
        codes = np.ones(len(rows), np.uint64)
    return Codes(codes, ranks[_found(marks, domain)], len(domain) + 2)


def _found(values: pa.Array, domain: pa.Array) -> Indices:
    places = pc.index_in(values, domain).fill_null(len(domain))
    return np.asarray(places.to_numpy(zero_copy_only=False), dtype=np.int64)


def composed(columns: Sequence[Codes]) -> Codes:
    """Combine the codes of several columns into one; the first column is most significant."""
    whole = columns[0]
    for column in columns[1:]:
        if whole.top.bit_length() + column.top.bit_length() > 64:
            whole = _dense(whole)
            if whole.top.bit_length() + column.top.bit_length() > 64:
                column = _dense(column)  # noqa: PLW2901 - the same column, in fewer bits
        shift = np.uint64(column.top.bit_length())
        whole = Codes(
            (whole.rows << shift) | column.rows,
            (whole.marks << shift) | column.marks,
            (whole.top << int(shift)) | column.top,
        )
    return whole


def _dense(codes: Codes) -> Codes:
    everything = np.concatenate([codes.rows, codes.marks])
    domain, places = np.unique(everything, return_inverse=True)
    below = 0 if len(domain) and domain[0] == 0 else 1
    dense = places.astype(np.uint64) + np.uint64(below)
    count = len(codes.rows)
    return Codes(dense[:count], dense[count:], len(domain) + 1)


def stable_order(codes: Codes) -> Indices:
    """Return the row numbers in the order of their codes; equal codes keep their row order."""
    count = len(codes.rows)
    bits = max(count - 1, 0).bit_length()
    if bits + codes.top.bit_length() <= 64:
        packed = (codes.rows << np.uint64(bits)) | np.arange(count, dtype=np.uint64)
        packed.sort()
        return (packed & np.uint64((1 << bits) - 1)).astype(np.int64)
    order = np.argsort(codes.rows)
    ordered = codes.rows[order]
    same = ordered[1:] == ordered[:-1]
    if same.any():
        _break_ties(order, same)
    return order


def _break_ties(order: Indices, same: npt.NDArray[np.bool_]) -> None:
    """Sort the row numbers within each stretch of equal codes, in place."""
    tied = np.zeros(len(order), bool)
    tied[1:] |= same
    tied[:-1] |= same
    stretch = np.concatenate([[0], np.cumsum(~same)])[tied]
    rows = order[tied]
    order[tied] = rows[np.lexsort((rows, stretch))]


def is_sorted(codes: Codes) -> bool:
    """Return whether the rows are in order already."""
    return bool((codes.rows[1:] >= codes.rows[:-1]).all())


# Ranges of the sort key
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
            column_codes(whole(rows.column(name)), whole(marks.values.column(name)))
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


def whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return a column as one array, with one dictionary."""
    if isinstance(column, pa.Array):
        return column
    if column.num_chunks == 1:
        return column.chunk(0)
    if pa.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
    found = column.combine_chunks()
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


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
    codes = column_codes(whole(column), grid.values)
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
        inner = _range_places(
            weights[first:last], depths[first:last], usable[first:last], wanted[chunk]
        )
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
    begins = places < 0  # the mark is the chunk itself
    values = sample.values.take(pa.array(picks))
    columns = [_decoded(whole(values.column(name))) for name in values.column_names]
    return Ranges(
        marks=RangeBounds(
            values=pa.table(columns, names=values.column_names),
            chunks=np.array([chunk for chunk, _, _ in rest], np.int64),
            ordinals=sample.ordinals[picks],
            depths=np.where(begins, 1, depths[places] if len(places) else 0).astype(np.int64),
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


def _range_places(
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
