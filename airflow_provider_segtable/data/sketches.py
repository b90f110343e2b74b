"""Hash values, and make sketches and Bloom filters from the hashes, as indexes keep them.

Hashes of values: 64 bits, the same for equal values of every type that a column may widen to.

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

Sketches of the number of distinct values: HyperLogLog with 256 registers of a byte.

3. The lowest 8 bits of a value's hash choose its register. The register keeps the greatest *rank*:
   one more than the number of trailing zeros of the other 56 bits, at most 57.
4. The sketches of parts merge into the sketch of the whole: each register keeps the greatest value.
   So a file has the merged sketch of its row groups, and a table that of its files.
5. The standard error of an estimate is 1.04 / 16 = 6.5 %; with few values it is smaller.
6. A sketch of no values has only zeros. Sketches are 256 bytes, without a header.
7. Spark's own sketches are larger (4 KiB and more) and need a JVM. The Python libraries for
   sketches are no lighter than this code.

Bloom filters of split blocks: whether a set may have a value, in 32 bytes of memory for each.

8. A filter is a sequence of blocks of 256 bits, eight words of 32 bits each, little-endian. The
   upper half of a value's hash chooses the block: ``(upper * blocks) >> 32``.
9. In each word the value has one bit: ``(lower * salt) >> 27``, modulo 2^32, where lower is the
   other half of the hash. A filter may have a value if all eight bits are set.
10. A filter has the fewest blocks that keep the rate of false positives, given the number of
    distinct values. The number of values in a block has a Poisson distribution, so the rate is that
    of a block with k values, ``(1 - (1 - 1/32)^k)^8``, in the mean over k.
11. A filter of no values has no blocks. A filter of more than ``MOST_BYTES`` is not made.

``docs/FORMAT.md`` has test vectors of the hash.

Source of the hash: XXH64, Yann Collet,
https://github.com/Cyan4973/xxHash/blob/dev/doc/xxhash_spec.md.

Source of the sketch: Flajolet and others, "HyperLogLog" (2007); the estimator, without tables of
corrections, is that of Ertl, "New cardinality estimation algorithms for HyperLogLog sketches"
(2017).

Source of the filter: Apache Parquet, ``BloomFilter.md``, with any number of blocks; Putze, Sanders
and Singler, "Cache-, hash- and space-efficient Bloom filters" (2007).
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from functools import lru_cache, reduce
from math import ceil, exp, sqrt
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.data.arrow_schema import of_any_length
from airflow_provider_segtable.data.rows import instants
from airflow_provider_segtable.data.value_bytes import ByteStrings, Unscaled

try:
    from xxhash import xxh64_intdigest
except ImportError:  # the extra [fast] has it; without it this module computes the same
    xxh64_intdigest = None

# Hashes of values
Hashes = npt.NDArray[np.uint64]

_PRIMES = (
    *(0x9E3779B185EBCA87, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9),
    *(0x85EBCA77C2B2AE63, 0x27D4EB2F165667C5),
)
_P1, _P2, _P3, _P4, _P5 = map(np.uint64, _PRIMES)
_LANES = np.array([(_PRIMES[0] + _PRIMES[1]) % 2**64, _PRIMES[1], 0, 2**64 - _PRIMES[0]], np.uint64)
_FIRST, _ALL = _PRIMES[0], 2**64 - 1
_STRIPE = 32
_WORD = 8
_HALF = 4
_FEW = 32
"""So many values are hashed one after another as fast as together."""
_AT_ONCE = 65_536
"""Stripes of one value whose words are in memory as Python's numbers."""
VERY_LONG = 1_024
"""Bytes from which on a call of ``xxhash`` for one value pays."""


def column_hashes(column: pa.Array | pa.ChunkedArray) -> Hashes:
    """Return the hashes of the values of a column, in any order: each distinct value at least once.

    Raises:
        InvalidInput: values of this type have no hash.
    """
    if pa.types.is_dictionary(column.type) or of_any_length(column.type):
        column = pc.unique(column)  # texts cost more to hash than to compare
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
    if of_any_length(kind):
        return _of_bytes(ByteStrings.of(values))
    if is_.is_date32(kind):
        return _of_words(values.view(pa.int32()).cast(pa.int64()))
    if is_.is_timestamp(kind):
        return _of_words(instants(values))
    if is_.is_signed_integer(kind) or is_.is_boolean(kind):
        return _of_words(values if is_.is_int64(kind) else values.cast(pa.int64()))
    if is_.is_floating(kind):
        wide = values if is_.is_float64(kind) else values.cast(pa.float64())
        doubles = np.asarray(wide) + 0.0  # minus zero becomes zero
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
    """Hash texts: short ones together, very long ones one by one where a library does that."""
    very_long = strings.lengths >= VERY_LONG if xxh64_intdigest else np.zeros(0, np.bool_)
    if not very_long.any():
        return _of_short(strings, slice(None))
    hashes = np.empty(len(very_long), np.uint64)
    hashes[~very_long] = _of_short(strings, ~very_long)
    for row in np.flatnonzero(very_long).tolist():
        hashes[row] = xxh64_intdigest(strings.value(row))
    return hashes


def _of_short(whole: ByteStrings, some: npt.NDArray[np.bool_] | slice) -> Hashes:
    strings = replace(whole, starts=whole.starts[some], lengths=whole.lengths[some])
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
    """Return the state of long values after their whole stripes of 32 bytes.

    Values go in steps of a stripe together, the longest first, as long as many have one more. The
    few that are left, of any length, go on alone: a step of numpy costs as much as many of Python.
    """
    order = np.argsort(-strings.lengths[rows], kind="stable")
    rows = rows[order]
    stripes = strings.lengths[rows] // _STRIPE
    sums = np.repeat(_LANES[:, None], len(rows), axis=1)
    together = int(stripes[_FEW]) if len(rows) > _FEW else 0
    left = len(rows) - np.searchsorted(stripes[::-1], np.arange(together), side="right")
    for number, count in enumerate(left.tolist()):
        for lane in range(4):
            at = np.full(count, number * _STRIPE + lane * _WORD, np.int64)
            words = _words_at(strings, at, rows[:count])
            sums[lane, :count] = _round(sums[lane, :count], words)
    for one in np.flatnonzero(stripes[:_FEW] > together).tolist():
        begun = sums[:, one].tolist()
        sums[:, one] = _gone_on(begun, strings, int(rows[one]), together, int(stripes[one]))
    sums[:, order] = sums.copy()
    turns = zip(sums, (1, 7, 12, 18), strict=True)
    state = sum((_rotated(lane, bits) for lane, bits in turns), np.zeros(len(rows), np.uint64))
    for lane in sums:
        state = (state ^ _round(np.zeros_like(lane), lane)) * _P1 + _P4
    return state


def _gone_on(lanes: list[int], strings: ByteStrings, row: int, begin: int, end: int) -> list[int]:
    """Return the lanes of one value after its stripes from ``begin`` to ``end``."""
    one, two, three, four = lanes
    for first in range(begin, end, _AT_ONCE):
        count = 4 * (min(end, first + _AT_ONCE) - first)
        words = iter((strings.words_from(row, first * _STRIPE, count) * _P2).tolist())
        for a, b, c, d in zip(words, words, words, words, strict=True):
            one = (one + a) & _ALL
            one = ((one << 31 | one >> 33) & _ALL) * _FIRST & _ALL
            two = (two + b) & _ALL
            two = ((two << 31 | two >> 33) & _ALL) * _FIRST & _ALL
            three = (three + c) & _ALL
            three = ((three << 31 | three >> 33) & _ALL) * _FIRST & _ALL
            four = (four + d) & _ALL
            four = ((four << 31 | four >> 33) & _ALL) * _FIRST & _ALL
    return [one, two, three, four]


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


# Sketches of the number of distinct values
REGISTERS = 256
_BITS = 8
_MOST = 64 - _BITS
_ALPHA = 1 / (2 * np.log(2))


def sketch(hashes: Hashes) -> bytes:
    """Return the sketch of values, by their hashes."""
    rest = hashes >> np.uint64(_BITS)
    lowest = rest & (~rest + np.uint64(1))  # a power of two, so its double is exact
    ranks = np.where(rest, np.frexp(lowest.astype(np.float64))[1], _MOST + 1)
    found = np.zeros(REGISTERS, np.uint8)
    places = (hashes & np.uint64(REGISTERS - 1)).astype(np.int64)
    np.maximum.at(found, places, ranks.astype(np.uint8))
    return found.tobytes()


def merged(sketches: Iterable[bytes]) -> bytes:
    """Return the sketch of all values of several sketches."""
    arrays = (np.frombuffer(each, np.uint8) for each in sketches)
    return reduce(np.maximum, arrays, np.zeros(REGISTERS, np.uint8)).tobytes()


def estimated(found: bytes) -> float:
    """Return about how many distinct values a sketch has seen."""
    counts = np.bincount(np.frombuffer(found, np.uint8), minlength=_MOST + 2)
    z = REGISTERS * _tau(1 - counts[_MOST + 1] / REGISTERS)
    for rank in range(_MOST, 0, -1):
        z = (z + counts[rank]) / 2
    z += REGISTERS * _sigma(counts[0] / REGISTERS)
    return float(_ALPHA * REGISTERS**2 / z)


def _sigma(share: float) -> float:
    """Correct for registers that have seen nothing."""
    if share == 1:
        return float("inf")
    y, z, before = 1.0, share, -1.0
    while z != before:
        share, before = share * share, z
        z += share * y
        y += y
    return z


def _tau(share: float) -> float:
    """Correct for registers that cannot count further."""
    if share in (0, 1):
        return 0.0
    y, z, before = 1.0, 1 - share, -1.0
    while z != before:
        share, before, y = sqrt(share), z, y / 2
        z -= (1 - share) ** 2 * y
    return z / 3


# Bloom filters of split blocks
MOST_BYTES = 8 << 20
"""The size from which on a filter is not worth its space: 6 million values at a rate of 1 %."""

BLOCK = 32
_SALTS = (
    *(0x47B6137B, 0x44974D91, 0x8824AD5B, 0xA2B7289D),
    *(0x705495C7, 0x2DF1424B, 0x9EFC4947, 0x5C6BFB31),
)
_LOWER = 0xFFFFFFFF
_STEPS = 40


def bloom_filter(hashes: Hashes, rate: float) -> bytes | None:
    """Return the filter of distinct values, by their hashes; None if it would be too large."""
    blocks = ceil(len(hashes) / values_a_block(rate))
    if blocks * BLOCK > MOST_BYTES:
        return None
    if not blocks:
        return b""
    lower = hashes & np.uint64(_LOWER)
    place = ((hashes >> np.uint64(32)) * np.uint64(blocks) >> np.uint64(32)) * np.uint64(8 * BLOCK)
    bits = np.zeros(blocks * 8 * BLOCK, np.bool_)
    for word, salt in enumerate(_SALTS):
        bit = (lower * np.uint64(salt) & np.uint64(_LOWER)) >> np.uint64(27)
        bits[place + np.uint64(32 * word) + bit] = True
    return np.packbits(bits, bitorder="little").tobytes()


class Probe:
    """A value to look up in many filters, by its hash."""

    def __init__(self, value: int) -> None:
        """Compute its bits once."""
        lower = value & _LOWER
        bits = ((lower * salt & _LOWER) >> 27 for salt in _SALTS)
        self._mask = sum(1 << (32 * word + bit) for word, bit in enumerate(bits))
        self._upper = value >> 32

    def may_be_in(self, found: bytes | memoryview) -> bool:
        """Return whether a filter may have the value; True if the filter is broken."""
        if len(found) % BLOCK:
            return True
        at = (self._upper * (len(found) // BLOCK) >> 32) * BLOCK
        block = int.from_bytes(found[at : at + BLOCK], "little")
        return block & self._mask == self._mask


@lru_cache
def values_a_block(rate: float) -> float:
    """Return how many values a block may have in the mean, to keep a rate of false positives."""
    low, high = 0.0, 1024.0
    for _ in range(_STEPS):
        middle = (low + high) / 2
        low, high = (middle, high) if _rate(middle) <= rate else (low, middle)
    return max(low, 1e-6)


def _rate(values: float) -> float:
    """Return the rate of false positives of a filter whose blocks have so many values."""
    most = ceil(values + 12 * values**0.5 + 32)
    total, share = 0.0, exp(-values)
    for count in range(1, most):
        share *= values / count
        total += share * (1 - (31 / 32) ** count) ** 8
    return total
