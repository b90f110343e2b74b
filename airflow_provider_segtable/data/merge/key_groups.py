"""Rows grouped by key, and the highest row of each group.

1. Rows are sorted by key; of equal keys, the rows keep their order (``KeyGroups``).
2. A key that only one row has is settled. Only *contested* rows, those of all other keys, are
   compared any further: in an upsert merge they are few.
3. A register's winner is the row with the highest code among candidates; of equal codes the last
   row wins, because later rows of one file are higher.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_provider_segtable.data.sort.sort_keys import (
    Codes,
    Indices,
    Numbers,
    column_codes,
    composed,
    stable_order,
)

Flags = npt.NDArray[np.bool_]
NONE = -1
"""No row."""


def whole(column: pa.ChunkedArray | pa.Array) -> pa.Array:
    """Return a column as one array."""
    if isinstance(column, pa.Array):
        return column
    if pa.types.is_dictionary(column.type):
        column = column.unify_dictionaries()
    found = column.combine_chunks()
    return found.combine_chunks() if isinstance(found, pa.ChunkedArray) else found


def numbers(column: pa.ChunkedArray | pa.Array) -> Indices:
    """Return a column of integers; zero for null."""
    array = whole(column)
    filled = array.fill_null(0) if array.null_count else array
    return np.asarray(filled.to_numpy(zero_copy_only=False), dtype=np.int64)


def valid(array: pa.Array) -> Flags:
    """Return which values are not null."""
    if not array.null_count:
        return np.ones(len(array), bool)
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False))


def codes_of(columns: Sequence[pa.Array]) -> Codes:
    """Return codes of the same order as the values of several columns."""
    return composed([column_codes(column, plain_none(column)) for column in columns])


def plain_none(column: pa.Array) -> pa.Array:
    """Return no values, of a column's value type."""
    kind = column.type
    return pa.array([], kind.value_type if pa.types.is_dictionary(kind) else kind)


@dataclass(frozen=True, slots=True)
class KeyGroups:
    """Rows by key.

    Attributes:
        order: row numbers, sorted by key (stable).
        starts: the place in ``order`` of the first row of each key.
        sizes: the number of rows of each key.
    """

    order: Indices
    starts: Indices
    sizes: Indices

    @staticmethod
    def of(codes: Codes) -> "KeyGroups":
        """Group rows by the codes of their keys."""
        order = stable_order(codes)
        ordered = codes.rows[order]
        first = np.ones(len(order), bool)
        first[1:] = ordered[1:] != ordered[:-1]
        starts = np.flatnonzero(first)
        return KeyGroups(order, starts, np.diff(starts, append=len(order)))

    @property
    def contested(self) -> Flags:
        """Return for each key whether it has several rows."""
        flags: Flags = self.sizes > 1
        return flags

    def contest(self) -> "Contest":
        """Return the rows of contested keys."""
        some = self.contested
        sizes = self.sizes[some]
        ends = np.cumsum(sizes)
        starts = ends - sizes
        within = np.arange(ends[-1] if len(ends) else 0) - np.repeat(starts, sizes)
        rows = self.order[np.repeat(self.starts[some], sizes) + within]
        return Contest(rows, starts, sizes)


@dataclass(frozen=True, slots=True)
class Contest:
    """The rows of contested keys, by key: row numbers, and the place where each key begins."""

    rows: Indices
    starts: Indices
    sizes: Indices

    def highest(self, codes: Numbers, candidates: Flags | None = None) -> Indices:
        """Return for each key the place of the highest candidate; ``NONE`` if there is none.

        Codes are from 1 on.
        """
        found = np.full(len(self.starts), NONE, np.int64)
        if not len(self.starts):
            return found
        if candidates is not None:
            codes = np.where(candidates, codes, np.uint64(0))
        most = np.maximum.reduceat(codes, self.starts)
        winning = (codes == np.repeat(most, self.sizes)) & (codes > 0)
        places = np.flatnonzero(winning)
        keys = np.repeat(np.arange(len(self.starts)), self.sizes)[places]
        found[keys] = places  # of equal ones, the last is assigned last
        return found
