"""Codes of text and bytes: their ranks, from eight bytes at a time compared as integers.

1. Bytes that all values begin with are skipped. The next eight are a *word*: a big-endian number,
   padded with zeros, so numbers have the order of the bytes.
2. Values are sorted by their first word. Only values that are *tied* there are compared by their
   next words, and in the end by length, which tells padding from zero bytes. In an upsert merge
   most ties are equal keys: a word that parts no tie costs one comparison.
3. The code of a value is its rank among the distinct values, from 1 on.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_provider_segtable.data.sort.sort_keys import Codes, Indices, Numbers

_WORD = 8
_KEPT = np.array([0, *((2**64 - 1) ^ (2 ** (64 - 8 * n) - 1) for n in range(1, 9))], np.uint64)
"""The bits of a word that ``n`` bytes fill."""


def is_text(kind: pa.DataType) -> bool:
    """Return whether values are bytes of any length."""
    is_ = pa.types
    return bool(
        is_.is_string(kind)
        or is_.is_large_string(kind)
        or is_.is_binary(kind)
        or is_.is_large_binary(kind)
    )


@dataclass(frozen=True, slots=True)
class ByteStrings:
    """Values without null: where each begins in ``windows``, the words at any byte, and lengths."""

    starts: Indices
    lengths: Indices
    windows: npt.NDArray[np.uint64]

    @staticmethod
    def of(array: pa.Array) -> "ByteStrings":
        """Return the values of an array of text or bytes."""
        wide = pa.types.is_large_string(array.type) or pa.types.is_large_binary(array.type)
        _, offsets, data = array.buffers()
        kind: type[Any] = np.int64 if wide else np.int32
        given = np.frombuffer(offsets, kind)[array.offset : array.offset + len(array) + 1]
        ends: Indices = given.astype(np.int64)
        first, last = (int(ends[0]), int(ends[-1])) if len(array) else (0, 0)
        padded = np.zeros(last - first + _WORD, np.uint8)
        if last > first:
            padded[: last - first] = np.frombuffer(data, np.uint8)[first:last]
        count = last - first + 1
        windows: npt.NDArray[np.uint64] = np.ndarray((count,), ">u8", padded, strides=(1,))
        starts: Indices = ends[:-1] - first
        return ByteStrings(starts, ends[1:] - ends[:-1], windows)

    def words(self, at: int, some: Indices | slice = slice(None)) -> Numbers:
        """Return the word of some values that begins with byte ``at``."""
        lengths = self.lengths[some]
        places = self.starts[some] + np.minimum(lengths, at)
        found = self.windows[places].astype(np.uint64)
        found &= _KEPT[np.clip(lengths - at, 0, _WORD)]
        return found

    def bytes_at(self, at: Indices, some: Indices) -> npt.NDArray[np.uint8]:
        """Return one byte of each of some values."""
        found: npt.NDArray[np.uint8] = self.windows[self.starts[some] + at] >> np.uint64(56)
        return found.astype(np.uint8)

    def prefix(self) -> int:
        """Return the number of bytes that all values begin with, and longer values go on after."""
        at, most = 0, int(self.lengths.max(initial=0))
        while at < most:
            words = self.words(at)
            differ = int(np.bitwise_or.reduce(words ^ words[0]))
            if differ:
                return at + (64 - differ.bit_length()) // 8
            at += _WORD
        return at


def text_codes(array: pa.Array) -> Codes:
    """Code values of text or bytes; none may be null."""
    none = np.zeros(0, np.uint64)
    if not len(array):
        return Codes(none, none, 1)
    strings = ByteStrings.of(array)
    at, most = strings.prefix(), int(strings.lengths.max())
    words = strings.words(at)
    order = np.argsort(words)
    first = _changes(words[order])
    for level in (*range(at + _WORD, most, _WORD), -1):
        tied = np.flatnonzero(~(first & np.append(first[1:], True)))
        if not len(tied):
            break
        rows = order[tied]
        values = (
            strings.lengths[rows].astype(np.uint64) if level < 0 else strings.words(level, rows)
        )
        _part(order, first, tied, values)
    ranks = np.empty(len(order), np.uint64)
    ranks[order] = np.cumsum(first)
    return Codes(ranks, none, int(first.sum()))


def _part(order: Indices, first: npt.NDArray[np.bool_], tied: Indices, values: Numbers) -> None:
    """Sort the rows within ties by further values, in place, and note where values change."""
    begins = first[tied]
    if (begins[1:] | (values[1:] == values[:-1])).all():
        return
    ties = np.cumsum(begins)
    sorting = np.lexsort((values, ties))
    order[tied] = order[tied][sorting]
    first[tied] = begins | _changes(values[sorting])


def _changes(values: Numbers) -> npt.NDArray[np.bool_]:
    """Return where a value differs from the one before; the first does."""
    found = np.ones(len(values), bool)
    found[1:] = values[1:] != values[:-1]
    return found
