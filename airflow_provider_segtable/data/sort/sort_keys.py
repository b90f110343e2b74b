"""Sort keys: the values of several columns as one integer per row, so that integers are compared.

1. Each column's values become *codes*: integers from 1 on, in the column's order (nulls first, NaN
   last, -0.0 equal to 0.0). Numbers and times keep their distances; text and all other types are
   ranked among the distinct values that occur, dictionaries by their distinct values alone.
2. *Marks* are values to compare rows with, coded together with them. Code 0 is below all rows. A
   mark outside the rows' values keeps its side, so marks never widen the codes.
3. Codes of several columns are combined into 64 bits. If they need more, the code combined so far
   is replaced by its rank, which always frees enough bits.
4. Codes are comparable only if they were made by the same call.
5. Sorting is stable: the row number goes into the free bits if it fits (then plain integers are
   sorted), else ties are put in order afterwards.

Source of the idea: normalised keys as in Graefe, "Implementing sorting in database systems" (2006).
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.errors import InvalidInput

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
    if _is_number(rows.type):
        return _spaced(rows, marks)
    return _ranked(rows, marks)


def number_codes(rows: Numbers, marks: Numbers) -> Codes:
    """Code unsigned numbers."""
    return _clipped(rows, np.ones(len(rows), bool), marks, np.ones(len(marks), bool))


def _is_number(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_boolean(kind)
        or pa.types.is_temporal(kind)
    )


def ordered_bits(column: pa.Array) -> Numbers | None:
    """Return numbers and times as unsigned numbers of the same order, or None for other types.

    The numbers of nulls are arbitrary.
    """
    return _bits(column).copy() if _is_number(column.type) else None


def _spaced(rows: pa.Array, marks: pa.Array) -> Codes:
    return _clipped(_bits(rows), _valid(rows), _bits(marks), _valid(marks))


def _valid(array: pa.Array) -> npt.NDArray[np.bool_]:
    if not array.null_count:
        return np.ones(len(array), bool)
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False))


def _bits(array: pa.Array) -> Numbers:
    """Return numbers as unsigned ones of the same order; those of nulls are arbitrary."""
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
            codes[~_valid(indices)] = 1
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
        _settle(order, same)
    return order


def _settle(order: Indices, same: npt.NDArray[np.bool_]) -> None:
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
