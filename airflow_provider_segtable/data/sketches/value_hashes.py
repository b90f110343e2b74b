"""Hashes of values: 64 bits, the same for equal values of every type that a column may widen to.

1. The hash is XXH64 with seed 0 of these bytes:

   ===============================  ==============================================================
   integers, bool, date, timestamp  8 bytes, little-endian: the value; 0 or 1; days since 1970; µs
                                    since 1970-01-01 UTC, rounded down, whatever the unit and zone
   float, double                    8 bytes: the double; minus zero as zero, one pattern for NaN
   text, bytes                      the bytes
   decimal                          the unscaled value: 8 bytes, little-endian, if 64 bits hold it;
                                    else two's complement, big-endian, in the fewest bytes
   ===============================  ==============================================================

   So a decimal keeps its hash when it gets more digits. Parquet and Spark choose between these two
   forms by the number of digits, and Spark's second form is the same.

2. Nulls have no hash.

Source: XXH64, Yann Collet, https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md;
``docs/FORMAT.md`` has test vectors.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.data.arrow.event_times import instants
from airflow_provider_segtable.data.merge.decimals import Unscaled
from airflow_provider_segtable.data.merge.text_codes import ByteStrings, is_text

Hashes = npt.NDArray[np.uint64]

_PRIMES = (
    *(0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9),
    *(0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5),
)
_P1, _P2, _P3, _P4, _P5 = map(np.uint64, _PRIMES)
_LANES = np.array([(_PRIMES[0] + _PRIMES[1]) % 2**64, _PRIMES[1], 0, 2**64 - _PRIMES[0]], np.uint64)
_STRIPE = 32
_WORD = 8
_HALF = 4


def column_hashes(column: pa.Array | pa.ChunkedArray) -> Hashes:
    """Return the hashes of the values of a column, in any order: each distinct value at least once.

    Raises:
        InvalidInput: values of this type have no hash.
    """
    if pa.types.is_dictionary(column.type) or is_text(column.type):
        column = pc.unique(column)  # texts cost more to hash than to tell apart
    found = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    if isinstance(found, pa.DictionaryArray):
        found = found.dictionary_decode()
    return value_hashes(found.drop_null())


def joined(parts: Sequence[Hashes]) -> Hashes:
    """Return the distinct hashes of several parts."""
    found: Hashes = np.sort(np.concatenate([np.zeros(0, np.uint64), *parts]))
    first = np.ones(len(found), np.bool_)
    first[1:] = found[1:] != found[:-1]
    return np.extract(first, found)


def value_hashes(values: pa.Array) -> Hashes:
    """Return the hash of each value; none may be null.

    Raises:
        InvalidInput: values of this type have no hash.
    """
    is_, kind = pa.types, values.type
    if is_text(kind):
        return _of_bytes(ByteStrings.of(values))
    if is_.is_date32(kind):
        return _of_words(values.cast(pa.int32()).cast(pa.int64()))
    if is_.is_timestamp(kind):
        return _of_words(instants(values))
    if is_.is_signed_integer(kind) or is_.is_boolean(kind):
        return _of_words(values.cast(pa.int64()))
    if is_.is_floating(kind):
        doubles = np.array(values.cast(pa.float64())) + 0.0  # minus zero becomes zero
        doubles[np.isnan(doubles)] = np.nan
        return _of_words(doubles)
    if is_.is_decimal128(kind):
        return _of_decimals(Unscaled.of(values))
    raise InvalidInput(
        f"values of {kind} have no hash: use signed integers, floating numbers, decimals, "
        "booleans, text, bytes, dates or timestamps"
    )


def _of_decimals(numbers: Unscaled) -> Hashes:
    found = np.zeros(len(numbers), np.uint64)
    short = numbers.in_64_bits
    found[short] = _of_words(numbers.low[short])
    found[~short] = _of_bytes(ByteStrings.of(numbers.fewest_bytes(~short)))
    return found


def _of_words(values: Any) -> Hashes:
    """Hash values of 8 bytes."""
    words = np.asarray(values).view(np.uint64)
    return _finished(_with_word(np.full(len(words), _P5 + np.uint64(_WORD), np.uint64), words))


def _of_bytes(strings: ByteStrings) -> Hashes:
    lengths = strings.lengths
    hashes = np.full(len(lengths), _P5, np.uint64)
    long = np.flatnonzero(lengths >= _STRIPE)
    hashes[long] = _of_stripes(strings, long)
    hashes += lengths.astype(np.uint64)
    at = lengths // _STRIPE * _STRIPE
    while len(rows := np.flatnonzero(lengths - at >= _WORD)):
        hashes[rows] = _with_word(hashes[rows], _words_at(strings, at[rows], rows))
        at[rows] += _WORD
    rows = np.flatnonzero(lengths - at >= _HALF)
    halves = _words_at(strings, at[rows], rows) & np.uint64(0xFFFFFFFF)
    hashes[rows] = _rotated(hashes[rows] ^ (halves * _P1), 23) * _P2 + _P3
    at[rows] += _HALF
    while len(rows := np.flatnonzero(lengths > at)):
        byte = strings.bytes_at(at[rows], rows).astype(np.uint64)
        hashes[rows] = _rotated(hashes[rows] ^ (byte * _P5), 11) * _P1
        at[rows] += 1
    return _finished(hashes)


def _of_stripes(strings: ByteStrings, rows: npt.NDArray[np.int64]) -> Hashes:
    """Return the state of long values after their whole stripes of 32 bytes."""
    sums = np.repeat(_LANES[:, None], len(rows), axis=1)
    stripes = strings.lengths[rows] // _STRIPE
    for number in range(int(stripes.max(initial=0))):
        some = np.flatnonzero(stripes > number)
        for lane in range(4):
            at = np.full(len(some), number * _STRIPE + lane * _WORD, np.int64)
            sums[lane, some] = _round(sums[lane, some], _words_at(strings, at, rows[some]))
    turns = zip(sums, (1, 7, 12, 18), strict=True)
    state = sum((_rotated(lane, bits) for lane, bits in turns), np.zeros(len(rows), np.uint64))
    for lane in sums:
        state = (state ^ _round(np.zeros_like(lane), lane)) * _P1 + _P4
    return state


def _words_at(
    strings: ByteStrings, at: npt.NDArray[np.int64], rows: npt.NDArray[np.int64]
) -> Hashes:
    """Return the 8 bytes of each value from a place on, little-endian."""
    found: Hashes = strings.windows[strings.starts[rows] + at].astype(np.uint64).byteswap()
    return found


def _round(lane: Hashes, words: Hashes) -> Hashes:
    return _rotated(lane + words * _P2, 31) * _P1


def _with_word(hashes: Hashes, words: Hashes) -> Hashes:
    return _rotated(hashes ^ _round(np.zeros_like(words), words), 27) * _P1 + _P4


def _finished(hashes: Hashes) -> Hashes:
    hashes = (hashes ^ (hashes >> np.uint64(33))) * _P2
    hashes = (hashes ^ (hashes >> np.uint64(29))) * _P3
    return hashes ^ (hashes >> np.uint64(32))


def _rotated(values: Hashes, bits: int) -> Hashes:
    return (values << np.uint64(bits)) | (values >> np.uint64(64 - bits))
