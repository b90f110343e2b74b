"""Actors of the standing disaster that drop the table, and create another one in its place.

1. Droppers drop the table at some moment of its life, each until a drop of its own returned. Some
   of them wait for the locks of others, some do not.
2. When the log has ended, no version can be opened, at any step: the table is gone, and is never a
   smaller or an empty one (``check_gone``). Whoever works on it is told ``TableGone``, and ends.
3. When a drop has returned, no file is left of those that the table had when its log ended.
4. A creator creates the next table: at once, so that it lives beside those who still work on the
   old one; or when all of them have ended. Then nothing is left of the old table but the marker,
   and hints that came late, an announcement or a checkpoint. Another drop deletes these, and what
   late authors left whom faults kept from cleaning up (``check_left``).
5. The next table has a world of its own: the same authors anew, and a ledger that refuses events
   by the old ones. So a file of it that the old ones delete is missed.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from airflow_provider_segtable.coordination.memory import MemoryCoordinator
from airflow_provider_segtable.core.errors import SegtableError, TableExists, TableGone
from airflow_provider_segtable.core.log.events import Event
from airflow_provider_segtable.core.log.log_paths import CHECKPOINTS, expired_path
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.time import Granularity
from airflow_provider_segtable.data.arrow_schema import from_arrow
from airflow_provider_segtable.table.dropping import drop, is_index_marker
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.table import create_table
from tests.simulation import process_threads
from tests.simulation.authors import SCHEMA
from tests.simulation.world import World, failed

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_segtable.table.context import TableContext
    from tests.simulation.simulator import Actor

EVENTS = 40
"""A table is dropped before its log has so many events, or when everything is done."""
HARMLESS = frozenset({"delay", "expiry", "deaf", "suspension"})
"""Faults after which a single drop leaves nothing: nobody dies, and every reply arrives."""


def definition(table_id: str) -> TableDefinition:
    """Return the definition of a simulated table."""
    return TableDefinition(
        table_id=table_id,
        name="simulated",
        schema=from_arrow(SCHEMA),
        time_column="at",
        granularity=Granularity.HOUR,
        properties={
            "compaction.min_segments": "2",
            "compaction.tier_ratio": "1e9",  # so that one group a chunk is the end
            "compaction.max_attempts": "50",
            "compaction.semi_major_unclustered": "0.001",  # likewise, once there is an order
            "compaction.semi_major_interval_minutes": "0",
        },
    )


def until_gone(world: World, run: Callable[[Actor], None]) -> Callable[[Actor], None]:
    """Return an actor whose process ends when its work is over, or its table is gone."""

    def guarded(actor: Actor) -> None:
        try:
            run(actor)
        except TableGone:
            if not world.ended:
                raise
        process_threads.end(actor)

    return guarded


def spawn_each(
    world: World,
    role: str,
    count: int,
    act: Callable[[int], Callable[[Actor], None]],
    skew_us: Callable[[int], int] = lambda _: 0,
) -> None:
    """Add the actors of a role, which end when their table is gone.

    Args:
        world: the world of their table.
        role: begins their names.
        count: how many.
        act: returns what the actor of a number does.
        skew_us: returns by how much its clock is ahead.
    """
    for number in range(count):
        run = until_gone(world, act(number))
        world.simulation.spawn(world.named(f"{role}{number}"), run, skew_us=skew_us(number))


def dropper(world: World, _: int) -> Callable[[Actor], None]:
    """Somebody who drops the table."""

    def run(actor: Actor) -> None:
        ports = world.ports(actor)
        due = int(actor.uniform() * EVENTS)
        while _events(world) < due and not (world.settled() or world.ended):
            actor.sleep(actor.uniform())
        while not _dropped(world, actor, ports):
            actor.sleep(actor.uniform() * 3)
        world.dropped = True

    return run


def _events(world: World) -> int:
    return 0 if world.ledger.checked is None else world.ledger.checked.n - world.ledger.first


def _dropped(world: World, actor: Actor, ports: TableContext) -> bool:
    """Drop the table; tell whether the drop returned."""
    try:
        drop(ports, force=actor.uniform() < 0.5)
    except SegtableError as error:
        failed(actor, "drop", error)
        return False
    assert world.ended, "a drop returned, but the log goes on"
    left = world.had & {entry.path for entry in world.storage.list("")}
    assert not left, f"a drop returned, but left {sorted(left)}"
    return True


def creator(world: World, _: int) -> Callable[[Actor], None]:
    """Somebody who creates the next table where one was dropped."""

    def run(actor: Actor) -> None:
        patient = actor.uniform() < 0.5
        while not world.dropped or (patient and not _alone(actor)):
            actor.sleep(actor.uniform() * 10)
        if patient and not world.after:
            check_left(world, actor)
        named = world.founding.define(actor.token())
        while not world.after:
            _create(world, actor, named)

    return run


def _alone(actor: Actor) -> bool:
    return all(other.done or other is actor for other in actor.simulation.actors)


def _create(world: World, actor: Actor, named: TableDefinition) -> None:
    try:
        create_table(world.connected(actor), named)
    except TableExists:
        assert world.after, "no table can be created where none is"
    except TableGone:  # somebody who came late left a file
        _dropped(world, actor, world.ports(actor))
    except SegtableError as error:
        failed(actor, "create", error)
        actor.sleep(actor.uniform())


def successor(world: World, created: Event) -> World:
    """Return the world of the table that was created in the place of a dropped one."""
    drops = world.shape.drops - 1
    life = world.life + 1
    shape = replace(world.shape, drops=drops, droppers=world.shape.droppers if drops else 0)
    return World(
        simulation=world.simulation,
        faults=world.faults,
        shape=shape,
        storage=world.storage,
        founding=world.founding,
        service=world.service,
        ledger=world.founding.ledger(first=created.n, crowd=f"@{life}"),
        most_skew_s=world.most_skew_s,
        orphans=world.orphans,
        life=life,
    )


def check_gone(world: World) -> None:
    """Check that a table whose log has ended cannot be opened, whatever has been deleted.

    Raises:
        AssertionError: it can.
    """
    paths = [entry.path for entry in world.storage.list("")]
    if world.looked != paths:
        world.looked = paths
        world.had = world.had or frozenset(p for p in paths if p.startswith(("data/", "deletes/")))
        with pytest.raises(TableGone):
            EventLog(world.storage).load()


def check_left(world: World, actor: Actor) -> None:
    """Check that nothing is left of a dropped table whose authors have all ended.

    Raises:
        AssertionError: naming what is left.
    """
    checked = world.ledger.checked
    assert checked is not None
    marker, table_id = expired_path(checked.n + 1), checked.table.table_id
    if world.faults.injected.keys() <= HARMLESS:
        left = {entry.path for entry in world.storage.list("")} - {marker}
        unsought = {p for p in left if not (p.startswith(CHECKPOINTS) or is_index_marker(p))}
        assert not unsought, f"left over: {left}"
        with world.service.box(table_id) as box:
            assert not replace(box, head=-1).used, f"the coordinator remembers {box}"
    client = MemoryCoordinator(actor, world.service)
    drop(replace(world.raw_ports(actor), optional_coordinator=client))
    left = {entry.path for entry in world.storage.list("")}
    assert marker in left, "the marker is gone"
    more = {path for path in left - {marker} if not is_index_marker(path)}
    assert not more, f"left over after another drop: {more}"
    assert table_id not in world.service.tables, "the coordinator remembers it"
