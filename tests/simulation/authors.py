"""Actors of the standing disaster that write: appenders, and changers of what is there.

1. Each has a durable queue: it repeats what it began, under the same commit id, until it is told
   that it landed (or, of a change, that there is nothing to do).
2. A changer deletes, updates or merges rows that it names by their numbers, chosen among those that
   some version showed. An update counts a row's changes, so that none is lost or done twice. A
   merge brings a row of its own, too; the rows that it names are never deleted, so that whether
   they match does not depend on who comes first.
3. Overwriters load the same hour again and again, each with rows of its own, which changers change.
4. The ledger is told beforehand what each commit is to do, and works it out again by itself.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.requests.change_request import ChangeKind
from airflow_provider_segtable.core.tables.evolution import (
    AddColumn,
    ColumnChange,
    DropColumn,
    RenameColumn,
    WidenColumn,
)
from airflow_provider_segtable.core.time.interval import Interval
from airflow_provider_segtable.table.table import Table
from tests.simulation.ledger import OVERWRITTEN, Intention
from tests.simulation.world import change_id, commit_id, overwrite_id

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from airflow_provider_segtable.table.context import TableContext
    from tests.simulation.simulator import Actor
    from tests.simulation.world import Shape, World

SCHEMA = pa.schema([("at", pa.timestamp("us", "UTC")), ("row", pa.int64()), ("count", pa.int64())])
HOUR_US = 3_600_000_000
MOST_ROWS = 4
LASTING = 3
"""Rows whose number this divides are never deleted."""
OF_CHANGERS = 1_000_000
"""Row numbers from here on are of merges."""
_KINDS = (ChangeKind.DELETE, ChangeKind.UPDATE, ChangeKind.UPDATE, ChangeKind.MERGE)


def appender(world: World, number: int) -> Callable[[Actor], None]:
    """A client that appends."""

    def run(actor: Actor) -> None:
        ports = world.ports(actor)
        for turn in range(world.shape.appends_each):
            rows = batch(world.shape, number, turn)
            name = commit_id(number, turn)
            given = tuple(rows.column("row").to_pylist())
            world.ledger.intend(name, Intention(kind="append", rows=given))
            append = _append_all if world.shape.alterers else _append
            _until_done(world, actor, name, partial(append, ports, rows, name))

    return run


def batch(shape: Shape, appender_number: int, turn: int) -> pa.Table:
    """Return rows with unique numbers, spread over the chunks."""
    base = (appender_number * 1000 + turn) * 10
    return numbered(shape, [base + i for i in range(shape.chunks * 2)])


def numbered(shape: Shape, numbers: Iterable[int], count: int = 0) -> pa.Table:
    """Return rows with these numbers, which also say when they are."""
    given = list(numbers)
    times = [(number % shape.chunks) * HOUR_US + number for number in given]
    at = pa.array(times, SCHEMA.field("at").type)
    return pa.table([at, given, [count] * len(given)], SCHEMA)


def _append(ports: TableContext, rows: pa.Table, name: str) -> bool:
    Table(ports).append(rows, commit_id=name)
    return True


def _append_all(ports: TableContext, rows: pa.Table, name: str) -> bool:
    """Append rows with a null in every column that was added to the table."""
    for field in Table(ports).snapshot().schema:
        if field.name not in rows.column_names:
            rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
    Table(ports).append(rows, commit_id=name)
    return True


def alterer(world: World) -> Callable[[Actor], None]:
    """Somebody who adds, renames, widens and drops columns; a column's default is its id."""

    def run(actor: Actor) -> None:
        ports, turn = world.ports(actor), 0
        while turn < world.shape.alterations_each:
            actor.sleep(actor.uniform())
            try:
                _alter(ports, f"{actor.name}-{turn}", actor.uniform())
            except SegtableError as error:
                actor.point(f"alteration failed: {type(error).__name__}")
            else:
                turn += 1

    return run


def _alter(ports: TableContext, name: str, luck: float) -> None:
    table = Table(ports)
    definition = table.state().table
    mine = [column for column in definition.schema.numbered if column.id > len(SCHEMA)]
    schemas = (*definition.earlier, definition.schema)
    following = 1 + max(column.id for schema in schemas for column in schema.numbered)
    change: ColumnChange = AddColumn(name=f"c{following}", type="int32", default=str(following))
    if mine and luck < 0.2:
        change = DropColumn(name=mine[0].name)
    elif mine and luck < 0.4:
        change = WidenColumn(name=mine[-1].name, type="int64")
    elif mine and luck < 0.6:
        change = RenameColumn(name=mine[0].name, new=f"r{following}-{len(schemas)}")
    table.alter(columns=[change], commit_id=name)


def changer(world: World, number: int) -> Callable[[Actor], None]:
    """A client that deletes, updates and merges."""

    def run(actor: Actor) -> None:
        ports = world.ports(actor)
        for turn in range(world.shape.changes_each):
            name = change_id(number, turn)
            while name not in world.ledger.intended:
                actor.sleep(actor.uniform())
                fresh = OF_CHANGERS + number * 1000 + turn * LASTING
                wanted = _wanted(world, actor, fresh)
                if wanted:
                    world.ledger.intend(name, wanted)
            intention = world.ledger.intended[name]
            _until_done(world, actor, name, partial(_change, world.shape, ports, intention, name))

    return run


def _wanted(world: World, actor: Actor, fresh: int) -> Intention | None:
    """Choose what to change, among the rows of some version."""
    versions = sorted(world.ledger.rows_at)
    rows = sorted(world.ledger.rows_at[versions[-1 - int(actor.uniform() * 3) % len(versions)]])
    kind = _KINDS[int(actor.uniform() * len(_KINDS))]
    if kind is not ChangeKind.UPDATE:
        rows = [row for row in rows if (row % LASTING == 0) == (kind is ChangeKind.MERGE)]
    if not rows:
        return None
    chosen = {rows[int(actor.uniform() * len(rows))] for _ in range(MOST_ROWS)}
    if kind is ChangeKind.MERGE:
        chosen.add(fresh)
    return Intention(kind=kind.value, rows=tuple(sorted(chosen)), count=fresh)


def _change(shape: Shape, ports: TableContext, wanted: Intention, name: str) -> bool:
    table = Table(ports)
    where = pc.field("row").isin(list(wanted.rows))
    if wanted.kind == ChangeKind.DELETE:
        done = table.delete(where, commit_id=name)
    elif wanted.kind == ChangeKind.UPDATE:
        one_more = pc.field("count") + pc.scalar(1)
        done = table.update({"count": one_more}, where, commit_id=name)
    else:
        source = numbered(shape, wanted.rows, wanted.count)
        done = table.merge(source, on=["row"], commit_id=name)
    return done.n is not None


def overwriter(world: World, number: int) -> Callable[[Actor], None]:
    """A client that loads an hour again and again, in which nobody else appends."""

    def run(actor: Actor) -> None:
        ports, hour = world.ports(actor), world.shape.chunks
        for turn in range(world.shape.overwrites_each):
            name = overwrite_id(number, turn)
            first = OVERWRITTEN + (number * 100 + turn) * 10 * LASTING
            given = [row for row in range(first, first + 7) if row % LASTING]  # not for merges
            world.ledger.intend(name, Intention(kind="overwrite", rows=tuple(given)))
            at = pa.array([hour * HOUR_US + row for row in given], SCHEMA.field("at").type)
            rows = pa.table([at, given, [0] * len(given)], SCHEMA)
            _until_done(world, actor, name, partial(_overwrite, ports, rows, hour, name))

    return run


def _overwrite(ports: TableContext, rows: pa.Table, hour: int, name: str) -> bool:
    interval = Interval(hour * HOUR_US, (hour + 1) * HOUR_US)
    return Table(ports).overwrite(rows, interval=interval, commit_id=name).n is not None


def _until_done(world: World, actor: Actor, name: str, action: Callable[[], bool]) -> None:
    while name not in world.ledger.finished:
        try:
            landed = action()
        except SegtableError as error:
            actor.point(f"{name} failed: {type(error).__name__}")
            actor.sleep(actor.uniform())
        else:
            world.ledger.finish(name, landed=landed)
