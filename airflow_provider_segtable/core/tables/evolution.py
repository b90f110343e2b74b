"""Schema evolution: a schema and changes of its columns give the next schema, or a refusal.

1. Changes apply in order. Each names its column; a refusal names it, too, and says the way out.
2. *Add*: a nullable column with a new id. Rows written before have its default, null if none.
3. *Rename*, *reorder* and *make nullable* change no value. *Widen* takes a type to one that holds
   all its values: integers and floating numbers to more bits, decimals to more digits.
4. *Drop*: the id is never given again, so a column of the same name may be added: it is another.
5. The time column stays: segments, chunks and jobs go by its name and type.
6. A kind of table may refuse changes: a rollup table refuses all (``rollup_kind``), a primary-key
   table changes of columns that decide which record wins (``keyed_kind``).

Source of the idea: schema evolution in Iceberg; its names where they fit.
"""

import re
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import TypeAlias, assert_never

from airflow_provider_segtable.core.column_types import type_named
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput, InvalidName, SchemaMismatch
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.schema import Column, Schema, check_name, no_column


@dataclass(frozen=True, slots=True, kw_only=True)
class AddColumn:
    """Add a nullable column at the end.

    Attributes:
        name: its name.
        type: its type, in Arrow's way (``decimal128(10, 2)``) or SQL's (``decimal(10,2)``).
        default: its value in rows that were written before; None for null.
        group: the ordering column of the column group that it joins (primary-key tables); empty
            for none.
    """

    name: str
    type: str
    default: str | None = None
    group: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class DropColumn:
    """Drop a column; files keep its values until a compaction writes them in a later schema."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RenameColumn:
    """Rename a column."""

    name: str
    new: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WidenColumn:
    """Give a column a type that holds all values of its present one."""

    name: str
    type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class MakeNullable:
    """Allow nulls in a column."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Reorder:
    """Put these columns first, in this order; the others follow as they are."""

    names: tuple[str, ...]


ColumnChange: TypeAlias = (
    AddColumn | DropColumn | RenameColumn | WidenColumn | MakeNullable | Reorder
)

_DECIMAL = re.compile(r"decimal128\((\d+), (-?\d+)\)")


def evolved(
    schema: Schema, earlier: Sequence[Schema], changes: Iterable[ColumnChange], time_column: str
) -> Schema:
    """Return the schema after changes; its number is the next one.

    Args:
        schema: the present schema.
        earlier: all schemas before; their ids are not given again.
        changes: the changes, in order.
        time_column: the event time.

    Raises:
        SchemaMismatch: a column does not exist, or cannot be changed so.
        InvalidName: a new name is taken, empty or reserved.
        InvalidInput: the change would touch the time column.
    """
    following = 1 + max(column.id for each in (*earlier, schema) for column in each.numbered)
    for change in changes:
        if isinstance(change, AddColumn):
            schema = _added(schema, change, following)
            following += 1
        else:
            schema = _changed(schema, change, time_column)
    return replace(schema, number=len(earlier) + 1)


def _added(schema: Schema, change: AddColumn, number: int) -> Schema:
    _check_name(schema, change.name)
    column = Column(
        name=change.name, type=change.type, id=number, first_name="", default=change.default
    )
    return replace(schema, columns=(*schema.numbered, column))


def _changed(
    schema: Schema,
    change: DropColumn | RenameColumn | WidenColumn | MakeNullable | Reorder,
    time_column: str,
) -> Schema:
    match change:
        case Reorder(names=names):
            return _reordered(schema, names)
        case DropColumn(name=name):
            column = _free(schema, name, time_column, "dropped")
            return replace(schema, columns=tuple(c for c in schema.numbered if c != column))
        case RenameColumn(name=name, new=new):
            column = _free(schema, name, time_column, "renamed")
            others = tuple(c for c in schema.numbered if c != column)
            _check_name(replace(schema, columns=others), new)
            return _with(schema, column, replace(column, name=new, first_name=column.old_name))
        case WidenColumn(name=name, type=kind):
            column = _free(schema, name, time_column, "changed in type")
            if not widens(column.type, kind):
                raise SchemaMismatch(
                    f"column {name!r} cannot become {kind}: a value of {column.type} might not "
                    f"fit; possible are {_wider(column.type)}. Add a column and update it instead"
                )
            return _with(schema, column, replace(column, type=kind))
        case MakeNullable(name=name):
            column = _free(schema, name, time_column, "made nullable")
            return _with(schema, column, replace(column, nullable=True))
        case _:
            assert_never(change)


def as_it_was(then: Schema, earlier: Sequence[Schema], now: Schema) -> Schema:
    """Return the schema that has the columns of an earlier one again; its number is the next one.

    Rows that were written since then, or that are being written, must still fit: a column that was
    widened or made nullable stays so, and one that was dropped since may be null.

    Args:
        then: the earlier schema.
        earlier: all schemas before the present one.
        now: the present schema.
    """
    latest = {column.id: column for each in (*earlier, now) for column in each.numbered}
    present = {column.id for column in now.numbered}
    columns = (
        replace(
            column,
            type=latest[column.id].type,
            nullable=column.nullable or latest[column.id].nullable or column.id not in present,
        )
        for column in then.numbered
    )
    return Schema(tuple(columns), number=len(earlier) + 1)


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnsDiffer:
    """The differences between the columns of two schemas: names, by the columns' ids."""

    back: tuple[str, ...] = ()
    gone: tuple[str, ...] = ()
    renamed: tuple[tuple[str, str], ...] = ()
    moved: bool = False

    def facts(self) -> Facts:
        """Return the differences as plain JSON values."""
        return {
            "back": list(self.back),
            "gone": list(self.gone),
            "renamed": dict(self.renamed),
            "moved": self.moved,
        }

    def __bool__(self) -> bool:
        """Return whether they differ."""
        return bool(self.back or self.gone or self.renamed or self.moved)

    def __str__(self) -> str:
        """Return e.g. ``columns back: note; gone: stops; renamed: dest to destination``."""
        pairs = (f"{old} to {new}" for old, new in self.renamed)
        parts = {
            "back": ", ".join(self.back),
            "gone": ", ".join(self.gone),
            "renamed": ", ".join(pairs),
            "order": "as it was" if self.moved else "",
        }
        return "columns " + "; ".join(f"{name}: {names}" for name, names in parts.items() if names)


def difference(now: Schema, then: Schema) -> ColumnsDiffer:
    """Return how the columns change from ``now`` to ``then``."""
    present = {column.id: column.name for column in now.numbered}
    wanted = {column.id: column.name for column in then.numbered}
    kept = [number for number in wanted if number in present]
    return ColumnsDiffer(
        back=tuple(name for number, name in wanted.items() if number not in present),
        gone=tuple(name for number, name in present.items() if number not in wanted),
        renamed=tuple((present[n], wanted[n]) for n in kept if present[n] != wanted[n]),
        moved=kept != [number for number in present if number in wanted],
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnHistory:
    """A column of any time, as it was last.

    ``dropped`` says that it is no more. ``changes`` are sentences, each with the number of the
    schema that it led to.
    """

    column: Column
    dropped: bool = False
    changes: tuple[tuple[int, str], ...] = ()


def column_histories(schemas: Sequence[Schema]) -> tuple[ColumnHistory, ...]:
    """Return the columns of all schemas, by number: present ones in their order, then others."""
    found: dict[int, ColumnHistory] = {}
    for number, schema in enumerate(schemas):
        now = {column.id: column for column in schema.numbered}
        for id_, known in found.items():
            if id_ not in now and not known.dropped:
                changes = (*known.changes, (number, "dropped"))
                found[id_] = replace(known, dropped=True, changes=changes)
        for id_, column in now.items():
            before = found.get(id_)
            done = _differences(before.column, column) if before else _beginning(column, number)
            changes = (*(before.changes if before else ()), *((number, each) for each in done))
            found[id_] = ColumnHistory(column=column, changes=changes)
    order = [column.id for column in schemas[-1].numbered] if schemas else []
    return (*(found.pop(id_) for id_ in order), *found.values())


def _beginning(column: Column, number: int) -> list[str]:
    default = "" if column.default is None else f", {column.default} in rows of before"
    return [f"added as {column}{default}"] if number else []


def _differences(old: Column, new: Column) -> list[str]:
    done = [f"renamed from {old.name}"] if old.name != new.name else []
    done += [f"widened from {old.type}"] if old.type != new.type else []
    return done + (["made nullable"] if new.nullable and not old.nullable else [])


def widens(old: str, new: str) -> bool:
    """Return whether a type holds all values of another one."""
    before, after = _DECIMAL.fullmatch(old), _DECIMAL.fullmatch(new)
    if before and after:
        return before[2] == after[2] and int(before[1]) <= int(after[1])
    return old == new or new in _wider_than(old)


def _wider_than(kind: str) -> tuple[str, ...]:
    found = type_named(kind)
    return found.wider if found else ()


def _wider(kind: str) -> str:
    if wider := _wider_than(kind):
        return ", ".join(wider)
    decimal = _DECIMAL.fullmatch(kind)
    return f"decimal128(more than {decimal[1]}, {decimal[2]})" if decimal else "no other types"


def _with(schema: Schema, old: Column, new: Column) -> Schema:
    return replace(schema, columns=tuple(new if c == old else c for c in schema.numbered))


def _free(schema: Schema, name: str, time_column: str, done: str) -> Column:
    """Return a column that may be changed."""
    column = next((column for column in schema.numbered if column.name == name), None)
    if column is None:
        raise no_column(name, schema.names)
    if name == time_column:
        raise InvalidInput(
            f"column {name!r} is the event time, by which the table is divided, so it cannot be "
            f"{done}: create another table and append the rows to it"
        )
    return column


def _check_name(schema: Schema, name: str) -> None:
    check_name(name)
    taken = {each.lower(): each for each in schema.names}
    if name.lower() in taken:
        raise InvalidName(
            f"there is a column {taken[name.lower()]!r}: choose another name than {name!r}, or "
            "drop or rename that column first"
        )


def _reordered(schema: Schema, names: tuple[str, ...]) -> Schema:
    for name in names:
        if schema.find(name) is None:
            raise no_column(name, schema.names)
        if names.count(name) > 1:
            raise InvalidInput(f"column {name!r} occurs {names.count(name)} times in the order")
    first = [column for name in names for column in schema.numbered if column.name == name]
    return replace(schema, columns=(*first, *(c for c in schema.numbered if c.name not in names)))
