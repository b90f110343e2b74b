"""The bytes of values: texts, bytes and decimals of a column, without a Python object for each.

1. ``ByteStrings`` has texts and bytes. Eight bytes from any place on are a *word*: a big-endian
   number, padded with zeros, so that numbers have the order of the bytes.
2. ``Unscaled`` has decimals as their unscaled values: 128 bits each, as Arrow keeps them.
3. Values are ordered by words (``data.keyed.key_groups``), and hashed, for buckets
   (``data.keyed.keyed_rows``) and for indexes (``data.sketches``).
"""

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.data.sort_keys import Indices, Numbers

# Texts and bytes
WORD = 8
_KEPT = np.array([0, *((2**64 - 1) ^ (2 ** (64 - 8 * n) - 1) for n in range(1, 9))], np.uint64)
"""The bits of a word that ``n`` bytes fill."""


@dataclass(frozen=True, slots=True)
class ByteStrings:
    """Values without null.

    Attributes:
        starts: where each begins in ``data``.
        lengths: the length of each.
        windows: the words at any byte of ``data``.
        data: the bytes of all values, and some zeros.
    """

    starts: Indices
    lengths: Indices
    windows: npt.NDArray[np.uint64]
    data: npt.NDArray[np.uint8]

    @staticmethod
    def of(array: pa.Array) -> "ByteStrings":
        """Return the values of an array of text or bytes."""
        wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
        _, offsets, data = array.buffers()
        kind: type[Any] = np.int64 if wide else np.int32
        given = np.frombuffer(offsets, kind)[array.offset : array.offset + len(array) + 1]
        ends: Indices = given.astype(np.int64)
        first, last = (int(ends[0]), int(ends[-1])) if len(array) else (0, 0)
        padded = np.zeros(last - first + WORD, np.uint8)
        if last > first:
            padded[: last - first] = np.frombuffer(data, np.uint8)[first:last]
        count = last - first + 1
        windows: npt.NDArray[np.uint64] = np.ndarray((count,), ">u8", padded, strides=(1,))
        starts: Indices = ends[:-1] - first
        return ByteStrings(starts, ends[1:] - ends[:-1], windows, padded)

    def words(self, at: int, some: Indices | slice = slice(None)) -> Numbers:
        """Return the word of some values that begins with byte ``at``."""
        lengths = self.lengths[some]
        places = self.starts[some] + np.minimum(lengths, at)
        found = self.windows[places].astype(np.uint64)
        found &= _KEPT[np.clip(lengths - at, 0, WORD)]
        return found

    def bytes_at(self, at: Indices, some: Indices) -> npt.NDArray[np.uint8]:
        """Return one byte of each of some values."""
        found: npt.NDArray[np.uint8] = self.windows[self.starts[some] + at] >> np.uint64(56)
        return found.astype(np.uint8)

    def words_from(self, row: int, at: int, count: int) -> Numbers:
        """Return ``count`` words of a value one after another, little-endian, from byte ``at``."""
        start = int(self.starts[row]) + at
        return self.data[start : start + count * WORD].view("<u8")

    def value(self, row: int) -> memoryview:
        """Return the bytes of a value."""
        start = int(self.starts[row])
        return self.data.data[start : start + int(self.lengths[row])]

    def prefix(self) -> int:
        """Return the number of bytes that all values begin with, and longer values go on after."""
        at, most = 0, int(self.lengths.max(initial=0))
        while at < most:
            words = self.words(at)
            differ = int(np.bitwise_or.reduce(words ^ words[0]))
            if differ:
                return at + (64 - differ.bit_length()) // 8
            at += WORD
        return at


# Decimals
@dataclass(frozen=True, slots=True)
class Unscaled:
    """The unscaled values of decimals, none of them null: 16 bytes each, little-endian."""

    bytes: npt.NDArray[np.uint8]

    @staticmethod
    def of(column: pa.Array) -> "Unscaled":
        """Return the unscaled values of a column of decimal128."""
        data = np.frombuffer(column.buffers()[1] or b"", np.uint8)
        start = column.offset * 16
        return Unscaled(data[start : start + len(column) * 16].reshape(-1, 16))

    def __len__(self) -> int:
        """Return the number of values."""
        return len(self.bytes)

    @property
    def low(self) -> npt.NDArray[np.int64]:
        """Return the lower 64 bits of each value."""
        return np.ascontiguousarray(self.bytes[:, :8]).view(np.int64).ravel()

    @property
    def in_64_bits(self) -> npt.NDArray[np.bool_]:
        """Return which values are the same as their lower 64 bits."""
        high: npt.NDArray[np.int64] = np.ascontiguousarray(self.bytes[:, 8:]).view(np.int64).ravel()
        found: npt.NDArray[np.bool_] = high == self.low >> np.int64(63)
        return found

    def fewest_bytes(self, some: npt.NDArray[np.bool_] | slice = slice(None)) -> pa.Array:
        """Return values in two's complement, big-endian, in the fewest bytes: zero has one."""
        big = self.bytes[some, ::-1]
        sign = np.where(big[:, :1] & 0x80, 0xFF, 0).astype(np.uint8)
        # A leading byte is spare if it repeats the sign, and the next byte has the same sign bit.
        spare = (big[:, :-1] == sign) & ((big[:, 1:] ^ sign) < 0x80)
        starts = np.cumprod(spare, axis=1, dtype=np.int64).sum(axis=1)
        kept = np.arange(16) >= starts[:, None]
        offsets = np.concatenate([[0], np.cumsum(16 - starts)]).astype(np.int64)
        buffers = [None, pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(big[kept]))]
        return pa.Array.from_buffers(pa.large_binary(), len(big), buffers)
