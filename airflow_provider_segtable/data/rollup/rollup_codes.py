"""Columns as integers that sort like their values, and grouping of rows by such integers.

1. Every sortable column becomes int64 *codes*: comparing codes compares values. Numbers are their
   own codes (floats by their bits, NaN above all), text and decimals are ranked by their values.
2. Groups are numbered in the order of (first column, second, ...), nulls first, so that grouped
   rows are sorted, too.
3. Keys are joined into one number. If few keys are possible, a table maps keys to groups (no
   hashing, no sorting); else keys and row numbers are packed into one number and sorted.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from airflow_provider_segtable.core.errors import TimeOutOfRange
from airflow_provider_segtable.core.tables.rollup_kind import QueryGranularity
from airflow_provider_segtable.core.time import DAY_US, Instant, iso
from airflow_provider_segtable.data.arrow.event_times import instants

Longs = NDArray[np.int64]
Flags = NDArray[np.bool_]

_SIGN = np.int64(-(2**63))
_MONDAY_US = 4 * DAY_US  # 1970-01-05
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


def combined(column: pa.Array | pa.ChunkedArray) -> pa.Array:
    """Return a column as one array, with one dictionary."""
    if not isinstance(column, pa.ChunkedArray):
        return column
    if pa.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
    return column.combine_chunks()


def coded(column: pa.Array | pa.ChunkedArray) -> Codes:
    """Return a column of a sortable type as codes."""
    array = combined(column)
    kind = array.type
    if not (pa.types.is_dictionary(kind) or _numeric(kind)):
        return _ranked(array.dictionary_encode(), kind)
    if pa.types.is_dictionary(kind):
        if _numeric(kind.value_type) or pa.types.is_dictionary(kind.value_type):
            return coded(array.dictionary_decode())
        return _ranked(array, kind)
    valid = validity(array)
    return Codes(_own_codes(array), valid, kind)


def validity(array: pa.Array) -> Flags | None:
    """Return flags of the values that are not null; None if there are no nulls."""
    if not array.null_count:
        return None
    return np.asarray(pc.is_valid(array).to_numpy(zero_copy_only=False))


def _numeric(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_temporal(kind)
    )


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
    array = combined(column)
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
        return 7 * DAY_US, _MONDAY_US
    return (granularity.width_us or DAY_US), 0


def _times(at: Longs, kind: pa.DataType) -> pa.Array:
    if pa.types.is_date32(kind):
        return pa.array((at // DAY_US).astype(np.int32)).view(kind)
    per_unit = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 1}
    unit = "ms" if pa.types.is_date64(kind) else kind.unit
    if unit != "ns":
        return pa.array(at // per_unit[unit]).view(kind)
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
