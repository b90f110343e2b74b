"""Table schemas, without a library: names, types as text, nullability, ids.

1. Types have Arrow's names (``int64``, ``timestamp[us, tz=UTC]``, ``list<int32>``,
   ``struct<a: int64, b: string>``); ``data.arrow.arrow_schema`` converts them to Arrow and back.
2. A column is known by its id, which is never used again; its name may change. Files carry the ids
   of their columns. The columns of a creation have the ids 1, 2, ... by position.
3. A table's schemas are numbered from 0, the creation's. A segment records the number of the one
   that its file was written with.
4. Files without ids (of older segtables) have the columns of schema 0, by their names.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """One column of a table.

    Attributes:
        name: its name.
        type: its type, as Arrow prints it.
        nullable: whether it may be null.
        id: its id; 0 for the id of its position in the schema.
        first_name: its name in files without ids; empty if it was added after the creation, None
            if it is still ``name``.
        default: its value, as text, in rows of files that lack it, and of writers that leave it
            out; None for null.
    """

    name: str
    type: str
    nullable: bool = True
    id: int = 0
    first_name: str | None = None
    default: str | None = None

    def __str__(self) -> str:
        """Return ``name: type [not null]``."""
        return f"{self.name}: {self.type}{'' if self.nullable else ' not null'}"

    @property
    def old_name(self) -> str:
        """Return its name in files without ids; empty if they lack it."""
        return self.name if self.first_name is None else self.first_name


@dataclass(frozen=True, slots=True)
class Schema:
    """The columns of a table, in order; ``number`` counts the table's schemas from 0."""

    columns: tuple[Column, ...]
    number: int = 0

    def __post_init__(self) -> None:
        """Leave out ids that are positions, so that equal schemas are equal values."""
        if any(column.id == at for at, column in enumerate(self.columns, start=1)):
            columns = (
                replace(column, id=0) if column.id == at else column
                for at, column in enumerate(self.columns, start=1)
            )
            object.__setattr__(self, "columns", tuple(columns))

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

    @property
    def numbered(self) -> tuple[Column, ...]:
        """Return the columns with their ids, also those that are positions."""
        return tuple(
            column if column.id else replace(column, id=at)
            for at, column in enumerate(self.columns, start=1)
        )


def encode_columns(schema: Schema) -> list[dict[str, Any]]:
    """Return the columns of a schema as JSON; an id that is the position is left out."""
    return [_encode_column(column) for column in schema.columns]


def decode_columns(body: Iterable[Mapping[str, Any]], number: int = 0) -> Schema:
    """Parse the output of ``encode_columns``; ``number`` is the schema's."""
    return Schema(tuple(Column(**column) for column in body), number)


def _encode_column(column: Column) -> dict[str, Any]:
    rarely = {
        **({"id": column.id} if column.id else {}),
        **({} if column.first_name is None else {"first_name": column.first_name}),
        **({} if column.default is None else {"default": column.default}),
    }
    return {"name": column.name, "type": column.type, "nullable": column.nullable, **rarely}
