"""Estimates of the number of groups after rollup across runs, without reading the rows.

1. A group's key is hashed; keys whose hash falls into one of 64 parts are *noted*. Equal keys are
   noted in every run or in none, so the number of groups is about 64 times the number of distinct
   noted keys.
2. Hashes are the same in every process.

Source of the idea: distinct sampling, Gibbons, "Distinct sampling for highly-accurate answers"
(2001).
"""

from collections.abc import Sequence
from zlib import crc32

import numpy as np
import pyarrow as pa

from airflow_provider_segtable.data.sort.sort_keys import Numbers, ordered_bits

PARTS = 64
ENOUGH = 30
"""With fewer noted keys the estimate of a single range is too inexact."""


def noted(rows: pa.Table, columns: Sequence[str]) -> Numbers:
    """Return the hash of each row's key, 0 if the key is not noted."""
    mixed = np.zeros(rows.num_rows, np.uint64)
    for name in columns:
        mixed = _mixed(mixed * np.uint64(31) + _values(rows.column(name).combine_chunks()))
    return np.where(mixed % np.uint64(PARTS) == 0, mixed | np.uint64(1), np.uint64(0))


def _values(column: pa.Array) -> Numbers:
    bits = ordered_bits(column)
    if bits is not None:
        bits[column.is_null().to_numpy(zero_copy_only=False)] = 0x5BD1E995
        return bits
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    words = (repr(word).encode() for word in column.dictionary.to_pylist())
    hashes = np.array([*map(crc32, words), 0x5BD1E995], np.uint64)
    places = column.indices.fill_null(len(hashes) - 1).to_numpy(zero_copy_only=False)
    return np.asarray(hashes[places], np.uint64)


def _mixed(values: Numbers) -> Numbers:
    """Spread the values over 64 bits (the end of splitmix64)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


def groups(rows: Sequence[float], found: Sequence[Sequence[Numbers]]) -> list[float]:
    """Estimate the number of groups in each range.

    Args:
        rows: the rows of each range, rolled up within each run only.
        found: the noted hashes of each range, by run.
    """
    counts = [len(np.unique(np.concatenate(some))) if some else 0 for some in found]
    total = sum(rows)
    ratio = min(1.0, sum(counts) * PARTS / total) if sum(counts) >= ENOUGH else 1.0
    return [
        max(1.0, min(one, count * PARTS if count >= ENOUGH else one * ratio))
        for one, count in zip(rows, counts, strict=True)
    ]
