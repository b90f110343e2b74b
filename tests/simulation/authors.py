"""Actors of the standing disaster that write rows: appenders, changers and overwriters.

1. Each has a durable queue (``durably``): it repeats what it began, under the same commit id, until
   it is told that it landed, or that there is nothing to do. Now and then it then does it once
   more, which must have no effect.
2. A changer deletes, updates or merges rows that it names by their numbers, chosen among those that
   some version showed. An update counts a row's changes, so that none is lost or done twice. A
   merge brings a row of its own, too. Two writers that bring the same row might both insert it, so
   a merge names other rows only where rows that went do not come back.
3. An overwriter loads the same time again and again: an hour of its own, a part of an hour of the
   appenders, or the chunks of its rows; every second time the same rows under another commit id.
4. Writers give the columns that come and go a value by the name, or leave them out.
5. The ledger is told beforehand what each commit is to do, and works it out again by itself.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.requests.change_request import ChangeKind
from airflow_provider_segtable.core.requests.overwrite import Touched
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.table.table import Table
from tests.simulation.model import (
    NAMES,
    Append,
    Delete,
    Merge,
    Overwrite,
    Update,
    given_value,
)
from tests.simulation.world import HOUR_US, change_id, commit_id, failed, overwrite_id

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from airflow_provider_segtable.table.context import TableContext
    from tests.simulation.simulator import Actor
    from tests.simulation.world import Shape, World

SCHEMA = pa.schema(
    [
        ("at", pa.timestamp("us", "UTC")),
        pa.field("row", pa.int64(), nullable=False),
        ("count", pa.int32()),
    ]
)
AGAIN = 0.2
"""How often a writer does once more what it was told had landed."""
MOST_ROWS = 4
PATIENCE = 20
"""How often a changer looks for rows before it brings one itself."""
LASTING = 3
"""Rows whose number this divides are not deleted by changers."""
OF_CHANGERS = 1_000_000
"""Row numbers from here on are of merges."""
OVERWRITTEN = 2_000_000
"""Row numbers from here on are of overwriters."""
PART_US = 15_000
"""The part of the appenders' first hour that overwriters replace."""
_KINDS = (ChangeKind.DELETE, ChangeKind.UPDATE, ChangeKind.UPDATE, ChangeKind.MERGE)


def durably(
    world: World,
    actor: Actor,
    name: str,
    action: Callable[[], bool],
    refusals: tuple[type[SegtableError], ...] = (),
) -> None:
    """Do something until it is done; tell the ledger whether it landed.

    Args:
        world: the world.
        actor: who does it.
        name: its commit id.
        action: does it; returns whether it landed.
        refusals: errors after which it is left.
    """
    while name not in world.ledger.finished:
        try:
            landed = action()
        except SegtableError as error:
            failed(actor, name, error)
            if isinstance(error, refusals):
                world.ledger.finish(name, landed=False)
            actor.sleep(actor.uniform())
        else:
            world.ledger.finish(name, landed=landed)
            if landed and actor.uniform() < AGAIN:
                with suppress(SegtableError):
                    action()


def appender(world: World, number: int) -> Callable[[Actor], None]:
    """A client that appends."""

    def run(actor: Actor) -> None:
        ports = world.ports(actor)
        for turn in range(world.shape.appends_each):
            name = commit_id(number, turn)
            base = (number * 1000 + turn) * 10
            rows = tuple(range(base, base + world.shape.chunks * 2))
            wanted = Append(rows=rows, times=times_of(world.shape, rows))
            world.ledger.intend(name, wanted)
            durably(world, actor, name, partial(_append, world, actor, ports, name, wanted))

    return run


def _append(world: World, actor: Actor, ports: TableContext, name: str, wanted: Append) -> bool:
    Table(ports).append(filled(world, actor, ports, name, wanted), commit_id=name)
    return True


def times_of(shape: Shape, numbers: Sequence[int]) -> tuple[int, ...]:
    """Return the event times of rows, spread over the chunks."""
    return tuple((number % shape.chunks) * HOUR_US + number for number in numbers)


def plain(numbers: Sequence[int], times: Sequence[int], count: int = 0) -> pa.Table:
    """Return rows of the first columns."""
    at = pa.array(times, SCHEMA.field("at").type)
    counts = pa.array([count] * len(numbers), pa.int32())
    return pa.table([at, numbers, counts], SCHEMA)


def filled(
    world: World, actor: Actor, ports: TableContext, name: str, wanted: Append | Overwrite
) -> pa.Table:
    """Return new rows with some of the columns that there are now, as earlier attempts did."""
    return widened(world, actor, ports, name, plain(wanted.rows, wanted.times), wanted.rows)


def widened(
    world: World,
    actor: Actor,
    ports: TableContext,
    name: str,
    rows: pa.Table,
    numbers: Sequence[int],
) -> pa.Table:
    """Return rows of these numbers with some of the columns that come and go."""
    if not world.shape.alterers:
        return rows
    columns = Table(ports).state().table.schema.numbered
    present = {(column.name, column.id): column.type for column in columns}
    earlier = world.ledger.given.get(name)
    chosen = (
        earlier[0] if earlier else {k for k in present if k[0] in NAMES and actor.uniform() < 0.7}
    )
    given = frozenset(chosen) & present.keys()
    world.ledger.give(name, given)
    for column in sorted(given):
        values = pa.array([given_value(number, column[0]) for number in numbers])
        rows = rows.append_column(column[0], values.cast(present[column]))
    return rows


def changer(world: World, number: int) -> Callable[[Actor], None]:
    """A client that deletes, updates and merges."""

    def run(actor: Actor) -> None:
        ports = world.ports(actor)
        for turn in range(world.shape.changes_each):
            name = change_id(number, turn)
            patience = PATIENCE
            while name not in world.ledger.intended:
                actor.sleep(actor.uniform())
                patience -= 1
                fresh = OF_CHANGERS + number * 1000 + turn * LASTING
                if world.ledger.newest.rows or not patience:
                    world.ledger.intend(name, _wanted(world, actor, fresh))
            intention = world.ledger.intended[name]
            durably(world, actor, name, partial(_change, ports, intention, name))

    return run


def _wanted(world: World, actor: Actor, fresh: int) -> Delete | Update | Merge:
    """Choose what to change, among the rows of some version; if it has none, a row comes."""
    versions = sorted(world.ledger.models)
    model = world.ledger.models[versions[-1 - int(actor.uniform() * 3) % len(versions)]]
    rows = sorted(model.rows)
    kind = _KINDS[int(actor.uniform() * len(_KINDS))]
    if kind is not ChangeKind.UPDATE:
        rows = [row for row in rows if (row % LASTING == 0) == (kind is ChangeKind.MERGE)]
    picks = range(MOST_ROWS if rows else 0)
    chosen = tuple(sorted({rows[int(actor.uniform() * len(rows))] for _ in picks}))
    if chosen and kind is ChangeKind.DELETE:
        return Delete(rows=chosen)
    if chosen and kind is ChangeKind.UPDATE:
        return Update(rows=chosen)
    known = () if world.shape.restorers or world.shape.overwriters else chosen
    merged = (*(row for row in known if row != fresh), fresh)
    return Merge(rows=merged, times=times_of(world.shape, merged), count=fresh)


def _change(ports: TableContext, wanted: object, name: str) -> bool:
    table = Table(ports)
    match wanted:
        case Delete(rows=rows):
            done = table.delete(_numbered(rows), commit_id=name)
        case Update(rows=rows):
            one_more = pc.field("count") + pc.scalar(1)
            done = table.update({"count": one_more}, _numbered(rows), commit_id=name)
        case Merge(rows=rows, times=times, count=count):
            done = table.merge(plain(rows, times, count), on=["row"], commit_id=name)
        case _:
            raise TypeError(wanted)
    return done.n is not None


def _numbered(rows: Sequence[int]) -> str:
    """Return the condition of some rows, as text, so that indexes judge it."""
    return f"row IN ({', '.join(map(str, rows))})"


def overwriter(world: World, number: int) -> Callable[[Actor], None]:
    """A client that loads an hour, a part of an hour, or chunks again and again."""

    def run(actor: Actor) -> None:
        ports = world.ports(actor)
        for turn in range(world.shape.overwrites_each):
            name = overwrite_id(number, turn)
            if name not in world.ledger.intended:
                world.ledger.intend(name, _load(world, actor, number, turn))
            wanted = world.ledger.intended[name]
            assert isinstance(wanted, Overwrite)
            durably(world, actor, name, partial(_overwrite, world, actor, ports, name, wanted))

    return run


def _load(world: World, actor: Actor, number: int, turn: int) -> Overwrite:
    """Choose what to load; every second time, what was loaded before."""
    begun = max(world.ledger.models)
    before = world.ledger.intended.get(overwrite_id(number, turn - 1))
    if turn % 2 and isinstance(before, Overwrite):
        again = {"rows": before.rows, "times": before.times, "interval": before.interval}
        return Overwrite(**again, begun=begun)
    rows = tuple(OVERWRITTEN + (number * 100 + turn) * 10 + i for i in range(5))
    hour, luck = world.shape.chunks, actor.uniform()
    own = Interval(hour * HOUR_US, (hour + 1) * HOUR_US)
    if luck < 0.5:
        times = tuple(own.start + row for row in rows)
        return Overwrite(rows=rows, times=times, interval=own, begun=begun)
    times = tuple(row % PART_US for row in rows)
    part = Interval(0, PART_US) if luck < 0.75 else None
    return Overwrite(rows=rows, times=times, interval=part, begun=begun)


def _overwrite(
    world: World, actor: Actor, ports: TableContext, name: str, wanted: Overwrite
) -> bool:
    rows = filled(world, actor, ports, name, wanted)
    extent = wanted.interval or Touched.CHUNKS
    return Table(ports).overwrite(rows, interval=extent, commit_id=name).n is not None
