"""Table schemas, without a library: names, types as text, nullability.

Types have Arrow's names (``int64``, ``timestamp[us, tz=UTC]``, ``list<int32>``,
``struct<a: int64, b: string>``); ``data.arrow.arrow_schema`` converts them to Arrow and back.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a table."""

    name: str
    type: str
    nullable: bool = True

    def __str__(self) -> str:
        """Return ``name: type [not null]``."""
        return f"{self.name}: {self.type}{'' if self.nullable else ' not null'}"


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns of a table, in order."""

    columns: tuple[Column, ...]

    def __str__(self) -> str:
        """Return the columns, separated by commas."""
        return ", ".join(map(str, self.columns))

    @property
    def names(self) -> tuple[str, ...]:
        """Return the column names, in order."""
        return tuple(column.name for column in self.columns)

    def find(self, name: str) -> Column | None:
        """Return the column of this name, or None."""
        return next((column for column in self.columns if column.name == name), None)
