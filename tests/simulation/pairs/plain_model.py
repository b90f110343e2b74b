"""A plain model of any kind of table: rows in a dictionary by their ids, columns in a list.

An effect moves it when the event that has it is in the log, whatever landed before that. The log
is asked for one fact only: which version an overwrite looked at.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, TypeAlias

from airflow_provider_segtable.core.log.events import Event
from airflow_provider_segtable.core.time import DAY_US

FIRST_US = 1_356_998_400_000_000
"""The first of the table's two days."""
AT, ID = 1, 2
"""Columns by their ids: the time and the key."""
Values: TypeAlias = Mapping[int, Any]


def time_of(number: int) -> int:
    """Return the event time of a row, which its id decides: odd ones are of the second day."""
    return FIRST_US + number % 2 * DAY_US + number * 1_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column: its id, name, and the value that rows without it have."""

    id: int
    name: str
    default: Any = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plain:
    """What a version shows.

    Attributes:
        rows: values by the ids of columns, by row.
        loaded: the event that brought back a row, or loaded it by an overwrite.
        schemas: all columns that there were, by the number of the schema; the last are the present.
        keyed: whether it is a primary-key table.
        partial_update: whether a null of a record sets nothing.
    """

    schemas: tuple[tuple[Column, ...], ...]
    rows: Mapping[int, Values] = field(default_factory=dict)
    loaded: Mapping[int, int] = field(default_factory=dict)
    keyed: bool = False
    partial_update: bool = False

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the present columns."""
        return self.schemas[-1]

    def shown(self, names: tuple[str, ...]) -> Counter[tuple[Any, ...]]:
        """Return the rows in these columns."""
        columns = {column.name: column for column in self.columns}
        chosen = [columns[name] for name in names]
        return Counter(
            tuple(_value(number, values, column) for column in chosen)
            for number, values in self.rows.items()
        )

    def with_rows(self, new: Mapping[int, Values], n: int = 0) -> "Plain":
        """Return it with rows that replace those of the same ids."""
        loaded = {**self.loaded, **dict.fromkeys(new, n)} if n else self.loaded
        return replace(self, rows={**self.rows, **new}, loaded=loaded)

    def without(self, gone: Callable[[int], bool]) -> "Plain":
        """Return it without some rows."""
        return replace(self, rows={k: v for k, v in self.rows.items() if not gone(k)})


def _value(number: int, values: Values, column: Column) -> Any:
    if column.id in (AT, ID):
        return values.get(AT, time_of(number)) if column.id == AT else number
    return values.get(column.id, column.default)


class History(dict[int, Plain]):
    """The model after each event; ``begun`` is the version that a held action began with."""

    begun: int = 0


Effect: TypeAlias = Callable[[History, Event, int], Plain]
"""The model after an event of an author, by its number."""
