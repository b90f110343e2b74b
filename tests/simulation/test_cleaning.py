"""Cleaning in the standing disaster: beside everybody, killed everywhere, and really checked."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.log import events
from airflow_provider_segtable.core.log.event import Stamp
from airflow_provider_segtable.core.log.families import cleaning_events
from airflow_provider_segtable.core.log.families.cleaning_events import Cleaned
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.services import cleaning, cleaning_turns
from airflow_provider_segtable.services.cleaning import clean
from airflow_provider_segtable.storage.memory_storage import MemoryStorage
from airflow_provider_segtable.table import committer
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log import sidecars
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.log.sidecar_files import readable
from airflow_provider_segtable.table.table import Table
from tests.planted_kinds import admission, answer_otherwise
from tests.simulation.caretakers import NOTHING, tidied
from tests.simulation.faults.faulty_storage import Faults, FaultyFiles, FaultyStorage
from tests.simulation.scenario import build, run
from tests.simulation.seeds import beginning_with
from tests.simulation.simulator import Actor, Simulation
from tests.simulation.world import Shape, World
from tests.support.rooted import RootedFiles

pytestmark = pytest.mark.usefixtures("frequent_checkpoints")

EVERYBODY = Shape(
    appenders=2,
    appends_each=2,
    compactors=2,
    planners=1,
    chunks=2,
    asks=2,
    cleaners=3,
    readers=1,
    taggers=1,
)
NO_TAGS = replace(EVERYBODY, taggers=0)


@pytest.mark.parametrize("first", [0, pytest.param(3, marks=pytest.mark.long)])
def test_seeds_survive(first: int) -> None:
    """Three cleaners beside everybody: nothing needed goes, and nothing stale stays."""
    for seed in range(first, first + 3):
        world = build(seed, EVERYBODY)
        run(world)
        assert world.ledger.checked
        assert world.ledger.checked.retained_from
        assert EventLog(world.storage).first()


@pytest.mark.parametrize("seed", [0, *(pytest.param(n, marks=pytest.mark.long) for n in (3, 4))])
def test_a_seed_survives_with_sidecars(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Checkpoints share files, which go when none lists them, and authors and cleaners race."""
    monkeypatch.setattr(sidecars, "MOST_SEGMENTS", 3)
    monkeypatch.setattr(sidecars, "MOST_CHUNKS", 1)
    monkeypatch.setattr(cleaning_turns, "MOST_LISTED", 3)
    world = build(seed, EVERYBODY)
    run(world)
    log = EventLog(world.storage)
    assert world.ledger.checked
    assert [*log.load().timeline.segments()] == [*world.ledger.checked.timeline.segments()]
    assert log.first()
    assert readable(log, max(log.checkpoints()))
    assert [*world.storage.list(sidecars.SIDECARS)]


def calm(**changes: Any) -> Faults:
    return Faults(random=Random(1), **changes)


@pytest.fixture(scope="module")
def worn() -> World:
    """A table after a busy life, with a tag, an orphan, and nothing cleaned yet."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(committer, "CHECKPOINT_EVERY", 4)
        shape = Shape(appenders=2, appends_each=2, compactors=1, planners=1, chunks=2, asks=2)
        world = build(11, shape, calm())
        run(world)
        ports = world.raw_ports(Actor(name="o", run=lambda _: None, simulation=world.simulation))
        Table(ports).tag("first", version=4)
        ports.storage.create("data/_runs/lost.arrow", b"x")
    return world


LATER_US = 1000 * 3_600_000_000


def crowd(world: World, faults: Faults, count: int, seed: int) -> tuple[World, TableContext]:
    """Return a copy of the world with nobody in it but cleaners, each of whom cleans once."""
    simulation = Simulation(seed, start=world.simulation.now + LATER_US)
    outside = Actor(name="outside", run=lambda _: None, simulation=simulation)
    storage = MemoryStorage(clock=outside)
    storage._objects.update(world.storage._objects)  # a copy of everything, with its age
    mine = World(
        simulation=simulation,
        faults=faults,
        shape=world.shape,
        founding=world.founding,
        storage=storage,
    )

    def cleaner(actor: Actor) -> None:
        ports = replace(
            mine.raw_ports(actor),
            storage=FaultyStorage(storage, actor, faults),
            files=FaultyFiles(RootedFiles(storage), actor, faults),
        )
        for _ in range(20):
            try:
                clean(ports, retention=NOTHING)
            except SegtableError:
                actor.sleep(1.0)
            else:
                return

    for number in range(count):
        simulation.spawn(f"cleaner{number}", cleaner)
    return mine, mine.raw_ports(outside)


def rows(ports: TableContext, **which: Any) -> list[int]:
    found = Table(ports).snapshot(**which).to_arrow(columns=["row"])
    return sorted(found.column("row").to_pylist())


@pytest.mark.parametrize("step", [5, pytest.param(1, marks=pytest.mark.long)])
def test_killed_at_every_boundary(worn: World, step: int) -> None:
    """One death before or after each single effect of a cleaning, or both: the next finishes it."""
    mine, ports = crowd(worn, calm(), 1, 0)
    before, tagged = rows(ports), rows(ports, tag="first")
    mine.simulation.run(max_steps=10_000)
    boundaries = mine.faults.boundaries
    assert boundaries > 60
    for boundary in range(1, boundaries + 1, step):
        mine, ports = crowd(worn, calm(crash_at=boundary), 1, 0)
        mine.simulation.run(max_steps=10_000)
        assert rows(ports) == before  # what is gone does not come back: once is enough
        assert rows(ports, tag="first") == tagged
        tidied(mine, ports)


@pytest.mark.parametrize("seed", range(8))
def test_three_cleaners_at_once(worn: World, seed: int) -> None:
    """Whatever their interleaving, their deaths and lost replies: nothing needed is ever gone."""
    faults = Faults(
        random=Random(seed), delay=0.1, error=0.01, lost_reply=0.05, crash=0.01, late=0.02
    )
    mine, ports = crowd(worn, faults, 3, seed)
    before, tagged = rows(ports), rows(ports, tag="first")
    mine.simulation.run(max_steps=50_000)
    assert rows(ports) == before
    assert rows(ports, tag="first") == tagged
    tidied(mine, ports)
    assert rows(ports, tag="first") == tagged


def caught(shape: Shape = EVERYBODY, seeds: Sequence[int] = range(40)) -> bool:
    """Return whether any seed shows the planted bug; ``seeds`` begin with one that did."""
    for seed in seeds:
        try:
            run(build(seed, shape))
        except (AssertionError, SegtableError):
            return True
    return False


def test_deleting_before_the_event_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were the data deleted first, a kept version would lose it to a crash or a conflict."""
    right = cleaning._cleaned

    def hasty(ports: TableContext, look: Any) -> State | None:
        for path in look.run.files:
            ports.files.delete(path)
        return right(ports, look)

    monkeypatch.setattr(cleaning, "_cleaned", hasty)
    assert caught(seeds=beginning_with(3, 40))


def test_forgetting_pending_plans_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were claimed inputs cleaned, a plan would not find what it was to read."""
    monkeypatch.setattr(cleaning_events, "_claimed", lambda _: frozenset())
    assert caught(replace(NO_TAGS, asks=5, compactors=3, planners=2), beginning_with(29, 40))


def test_forgetting_tags_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were tagged versions not looked at, they would lose their files."""
    right = cleaning.cleanable
    monkeypatch.setattr(
        cleaning, "cleanable", lambda head, **given: right(head, retained=given["retained"])
    )
    assert caught(seeds=beginning_with(5, 40))


def tagged_meanwhile(worn: World, seed: int) -> bool:
    """Tag a version while another process cleans; return whether the tag keeps its rows."""
    mine, ports = crowd(worn, Faults(random=Random(seed), delay=0.1), 1, seed)
    late: list[list[int]] = []

    def tagger(actor: Actor) -> None:
        head = EventLog(ports.storage).load()
        version = head.retained_from + int(actor.uniform() * (head.n - head.retained_from))
        there = rows(ports, version=version)
        with suppress(SegtableError):  # it is expired already
            Table(mine.connected(actor)).tag("late", version=version)
            late.append(there)

    mine.simulation.spawn("tagger", tagger)
    mine.simulation.run(max_steps=50_000)
    try:
        return all(rows(ports, tag="late") == there for there in late)
    except SegtableError:
        return False


def test_overlooking_a_tag_made_meanwhile_is_caught(
    worn: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Did a cleaner's event not lose against a tag's, the tag would name what is gone."""
    assert all(tagged_meanwhile(worn, seed) for seed in range(8))
    right = admission(Cleaned)
    answer_otherwise(
        monkeypatch,
        Cleaned,
        admit=lambda action, state: right(replace(action, tags=state.tags), state),
    )
    assert not all(tagged_meanwhile(worn, seed) for seed in range(40))


def test_forgetting_shared_paths_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were a carried-over file deleted with the first segment that named it, rows would go."""
    right = events.KIND_OF[Cleaned].apply

    def forgetful(state: State, action: Any, at: Stamp) -> State:
        gone = {s.path for i in action.ids if (s := state.timeline.get(i)) and s.path}
        after: State = right(state, action, at)
        return replace(after, pending_delete=after.pending_delete | gone)

    answer_otherwise(monkeypatch, Cleaned, apply=forgetful)
    assert caught(replace(NO_TAGS, asks=5), beginning_with(5, 40))


def test_ignoring_retention_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Was only the newest version looked at, the others that are kept would lose files."""
    right = cleaning._walk

    def short(*given: Any) -> tuple[list[State], State]:
        retained, head = right(*given)
        return [replace(head, n=retained[0].n)], head

    monkeypatch.setattr(cleaning, "_walk", short)
    assert caught(NO_TAGS)


def test_ignoring_the_markers_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    """Did nobody ask where the log begins, its expired part would be taken for its end."""
    monkeypatch.setattr(EventLog, "first", lambda _: 0)
    assert caught(NO_TAGS)
