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


@lru_cache(maxsize=1024)
def flags_of(packed: Bits) -> Flags:
    """Return which rows the bits name, as flags from row 0 on; later rows are not named."""
    data = np.frombuffer(zlib.decompress(packed), np.uint8)
    return np.unpackbits(data, bitorder="little").view(np.bool_)
