"""The index ``column_stats``: bounds, nulls and distinct values of columns in each row group."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from airflow_provider_segtable.core.indexes.index_kind import (
    FILE,
    AboutFiles,
    check_type,
    ids_of,
    known_columns,
)
from airflow_provider_segtable.core.log.families.table_events import TableCreated
from airflow_provider_segtable.core.tables.schema import Column

ROW_GROUP = "row_group"
"""The number of the row group in its file, from 0."""

_TYPES = (
    *("int8", "int16", "int32", "int64", "float", "double", "bool"),
    *("string", "large_string", "date32", "timestamp", "decimal128"),
)


def low(number: int) -> str:
    """Return the column with the least value of an indexed column."""
    return f"low_{number}"


def high(number: int) -> str:
    """Return the column with the greatest value of an indexed column."""
    return f"high_{number}"


def nulls(number: int) -> str:
    """Return the column with the number of nulls of an indexed column."""
    return f"nulls_{number}"


def nan(number: int) -> str:
    """Return the column that says whether a value of an indexed column may be NaN."""
    return f"nan_{number}"


def distinct(number: int) -> str:
    """Return the column with the sketch of an indexed column's distinct values."""
    return f"distinct_{number}"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnStats(AboutFiles):
    """One entry a row group; the columns of a bound are null if there is none to rely on.

    Attributes:
        columns: the ids of the indexed columns.
    """

    name: ClassVar[str] = "column_stats"
    settings: ClassVar[Mapping[str, Any]] = {"columns": ()}
    columns: tuple[int, ...]

    @property
    def key(self) -> tuple[str, ...]:
        """Return the path and the row group."""
        return (FILE, ROW_GROUP)

    def check(self, table: TableCreated) -> None:
        """Refuse columns without an order to rely on."""
        for column in known_columns(self.columns, table):
            check_type(column, _TYPES, "column_stats")

    def entry_columns(self, table: TableCreated) -> tuple[Column, ...]:
        """Return the row group, and the statistics of each column."""
        found = [Column(name=ROW_GROUP, type="int32", nullable=False)]
        for column in known_columns(self.columns, table):
            found += [
                Column(name=low(column.id), type=column.type),
                Column(name=high(column.id), type=column.type),
                Column(name=nulls(column.id), type="int64"),
                Column(name=nan(column.id), type="bool"),
                Column(name=distinct(column.id), type="binary"),
            ]
        return tuple(found)

    def encoded(self) -> dict[str, Any]:
        """Return the columns."""
        return {"columns": [*self.columns]}

    @classmethod
    def decoded(cls, body: Mapping[str, Any]) -> Self:
        """Parse the output of ``encoded``."""
        return cls(columns=ids_of(body))
