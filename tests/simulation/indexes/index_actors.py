"""Actors of the standing disaster about indexes.

1. A *requester* has a list of wishes, and repeats each until it is granted or refused: it asks for
   an index of its own, rebuilds it, drops it, and asks for it again. Two requesters of the same
   number of wishes ask for the same name at the same time, now and then.
2. A *builder* builds whatever is lacking, piece by piece, like any number of DAG runs: it may be
   overtaken by others, killed between any two steps, or come too late. Some builds are of plans,
   which compactors carry out, too; some pause after a piece; some have no plan, unless the index is
   of records: a plan settles it in the end.
3. A *tender* copies feeds into the indexes' own tables, and compacts and cleans these.

What goes wrong with an index is the world's fault, or the index was dropped meanwhile: then nothing
below its folder has to make sense.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from airflow_provider_segtable.core.catch_up import next_piece
from airflow_provider_segtable.core.errors import (
    CommitConflict,
    InvalidInput,
    SegtableError,
    TableGone,
)
from airflow_provider_segtable.core.indexes.index_kind import BloomFilter, ColumnStats, FileList
from airflow_provider_segtable.core.log.families.index_events import IndexBuilt
from airflow_provider_segtable.data.indexes.entries import entries
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compaction import compact
from airflow_provider_segtable.services.index_run import run_index
from airflow_provider_segtable.services.planner import plan_table
from airflow_provider_segtable.table.committer import Change, commit_or_raise, forward_feeds
from airflow_provider_segtable.table.index_lifecycle import drop_index, rebuild_index, request_index
from airflow_provider_segtable.table.indexes.index_entries import index_ports, write_feed
from tests.simulation.world import failed, wish_id

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from airflow_provider_segtable.core.indexes.index_kind import IndexKind
    from airflow_provider_segtable.table.context import TableContext
    from tests.simulation.simulator import Actor
    from tests.simulation.world import World

PIECE = 2
"""Number of files from which on a builder's piece takes no further chunk."""
ALONE, PAUSED = 0.3, 0.3
"""How often a builder needs no plan, and how often it pauses after a piece."""
INDEXES = ("one", "two")
ROW_ID, COUNT_ID = 2, 3
KINDS: tuple[IndexKind, ...] = (
    FileList(),
    ColumnStats(columns=(ROW_ID, COUNT_ID)),
    BloomFilter(columns=(ROW_ID,)),
)


def requester(world: World, number: int) -> Callable[[Actor], None]:
    """Somebody who asks for indexes, and drops and rebuilds them."""

    def run(actor: Actor) -> None:
        ports = world.ports(actor)
        for turn in range(world.shape.wishes_each):
            name = wish_id(number, turn)
            last = turn == world.shape.wishes_each - 1
            while name not in world.ledger.finished:
                actor.sleep(actor.uniform())
                name_of = INDEXES[number % len(INDEXES)]
                wish = partial(_wish, ports, name_of, world.founding.kinds, actor, last=last)
                if _done(actor, name, wish):
                    world.ledger.finish(name, landed=False)

    return run


def _wish(
    ports: TableContext, name: str, kinds: Sequence[IndexKind], actor: Actor, *, last: bool
) -> None:
    """Ask for the index, or do something to the one that is there."""
    there = name in ports.log.load().indexes
    luck = actor.uniform()
    if not there:
        request_index(ports, name, kinds[int(luck * len(kinds))])
    elif last or luck < 0.4:
        rebuild_index(ports, name)
    else:
        drop_index(ports, name)


def _done(actor: Actor, what: str, action: Callable[[], object]) -> bool:
    """Tell whether something was done, or refused because others did it."""
    try:
        action()
    except (InvalidInput, CommitConflict):
        return True
    except SegtableError as error:
        failed(actor, what, error)
        return False
    return True


def builder(world: World, _: int) -> Callable[[Actor], None]:
    """Somebody who builds what indexes lack: by plans, now and then a piece of one, or without."""

    def run(actor: Actor) -> None:
        ports = world.ports(actor)
        while lacking(world) or not world.settled():
            about(world, actor, "look", partial(world.head, ports))
            for name in names(world):
                about(world, actor, f"build {name}", partial(_build, actor.uniform(), ports, name))
            actor.sleep(actor.uniform())

    return run


def _build(luck: float, ports: TableContext, name: str) -> None:
    """Build an index in one of several ways."""
    index = ports.log.load().indexes.get(name)
    if luck < ALONE and index is not None and index.definition.kind.about_files:
        build_piece(ports, name)
        return
    timeout_s = 0.0 if luck < ALONE + PAUSED else None
    run_index(ports, name, in_process(ports.files), timeout_s=timeout_s)


def names(world: World) -> list[str]:
    """Return the names of the indexes of the table."""
    state = world.ledger.checked
    return [] if state is None else sorted(state.indexes)


def lacking(world: World) -> bool:
    """Tell whether an index of the table lacks anything."""
    state = world.ledger.checked
    return state is not None and any(not each.current for each in state.indexes.values())


def build_piece(ports: TableContext, name: str, most: int = PIECE) -> None:
    """Build the earliest time that an index lacks; nothing if it lacks nothing.

    Args:
        ports: the table's ports.
        name: the name of the index.
        most: the number of files from which on no further chunk is taken.

    Raises:
        SegtableError: a file is gone meanwhile, or the index is.
    """
    state = ports.log.load()
    found = state.indexes.get(name)
    piece = next_piece(found, state, most) if found else None
    if found is None or piece is None:
        return
    rows = entries(found.definition, state.table, piece.segments, ports.files)
    feed = write_feed(ports, found.definition, rows)
    built = IndexBuilt(index=found.definition.id, interval=piece.interval, through=state.n)
    change = Change(action=built, commit_id=ports.randomness.token(), feeds=(feed,))
    commit_or_raise(ports, state, change)


def tender(world: World, _: int) -> Callable[[Actor], None]:
    """Somebody who keeps the indexes' own tables in order."""

    def run(actor: Actor) -> None:
        ports = world.ports(actor)
        while not world.settled():
            about(world, actor, "copy feeds", lambda: forward_feeds(ports, ports.log.load()))
            for name in names(world):
                about(world, actor, f"tend {name}", partial(tend, ports, name))
            actor.sleep(actor.uniform())

    return run


def tend(ports: TableContext, name: str) -> None:
    """Compact the table of an index."""
    index = ports.log.load().indexes.get(name)
    if index is None:
        return
    own = index_ports(ports, index.definition)
    plan_table(own)
    pending = [known.plan.id for known in own.log.load().pending_plans()]
    compact(own, pending, in_process(own.files))


def about(world: World, actor: Actor, what: str, action: Callable[[], object]) -> None:
    """Do something about indexes, which is in vain if one of them, or all, are dropped.

    Raises:
        TableGone: the table was dropped.
        AssertionError: no fault of the world, and no drop, explains the error.
    """
    before = dropped(world)
    try:
        action()
    except SegtableError as error:
        gone = isinstance(error, TableGone)  # the index's own table is, unless the world ended
        excused = gone or world.ended or dropped(world) > before
        if not excused or (gone and world.ended):
            failed(actor, what, error)
        actor.point(f"{what}: an index is gone: {type(error).__name__}")


def dropped(world: World) -> int:
    """Return how many indexes were dropped, or replaced by others."""
    return world.indexes.happened["IndexDropped"] + world.indexes.happened["rebuilt"]
