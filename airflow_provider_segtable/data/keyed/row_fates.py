"""Fates of the rows of keyed files: which rows readers show, skip, or merge.

1. Each row of a file has one *fate* over some files of its group: it is *lost* (a higher record of
   its key is in another row), a *tombstone* that won, *open* (its key's row is composed of several
   records, and merged at read), or it is shown as it is.
2. ``RowFates`` are ascending row numbers, to compute with. ``FileFates`` are plain data: packed
   bits, for readers; also in tasks, which have no bitmap library.
"""

from collections.abc import Mapping
from dataclasses import field

import numpy as np
import numpy.typing as npt

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.data.row_filter import Bits, bits_of, flags_of

RowNumbers = npt.NDArray[np.uint32]
"""Row numbers, ascending, each once."""


def row_numbers(rows: npt.ArrayLike) -> RowNumbers:
    """Return row numbers in any order, with repetitions, as ``RowNumbers``."""
    return np.unique(np.asarray(rows, np.uint32))


def _none() -> RowNumbers:
    return np.zeros(0, np.uint32)


@dataclass(frozen=True, slots=True, eq=False)
class RowFates:
    """The rows of a file by their fates, which do not overlap; all others are shown."""

    rows: int
    lost: RowNumbers = field(default_factory=_none)
    tombstones: RowNumbers = field(default_factory=_none)
    open: RowNumbers = field(default_factory=_none)

    def __eq__(self, other: object) -> bool:
        """Return whether all rows have the same fates."""
        return (
            isinstance(other, RowFates)
            and self.rows == other.rows
            and np.array_equal(self.lost, other.lost)
            and np.array_equal(self.tombstones, other.tombstones)
            and np.array_equal(self.open, other.open)
        )

    __hash__ = None  # type: ignore[assignment]

    @property
    def hidden(self) -> int:
        """Return the number of rows that no reader shows."""
        return len(self.lost) + len(self.tombstones)

    def joined(self, other: "RowFates") -> "RowFates":
        """Return these fates, with those of other rows of the file."""
        return RowFates(
            self.rows,
            np.union1d(self.lost, other.lost),
            np.union1d(self.tombstones, other.tombstones),
            np.union1d(self.open, other.open),
        )

    def without(self, rows: RowNumbers) -> "RowFates":
        """Return the fates without those of some rows that are not lost."""
        return RowFates(
            self.rows,
            self.lost,
            np.setdiff1d(self.tombstones, rows, assume_unique=True),
            np.setdiff1d(self.open, rows, assume_unique=True),
        )

    def packed(self) -> "FileFates":
        """Return the fates as plain data."""
        lost, others = _bits(self.lost), [self.tombstones, self.open]
        return FileFates(
            rows=self.rows,
            unshown=self._joined_bits() if any(map(len, others)) else lost,
            lost=lost,
            open=_bits(self.open),
            shown=self.rows - self.hidden - len(self.open),
            open_rows=len(self.open),
        )

    def _joined_bits(self) -> Bits:
        flags = np.zeros(self.rows, np.bool_)
        for some in (self.lost, self.tombstones, self.open):
            flags[some] = True
        return _bits(np.flatnonzero(flags).astype(np.uint32))


@dataclass(frozen=True, slots=True, kw_only=True)
class FileFates:
    """The fates of a file's rows as plain data.

    Attributes:
        rows: the number of rows.
        unshown: rows that are not shown as they are: lost ones, tombstones and open ones.
        lost: rows that no later record competes with.
        open: rows that are merged at read.
        shown: the number of rows that are shown as they are.
        open_rows: the number of open rows.
    """

    rows: int
    unshown: Bits = b""
    lost: Bits = b""
    open: Bits = b""
    shown: int
    open_rows: int = 0

    def unpacked(self) -> RowFates:
        """Return the fates as row numbers."""
        unshown, lost, opened = (_rows(each) for each in (self.unshown, self.lost, self.open))
        known = np.concatenate([lost, opened])
        return RowFates(self.rows, lost, np.setdiff1d(unshown, known, assume_unique=True), opened)


Fates = Mapping[int, FileFates]
"""The fates of the rows of a file group's files, by partition."""


def _bits(rows: RowNumbers) -> Bits:
    return bits_of(rows) if len(rows) else b""


def _rows(bits: Bits) -> RowNumbers:
    return np.flatnonzero(flags_of(bits)).astype(np.uint32) if bits else _none()
