"""Sets of row numbers as packed bits: the form in which tasks receive deletion vectors."""

import zlib
from collections.abc import Sequence
from functools import lru_cache
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

Bits: TypeAlias = bytes
"""A set of row numbers as compressed packed bits, least significant bit first."""

Flags: TypeAlias = npt.NDArray[np.bool_]


def bits_of(rows: Sequence[int] | npt.NDArray[np.uint32]) -> Bits:
    """Return ascending row numbers as bits."""
    flags = np.zeros(rows[-1] + 1 if len(rows) else 0, np.bool_)
    flags[np.asarray(rows, dtype=np.int64)] = True
    return zlib.compress(np.packbits(flags, bitorder="little").tobytes(), level=1)


def flags_of(bits: Bits) -> Flags:
    """Return the bits as flags from row 0 on; rows after the last flag are not in the set."""
    return np.unpackbits(_unzipped(bits), bitorder="little").view(np.bool_)


@lru_cache(maxsize=1024)
def packed_of(bits: Bits) -> npt.NDArray[np.uint8]:
    """Return the bits, eight rows a byte; cached, since every batch needs them."""
    return _unzipped(bits)


def flags_between(bits: Bits, start: int, rows: int) -> Flags:
    """Return flags of ``rows`` rows from ``start`` on; fewer if the bits end before."""
    skipped = start % 8
    some = packed_of(bits)[start // 8 : -(-(start + rows) // 8)]
    return np.unpackbits(some, bitorder="little")[skipped : skipped + rows].view(np.bool_)


def _unzipped(bits: Bits) -> npt.NDArray[np.uint8]:
    return np.frombuffer(zlib.decompress(bits), np.uint8)
