"""Code columns as integers that sort like their values, group rows by them, and aggregate groups.

Codes and groups:

1. Every sortable column becomes int64 *codes*: comparing codes compares values. Numbers are their
   own codes (floats by their bits, NaN above all), text and decimals are ranked by their values.
2. Groups are numbered in the order of (first column, second, ...), nulls first, so that grouped
   rows are sorted, too.
3. Keys are joined into one number. If few keys are possible, a table maps keys to groups (no
   hashing, no sorting); else keys and row numbers are packed into one number and sorted.

Metrics: each group's values are aggregated to one.

4. Sums of integers and decimals are exact or refused, in any order of rows. They are summed
   directly if they cannot overflow, else in limbs of 32 bits.
5. Minimum, maximum, first and last compare codes, in the same way for all types.
6. Nulls are ignored; the result of a group without values is null.
"""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput, TimeOutOfRange
from airflow_provider_segtable.core.schema import Metric, MetricKind
from airflow_provider_segtable.core.tables.rollup_kind import QueryGranularity
from airflow_provider_segtable.core.time import DAY_US, MONDAY_US, Instant, iso
from airflow_provider_segtable.data.arrow_schema import is_numeric
from airflow_provider_segtable.data.rows import US_PER_UNIT, instants
from airflow_provider_segtable.data.sort_keys import whole

# Codes and groups
Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]

_SIGN = np.int64(-(2**63))
_UNITS = {QueryGranularity.MONTH: "M", QueryGranularity.YEAR: "Y"}
_TABLE_ROWS = 4
"""The most entries per row in a table of possible keys."""
_SMALL = 1 << 16


@dataclass(frozen=True, slots=True, eq=False)
class Codes:
    """A column as codes; ``valid`` is None if there are no nulls, ``words`` are sorted."""

    values: Longs
    valid: Flags | None
    kind: pa.DataType
    words: Any = None

    def taken(self, rows: Longs) -> pa.Array:
        """Return the values of these rows."""
        return self.column(self.values[rows], None if self.valid is None else self.valid[rows])

    def column(self, values: Longs, valid: Flags | None) -> pa.Array:
        """Return the values of codes, null where not valid, in the column's type."""
        mask = None if valid is None else ~valid
        if self.words is not None:
            codes = values if valid is None else np.where(valid, values, 0)
            return _spelt(self.words, self.kind, pa.array(codes.astype(np.int32), mask=mask))
        return _numbers(values, self.kind, mask)


def _spelt(words: pa.Array, kind: pa.DataType, codes: pa.Array) -> pa.Array:
    if pa.types.is_dictionary(kind):
        indices = codes.cast(kind.index_type)
        return pa.DictionaryArray.from_arrays(indices, words.cast(kind.value_type))
    return words.take(codes).cast(kind)


def _numbers(values: Longs, kind: pa.DataType, mask: Flags | None) -> pa.Array:
    if pa.types.is_floating(kind):
        bits = values ^ ((values >> 63) & ~_SIGN)
        return pa.array(bits.view(np.float64), mask=mask).cast(kind)
    if kind == pa.uint64():
        return pa.array((values ^ _SIGN).view(np.uint64), mask=mask)
    if pa.types.is_temporal(kind):
        return pa.array(values.astype(f"i{kind.bit_width // 8}"), mask=mask).view(kind)
    return pa.array(values, mask=mask).cast(kind)


def coded(column: pa.Array | pa.ChunkedArray) -> Codes:
    """Return a column of a sortable type as codes."""
    array = whole(column)
    kind = array.type
    if not (pa.types.is_dictionary(kind) or is_numeric(kind)):
        return _ranked(array.dictionary_encode(), kind)
    if pa.types.is_dictionary(kind):
        if is_numeric(kind.value_type) or pa.types.is_dictionary(kind.value_type):
            return coded(array.dictionary_decode())
        return _ranked(array, kind)
    valid = validity(array)
    return Codes(_own_codes(array), valid, kind)


def validity(array: pa.Array) -> Flags | None:
    """Return flags of the values that are not null; None if there are no nulls."""
    if not array.null_count:
        return None
    return np.asarray(pc.is_valid(array).to_numpy(zero_copy_only=False))


def _own_codes(array: pa.Array) -> Longs:
    kind = array.type
    if pa.types.is_floating(kind):
        floats = plain(array.cast(pa.float64())) + 0.0  # no minus zero
        floats[np.isnan(floats)] = np.nan  # one NaN only, the positive
        bits = floats.view(np.int64)
        return np.asarray(bits ^ ((bits >> 63) & ~_SIGN))
    if kind == pa.uint64():
        return np.asarray(plain(array).view(np.int64) ^ _SIGN)
    if pa.types.is_boolean(kind):
        array = array.cast(pa.int8())
    elif pa.types.is_temporal(kind):
        array = array.view(pa.int32() if kind.bit_width == 32 else pa.int64())
    return plain(array).astype(np.int64, copy=False)


def plain(array: pa.Array) -> NDArray[Any]:
    """Return numbers as a numpy array; nulls become arbitrary numbers."""
    if array.null_count:
        array = array.fill_null(0)
    return np.asarray(array.to_numpy(zero_copy_only=False))


def _ranked(array: pa.DictionaryArray, kind: pa.DataType) -> Codes:
    found = array.dictionary.dictionary_encode()  # a dictionary may have nulls and duplicates
    order = pc.sort_indices(found.dictionary).to_numpy()
    ranks = np.empty(len(order) + 1, np.int64)
    ranks[order] = np.arange(len(order))
    ranks[-1] = -1
    of_word = ranks[plain(found.indices.fill_null(len(order)))]
    words = found.dictionary.take(pa.array(order))
    indices = plain(array.indices)
    valid = validity(array.indices)
    if not len(of_word):
        return Codes(np.full(len(array), -1), np.zeros(len(array), bool), kind, words)
    codes = of_word[indices]
    if found.indices.null_count:
        valid = (codes >= 0) if valid is None else valid & (codes >= 0)
    return Codes(codes, valid, kind, words)


@dataclass(frozen=True, slots=True, eq=False)
class Steps:
    """A time column truncated to a query granularity, as numbers of steps."""

    codes: Codes
    granularity: QueryGranularity

    def column(self, rows: Longs) -> pa.Array:
        """Return the truncated times of these rows, in the column's type."""
        steps = self.codes.values[rows]
        return _times(_starts(steps, self.granularity), self.codes.kind)


def cut_times(column: pa.Array | pa.ChunkedArray, granularity: QueryGranularity) -> Steps:
    """Truncate a time column without nulls to a granularity."""
    array = whole(column)
    at = plain(instants(array))
    return Steps(Codes(_steps(at, granularity), None, array.type), granularity)


def _steps(at: Longs, granularity: QueryGranularity) -> Longs:
    if granularity in _UNITS:
        moments = at.astype("M8[us]").astype(f"M8[{_UNITS[granularity]}]")
        return moments.astype(np.int64)
    width, origin = _grid(granularity)
    return at if width == 1 else np.asarray((at - origin if origin else at) // width)


def _starts(steps: Longs, granularity: QueryGranularity) -> Longs:
    if granularity in _UNITS:
        return steps.astype(f"M8[{_UNITS[granularity]}]").astype("M8[us]").astype(np.int64)
    width, origin = _grid(granularity)
    return np.asarray(steps * width + origin)


def _grid(granularity: QueryGranularity) -> tuple[int, int]:
    if granularity is QueryGranularity.WEEK:
        return 7 * DAY_US, MONDAY_US
    return (granularity.width_us or DAY_US), 0


def _times(at: Longs, kind: pa.DataType) -> pa.Array:
    if pa.types.is_date32(kind):
        return pa.array((at // DAY_US).astype(np.int32)).view(kind)
    unit = "ms" if pa.types.is_date64(kind) else kind.unit
    if unit != "ns":
        return pa.array(at // US_PER_UNIT[unit]).view(kind)
    _check_nanoseconds(at)
    return pa.array(at * 1_000).view(kind)


def _check_nanoseconds(at: Longs) -> None:
    earliest: Instant = -(2**63 // 1_000)
    if len(at) and at.min() < earliest:
        raise TimeOutOfRange(
            f"event time {iso(int(at.min()))}, as cut by the query granularity, has no form in "
            "nanoseconds: make the time column timestamp[us]"
        )


@dataclass(frozen=True, slots=True, eq=False)
class Groups:
    """Rows in groups: the group of each row, and one row of each group; groups are sorted."""

    of_row: NDArray[np.intp]
    a_row: Longs

    @property
    def count(self) -> int:
        """Return the number of groups."""
        return len(self.a_row)


def grouped(keys: Sequence[Codes], rows: int) -> Groups:
    """Group rows by equal keys (null equals null)."""
    most = max(_SMALL, _TABLE_ROWS * rows)
    key, count = np.zeros(rows, np.int64), 1
    for codes in keys:
        part, parts = _from_zero(codes, most)
        if count * parts > most:
            key, count = _dense(key, count, most)
        key = part if count == 1 else key * parts + part
        count *= parts
    of_row, count = _dense(key, count, most)
    a_row = np.empty(count, np.int64)
    a_row[of_row] = np.arange(rows)
    return Groups(of_row.astype(np.intp, copy=False), a_row)


def _from_zero(codes: Codes, most: int) -> tuple[Longs, int]:
    """Return codes from 0 on, null first, and the number of possible codes."""
    values, valid = codes.values, codes.valid
    known = values if valid is None else values[valid]
    if not len(known):
        return np.zeros(len(values), np.int64), 1
    low, high = int(known.min()), int(known.max())
    count = high - low + 1
    if count > most:
        known, count = _dense(known, count, most, low)
        if valid is None:
            return known, count
        values = np.empty(len(values), np.int64)
        values[valid], low = known, 0
    shifted = values - low if low else values
    return (shifted, count) if valid is None else (np.where(valid, shifted + 1, 0), count + 1)


def _dense(key: Longs, count: int, most: int, low: int = 0) -> tuple[Longs, int]:
    """Renumber the keys that occur, in order; keys lie in ``low`` to ``low + count - 1``."""
    if count <= most:
        seen = np.zeros(count, np.bool_)
        seen[key - low if low else key] = True
        numbers = np.cumsum(seen) - 1
        return numbers[key - low if low else key], int(numbers[-1]) + 1 if count else 0
    bits = len(key).bit_length()
    if count.bit_length() + bits < 63:
        packed = ((key - low) << bits) | np.arange(len(key))
        packed.sort()
        order, ordered = packed & ((1 << bits) - 1), packed >> bits
    else:
        order = np.argsort(key, kind="stable")
        ordered = key[order]
    new = np.empty(len(key), np.int64)
    new[0] = 0
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:], casting="unsafe")
    numbers = np.empty(len(key), np.int64)
    numbers[order] = np.cumsum(new)
    return numbers, int(numbers[order[-1]]) + 1


# Metrics of groups
_LOWEST, _HIGHEST = -(2**63), 2**63 - 1
_LIMB = 2**32 - 1
_DECIMAL_END = 10**38


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """The rows with values, and flags of the groups that have any (None: all)."""

    of_row: NDArray[np.intp]
    groups: int
    filled: Flags | None

    def found(self, array: pa.Array) -> pa.Array:
        """Return the array with null for groups without a value."""
        if self.filled is None:
            return array
        return pc.if_else(pa.array(self.filled), array, pa.scalar(None, array.type))


def _part(groups: Groups, valid: Flags | None) -> _Part:
    if valid is None:
        return _Part(groups.of_row, groups.count, None)
    of_row = groups.of_row[valid]
    return _Part(of_row, groups.count, np.bincount(of_row, minlength=groups.count) > 0)


def _of(values: NDArray[Any], valid: Flags | None) -> NDArray[Any]:
    return values if valid is None else values[valid]


def sizes(groups: Groups) -> pa.Array:
    """Return the number of rows in each group."""
    return pa.array(np.bincount(groups.of_row, minlength=groups.count).astype(np.int64))


def summed(metric: Metric, column: pa.ChunkedArray, groups: Groups) -> pa.Array:
    """Return the sums as int64, double or decimal128(38, s).

    Raises:
        InvalidInput: a sum does not fit.
    """
    array = whole(column)
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    valid = validity(array)
    part = _part(groups, valid)
    if pa.types.is_decimal(array.type):
        limbs = _added([_of(limb, valid) for limb in _decimal_limbs(array)], part)
        return part.found(_decimals(limbs, array.type.scale, metric))
    if pa.types.is_floating(array.type):
        floats = _of(plain(array.cast(pa.float64())), valid)
        sums = np.bincount(part.of_row, weights=floats, minlength=part.groups)
        return part.found(pa.array(sums + 0.0))
    values = _of(plain(array.cast(pa.int64())), valid)
    return part.found(pa.array(_sum_of_integers(values, part, metric)))


def _sum_of_integers(values: Longs, part: _Part, metric: Metric) -> Longs:
    if not len(values):
        return np.zeros(part.groups, np.int64)
    largest = max(-int(values.min()), int(values.max()))
    if largest * len(values) <= _HIGHEST:
        sums = np.zeros(part.groups, np.int64)
        np.add.at(sums, part.of_row, values)
        return sums
    low, high = _added([values & _LIMB, values >> 32], part)
    if not (fits := (high >= -(2**31)) & (high < 2**31)).all():
        at = int(np.argmin(fits))
        raise _too_large(metric, (int(high[at]) << 32) + int(low[at]), "int64")
    return np.asarray((high << 32) | low)


def _added(limbs: Sequence[Longs], part: _Part) -> list[Longs]:
    """Add numbers given in limbs of 32 bits, lowest first; only the last limb is signed."""
    sums = []
    carried: Longs | int = 0
    for number, limb in enumerate(limbs):
        total = np.zeros(part.groups, np.int64)
        np.add.at(total, part.of_row, limb)
        total += carried
        last = number == len(limbs) - 1
        sums.append(total if last else total & _LIMB)
        carried = total >> 32
    return sums


def _decimal_limbs(array: pa.Array) -> list[Longs]:
    if not len(array):
        return [np.zeros(0, np.int64)] * 4
    words = np.frombuffer(array.buffers()[1], np.uint32)
    mine = words[4 * array.offset : 4 * (array.offset + len(array))].reshape(-1, 4)
    low = [mine[:, at].astype(np.int64) for at in range(3)]
    return [*low, mine[:, 3].view(np.int32).astype(np.int64)]


def _decimals(limbs: Sequence[Longs], scale: int, metric: Metric) -> pa.Array:
    kind = pa.decimal128(38, scale)
    for at in np.flatnonzero(np.abs(limbs[3]) >= _DECIMAL_END >> 96):
        value = sum(int(limb[at]) << (32 * number) for number, limb in enumerate(limbs))
        if abs(value) >= _DECIMAL_END:
            raise _too_large(metric, value, f"{kind} (unscaled)")
    words = np.empty((len(limbs[0]), 4), np.uint32)
    for number, limb in enumerate(limbs):
        words[:, number] = (limb & _LIMB).astype(np.uint32)
    return pa.Array.from_buffers(kind, len(words), [None, pa.py_buffer(words.tobytes())])


def _too_large(metric: Metric, value: int, kind: str) -> InvalidInput:
    return InvalidInput(
        f"metric {metric}: a sum is {value}, which {kind} cannot hold: use a finer query "
        "granularity or more dimensions, or sum a double"
    )


def extreme(metric: Metric, column: pa.ChunkedArray, groups: Groups) -> pa.Array:
    """Return the smallest or largest values, by the metric's kind."""
    codes = coded(column)
    part = _part(groups, codes.valid)
    best = _best(metric.kind is MetricKind.MIN, _of(codes.values, codes.valid), part)
    return codes.column(best, part.filled)


def _best(smallest: bool, values: Longs, part: _Part) -> Longs:  # noqa: FBT001  # min or max
    ufunc, worst = (np.minimum, _HIGHEST) if smallest else (np.maximum, _LOWEST)
    best = np.full(part.groups, worst, np.int64)
    ufunc.at(best, part.of_row, values)
    return best


def timed(
    metric: Metric, column: pa.ChunkedArray, at: Longs, groups: Groups
) -> tuple[pa.Array, pa.Array]:
    """Return the first or last values, and their exact times.

    Args:
        metric: the metric, which selects first or last.
        column: the values; nulls are ignored.
        at: the exact time of each row, in µs.
        groups: the groups of the rows.
    """
    codes = coded(column)
    part = _part(groups, codes.valid)
    values, times = _of(codes.values, codes.valid), _of(at, codes.valid)
    first = metric.kind is MetricKind.FIRST
    when = _best(first, times, part)
    among = times == when[part.of_row]
    ties = _Part(part.of_row[among], part.groups, part.filled)
    best = _best(first, values[among], ties)
    return codes.column(best, part.filled), part.found(pa.array(when))


Reduce = Callable[[Metric, pa.ChunkedArray, Groups], pa.Array]
REDUCED: dict[MetricKind, Reduce] = {
    MetricKind.SUM: summed,
    MetricKind.COUNT: summed,
    MetricKind.MIN: extreme,
    MetricKind.MAX: extreme,
}
