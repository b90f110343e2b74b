"""Decide which files of a folder a table adopts as they are, and which must be copied.

A pure function of what footers say (``data.adoption.file_facts``). A file is adopted if readers get
exactly its rows from it, by the rules that hold for every file of schema 0 without field ids:

1. The table keeps rows as they are (an append table), and those of the file lie in one time chunk.
2. The file has each column under the name and with the type that the table was created with. A
   column that was renamed or added since has another name, or none, in files without ids.
3. A nullable column may be missing, and is null then. A column that the table lacks is refused,
   unless it is to be ignored.
4. A column must be in the file: one that is only in the names of folders (``day=2026-01-05/``) is
   refused, unless it is to be ignored.
5. Readers look for columns by field ids first. So a file has none, or exactly the table's, within
   columns, too.
6. The path is one that metadata may name (``core.paths``), and no file of that name was adopted
   before (``table.adopted_files``).

What breaks rules 1, 2, 5 or 6 can be copied: its rows can be appended. What breaks the others, or
cannot be read, is refused, and the reason has the way out.
"""

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from enum import StrEnum
from typing import Any

import pyarrow as pa

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import TimeOutOfRange
from airflow_provider_segtable.core.paths import is_adopted
from airflow_provider_segtable.core.schema import HIDDEN, Column
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.time import ALL_TIME, Interval, Layout, iso
from airflow_provider_segtable.data.adoption.file_facts import FileFacts, TimeBounds
from airflow_provider_segtable.data.arrow_schema import inner_fields, parse_type, storable_type
from airflow_provider_segtable.data.parquet.table_file import id_of, identified

__all__ = ["Action", "Decision", "decide", "folder_columns", "once", "readable_as"]


class Action(StrEnum):
    """What becomes of a file."""

    ADOPT = "adopt"
    COPY = "copy"
    REFUSE = "refuse"
    SKIP = "skip"


@dataclass(frozen=True, slots=True, kw_only=True)
class Decision:
    """What becomes of one file, and why; ``chunk`` and ``bounds`` are those of its rows."""

    facts: FileFacts
    action: Action
    reason: str = ""
    chunk: Interval | None = None
    bounds: TimeBounds | None = None


def decide(
    facts: FileFacts,
    table: TableDefinition,
    layout: Layout,
    *,
    ignored: Collection[str] = (),
) -> Decision:
    """Return what becomes of a file that is new to the table.

    Args:
        facts: what its footer says.
        table: the table's present definition.
        layout: its time chunks.
        ignored: columns of files, and of folder names, to leave out.
    """
    for reason in _unreadable(facts, table, ignored):
        return Decision(facts=facts, action=Action.REFUSE, reason=reason)
    if not facts.rows:
        return Decision(facts=facts, action=Action.SKIP, reason="it has no rows")
    bounds = facts.times.get(table.time_column)
    chunk = _chunk(bounds, layout)
    for reason in _unfit(facts, table, chunk):
        return Decision(facts=facts, action=Action.COPY, reason=reason, bounds=bounds, chunk=chunk)
    return Decision(facts=facts, action=Action.ADOPT, bounds=bounds, chunk=chunk)


def once(decision: Decision, *, known: Collection[str], recorded: Collection[str]) -> Decision:
    """Return the decision about a file that may not be new to the table.

    Args:
        decision: what becomes of a new one.
        known: the paths of files that the table has already.
        recorded: the paths of files that it had, or was about to have.
    """
    path = decision.facts.path
    if path in known:
        return replace(decision, action=Action.SKIP, reason="the table has it already")
    if path in recorded and decision.action is Action.ADOPT:
        reason = "a file of this name was adopted before: give it another name"
        return replace(decision, action=Action.COPY, reason=reason)
    return decision


def folder_columns(path: str) -> list[str]:
    """Return the names of columns that a path's folders give values to (``day=2026-01-05/``)."""
    return [part.partition("=")[0] for part in path.split("/")[:-1] if part.find("=") > 0]


def readable_as(found: pa.DataType, wanted: pa.DataType) -> bool:
    """Return whether readers get the same values from a column of one type as from the other."""
    return bool(_short(storable_type(found)).equals(_short(storable_type(wanted))))


def _short(kind: pa.DataType) -> pa.DataType:
    """Return the type with short offsets: how long they are is no matter of a file."""
    if pa.types.is_large_string(kind):
        return pa.string()
    return pa.binary() if pa.types.is_large_binary(kind) else kind


# What cannot be read, or would be read in part
def _unreadable(
    facts: FileFacts, table: TableDefinition, ignored: Collection[str]
) -> Iterator[str]:
    if facts.problem:
        yield f"{facts.problem}: leave it out of the folder, or write it again"
        return
    if facts.descriptor:
        yield "segtable wrote it as a file of a table: move it away, or repair that table"
    names = facts.columns.names
    counts, known = Counter(names), {*table.schema.names}
    for name in names:
        if counts[name] > 1:
            yield f"it has {counts[name]} columns called {name!r}: write it again"
        if name.startswith(HIDDEN):
            yield f"its column {name!r} has a reserved name: rename it"
        if name not in known and name not in ignored:
            yield (
                f"the table has no column {name!r}: add it (segtable table alter), or leave it "
                f"out by --ignore-columns {name}"
            )
    for name in folder_columns(facts.path):
        if name not in names and name not in ignored:
            yield (
                f"column {name!r} is only in the names of folders: write it into the file, or "
                f"leave it out by --ignore-columns {name}"
            )
    yield from _lacking(facts, table)


def _lacking(facts: FileFacts, table: TableDefinition) -> Iterator[str]:
    there = {*facts.columns.names}
    if table.time_column not in there:
        yield f"it has no column {table.time_column!r}, the event time"
        return
    bounds = facts.times.get(table.time_column)
    if facts.rows and bounds is not None and bounds.nulls:
        yield f"its event time {table.time_column!r} has nulls: drop these rows"
    if bounds is not None and not (ALL_TIME.holds(bounds.first) and ALL_TIME.holds(bounds.last)):
        yield (
            f"its event time {table.time_column!r} is not within {ALL_TIME}: drop such rows, or "
            "check the unit"
        )
    for column in table.schema.numbered:
        added = column.old_name == ""
        if column.name not in there and not (column.nullable or added):
            yield f"it has no column {column.name!r}, which is not null in the table"
        elif not column.nullable and facts.nulls.get(column.name, 0):
            yield f"its column {column.name!r} has nulls, and is not null in the table"


# What can be read, but not as it is
def _unfit(facts: FileFacts, table: TableDefinition, chunk: Interval | None) -> Iterator[str]:
    hidden = [column.name for column in table.kind.hidden]
    if hidden:
        yield f"files of this table have further columns, such as {hidden[0]}"
    if not is_adopted(facts.path):
        yield "its path has other characters than A-Z a-z 0-9 . _ + = -, or is too long"
    first = {column.name: column for column in table.schema_of(0).columns}
    there = {*facts.columns.names}
    for column in table.schema.numbered:
        if column.name in there:
            yield from _differing(facts, column, first.get(column.old_name))
        elif column.old_name in there:
            yield f"column {column.old_name!r} was renamed to {column.name!r} in the table"
    yield from _of_dropped(facts, table)
    yield from _identified(facts, table)
    bounds = facts.times.get(table.time_column)
    if bounds is None:
        yield f"its column {table.time_column!r} is not a time"
    elif chunk is None:
        yield f"its rows are of {iso(bounds.first)} to {iso(bounds.last)}, in several time chunks"


def _differing(facts: FileFacts, column: Column, first: Column | None) -> Iterator[str]:
    found = facts.columns.field(column.name)
    if column.old_name != column.name or first is None:
        yield f"column {column.name!r} was added or renamed after the table was created"
    elif column.name in facts.unlike:
        yield f"column {column.name!r} {facts.unlike[column.name]}"
    elif _extended(found.type) or not readable_as(found.type, parse_type(first.type)):
        yield f"column {column.name!r} is {found.type}, the table has {first.type}"
    elif not first.nullable and facts.nulls.get(column.name) != 0:
        yield f"column {column.name!r} may have nulls, which the table was created without"


def _of_dropped(facts: FileFacts, table: TableDefinition) -> Iterator[str]:
    """Yield the columns of the creation that a compaction could not write again."""
    present = {column.old_name for column in table.schema.numbered}
    stored = {*facts.columns.names}
    for column in table.schema_of(0).columns:
        there = column.name in stored
        if column.name in present:
            if not (there or column.nullable):
                yield f"it has no column {column.name!r}, which the table was created with"
        elif there or not column.nullable:
            yield f"column {column.name!r} was dropped from the table"


def _extended(kind: pa.DataType) -> bool:
    """Return whether readers of Parquet take a type for different ones."""
    odd = isinstance(kind, pa.BaseExtensionType) or pa.types.is_null(kind)
    return odd or any(_extended(each.type) for each in inner_fields(kind))


def _identified(facts: FileFacts, table: TableDefinition) -> Iterator[str]:
    """Yield the columns whose field ids are not the table's, if the file has any."""
    given = {each.name: each for each in facts.columns}
    if not any(map(_has_ids, given.values())):
        return
    columns = {column.name: column for column in table.schema.numbered}
    for name, field in given.items():
        if name not in columns:
            yield f"column {name!r} is to be ignored, and has field id {id_of(field)}"
        elif _ids(field) != _ids(identified(field, columns[name].id)):
            yield f"column {name!r} has field id {id_of(field)}, the table {columns[name].id}"


def _has_ids(field: "pa.Field[Any]") -> bool:
    return id_of(field) is not None or any(map(_has_ids, inner_fields(field.type)))


def _ids(field: "pa.Field[Any]") -> Sequence[Any]:
    return [id_of(field), *(_ids(each) for each in inner_fields(field.type))]


def _chunk(bounds: TimeBounds | None, layout: Layout) -> Interval | None:
    if bounds is None:
        return None
    try:
        return layout.holds(bounds.first, bounds.last)
    except TimeOutOfRange:
        return None
