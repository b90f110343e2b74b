"""Writers of a primary-key table: upserters, streams, changers, and alterers of columns.

1. An upserter has a durable queue of records of few keys. Every second one has no coordinator.
2. A stream writes micro-batches under ids of its query and their numbers. It notes its progress
   after each one. If it dies between, it writes the same batch again, under the same id.
3. A changer deletes or updates by a condition, or merges, which inserts keys that are not there.
4. An alterer adds columns, widens them and drops them. Writers give them values, or leave them out.
5. None of them is ever aborted, unless a fault strikes its own requests.
"""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.errors import (
    CommitUnknown,
    CoordinatorUnavailable,
    InvalidInput,
    PublishingRefused,
    SchemaMismatch,
    SegtableError,
    StorageError,
    TableGone,
)
from airflow_provider_segtable.core.tables.evolution import AddColumn, DropColumn, WidenColumn
from airflow_provider_segtable.table.table import Table
from tests.simulation import definers
from tests.simulation.authors import durably, widened
from tests.simulation.keyed.keyed_ledger import written_records
from tests.simulation.keyed.records import CHUNKS, GONE, SPOT, KeyChange, Record, Upsert, batch
from tests.simulation.model import NAMES, Alter
from tests.simulation.world import batch_id, change_id, failed, upsert_id

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_segtable.table.context import TableContext
    from tests.simulation.simulator import Actor
    from tests.simulation.world import Shape, World

KEYS = 8
MOST_RECORDS = 5
OF_STREAMS = 500
"""Numbers of authors from here on are streams."""
_EXCUSES = ("error", "lost_reply", "late", "false_exists")


def upserter(world: World, number: int) -> Callable[[Actor], None]:
    """A writer of records of few keys, which all others write, too."""

    def run(actor: Actor) -> None:
        ports = world.ports(actor)
        if number % 2:
            ports = replace(ports, optional_coordinator=None)
        for turn in range(world.shape.upserts_each):
            name = upsert_id(number, turn)
            if name not in world.ledger.intended:
                made = made_records(actor, number * 1000 + turn, world.shape)
                world.ledger.intend(name, Upsert(records=made))
            wanted = world.ledger.intended[name]
            assert isinstance(wanted, Upsert)
            durably(world, actor, name, partial(_upsert, world, actor, ports, wanted, name))
            actor.sleep(actor.uniform() * 0.5)

    return run


def made_records(actor: Actor, number: int, shape: Shape) -> tuple[Record, ...]:
    """Make up records; their values are no other record's.

    Where keys move, a batch has each key once: two records of one key may be in two log files.
    """

    def one(place: int) -> Record:
        value = number * MOST_RECORDS + place
        return Record(
            key=int(actor.uniform() * KEYS),
            seq=None if actor.uniform() < 0.1 else int(actor.uniform() * 4),
            text=value if actor.uniform() < 0.7 else None,
            note=value if actor.uniform() < 0.5 else None,
            seen=int(actor.uniform() * 4) if actor.uniform() < 0.5 else None,
            spot=value if actor.uniform() < 0.7 else None,
            deletes=actor.uniform() < shape.deleting,
            hour=int(actor.uniform() * shape.hours) if shape.hours else None,
        )

    made = [one(place) for place in range(1 + int(actor.uniform() * MOST_RECORDS))]
    return tuple({record.key: record for record in made}.values() if shape.hours else made)


def _upsert(world: World, actor: Actor, ports: TableContext, wanted: Upsert, name: str) -> bool:
    rows = batch(wanted.records, world.shape.chunks)
    numbers = [record.number for record in wanted.records]
    return _unhindered(
        world,
        lambda: (
            Table(ports)
            .upsert(widened(world, actor, ports, name, rows, numbers), deleted=GONE, commit_id=name)
            .n
            is not None
        ),
    )


def _unhindered(world: World, action: Callable[[], bool]) -> bool:
    """Do what only a fault of its own requests, or an alteration, may keep from being done."""
    try:
        return action()
    except TableGone:
        raise
    except SegtableError as error:
        excusable = isinstance(error, (StorageError, CommitUnknown, CoordinatorUnavailable))
        if world.shape.alterers and isinstance(error, InvalidInput | SchemaMismatch):
            raise  # a column that it gives was dropped since its look
        if excusable and any(name in world.faults.injected for name in _EXCUSES):
            raise
        raise AssertionError(f"a writer was aborted: {type(error).__name__}: {error}") from error


def streamer(world: World, number: int) -> Callable[[Actor], None]:
    """A stream; its progress outlives its process."""
    progress = [0]

    def run(actor: Actor) -> None:
        ports = replace(world.ports(actor), optional_coordinator=None)
        while progress[0] < world.shape.batches_each:
            name = batch_id(number, progress[0])
            if name not in world.ledger.intended:
                turn = (OF_STREAMS + number) * 1000 + progress[0]
                made = made_records(actor, turn, world.shape)
                world.ledger.intend(name, Upsert(records=made))
            wanted = world.ledger.intended[name]
            assert isinstance(wanted, Upsert)
            try:
                _upsert(world, actor, ports, wanted, name)
            except SegtableError as error:
                failed(actor, name, error)
                actor.sleep(actor.uniform())
            else:
                world.ledger.finish(name)
                world.faults.boundary(actor, f"note that {name} is done")
                progress[0] += 1

    return run


def changer(world: World, number: int) -> Callable[[Actor], None]:
    """A writer who deletes, updates or merges the rows that it finds under some keys.

    Where keys move, it does not merge: its rows would move them, which a merge refuses.
    """

    def run(actor: Actor) -> None:
        ports = world.ports(actor)
        for turn in range(world.shape.changes_each):
            name = change_id(number, turn)
            if name not in world.ledger.intended:
                actor.sleep(actor.uniform() * 2)
                text = None if actor.uniform() < 0.5 else -1 - number * 1000 - turn
                keys = tuple({int(actor.uniform() * KEYS) for _ in range(3)})
                begun = max(world.ledger.models)
                assert world.ledger.checked is not None
                written = partial(written_records, world.files, world.ledger.checked.table.kind)
                merges = text is not None and not world.shape.hours and actor.uniform() < 0.5
                wish = KeyChange(keys=keys, text=text, begun=begun, written=written, merges=merges)
                world.ledger.intend(name, wish)
            wanted = world.ledger.intended[name]
            assert isinstance(wanted, KeyChange)
            durably(world, actor, name, partial(_change, world, ports, wanted, name))

    return run


def _change(world: World, ports: TableContext, wanted: KeyChange, name: str) -> bool:
    def once() -> bool:
        if wanted.merges:
            made = batch([Record(key=key, text=wanted.text) for key in wanted.keys], CHUNKS)
            source = made.select(["at", "row", "text"])
            return Table(ports).merge(source, on="row", commit_id=name).n is not None
        where = f"row IN ({', '.join(map(str, wanted.keys))})"
        if wanted.text is None:
            return Table(ports).delete(where, commit_id=name).n is not None
        text = pc.scalar(pa.scalar(wanted.text, pa.int64()))
        return Table(ports).update({"text": text}, where, commit_id=name).n is not None

    return _unhindered(world, once)


def alterer(world: World, number: int) -> Callable[[Actor], None]:
    """Somebody who adds columns, widens them, and drops them."""
    return definers.alterer(world, number, _alteration, PublishingRefused)


def _alteration(world: World, actor: Actor) -> Alter:
    added = {column.name: column for column in world.ledger.newest.columns if column.id > SPOT}
    free = [name for name in NAMES if name not in added]
    if free and (not added or actor.uniform() < 0.6):
        default = (None, "-1")[int(actor.uniform() * 2)]
        return Alter(columns=(AddColumn(name=free[0], type="int32", default=default),))
    name = min(added)
    if added[name].type == "int32" and actor.uniform() < 0.5:
        return Alter(columns=(WidenColumn(name=name, type="int64"),))
    return Alter(columns=(DropColumn(name=name),))
