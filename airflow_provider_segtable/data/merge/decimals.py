"""Decimals as their unscaled values: 128 bits each, as Arrow keeps them."""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa


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
