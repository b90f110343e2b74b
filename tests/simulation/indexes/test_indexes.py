"""Indexes beside everybody: right at every version, never in a writer's way; planted errors."""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from random import Random
from typing import Any

import pytest

from airflow_provider_segtable.core.errors import SegtableError, StorageError
from airflow_provider_segtable.core.indexes.index_kind import FileList
from airflow_provider_segtable.core.indexes.index_state import INDEXES, IndexGap, IndexState
from airflow_provider_segtable.core.log.families.index_events import FeedsJoined, IndexBuilt
from airflow_provider_segtable.storage.memory_storage import MemoryStorage
from airflow_provider_segtable.table import committer, index_lifecycle
from airflow_provider_segtable.table.index_lifecycle import request_index
from airflow_provider_segtable.table.indexes import feeding, index_entries
from airflow_provider_segtable.table.indexes.feeding import Feeder
from tests.planted_kinds import admission, answer_otherwise
from tests.simulation.disasters import harsh, mixed, slow, unheard
from tests.simulation.faults.faulty_storage import Faults
from tests.simulation.scenario import build, run
from tests.simulation.seeds import beginning_with
from tests.simulation.simulator import Actor
from tests.simulation.world import EVERYBODY, Shape

Patch = pytest.MonkeyPatch
INDEXERS = replace(EVERYBODY, repairers=1, requesters=2, builders=1, tenders=1)
FEW = Shape(
    appenders=3,
    appends_each=3,
    compactors=1,
    chunks=2,
    requesters=1,
    wishes_each=2,
    builders=2,
    tenders=1,
)
DISASTERS = ((slow, 3), (unheard, 2), (mixed, 5), (harsh, 4), (mixed, 1))
WANTED = frozenset(
    {"IndexRequested", "IndexBuilt", "FeedsJoined", "IndexForwarded", "IndexDropped", "rebuilt"}
    | {"fed", "unfed"}
)


@pytest.fixture(autouse=True)
def frequent_checkpoints(monkeypatch: Patch) -> None:
    """So that short logs expire, and checkpoints keep what the state knows of indexes.

    Writers copy few feeds, of which some are in events, and some in files.
    """
    monkeypatch.setattr(committer, "CHECKPOINT_EVERY", 4)
    monkeypatch.setattr(committer, "MANY", 4)
    monkeypatch.setattr(index_entries, "MOST_INLINE", 800)


def test_everybody_at_once() -> None:
    """Every index at every version gives what the files give, or says that it lacks it.

    Two disasters, and more only until everything has happened.
    """
    seen: Counter[str] = Counter()
    for number, (faults, seed) in enumerate(DISASTERS):
        world = build(seed, INDEXERS, faults(seed))
        run(world)
        seen.update(world.indexes.happened)
        if number and seen.keys() >= WANTED:
            return
    raise AssertionError(f"never seen: {sorted(WANTED - seen.keys())}")


def calm(**changes: Any) -> Faults:
    return Faults(random=Random(1), **changes)


def test_a_crash_beside_an_index() -> None:
    """One crash before or after any effect, of writers, builders and tenders; every 97th."""
    shape = replace(FEW, appenders=1, appends_each=2, chunks=1, builders=1)
    world = build(3, shape, calm())
    run(world)
    for boundary in range(1, world.faults.boundaries + 1, 97):
        crashed = build(3, shape, calm(crash_at=boundary))
        run(crashed)
        assert crashed.ledger.acknowledged == {"append-0-0", "append-0-1"}


class WithoutIndexes(MemoryStorage):
    """A store that from some moment on can neither read nor keep what is below the indexes."""

    broken = False

    def read(self, path: str) -> bytes:
        """Fail below the indexes."""
        self._refuse(path)
        return super().read(path)

    def create(self, path: str, data: bytes, **given: Any) -> None:
        """Fail below the indexes."""
        self._refuse(path)
        super().create(path, data, **given)

    def _refuse(self, path: str) -> None:
        if self.broken and path.startswith(INDEXES):
            raise StorageError(f"{path}: nothing can be kept here")


@pytest.mark.parametrize(("most_inline", "lacking"), [(0, 6), (8192, 0)])
def test_writers_neither_fail_nor_wait_because_of_an_index(
    most_inline: int, lacking: int, monkeypatch: Patch
) -> None:
    """Where an index cannot be read or written, each commit lands at once; the log says so.

    Entries that are in the events need nothing else.
    """
    monkeypatch.setattr(index_entries, "MOST_INLINE", most_inline)
    broken = appended_beside(broken=True, lacking=lacking)
    assert broken == appended_beside(broken=False, lacking=0)


def appended_beside(*, broken: bool, lacking: int) -> list[str]:
    """Return the steps of an appender beside an index that it can feed, or cannot."""
    world = build(1, Shape(appenders=1, appends_each=6, planners=0), calm(), WithoutIndexes)
    outside = Actor(name="outside", run=lambda _: None, simulation=world.simulation)
    ports = world.raw_ports(outside)
    request_index(ports, "one", FileList())
    world.ledger.check(ports)
    assert isinstance(world.storage, WithoutIndexes)
    world.storage.broken = broken
    world.simulation.run(max_steps=20_000, until=lambda: len(world.ledger.finished) == 6)
    world.simulation.close()
    lacks = ports.log.load().indexes["one"].lacks
    assert len({each.n for each in lacks}) == lacking
    steps = [line for line in world.simulation.trace if line.startswith("appender")]
    return [line for line in steps if "failed" in line or "sleep" in line]


def feeds_dropped_on_retry(monkeypatch: Patch) -> None:
    """A commit that lost a race is made again without its feeds."""
    right = Feeder.feeds

    def once(feeder: Any, state: Any) -> Any:
        if getattr(feeder, "tried", False):
            return ()
        feeder.tried = True
        return right(feeder, state)

    monkeypatch.setattr(Feeder, "feeds", once)


def lacks_unrecorded(monkeypatch: Patch) -> None:
    """An event without a feed leaves the index as it was."""
    right = IndexState.lacking

    def careless(index: IndexState, intervals: Any, n: int, time: int) -> IndexState:
        return right(index, intervals, n, time) if n == index.requested_n else index

    monkeypatch.setattr(IndexState, "lacking", careless)
    monkeypatch.setattr(feeding, "MOST_WAITING", 0)


def builds_take_too_much(monkeypatch: Patch) -> None:
    """A build takes away what was published after the version that it read."""
    right = IndexGap.without
    monkeypatch.setattr(IndexGap, "without", lambda lack, built, _: right(lack, built, 2**62))
    monkeypatch.setattr(feeding, "MOST_WAITING", 0)


def builds_of_later_versions(monkeypatch: Patch) -> None:
    """A build says that it read the version before its own event."""
    right = admission(IndexBuilt)
    answer_otherwise(
        monkeypatch,
        IndexBuilt,
        admit=lambda action, state: right(replace(action, through=state.n), state),
    )
    monkeypatch.setattr(feeding, "MOST_WAITING", 0)


def copies_lose_one(monkeypatch: Patch) -> None:
    """The first of several feeds is not copied."""
    right = feeding._copy

    def careless(ports: Any, state: Any, index: IndexState, put: Any) -> None:
        right(ports, state, replace(index, feeds=index.feeds[1:] or index.feeds), put)

    monkeypatch.setattr(feeding, "_copy", careless)


def joins_lose_the_last(monkeypatch: Patch) -> None:
    """The last of several feeds is not in the file that takes their place."""
    right = index_entries.write_joined
    monkeypatch.setattr(
        index_entries,
        "write_joined",
        lambda ports, index, feeds: right(ports, index, feeds[:-1] or feeds),
    )


def joins_come_late(monkeypatch: Patch) -> None:
    """A join lands although another one was first."""
    answer_otherwise(monkeypatch, FeedsJoined, admit=lambda action, _: action)


def ids_used_again(monkeypatch: Patch) -> None:
    """An index has its name for its id, so the next one has the same files."""
    right = index_lifecycle.IndexDefinition
    monkeypatch.setattr(
        index_lifecycle, "IndexDefinition", lambda **given: right(**{**given, "id": given["name"]})
    )


def entries_of_others(monkeypatch: Patch) -> None:
    """A writer takes the entries that it brings from another file."""
    right = committer.new_files
    monkeypatch.setattr(
        committer,
        "new_files",
        lambda action: tuple(replace(s, size=s.size + 1) for s in right(action)),
    )


PLANTED = [
    (feeds_dropped_on_retry, slow, 1, "no entry about"),
    (lacks_unrecorded, slow, 1, "the events say"),
    (builds_take_too_much, slow, 0, "the events say"),
    (builds_of_later_versions, slow, 1, "no entry about"),
    (copies_lose_one, slow, 0, "is lost|out of order"),
    (joins_lose_the_last, slow, 1, "no entry about"),
    (joins_come_late, slow, 1, "joins nothing|joins what has files"),
    (ids_used_again, slow, 1, "cannot be read"),
    (entries_of_others, slow, 2, "its entries about"),
]


@pytest.mark.parametrize(("plant", "faults", "seed", "words"), PLANTED)
def test_planted_errors_are_seen(
    plant: Callable[[Patch], None],
    faults: Callable[[int], Faults],
    seed: int,
    words: str,
    monkeypatch: Patch,
) -> None:
    """Each error shows in words of its own."""
    plant(monkeypatch)
    found = first_that_shows(faults, beginning_with(seed, 8), words)
    assert found is not None, "no seed shows it"


def first_that_shows(
    faults: Callable[[int], Faults], seeds: Sequence[int], words: str
) -> int | None:
    """Return the first seed in which something is wrong, in these words."""
    for seed in seeds:
        try:
            run(build(seed, FEW, faults(seed)))
        except (AssertionError, SegtableError) as wrong:
            if re.search(words, str(wrong)):
                return seed
    return None
