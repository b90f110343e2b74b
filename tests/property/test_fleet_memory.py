"""A planner with a memory decides as one that looks at every table.

A seed makes a history of three tables: appends, plans carried out or given up, an index, settings
that change, time that passes, planner runs whose memory is kept as bytes, lost, or replaced by an
older one. Before each run both planners are asked, and all that they decide and report is equal.
"""

from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from random import Random

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.coordination.memory import MemoryService
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.indexes.index_kind import FileList
from airflow_provider_segtable.core.log.families.plan_events import PlanAborted
from airflow_provider_segtable.planning.fleet.fleet import Fleet
from airflow_provider_segtable.planning.fleet.fleet_file import read_fleet
from airflow_provider_segtable.planning.fleet.fleet_memory import FleetMemory, Why
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compaction import compact
from airflow_provider_segtable.services.fleet_memory_file import decode_memory, encode_memory
from airflow_provider_segtable.services.fleet_run import FleetRun, run_fleet
from airflow_provider_segtable.table.committer import Change, commit
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.index_lifecycle import request_index
from airflow_provider_segtable.table.table import Table, create_table
from tests.examples import examples
from tests.support.clock import START, FakeClock
from tests.support.in_memory import context_in_memory, defined_by

SCHEMA = pa.schema([("at", pa.timestamp("us", "UTC")), ("row", pa.int64())])
TABLES = ("a/one", "a/two", "b/three")
FILE = '[groups.a]\ntables = ["a/*"]\n[groups.b]\ntables = ["b/*"]\n'
PROPERTIES = {
    "compaction.min_segments": "4",
    "compaction.max_age_minutes": "25",
    "compaction.retry_aborted_minutes": "15",
}
"""Times below that of a sweep, so that a look is due before."""
SETTINGS = (
    "",
    "[budget]\nplans = 1\n",
    '[windows]\nmajor = ["10:00-16:00"]\n',
    "enforce = true\n[properties]\ncompaction.max_age_minutes = 9\n",
    "[properties]\ncompaction.clustering = 'row'\ncompaction.major_after_minutes = 90\n",
    "[properties]\ncompaction.skip_offset_minutes = 30\ncompaction.skip_offset_from = 'now'\n",
    '[objective]\nfiles_read = 3\nstale_index = "10m"\n',
    '[tables."a/one"]\nfreeze = true\n',
)


class Lake:
    """Three tables of one clock, and a planner with a memory."""

    def __init__(self, seed: int) -> None:
        self.draw, self.clock, self.service = Random(seed), FakeClock(), MemoryService()
        self.tables = {name: self._table(name) for name in TABLES}
        self.fleet = self._fleet("")
        self.memory = FleetMemory()
        self.before = [self.memory]
        self.spared = 0

    def _table(self, name: str) -> TableContext:
        ports = context_in_memory(self.service, clock=self.clock, uri=f"memory://{name}")
        definition = defined_by(SCHEMA, properties=PROPERTIES)
        create_table(ports, replace(definition, table_id=name.replace("/", "-"), name=name))
        return ports

    def _fleet(self, text: str) -> Fleet:
        return read_fleet(f"{text}{FILE}", "fleet.toml")

    def ports(self, name: str) -> AbstractContextManager[TableContext]:
        """Open a table as a new process does."""
        return nullcontext(replace(self.tables[name]))

    def any_table(self) -> TableContext:
        """Return a table."""
        return self.tables[self.draw.choice(TABLES)]

    def append(self) -> None:
        """Append some small files to an hour."""
        table, hour = Table(self.any_table()), self.draw.choice([0, 1, 2])
        for n in range(self.draw.choice([1, 2, 2, 5])):
            at = START + hour * 3_600_000_000 + n
            table.append(pa.table({"at": pa.array([at], SCHEMA.field("at").type), "row": [n]}))

    def carry_out(self) -> None:
        """Carry out all pending compactions."""
        for ports in self.tables.values():
            plans = [each.plan for each in Table(ports).state().pending_plans()]
            tuple(compact(ports, [p.id for p in plans if p.inputs], in_process(ports.files)))

    def give_up(self) -> None:
        """Abort the pending plans of a table: their inputs rest."""
        ports = self.any_table()
        for each in Table(ports).state().pending_plans():
            action = PlanAborted(plan_id=each.plan.id, attempt=each.attempt, reason="given up")
            commit(ports, ports.log.load(), Change(action=action, commit_id=each.plan.id))

    def index(self) -> None:
        """Request an index of a table, which then lags."""
        ports = self.any_table()
        if not Table(ports).state().indexes:
            request_index(ports, "files", FileList())

    def wait(self) -> None:
        """Let time pass."""
        self.clock.advance(60 * self.draw.choice([3, 6, 11, 70]))

    def settings(self) -> None:
        """Change the file."""
        self.fleet = self._fleet(self.draw.choice(SETTINGS))

    def lose(self) -> None:
        """Lose the memory, or go back to an older one."""
        self.memory = self.draw.choice([FleetMemory(), *self.before])

    def run(self) -> None:
        """Let both planners decide, then request."""
        decided, every = (
            self._run(self.memory, dry_run=True),
            self._run(FleetMemory(), dry_run=True),
        )
        assert _told(decided) == _told(every)
        self.spared += len(TABLES) - len(decided.looked)
        made = self._run(self.memory, dry_run=False).memory
        self.memory = decode_memory(encode_memory(made, "lake"), "lake")
        assert self.memory == made
        self.before.append(made)

    def _run(self, memory: FleetMemory, *, dry_run: bool) -> FleetRun:
        now = self.clock.now()
        return run_fleet(self.fleet, TABLES, self.ports, now, memory=memory, dry_run=dry_run)


def _told(run: FleetRun) -> Facts:
    """Return all that a run decides and reports, but for sentences that tell ages."""
    facts = run.facts()
    return {
        "tables": facts["tables"],
        "chosen": [{**each, "reason": ""} for each in facts["chosen"]],
        "left": [{**each, "reason": ""} for each in facts["left"]],
        "again": sorted(
            (launch.plan_id, launch.author, launch.attempts, launch.changed_at)
            for table in run.tables
            for of in table.runs.values()
            for launch in of.launches
        ),
    }


@examples(20)
@given(st.integers(0, 10**6))
def test_a_planner_with_a_memory_decides_as_one_without(seed: int) -> None:
    """Whatever happened, and whatever became of the memory."""
    lake = Lake(seed)
    waits = (lake.wait,) * 4
    steps = (lake.append, lake.append, *waits, lake.settings, lake.index, lake.lose)
    for _ in range(16):
        lake.draw.choice(steps)()
        lake.run()
        lake.draw.choice((lake.carry_out, lake.carry_out, lake.give_up, lake.wait))()
    lake.run()


def test_unchanged_tables_are_spared() -> None:
    """In most histories some looks are spared, or the property above would say nothing."""
    lake = Lake(1)
    lake.append()
    for _ in range(4):
        lake.run()
        lake.carry_out()
    lake.run()
    assert lake.spared >= len(TABLES)
    assert Why.UNKNOWN not in lake._run(lake.memory, dry_run=True).looked.values()
