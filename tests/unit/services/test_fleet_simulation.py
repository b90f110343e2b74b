"""A past time of real logs under another fleet file: its plans, files and missed aims."""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace

import pytest

from airflow_provider_segtable.coordination.memory import MemoryService
from airflow_provider_segtable.core.errors import StorageError
from airflow_provider_segtable.core.log.fold import apply
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.core.tables.rollup_kind import Metric, MetricKind, Rollup
from airflow_provider_segtable.core.tables.table_kind import TableKind
from airflow_provider_segtable.core.time import DAY_US, HOUR_US, MINUTE_US
from airflow_provider_segtable.planning.fleet.fleet import Fleet
from airflow_provider_segtable.planning.fleet.fleet_file import read_fleet
from airflow_provider_segtable.planning.fleet.simulate import Simulation, Span
from airflow_provider_segtable.planning.fleet.simulated_table import (
    begun,
    ended,
    replayed,
    replays,
)
from airflow_provider_segtable.planning.properties import Policy
from airflow_provider_segtable.planning.table_plan import plan_all
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compact_table import carry_out
from airflow_provider_segtable.services.fleet_run import run_fleet
from airflow_provider_segtable.services.fleet_simulation import FleetSimulation, simulate_fleets
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.definition import of_kind
from airflow_provider_segtable.table.table import Table, create_table
from tests.support.clock import FakeClock
from tests.support.in_memory import context_in_memory, defined_by
from tests.unit.services.conftest import SCHEMA, rows

HOURS = 6
PROPERTIES = {"compaction.min_segments": "4"}
TABLES = ("g/busy", "g/late")


class Past:
    """A table that a fleet's planner serves; others may follow."""

    def __init__(self) -> None:
        self.clock, self.service = FakeClock(), MemoryService()
        self.clock.jump(-(-self.clock.now() // HOUR_US) * HOUR_US)
        self.tables: dict[str, TableContext] = {}
        self.create("g/busy")
        self.start = self.clock.now() + MINUTE_US
        self.clock.advance(60)

    def create(self, name: str, kind: TableKind | None = None) -> None:
        """Create a table."""
        ports = context_in_memory(self.service, clock=self.clock, uri=f"memory://{name}")
        definition = defined_by(SCHEMA, properties=PROPERTIES)
        named = replace(definition, table_id=name.replace("/", "-"), name=name)
        create_table(ports, of_kind(named, kind) if kind else named)
        self.tables[name] = ports

    def ports(self, name: str) -> AbstractContextManager[TableContext]:
        """Open a table."""
        if name not in self.tables:
            raise StorageError(f"{name} cannot be reached")
        return nullcontext(self.tables[name])

    def hour(self, *names: str) -> None:
        """Append four files to each table, then plan, compact, and let the hour pass."""
        for name in names:
            for turn in range(4):
                Table(self.tables[name]).append(rows(turn).slice(0, 1))
        self.clock.advance(60)
        run_fleet(fleet(), [*self.tables], self.ports, self.clock.now())
        for ports in self.tables.values():
            pending = Table(ports).state().pending_plans()
            carry_out(ports, [known.plan.id for known in pending], in_process(ports.files))
        self.clock.jump(self.clock.now() // HOUR_US * HOUR_US + HOUR_US + MINUTE_US)

    def simulate(
        self, *texts: str, names: tuple[str, ...] = TABLES, step: int = 3 * MINUTE_US
    ) -> FleetSimulation:
        """Simulate fleet files over all of it."""
        span = Span(start=self.start, end=self.clock.now(), step=step, period=HOUR_US)
        return simulate_fleets([fleet(text) for text in texts], names, self.ports, span)


def fleet(text: str = "") -> Fleet:
    """Read a fleet file."""
    return read_fleet(f'{text}\n[groups.g]\ntables = ["g/*"]\n', "fleet.toml")


@pytest.fixture(scope="module")
def past() -> Past:
    """Six hours of a table, of which the second half has another table beside it."""
    made = Past()
    for hour in range(HOURS):
        if hour == HOURS // 2:
            made.create("g/late")
        made.hour(*made.tables)
    return made


def plans(found: Simulation) -> int:
    """Return the number of plans that began."""
    return sum(each.plans for each in found.periods)


def test_the_same_file_begins_the_same_plans(past: Past) -> None:
    """Each hour as many as the logs have; nothing is written, and no event is refused."""
    versions = {name: Table(ports).state().n for name, ports in past.tables.items()}
    found = past.simulate("")
    (result,) = found.results
    assert [each.plans for each in result.periods[:HOURS]] == [
        each.logged_plans for each in result.periods[:HOURS]
    ]
    assert plans(result) == HOURS + HOURS // 2
    assert sum(each.logged_bytes for each in result.periods) > 0
    assert (result.left_out, found.errors) == (0, {})
    assert {name: Table(ports).state().n for name, ports in past.tables.items()} == versions


def test_another_file_has_other_plans_and_more_files(past: Past) -> None:
    """No plan begins in a freeze: readers open more files, and the aim is missed for longer."""
    aim = "[objective]\nfiles_read = 6"
    served, frozen = past.simulate(aim, f"freeze = true\n{aim}").results
    assert (plans(served) > 0, plans(frozen)) == (True, 0)
    few, many = (found.periods[-2].facts() for found in (served, frozen))
    assert few["files"] < 35 < many["files"] <= 4 * (HOURS + HOURS // 2)
    assert few["files_read"] < many["files_read"]
    missed = [sum(each.missed_us for each in found.periods) for found in (served, frozen)]
    assert missed[0] < missed[1]
    waited = frozen.waits[0].facts()
    assert (waited["code"], waited["waited_seconds"] > 3_600) == ("frozen", True)


def test_an_aim_is_missed_from_an_event_on_and_not_from_a_step_on(past: Past) -> None:
    """So long steps find the same hours as short ones, while no plan begins."""
    frozen = "freeze = true\n[objective]\nfiles_read = 6"
    found = [
        sum(each.missed_us for each in past.simulate(frozen, step=step).results[0].periods)
        for step in (3 * MINUTE_US, HOUR_US, 4 * HOUR_US)
    ]
    assert len(set(found)) == 1
    # The first table has more than six files from its second hour on, the other from its own.
    ends = past.clock.now() - past.start
    assert found[0] / HOUR_US == pytest.approx(2 * ends / HOUR_US - 1 - (HOURS // 2 + 1), abs=0.1)


def test_plans_take_the_minutes_that_were_measured(past: Past) -> None:
    """At once one plan of the fleet: the others wait until it ends."""
    found = past.simulate("[budget]\nplans = 1\ntask_minutes_per_hour = 0.01").results[0]
    assert 0 < plans(found) <= HOURS + 1
    assert all(each.plans <= 1 for each in found.periods)


def test_changes_and_new_versions_are_replayed() -> None:
    """Appends to a chunk that the simulation has at another version, and deleted rows."""
    past = Past()
    past.hour("g/busy")
    ports = past.tables["g/busy"]
    Table(ports).delete("row = 1")
    (major,) = request(ports, kind="major")
    carry_out(ports, [major.plan.id], in_process(ports.files))
    past.hour("g/busy")
    (found,) = past.simulate("").results
    assert found.left_out == 0
    last = found.periods[-2]
    rewritten_for_deletes = 1  # which the major compaction, which is not simulated, did at once
    assert (last.logged_plans, last.plans) == (2, 1 + rewritten_for_deletes)
    assert last.facts()["files"] < 4


@pytest.mark.parametrize(
    "kind",
    [
        PrimaryKey(key=("row",), buckets=2),
        Rollup(dimensions=("row",), metrics=(Metric(name="n", kind=MetricKind.COUNT),)),
    ],
    ids=lambda kind: type(kind).__name__,
)
def test_logs_of_all_kinds_of_tables_are_replayed(kind: TableKind) -> None:
    """With keys in buckets, and rolled up: each state is sound, and no event is refused."""
    past = Past()
    past.create("g/kind", kind)
    for _ in range(2):
        past.hour("g/kind")
    Table(past.tables["g/kind"]).delete("row = 1")
    past.hour("g/kind")
    (created, *events) = past.tables["g/kind"].log.events(0)
    wider = {"compaction.major_buckets": "4"} if isinstance(kind, PrimaryKey) else {}
    state, policy = apply(None, created), Policy.read({**PROPERTIES, **wider})
    kinds: set[str] = set()
    for event in events:
        state = replayed(state, event) if replays(event) else state
        assert state is not None
        cold = 2 * DAY_US * (event is events[-1])
        for plan in plan_all(state, policy, event.time + cold).chosen:
            state = ended(begun(state, plan, event.time), plan.id, policy.target_size, event.time)
            kinds.add(str(plan.kind))
        assert not [*violations(state)]
    assert kinds >= {"minor", "major"}


def test_a_table_that_cannot_be_read_is_left_out(past: Past) -> None:
    """With its error; one that no group of a file matches is not asked for."""
    found = past.simulate("", names=("g/busy", "g/gone", "other"))
    assert found.errors == {"g/gone": "StorageError: g/gone cannot be reached"}
    assert plans(found.results[0]) == HOURS
    facts = found.facts()
    assert facts["simulations"][0]["periods"][0]["plans"] == 1
