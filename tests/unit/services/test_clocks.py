"""No author sets the log's time by a clock that is off, whenever it goes wrong."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, replace

import pytest

from airflow_provider_segtable.coordination.memory import MemoryCoordinator, MemoryService
from airflow_provider_segtable.core.errors import (
    ClockSkew,
    InvalidInput,
    NotATable,
    SegtableError,
)
from airflow_provider_segtable.core.log.log_paths import CHECKPOINTS, event_path, number
from airflow_provider_segtable.core.recovery.diagnosis import Finding, Severity
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.health.delete_recovery import Verdict
from airflow_provider_segtable.health.doctor import examine
from airflow_provider_segtable.health.repair import Decisions, plan_repair, repair
from airflow_provider_segtable.health.verify import verify
from airflow_provider_segtable.planning.properties import Retention
from airflow_provider_segtable.services.attempt import Attempt, begin, give_way, in_process
from airflow_provider_segtable.services.cleaning import clean
from airflow_provider_segtable.services.compaction import Ended, compact
from airflow_provider_segtable.services.planner import plan_table
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.storage.memory_storage import MemoryStorage
from airflow_provider_segtable.table.append import append_request
from airflow_provider_segtable.table.context import (
    FOLDER,
    SKEW_VARIABLE,
    VALID_S,
    ClockCheck,
    TableContext,
    open_context,
)
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.table import Table, create_table
from tests.support.clock import FakeClock, FakeRandomness
from tests.support.in_memory import context_in_memory, defined_by
from tests.support.rooted import RootedFiles
from tests.unit.services.conftest import SCHEMA, contents, rows

DAY_US = 24 * 3_600_000_000
YEARS_73_US = 73 * 365 * DAY_US
BOUND_US = 60_000_000
MOMENTS = (0, 1, 2, 4, 8)
DEFINITION = defined_by(
    SCHEMA, properties={"compaction.min_segments": "2", "compaction.max_attempts": "1"}
)


class Failing(FakeClock):
    """A clock that goes wrong after it was looked at a few times."""

    def __init__(self, right: FakeClock, looks: int, off_us: int) -> None:
        """Begin right."""
        super().__init__()
        self.right, self.looks, self.off_us = right, looks, off_us

    def now(self) -> Instant:
        """Return the right time, or, from some look on, the wrong one."""
        self.looks -= 1
        return self.right.now() + (self.off_us if self.looks < 0 else 0)

    def monotonic(self) -> float:
        """Return what the right clock does."""
        return self.right.monotonic()


@dataclass
class World:
    """A table whose storage and coordinator know the time."""

    clock: FakeClock
    service: MemoryService
    ports: TableContext

    @staticmethod
    def empty() -> "World":
        """Return one without a table."""
        clock = FakeClock()
        service = MemoryService(clock)
        ports = context_in_memory(service, clock=clock, author="right", rooted=True)
        return World(clock, service, ports)

    def elsewhere(self, looks: int, off_us: int) -> TableContext:
        """Return another process's ports, with a clock that goes wrong."""
        clock = Failing(self.clock, looks, off_us)
        return replace(
            self.ports,
            clock=clock,
            randomness=FakeRandomness(1),
            author="host-7:123",
            optional_coordinator=MemoryCoordinator(clock, self.service),
            clock_check=ClockCheck(),
        )


Act = Callable[[TableContext], object]


def begun() -> World:
    """Return a table with two appends of two hours."""
    world = World.empty()
    create_table(world.ports, DEFINITION)
    for turn in range(2):
        Table(world.ports).append(rows(turn))
    return world


def planned() -> World:
    """Return the same with plans that are pending."""
    world = begun()
    plan_table(world.ports)
    return world


def compacted() -> World:
    """Return the same, compacted, some time ago."""
    world = planned()
    work(world.ports)
    world.clock.advance(1)
    return world


def work(ports: TableContext) -> None:
    """Carry out what is pending; what fails, fails for its clock."""
    plans = [known.plan.id for known in Table(ports).state().pending_plans()]
    results = compact(ports, plans, in_process(ports.files))
    for result in results:
        if result.ended is Ended.FAILED:
            raise ClockSkew(result.message)


def abandoned() -> World:
    """Return a table with ids that nobody will use."""
    world = begun()
    ports, state = world.ports, Table(world.ports).state()
    hours = dict.fromkeys((c.interval for c in state.timeline.visible_chunks()), 1)
    ports.coordinator.acquire(append_request(ports, state, hours, "dead", 50), wait_s=1).release()
    Table(ports).append(rows(2))
    return world


def died() -> World:
    """Return a table whose plans have cost a worker each."""
    world = planned()
    plans = [known.plan.id for known in Table(world.ports).state().pending_plans()]
    compact(world.ports, plans, lambda _: iter(()))
    return world


def yielding(ports: TableContext) -> None:
    """Begin an attempt, and give way."""
    state = Table(ports).state()
    attempt = begin(ports, state.pending_plans()[0], state, wait_s=1)
    assert isinstance(attempt, Attempt)
    give_way(ports, attempt, "somebody more urgent")


def tagged() -> World:
    """Return a table with a tag."""
    world = begun()
    Table(world.ports).tag("old")
    return world


def damaged() -> World:
    """Return a table whose compacted file is lost."""
    world = compacted()
    segment = Table(world.ports).state().timeline.visible_segments()[0]
    world.ports.storage.delete(segment.path)
    return world


def lost() -> World:
    """Return a table without a log."""
    world = begun()
    for entry in [*world.ports.storage.list("_segtable")]:
        world.ports.storage.delete(entry.path)
    return world


def merge(ports: TableContext) -> None:
    """Update a row and insert one."""
    Table(ports).merge(rows(1).slice(0, 1), on=["row"])


AUTHORS: dict[str, tuple[Callable[[], World], Act]] = {
    "create": (World.empty, lambda ports: create_table(ports, DEFINITION)),
    "append": (begun, lambda ports: Table(ports).append(rows(9))),
    "delete": (begun, lambda ports: Table(ports).delete("row = 0")),
    "update": (begun, lambda ports: Table(ports).update({"row": 7}, "row = 0")),
    "merge": (begun, merge),
    "tag": (begun, lambda ports: Table(ports).tag("new")),
    "untag": (tagged, lambda ports: Table(ports).untag("old")),
    "clean": (compacted, lambda ports: clean(ports, retention=Retention(hours=0, versions=1))),
    "plan": (begun, plan_table),
    "request": (begun, lambda ports: request(ports, "major")),
    "inflight and complete": (planned, work),
    "yield": (planned, yielding),
    "abort": (died, plan_table),
    "void": (abandoned, plan_table),
    "repair": (damaged, lambda ports: repair(ports, plan_repair(ports))),
    "rebuild": (lost, lambda ports: repair(ports, plan_repair(ports))),
}


def version(ports: TableContext) -> int | None:
    """Return the newest version; None if there is no log."""
    try:
        return EventLog(ports.storage).load().n
    except NotATable:
        return None


@pytest.mark.parametrize("author", AUTHORS)
@pytest.mark.parametrize("off_us", [YEARS_73_US, -DAY_US])
def test_an_author_whose_clock_is_off_is_refused(author: str, off_us: int) -> None:
    """Ahead or behind: nothing is committed, and the error names host, both times and a way out."""
    prepare, act = AUTHORS[author]
    world = prepare()
    before = version(world.ports)
    with pytest.raises(ClockSkew, match=r"host-7:123 is .* off .*it is .*, there .*NTP"):
        act(world.elsewhere(0, off_us))
    assert version(world.ports) == before
    act(world.elsewhere(0, 0))
    assert version(world.ports) != before


@pytest.mark.parametrize("author", AUTHORS)
def test_a_clock_that_goes_wrong_on_the_way_sets_no_time(author: str) -> None:
    """At whichever look the clock jumps ahead, no event of the log is ahead of the real time."""
    prepare, act = AUTHORS[author]
    for looks in MOMENTS:
        world = prepare()
        with suppress(SegtableError):
            act(world.elsewhere(looks, YEARS_73_US))
        for event in events(world.ports):
            assert event <= world.clock.now() + BOUND_US, f"after {looks} looks"


def events(ports: TableContext) -> Iterable[Instant]:
    """Yield the times of all events."""
    return (event.time for event in EventLog(ports.storage).events(0))


class Probed(MemoryStorage):
    """A storage that counts how often its clock is asked."""

    probes = 0

    def replace(self, path: str, data: bytes) -> None:
        """Count probes."""
        self.probes += path.startswith(FOLDER)
        super().replace(path, data)


def test_the_storage_is_asked_once_in_a_while() -> None:
    """A process asks before its first commit and after ten minutes; with leases never."""
    world = World.empty()
    storage = Probed(clock=world.clock)
    ports = replace(world.ports, storage=storage, files=RootedFiles(storage))
    table = create_table(ports, DEFINITION)
    table.append(rows(0))
    table.tag("first")
    assert storage.probes == 1
    world.clock.advance(VALID_S + 1)
    table.append(rows(1))
    table.tag("second")
    assert storage.probes == 1
    world.clock.advance(VALID_S + 1)
    table.tag("third")
    assert storage.probes == 2
    assert [*storage.list(FOLDER)] == []


def test_the_bound_is_set_by_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Seconds are taken from the environment; what is no number of seconds is refused by name."""
    assert open_context("memory://bound").most_skew_s == 60
    monkeypatch.setenv(SKEW_VARIABLE, "300")
    assert open_context("memory://bound").most_skew_s == 300
    for wrong in ("much", "-1", "nan"):
        monkeypatch.setenv(SKEW_VARIABLE, wrong)
        with pytest.raises(InvalidInput, match=f"{SKEW_VARIABLE}={wrong!r} is not a number"):
            open_context("memory://bound")


def test_tables_of_one_process_share_a_comparison() -> None:
    """The clock is the process's, so what one table has compared counts for all."""
    assert open_context("memory://one").clock_check is open_context("memory://two").clock_check


def test_a_wider_bound_lets_a_clock_pass() -> None:
    """Where the storage's clock is the wrong one, a wider bound is the way out."""
    world = begun()
    off = replace(world.elsewhere(0, 2 * BOUND_US), most_skew_s=180)
    assert Table(off).delete("row = 0").deleted == 1


def poisoned(world: World) -> int:
    """Delete with a clock 73 years ahead that nobody compared; return the event."""
    unchecked = replace(world.elsewhere(0, YEARS_73_US), most_skew_s=float("inf"))
    n = Table(unchecked).delete("row = 1").n
    assert n is not None
    return n


def found(ports: TableContext, code: str) -> list[Finding]:
    """Return what the doctor finds of one code."""
    return [finding for finding in examine(ports).findings if finding.code == code]


def test_a_log_that_is_ahead_of_time_is_critical() -> None:
    """The doctor names the first event that the storage's clock contradicts, and its author."""
    world = begun()
    Table(world.ports).tag("before")
    assert found(world.ports, "log-ahead") == []
    n = poisoned(world)
    for turn in range(4):
        (told,) = found(world.ports, "log-ahead")
        assert (told.where, told.severity) == (event_path(n), Severity.CRITICAL)
        assert "its time 2098-12-14" in told.what
        Table(world.ports).append(rows(turn))


@pytest.mark.parametrize("checkpoint", [True, False])
def test_a_log_that_is_ahead_of_time_is_rebuilt(checkpoint: bool) -> None:  # noqa: FBT001
    """As the runbook says: its first wrong event and checkpoints since go, then repair."""
    world = begun()
    ports = world.ports
    Table(ports).delete("row = 0")
    Table(ports).tag("before")
    n = poisoned(world)
    Table(ports).append(rows(4))
    plan_table(ports)
    work(ports)
    Table(ports).update({"row": 55}, "row = 4")
    there = contents(ports)
    if checkpoint:
        EventLog(ports.storage).checkpoint(Table(ports).state())
    for entry in [*ports.storage.list(CHECKPOINTS)]:
        if (number(entry.path) or 0) >= n:
            ports.storage.delete(entry.path)
    ports.storage.delete(event_path(n))
    repair(ports, plan_repair(ports, Decisions(deletes=Verdict.APPLY)))
    assert contents(ports) == there
    assert Table(ports).state().time < world.clock.now() + BOUND_US
    assert found(ports, "log-ahead") == found(ports, "clock-skew") == []
    assert Table(ports).snapshot(tag="before").count() == 3
    Table(ports).append(rows(5))
    assert verify(ports, deep=True).findings == ()
