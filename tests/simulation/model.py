"""A plain model of an append table: rows in a dictionary, columns in a list, no files.

1. A row has its event time and its values by the ids of columns. A value that it lacks is the
   column's default: files are never rewritten, and the model knows no files.
2. Each intention is what one commit is to do. ``done`` moves the model when the commit is in the
   log, whatever landed between the intention and the commit.
3. The log is asked for three facts only: with which schema new rows were written, which time an
   overwrite replaced, and which version it looked at. They are checked against the intention.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Protocol, Self, TypeAlias

from airflow_provider_segtable.core.log.events import Action
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.families.change_events import RowsChanged
from airflow_provider_segtable.core.log.families.restore_events import VersionRestored
from airflow_provider_segtable.core.log.families.table_events import TableAltered
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.tables.evolution import (
    AddColumn,
    ColumnChange,
    DropColumn,
    MakeNullable,
    Reorder,
    WidenColumn,
)
from airflow_provider_segtable.core.time import DAY_US, Interval

COUNT = 3
"""The id of the column that counts a row's changes; those of the event time and number are less."""
Known: TypeAlias = tuple[str, int]
"""A column as a writer knew it: its name and id."""
NAMES = ("a", "b", "c")
"""The names of columns that come and go: few, so that they are used again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column as a reader knows it."""

    id: int
    name: str
    type: str
    nullable: bool = True
    default: str | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """A row: its event time, its values by the ids of columns, and the load that brought it.

    ``loaded`` is the event of the overwrite or restore, 0 if it was appended.
    """

    at: int
    values: Mapping[int, int | None]
    loaded: int = 0

    @property
    def count(self) -> int:
        """Return how often the row was changed."""
        return self.values[COUNT] or 0

    def counted(self, count: int) -> "Row":
        """Return the row with this count."""
        return replace(self, values={**self.values, COUNT: count})


@dataclass(frozen=True, slots=True, kw_only=True)
class Model:
    """What a version shows: its rows by their numbers, its columns and properties."""

    rows: Mapping[int, Row] = field(default_factory=dict)
    schemas: tuple[tuple[Column, ...], ...] = ()
    properties: Mapping[str, str] = field(default_factory=dict)

    @staticmethod
    def of(table: TableDefinition) -> "Model":
        """Return the model of a new table."""
        return Model(schemas=(columns_of(table),), properties=dict(table.properties))

    @property
    def columns(self) -> tuple[Column, ...]:
        """Return the present columns."""
        return self.schemas[-1]

    def restored(self, then: Self, n: int) -> Self:
        """Return the model after event ``n``, which brought back the rows of an earlier version."""
        rows = {
            number: row if self.rows.get(number) == row else replace(row, loaded=n)
            for number, row in then.rows.items()
        }
        return replace(self, rows=rows)

    def shown(self, names: Sequence[str]) -> list[tuple[int | None, ...]]:
        """Return the rows as a reader of these columns sees them."""
        columns = {column.name: column for column in self.columns}
        chosen = [columns[name] for name in names]
        return [
            tuple(_value(number, row, column) for column in chosen)
            for number, row in self.rows.items()
        ]

    @property
    def settled(self) -> bool:
        """Return whether the table shows these rows now."""
        return True

    def lost_facts(self, facts: Sequence[Mapping[str, object]]) -> Iterator[str]:
        """Yield rows without a fact in an index of records; append tables have no such index."""
        del facts
        yield from ()


def columns_of(table: TableDefinition) -> tuple[Column, ...]:
    """Return the columns of a definition."""
    return tuple(
        Column(id=c.id, name=c.name, type=c.type, nullable=c.nullable, default=c.default)
        for c in table.schema.numbered
    )


def given_value(number: int, name: str) -> int:
    """Return the value that writers give a row in a column of this name."""
    return number * len(NAMES) + NAMES.index(name)


def _value(number: int, row: Row, column: Column) -> int | None:
    if column.id < COUNT:
        return row.at if column.name == "at" else number
    default = None if column.default is None else int(column.default)
    return row.values.get(column.id, default)


@dataclass(frozen=True, slots=True, kw_only=True)
class Landing:
    """A commit in the log: its event and action, earlier models by version, and what was given.

    ``given`` has the columns (name and id) that each attempt of the commit gave, in order.
    """

    n: int
    action: Action
    before: Callable[[int], Model]
    given: Sequence[frozenset[Known]] = ()

    def written(self, model: Model) -> tuple[Column, ...]:
        """Return the columns of the files that the commit wrote."""
        assert isinstance(self.action, Appended | RowsChanged)
        numbers = {segment.schema for segment in self.action.segments}
        assert len(numbers) == 1, f"one commit wrote files of schemas {sorted(numbers)}"
        return model.schemas[numbers.pop()]

    def new_rows(
        self, model: Model, numbers: Sequence[int], times: Sequence[int]
    ) -> dict[int, Row]:
        """Return new rows with the values that their author gave."""
        values = self.values_given(model)
        return {
            number: Row(at, {COUNT: 0, **{i: given_value(number, n) for i, n in values.items()}})
            for number, at in zip(numbers, times, strict=True)
        }

    def values_given(self, model: Model) -> dict[int, str]:
        """Return the columns, besides the first ones, that the author gave: names by their ids."""
        ids = {column.name: column.id for column in self.written(model)}
        return {ids[name]: name for name in sorted(self._names(ids))}

    def found(self, model: Model, numbers: Sequence[int]) -> frozenset[int]:
        """Return which of these rows a change found in its snapshot, and that are there now.

        It may miss rows that a restore brought back after the version that it looked at, as it
        may miss rows that are appended after it, and no other rows.
        """
        assert isinstance(self.action, RowsChanged)
        here = model.rows.keys() & numbers
        for n in range(self.action.seen, -1, -1):
            try:
                there = self.before(n).rows.keys() & numbers
            except KeyError:  # an event before those that are checked
                break
            missed = here - there
            if len(there) == self.action.matched and all(
                model.rows[number].loaded > n for number in missed
            ):
                return frozenset(here & there)
        return frozenset(here)

    def _names(self, ids: Mapping[str, int]) -> frozenset[str]:
        """Return the names that were given by the attempt that wrote files with these columns.

        Names come back as other columns, so an attempt that knew all of its columns by their ids
        is more likely than one for which they changed between its look and its append.
        """
        exact = [some for some in self.given if some <= {*ids.items()}]
        named = [some for some in self.given if {name for name, _ in some} <= {*ids}]
        assert named, f"files have {sorted(ids)}, but given were {self.given}"
        return frozenset(name for name, _ in (exact or named)[0])


@dataclass(frozen=True, slots=True, kw_only=True)
class Append:
    """New rows with these numbers and event times."""

    kind: ClassVar = "append"
    rows: tuple[int, ...]
    times: tuple[int, ...]

    def done(self, model: Model, landing: Landing) -> Model:
        """Return the model after it."""
        new = landing.new_rows(model, self.rows, self.times)
        return replace(model, rows={**model.rows, **new})


@dataclass(frozen=True, slots=True, kw_only=True)
class Delete:
    """The rows of these numbers go."""

    kind: ClassVar = "delete"
    rows: tuple[int, ...]

    def done(self, model: Model, landing: Landing) -> Model:
        """Return the model after it."""
        found = landing.found(model, self.rows)
        left = {number: row for number, row in model.rows.items() if number not in found}
        return replace(model, rows=left)


@dataclass(frozen=True, slots=True, kw_only=True)
class Update:
    """The rows of these numbers count one more change."""

    kind: ClassVar = "update"
    rows: tuple[int, ...]

    def done(self, model: Model, landing: Landing) -> Model:
        """Return the model after it."""
        found = {number: model.rows[number] for number in landing.found(model, self.rows)}
        counted = {number: row.counted(row.count + 1) for number, row in found.items()}
        return replace(model, rows={**model.rows, **counted})


@dataclass(frozen=True, slots=True, kw_only=True)
class Merge:
    """The rows of these numbers get a count; those that are not there come, with defaults."""

    kind: ClassVar = "merge"
    rows: tuple[int, ...]
    times: tuple[int, ...]
    count: int

    def done(self, model: Model, landing: Landing) -> Model:
        """Return the model after it."""
        columns = (column for column in landing.written(model) if column.id > COUNT)
        defaults = {c.id: None if c.default is None else int(c.default) for c in columns}
        new = {n: Row(at, defaults) for n, at in zip(self.rows, self.times, strict=True)}
        rows = {**new, **{n: row for n, row in model.rows.items() if n in new}}
        merged = {number: row.counted(self.count) for number, row in rows.items()}
        return replace(model, rows={**model.rows, **merged})


@dataclass(frozen=True, slots=True, kw_only=True)
class Overwrite:
    """New rows replace those of an interval, or of the chunks that the new ones touch.

    ``begun`` is a version that its author must have read, or a later one.
    """

    kind: ClassVar = "overwrite"
    rows: tuple[int, ...]
    times: tuple[int, ...]
    interval: Interval | None
    begun: int

    def done(self, model: Model, landing: Landing) -> Model:
        """Return the model after it: rows that were appended after its snapshot stay."""
        action = landing.action
        assert isinstance(action, RowsChanged)
        replaced = action.overwritten
        if self.interval:
            assert replaced == (self.interval,), f"{replaced} were overwritten, not {self.interval}"
        for each in replaced:
            assert any(_within(at, each) for at in self.times), f"no new row is in {each}"
            assert each.end - each.start <= DAY_US, f"{each} is more than a chunk"
        at = self._looked_at(model, action, landing)
        seen = landing.before(at).rows
        gone = {
            number
            for number, row in _of(model, replaced).items()
            if number in seen or row.loaded > at
        }
        left = {number: row for number, row in model.rows.items() if number not in gone}
        new = landing.new_rows(model, self.rows, self.times)
        loaded = {number: replace(row, loaded=landing.n) for number, row in new.items()}
        return replace(model, rows={**left, **loaded})

    def _looked_at(self, model: Model, action: RowsChanged, landing: Landing) -> int:
        """Return the version that it looked at, by the numbers of rows that it found there.

        After a delete of some of these rows it does not look again, but it has read that event.
        """
        for n in range(action.seen, self.begun - 1, -1):
            found = _of(landing.before(n), action.overwritten)
            still = found.keys() & model.rows.keys()
            if (action.matched, action.deleted) == (len(found), len(still)):
                return n
        raise AssertionError(
            f"it says that it found {action.matched} rows and deleted {action.deleted}: no version "
            f"from {self.begun} to {action.seen} had these"
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Restore:
    """The rows of a version come back, in the present columns."""

    kind: ClassVar = "restore"
    version: int
    tag: str | None = None

    def done(self, model: Model, landing: Landing) -> Model:
        """Return the model after it."""
        action = landing.action
        assert isinstance(action, VersionRestored)
        assert action.version == self.version, f"{action.version} came back, not {self.version}"
        return model.restored(landing.before(self.version), landing.n)


@dataclass(frozen=True, slots=True, kw_only=True)
class Alter:
    """Columns and properties change."""

    kind: ClassVar = "alter"
    columns: tuple[ColumnChange, ...] = ()
    set: Mapping[str, str] = field(default_factory=dict)
    unset: tuple[str, ...] = ()

    def done(self, model: Model, landing: Landing) -> Model:
        """Return the model after it."""
        assert isinstance(landing.action, TableAltered)
        following = 1 + max(column.id for columns in model.schemas for column in columns)
        columns = model.columns
        for change in self.columns:
            columns = _altered(columns, change, following)
            following += isinstance(change, AddColumn)
        kept = {key: v for key, v in model.properties.items() if key not in self.unset}
        schemas = (*model.schemas, columns) if columns != model.columns else model.schemas
        return replace(model, schemas=schemas, properties={**kept, **self.set})


class Intention(Protocol):
    """What one commit is to do."""

    @property
    def kind(self) -> str:
        """Return a word for it."""

    def done(self, model: Model, landing: Landing, /) -> Model:
        """Return the model after it.

        Raises:
            AssertionError: the log says that something else was done.
        """


def _of(model: Model, intervals: Sequence[Interval]) -> dict[int, Row]:
    """Return the rows of these intervals."""
    return {n: row for n, row in model.rows.items() if any(_within(row.at, i) for i in intervals)}


def _within(at: int, interval: Interval) -> bool:
    return interval.start <= at < interval.end


def _altered(columns: tuple[Column, ...], change: ColumnChange, new: int) -> tuple[Column, ...]:
    """Return columns after a change; ``new`` is an id that no column ever had."""
    match change:
        case AddColumn(name=name, type=kind, default=default):
            return (*columns, Column(id=new, name=name, type=kind, default=default))
        case DropColumn(name=name):
            return tuple(column for column in columns if column.name != name)
        case Reorder(names=names):
            return tuple(
                sorted(columns, key=lambda c: names.index(c.name) if c.name in names else 99)
            )
        case WidenColumn(name=name, type=kind):
            changed = {"type": kind}
        case MakeNullable(name=name):
            changed = {"nullable": True}
        case _:
            name, changed = change.name, {"name": change.new}
    return tuple(replace(c, **changed) if c.name == name else c for c in columns)
