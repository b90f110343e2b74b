"""Actors of the standing disaster that write no rows: alterers, restorers and repairers.

1. An alterer adds, drops, renames, widens and reorders columns, makes one nullable, and sets and
   removes properties. Names are few, so that a dropped column's name comes back as another column.
2. A restorer brings back an earlier version or a tag.
3. A repairer repairs whatever it finds damaged: nothing, because nothing is. It must not take what
   others just write, replace or clean for damage.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from airflow_provider_segtable.core.errors import (
    InvalidInput,
    InvalidName,
    RestoreRefused,
    SchemaMismatch,
    SegtableError,
    VersionExpired,
)
from airflow_provider_segtable.core.tables.evolution import (
    AddColumn,
    ColumnChange,
    DropColumn,
    MakeNullable,
    RenameColumn,
    Reorder,
    WidenColumn,
)
from airflow_provider_segtable.health.repair import plan_repair, repair
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.table import Table
from tests.simulation.authors import durably
from tests.simulation.model import COUNT, NAMES, Alter, Column, Restore
from tests.simulation.world import alter_id, failed, restore_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_segtable.table.context import TableContext
    from tests.simulation.simulator import Actor
    from tests.simulation.world import World

CLUSTERING = "compaction.clustering"
RECENT = 8
"""How far back a restorer goes."""


def alterer(
    world: World,
    number: int,
    choose: Callable[[World, Actor], Alter] | None = None,
    *also_refused: type[SegtableError],
) -> Callable[[Actor], None]:
    """Somebody who alters the table: as ``choose`` says, or as it fits an append table."""

    def run(actor: Actor) -> None:
        ports = world.ports(actor)
        for turn in range(world.shape.alterations_each):
            name = alter_id(number, turn)
            actor.sleep(actor.uniform())
            if name not in world.ledger.intended:
                world.ledger.intend(name, (choose or _alteration)(world, actor))
            wanted = world.ledger.intended[name]
            assert isinstance(wanted, Alter)
            refusals = (InvalidInput, InvalidName, SchemaMismatch, *also_refused)
            durably(world, actor, name, partial(altered, world, ports, name, wanted), refusals)

    return run


def _alteration(world: World, actor: Actor) -> Alter:
    """Choose an alteration that fits the newest columns; another one may land before it."""
    model = world.ledger.newest
    mine = [column for column in model.columns if column.id > COUNT]
    free = [name for name in NAMES if name not in {column.name for column in mine}]

    def luck(count: int) -> int:
        return int(actor.uniform() * count)

    new = AddColumn(
        name=free[0] if free else "", type="int32", default=(None, "-1", "-2", "-3")[luck(4)]
    )
    if not mine:
        return Alter(columns=(new,))
    column = mine[luck(len(mine))]
    choices: list[Alter] = [
        Alter(columns=(DropColumn(name=column.name),)),
        Alter(columns=(DropColumn(name=column.name), _again(column))),
        Alter(columns=(WidenColumn(name=column.name, type="int64"),)),
        Alter(columns=(Reorder(names=(column.name, "row")),)),
        Alter(columns=(_base(luck(2)), MakeNullable(name="row"))),
        Alter(set={CLUSTERING: ("row", f"count, {column.name}")[luck(2)]}),
        Alter(unset=(CLUSTERING,)),
    ]
    if free:
        choices += [
            Alter(columns=(new,)),
            Alter(columns=(RenameColumn(name=column.name, new=free[-1]),)),
        ]
    return choices[luck(len(choices))]


def _again(column: Column) -> ColumnChange:
    """Return the addition of another column under a dropped one's name."""
    return AddColumn(name=column.name, type="int32", default="-9")


def _base(luck: int) -> ColumnChange:
    return (WidenColumn(name="count", type="int64"), Reorder(names=("at", "row", "count")))[luck]


def altered(world: World, ports: TableContext, name: str, wanted: Alter) -> bool:
    """Alter a table; return whether that was this commit."""
    n = Table(ports).alter(
        set=wanted.set, unset=wanted.unset, columns=wanted.columns, commit_id=name
    )
    event = EventLog(world.storage).event(n)
    return event is not None and event.commit == name  # else it would have changed nothing


def restorer(world: World, number: int) -> Callable[[Actor], None]:
    """Somebody who brings back earlier versions."""

    def run(actor: Actor) -> None:
        ports = world.ports(actor)
        for turn in range(world.shape.restores_each):
            name = restore_id(number, turn)
            actor.sleep(actor.uniform() * 2)
            while name not in world.ledger.intended:
                try:
                    world.ledger.intend(name, _chosen(world, ports, actor))
                except SegtableError as error:
                    failed(actor, name, error)
            wanted = world.ledger.intended[name]
            assert isinstance(wanted, Restore)
            refusals = (RestoreRefused, VersionExpired, InvalidInput)
            durably(world, actor, name, partial(_restore, ports, name, wanted), refusals)

    return run


def _chosen(world: World, ports: TableContext, actor: Actor) -> Restore:
    head = world.head(ports)
    tags = sorted(head.tags)
    if tags and actor.uniform() < 0.3:
        tag = tags[int(actor.uniform() * len(tags))]
        return Restore(version=head.tags[tag], tag=tag)
    kept = range(max(head.retained_from, head.n - RECENT), head.n + 1)
    return Restore(version=kept[int(actor.uniform() * len(kept))])


def _restore(ports: TableContext, name: str, wanted: Restore) -> bool:
    table = Table(ports)
    if wanted.tag:
        return table.restore(tag=wanted.tag, commit_id=name).n is not None
    return table.restore(version=wanted.version, commit_id=name).n is not None


def repairer(world: World, _: int) -> Callable[[Actor], None]:
    """Somebody who repairs again and again."""

    def run(actor: Actor) -> None:
        ports = world.ports(actor)
        while not world.settled():
            try:
                world.head(ports)
                plan = plan_repair(ports)
                if plan.needed:
                    repair(ports, plan)
            except SegtableError as error:
                failed(actor, "repair", error)
            actor.sleep(1 + actor.uniform() * 3)

    return run
