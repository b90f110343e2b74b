"""Buckets of primary-key tables: a hash of the key, modulo the number of buckets.

1. The hash is Spark's own ``hash(key columns)``: Murmur3_x86_32 with seed 42; the hash of each
   column is the seed of the next. The bucket is ``pmod(hash, n)``. So Spark computes buckets
   natively, and an executor without Spark computes the same ones here.
2. What is hashed, by type of the column:

   ===================================  ==========================================================
   int8, int16, int32, bool, date       the value as 4 bytes (false 0, true 1, days since 1970)
   int64, timestamp, decimal(p <= 18)   8 bytes: low half, then high half (µs since 1970; a
                                        decimal's unscaled value)
   text, bytes                          the bytes: whole words of 4, little-endian; then *each*
                                        further byte as a signed word of its own
   decimal(p > 18)                      the unscaled value's shortest two's complement, big-endian,
                                        as bytes
   ===================================  ==========================================================

   Rule 3 of bytes is Spark's, and differs from the standard Murmur3 tail.
3. Null keys are refused. Floating numbers, unsigned integers and nanoseconds are no keys.

Source: ``org.apache.spark.unsafe.hash.Murmur3_x86_32``; ``docs/FORMAT.md`` has test vectors.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.tables.merge_rules import KEY_TYPES
from airflow_provider_segtable.data.merge.decimals import Unscaled
from airflow_provider_segtable.data.merge.key_groups import whole
from airflow_provider_segtable.data.merge.keyed_rows import check_keys
from airflow_provider_segtable.data.merge.text_codes import ByteStrings, is_text

Hashes = npt.NDArray[np.uint32]
Buckets = npt.NDArray[np.int32]

SEED = 42
LONG_DIGITS = 18
"""The digits of a decimal that 64 bits hold."""

_MICROS = {"s": 1_000_000, "ms": 1_000, "us": 1}


def buckets_of(rows: pa.Table | pa.RecordBatch, key: Sequence[str], count: int) -> Buckets:
    """Return the bucket of each row, from 0 to ``count - 1``.

    Raises:
        InvalidInput: a key is null or of a type that is no key; there is no bucket.
    """
    if count < 1:
        raise InvalidInput(f"a table of {count} buckets holds no row: give it at least 1")
    return np.mod(key_hashes(rows, key), np.int32(count))


def key_hashes(rows: pa.Table | pa.RecordBatch, key: Sequence[str]) -> Buckets:
    """Return the hash of each row's key, a signed 32-bit number.

    Raises:
        InvalidInput: a key is null or of a type that is no key.
    """
    check_keys(rows, key)
    hashes = np.full(rows.num_rows, SEED, np.uint32)
    for name in key:
        hashes = _hashed(name, whole(rows.column(name)), hashes)
    return hashes.view(np.int32)


def _hashed(name: str, column: pa.Array, seeds: Hashes) -> Hashes:
    kind = column.type
    is_ = pa.types
    if is_.is_dictionary(kind):
        return _hashed(name, column.dictionary_decode(), seeds)
    if is_text(kind):
        return _bytes(column, seeds)
    if is_.is_date32(kind) or is_.is_boolean(kind):
        return _words([_halves(column.cast(pa.int32()))[0]], seeds)
    if is_.is_signed_integer(kind):
        halves = _halves(column)
        return _words(halves if is_.is_int64(kind) else halves[:1], seeds)
    if is_.is_timestamp(kind) and kind.unit in _MICROS:
        micros = pc.multiply_checked(column.cast(pa.int64()), _MICROS[kind.unit])
        return _words(_halves(micros), seeds)
    if is_.is_decimal128(kind):
        return _decimals(column, seeds)
    raise InvalidInput(f"column {name!r} is {kind}, which is not a key type: use {KEY_TYPES}")


def _halves(column: pa.Array) -> list[Hashes]:
    """Return the low and the high half of each integer."""
    values = np.asarray(column.cast(pa.int64())).view(np.uint64)
    return [(values & np.uint64(0xFFFFFFFF)).astype(np.uint32), (values >> 32).astype(np.uint32)]


def _words(words: Sequence[Hashes], seeds: Hashes) -> Hashes:
    for word in words:
        seeds = _mixed(seeds, word)
    return _finished(seeds, np.uint32(4 * len(words)))


def _decimals(column: pa.Array, seeds: Hashes) -> Hashes:
    unscaled = Unscaled.of(column)
    if column.type.precision <= LONG_DIGITS:
        return _words(_halves(pa.array(unscaled.low)), seeds)
    return _bytes(unscaled.fewest_bytes(), seeds)


def _bytes(column: pa.Array, seeds: Hashes) -> Hashes:
    strings = ByteStrings.of(column)
    hashes = seeds.copy()
    lengths = strings.lengths
    rows = np.arange(len(lengths))
    at = 0
    while len(rows := rows[lengths[rows] >= at + 4]):
        word = (strings.words(at, rows) >> np.uint64(32)).astype(np.uint32).byteswap()
        hashes[rows] = _mixed(hashes[rows], word)
        at += 4
    whole_words = lengths // 4 * 4
    for extra in range(3):
        rows = np.flatnonzero(lengths - whole_words > extra)
        byte = strings.bytes_at(whole_words[rows] + extra, rows).view(np.int8)
        hashes[rows] = _mixed(hashes[rows], byte.astype(np.int32).view(np.uint32))
    return _finished(hashes, lengths.astype(np.uint32))


def _rotated(values: Hashes, bits: int) -> Hashes:
    return (values << np.uint32(bits)) | (values >> np.uint32(32 - bits))


def _mixed(hashes: Hashes, words: Hashes) -> Hashes:
    mixed = _rotated(words * np.uint32(0xCC9E2D51), 15) * np.uint32(0x1B873593)
    return _rotated(hashes ^ mixed, 13) * np.uint32(5) + np.uint32(0xE6546B64)


def _finished(hashes: Hashes, lengths: Hashes | np.uint32) -> Hashes:
    hashes = hashes ^ lengths
    hashes = (hashes ^ (hashes >> np.uint32(16))) * np.uint32(0x85EBCA6B)
    hashes = (hashes ^ (hashes >> np.uint32(13))) * np.uint32(0xC2B2AE35)
    return hashes ^ (hashes >> np.uint32(16))
