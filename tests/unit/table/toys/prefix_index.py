"""The index ``prefixes``: how the texts of each file begin."""

from dataclasses import dataclass
from typing import ClassVar

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.indexes.index_kind import (
    FILE,
    AboutFiles,
    check_type,
    column_names,
    known_columns,
    setting,
)
from airflow_provider_segtable.core.schema import Column
from airflow_provider_segtable.core.tables.definition import TableDefinition


def prefixes(number: int) -> str:
    """Return the column with the prefixes of an indexed column, one a line."""
    return f"prefixes_{number}"


def _check_width(width: int) -> None:
    if width < 1:
        raise InvalidInput(f"a width of {width} is not positive: write e.g. 2")


@dataclass(frozen=True, slots=True, kw_only=True)
class PrefixIndex(AboutFiles):
    """One entry a file, with the prefixes of each column.

    Attributes:
        columns: the ids of the indexed columns.
        width: the number of characters of a prefix.
    """

    name: ClassVar[str] = "prefixes"
    keeps: ClassVar[str] = "how the texts of each file begin"
    made_by: ClassVar[str] = "tests.unit.table.toys.prefix_entries.PrefixEntries"
    takes_columns: ClassVar[bool] = True
    columns: tuple[int, ...]
    width: int = setting(2, check=_check_width, help="the number of characters of a prefix")

    @property
    def key(self) -> tuple[str, ...]:
        """Return the path."""
        return (FILE,)

    def sources(self, table: TableDefinition) -> tuple[str, ...]:
        """Return the indexed columns."""
        return column_names(self.columns, table)

    def check(self, table: TableDefinition) -> None:
        """Refuse columns without texts."""
        for column in known_columns(self.columns, table):
            check_type(column, ("string",), self.name)

    def entry_columns(self, table: TableDefinition) -> tuple[Column, ...]:
        """Return the prefixes of each column."""
        found = known_columns(self.columns, table)
        return tuple(Column(name=prefixes(column.id), type="string") for column in found)
