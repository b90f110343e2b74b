"""Lookup of rows by equality with the rows of a small table, in given columns.

1. Each column's values are numbered, then the combinations of numbers that occur, column by column.
   So a batch is looked up in a few vectorised steps, without building an index of the batch.
2. Null equals null or nothing, as requested. NaN equals NaN, and minus zero is zero.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.errors import InvalidInput

Numbers: TypeAlias = npt.NDArray[np.int64]
Rows: TypeAlias = pa.Table | pa.RecordBatch


@dataclass(frozen=True, slots=True)
class Keys:
    """The distinct combinations of values in some columns of a table, numbered from 0.

    Attributes:
        columns: the columns' names.
        values: the distinct values of each column.
        combined: after each column, the combinations of numbers that occur, ascending.
    """

    columns: tuple[str, ...]
    values: tuple[pa.Array, ...]
    combined: tuple[Numbers, ...]

    @staticmethod
    def of(rows: pa.Table, columns: Sequence[str], *, nulls: bool) -> "Keys":
        """Return the keys of a table; if ``nulls``, null equals null.

        Raises:
            InvalidInput: a column's type is nested and cannot be compared.
        """
        values: list[pa.Array] = []
        combined: list[Numbers] = []
        so_far = np.zeros(rows.num_rows, np.int64)
        for name in columns:
            column = comparable(rows.column(name).combine_chunks(), name)
            found = pc.unique(column)
            values.append(found if nulls else found.drop_null())
            pairs = _paired(so_far, column, values[-1])
            combined.append(np.unique(pairs[pairs >= 0]))
            so_far = _ranked(pairs, combined[-1])
        return Keys(tuple(columns), tuple(values), tuple(combined))

    @property
    def count(self) -> int:
        """Return the number of keys."""
        return len(self.combined[-1]) if self.combined else 0

    def find(self, rows: Rows) -> Numbers:
        """Return for each row the number of its key, or -1; columns have the table's types."""
        so_far = np.zeros(rows.num_rows, np.int64)
        for name, values, combined in zip(self.columns, self.values, self.combined, strict=True):
            pairs = _paired(so_far, comparable(rows.column(name), name), values)
            so_far = _ranked(pairs, combined)
        return so_far


def comparable(column: Any, name: str) -> Any:
    """Convert a column so that Arrow compares equal values as equal."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.cast(kind.value_type), kind.value_type
    if pa.types.is_nested(kind):
        raise InvalidInput(
            f"column {name!r} is {kind}, and rows cannot be found by such values: leave it out, or "
            "use a condition"
        )
    if pa.types.is_float16(kind):
        column, kind = column.cast(pa.float32()), pa.float32()
    return pc.add(column, pa.scalar(0.0, kind)) if pa.types.is_floating(kind) else column


def _paired(so_far: Numbers, column: Any, values: pa.Array) -> Numbers:
    """Return a number for each pair of an earlier number and a value; -1 if one is unknown."""
    found = pc.fill_null(pc.index_in(column, value_set=values), -1).cast(pa.int64()).to_numpy()
    return np.where((so_far < 0) | (found < 0), -1, so_far * max(len(values), 1) + found)


def _ranked(pairs: Numbers, known: Numbers) -> Numbers:
    """Return the index of each pair among the known pairs, or -1."""
    if not len(known):
        return np.full(len(pairs), -1, np.int64)
    places = np.searchsorted(known, pairs).clip(max=len(known) - 1)
    return np.where(known[places] == pairs, places, -1).astype(np.int64)
