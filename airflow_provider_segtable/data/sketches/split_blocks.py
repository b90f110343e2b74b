"""Bloom filters of split blocks: whether a set may have a value, in 32 bytes of memory each.

1. A filter is a sequence of blocks of 256 bits, eight words of 32 bits each, little-endian. The
   upper half of a value's hash chooses the block: ``(upper * blocks) >> 32``.
2. In each word the value has one bit: ``(lower * salt) >> 27``, modulo 2^32, where lower is the
   other half of the hash. A filter may have a value if all eight bits are set.
3. A filter has as few blocks as keep the rate of false positives, given the number of distinct
   values. Numbers of values in a block have a Poisson distribution, so the rate is that of a block
   with k values, ``(1 - (1 - 1/32)^k)^8``, in the mean over k.
4. A filter of no values has no blocks. A filter of more than ``MOST_BYTES`` is not made.

Source: Apache Parquet, ``BloomFilter.md``, with any number of blocks; Putze, Sanders and Singler,
"Cache-, hash- and space-efficient Bloom filters" (2007).
"""

from functools import lru_cache
from math import ceil, exp

import numpy as np

from airflow_provider_segtable.data.sketches.value_hashes import Hashes

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
