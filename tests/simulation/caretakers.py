"""Actors of the standing disaster about old versions: cleaners, readers of the past, taggers.

1. A cleaner cleans, again and again, with a retention so short that it bites.
2. A reader opens any version that is kept, and must see that version's rows; files may be missing
   only if the version expired while it was read.
3. A tagger names kept versions and takes names away.
4. A settler records which rows of a primary-key table are shown.
5. In the end, when all is quiet and old, one run more leaves exactly what is needed (``tidied``).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from airflow_provider_segtable.core.deletion import paths
from airflow_provider_segtable.core.errors import NotFound, SegtableError
from airflow_provider_segtable.core.indexes.index_state import INDEXES
from airflow_provider_segtable.core.log.log_paths import number
from airflow_provider_segtable.core.time import HOUR_US
from airflow_provider_segtable.planning.properties import Retention
from airflow_provider_segtable.services.cleaning import clean
from airflow_provider_segtable.services.settling import settle
from airflow_provider_segtable.table.log.event_log import EventLog, path_of
from airflow_provider_segtable.table.table import Table
from tests.simulation.ledger import shown
from tests.simulation.world import failed

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_segtable.table.context import TableContext
    from tests.simulation.simulator import Actor
    from tests.simulation.world import World

SHORT = Retention(hours=0.0001, versions=3, orphan_hours=6)
NOTHING = Retention(hours=0, versions=1, orphan_hours=0)
LONG_HOURS = 1000
TAGS_EACH = 6


def tolerate(actor: Actor, what: str, action: Callable[[], object]) -> bool:
    """Do something that faults may defeat; tell whether it worked.

    Raises:
        TableGone: the table was dropped.
    """
    try:
        action()
    except SegtableError as error:
        failed(actor, what, error)
        return False
    return True


def cleaner(world: World, _: int) -> Callable[[Actor], None]:
    """Somebody who cleans while everybody works."""

    def run(actor: Actor) -> None:
        ports = world.ports(actor)
        while not world.settled():
            tolerate(actor, "clean", lambda: clean(ports, retention=SHORT, whole=False))
            actor.sleep(actor.uniform())

    return run


def settler(world: World, _: int) -> Callable[[Actor], None]:
    """Somebody who settles while everybody works."""

    def run(actor: Actor) -> None:
        ports = world.ports(actor)
        while not world.settled():
            tolerate(actor, "settle", lambda: settle(ports))
            actor.sleep(actor.uniform())

    return run


def reader(world: World, _: int) -> Callable[[Actor], None]:
    """Somebody who reads any version that is kept."""

    def run(actor: Actor) -> None:
        ports = world.ports(actor)
        while not world.settled():
            tolerate(actor, "read", lambda: _read(world, ports, actor, actor.uniform()))
            actor.sleep(actor.uniform())

    return run


def _read(world: World, ports: TableContext, actor: Actor, luck: float) -> None:
    head = world.head(ports)
    kept = sorted({*range(head.retained_from, head.n + 1), *head.tags.values()})
    n = kept[int(luck * len(kept))]
    try:
        wrong = next(world.ledger.differences(Table(ports).snapshot(version=n)), None)
    except NotFound:
        now = world.head(world.raw_ports(actor))
        assert not now.keeps(n), f"version {n} is kept, but not whole"
        return
    assert wrong is None, f"version {n}: {wrong}"


def tagger(world: World, _: int) -> Callable[[Actor], None]:
    """Somebody who gives names to versions, and takes some away."""
    tries = 0

    def run(actor: Actor) -> None:
        nonlocal tries
        ports = world.ports(actor)
        while tries < TAGS_EACH:
            tries += 1
            tolerate(actor, "tag", partial(_tag, world, ports, f"tag{tries}", actor))
            actor.sleep(actor.uniform())

    return run


def _tag(world: World, ports: TableContext, name: str, actor: Actor) -> None:
    head = world.head(ports)
    names = sorted(head.tags)
    if names and actor.uniform() < 0.3:
        Table(ports).untag(names[int(actor.uniform() * len(names))])
        return
    kept = range(head.retained_from, head.n + 1)
    Table(ports).tag(name, version=kept[int(actor.uniform() * len(kept))])


def tidied(world: World, ports: TableContext) -> None:
    """Clean once when everything is old; check that what is left is exactly what is needed.

    Raises:
        AssertionError: naming what is missing, or left over.
    """
    world.simulation.now += LONG_HOURS * HOUR_US
    clean(ports, retention=NOTHING)
    log = EventLog(ports.storage)
    head = log.load()
    versions = (head, *(log.version(n, head) for n in set(head.tags.values())))
    claimed = {i for plan in head.pending_plans() for i in plan.inputs}
    needed = {s.path for state in versions for s in state.timeline.visible_segments()}
    needed |= {s.path for s in head.timeline.segments() if s.id in claimed}
    found = {entry.path for entry in ports.storage.list("data")}
    assert found == needed - {""}, f"left over {found - needed}, missing {needed - found}"
    vectors = {path for state in versions for path in paths(state.vectors)}
    vectors |= {each.path for state in versions for each in state.settled.values()}
    there = {entry.path for entry in ports.storage.list("deletes")}
    shows = {path for state in versions for path in shown(state) if path in vectors}
    assert shows <= there <= vectors, f"left over {there - vectors}, missing {shows - there}"
    assert not head.pending_delete
    first = log.first()
    logged = [e.path for e in ports.storage.list("_segtable") if not e.path.startswith(INDEXES)]
    begin = log.event(first)
    own = path_of(begin) if begin else ""  # the file may begin with earlier events
    below = [path for path in logged if (number(path) or first) < first and path != own]
    folders = {entry.path.split("/")[2] for entry in ports.storage.list(INDEXES)}
    assert folders == {each.definition.id for each in head.indexes.values()}, "index left over"
    assert not below, f"the log begins with {first}, but {below} are there"
