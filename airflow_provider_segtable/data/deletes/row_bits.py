"""Sets of row numbers as packed bits: what a task is told of deletion vectors."""

import zlib
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Bits: TypeAlias = bytes
"""A set of row numbers as packed bits, least first, compressed."""

Flags: TypeAlias = npt.NDArray[np.bool_]


def bits_of(rows: Sequence[int] | npt.NDArray[np.uint32]) -> Bits:
    """Return a set of row numbers, ascending, as bits."""
    flags = np.zeros(rows[-1] + 1 if len(rows) else 0, np.bool_)
    flags[np.asarray(rows, dtype=np.int64)] = True
    return zlib.compress(np.packbits(flags, bitorder="little").tobytes(), level=1)


def flags_of(bits: Bits) -> Flags:
    """Return which rows the bits name, as flags from row 0 on; later rows are not named."""
    return np.unpackbits(_unzipped(bits), bitorder="little").view(np.bool_)


@lru_cache(maxsize=1024)
def packed_of(bits: Bits) -> npt.NDArray[np.uint8]:
    """Return the bits by eight rows; kept in memory, for batch after batch asks for them."""
    return _unzipped(bits)


def flags_between(bits: Bits, start: int, rows: int) -> Flags:
    """Return which of so many rows from ``start`` on the bits name; the last may be missing."""
    skipped = start % 8
    some = packed_of(bits)[start // 8 : -(-(start + rows) // 8)]
    return np.unpackbits(some, bitorder="little")[skipped : skipped + rows].view(np.bool_)


def _unzipped(bits: Bits) -> npt.NDArray[np.uint8]:
    return np.frombuffer(zlib.decompress(bits), np.uint8)
