"""Alterations beside plans: each kind of table, plan and alteration, at each step of the plan.

The cases are generated. A case writes rows, requests a plan, carries it out, and alters the table
at one step of it. Beside the plan, rows are written in the columns of before and of after. The
oracle is a list of records by column id, so it knows nothing of files, plans and schemas.
"""

import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from typing import Any, get_args

import pyarrow as pa
import pytest

from airflow_provider_segtable.core.errors import CommitConflict
from airflow_provider_segtable.core.log.events import encode
from airflow_provider_segtable.core.log.families.plan_events import PlanCompleted
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.log.log_paths import event_path
from airflow_provider_segtable.core.log.plan_kinds import kinds
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.recovery.diagnosis import Severity
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.tables.append_kind import Append
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.tables.evolution import (
    AddColumn,
    ColumnChange,
    DropColumn,
    MakeNullable,
    RenameColumn,
    Reorder,
    WidenColumn,
)
from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.core.tables.merge_rules import MergeEngine
from airflow_provider_segtable.core.tables.rollup_kind import Metric, MetricKind, Rollup
from airflow_provider_segtable.core.tables.table_kind import TableKind
from airflow_provider_segtable.core.time import DAY_US, HOUR_US, Granularity
from airflow_provider_segtable.data.arrow_schema import from_arrow, to_arrow
from airflow_provider_segtable.data.table_kinds import arrow_kind_of
from airflow_provider_segtable.health.doctor import examine, lost_values
from airflow_provider_segtable.health.verify import verify
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.ports.job import Done, Job, run_one
from airflow_provider_segtable.services.compaction import Ended, compact
from airflow_provider_segtable.services.indexing import requested_plan
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.table.append import append, check_filled, incoming
from airflow_provider_segtable.table.definition import of_kind
from airflow_provider_segtable.table.table import create_table
from airflow_provider_segtable.table.upsert import records_of, upsert
from tests.support.clock import FakeClock
from tests.support.in_memory import context_in_memory

SCHEMA = pa.schema(
    [
        pa.field("at", pa.timestamp("us", "UTC"), nullable=False),
        pa.field("key", pa.int64(), nullable=False),
        ("small", pa.int8()),
        ("text", pa.string()),
        ("rank", pa.int32()),
        ("score", pa.int32()),
        pa.field("sure", pa.int32(), nullable=False),
    ]
)
ROLLED_UP = pa.schema([SCHEMA.field(name) for name in ("at", "key", "text", "score")])
NOW = 1_356_998_400_000_000
WIDE = 1_000
"""A value that only the wider type holds."""

TABLES: Mapping[str, TableKind] = {
    "append": Append(),
    "rollup": Rollup(
        dimensions=("key", "text"),
        metrics=(Metric(name="top", kind=MetricKind.MAX, source="score"),),
    ),
    "latest": PrimaryKey(key=("key",), buckets=2),
    "partial": PrimaryKey(key=("key",), buckets=2, merge=MergeEngine.PARTIAL_UPDATE),
}
PLANS: Mapping[str, tuple[str, Mapping[str, Any]]] = {
    "minor": ("minor", {}),
    "semi-major": ("semi-major", {}),
    "major": ("major", {}),
    "major to months": ("major", {"granularity": "month"}),
    "major to hours": ("major", {"granularity": "hour"}),
    "major to 3 buckets": ("major", {"buckets": 3}),
    "major to 1 bucket": ("major", {"buckets": 1}),
    "column_stats": ("index", {"columns": ["key"]}),
    "bloom_filter": ("index", {"columns": ["key"]}),
    "files": ("index", {}),
    "record_index": ("index", {}),
}
ADDED = (
    AddColumn(name="more", type="int32"),
    AddColumn(name="sevens", type="int32", default="7"),
)
ALTERATIONS: Mapping[str, tuple[ColumnChange, ...]] = {
    "added": (
        *ADDED,
        WidenColumn(name="small", type="int64"),
        RenameColumn(name="text", new="label"),
        MakeNullable(name="sure"),
        Reorder(names=("sevens", "label", "key")),
    ),
    "added anew": (
        DropColumn(name="text"),
        AddColumn(name="text", type="string", default="x"),
        DropColumn(name="small"),
        AddColumn(name="small", type="string"),
    ),
    "swapped": (
        DropColumn(name="score"),
        RenameColumn(name="small", new="other"),
        RenameColumn(name="text", new="small"),
        RenameColumn(name="other", new="text"),
    ),
}
ORDERS: Mapping[str, tuple[ColumnChange, ...]] = {
    "order renamed": (RenameColumn(name="rank", new="place"), *ADDED),
    "order dropped": (DropColumn(name="rank"), *ADDED),
    "order anew": (DropColumn(name="rank"), AddColumn(name="rank", type="int32"), *ADDED),
    "order moved": (
        RenameColumn(name="rank", new="x"),
        RenameColumn(name="sure", new="rank"),
        *ADDED,
    ),
}
"""They change the column by which append tables are sorted here."""
COLUMNS = {**ALTERATIONS, **ORDERS, "properties": ()}
PROPERTIES = {
    "compaction.target_size": "1000",
    "compaction.major_granularity": "month",
    "retention.tombstone_hours": "0",
    "index.timeout_minutes": "1",
}
STEPS = ("requested", "inflight", "written")
KEYED = ("latest", "partial")


def cases() -> Iterator[tuple[str, str, str]]:
    """Yield the kinds of table, plans and alterations that go together."""
    for table, plan, alteration in product(TABLES, PLANS, COLUMNS):
        sorts = table == "append" and PLANS[plan][0] in ("semi-major", "major")
        if table not in KEYED and plan in (
            "record_index",
            "major to 3 buckets",
            "major to 1 bucket",
        ):
            continue
        if (alteration in ORDERS and not sorts) or (table == "rollup" and COLUMNS[alteration]):
            continue
        if (PLANS[plan][0] == "index" and alteration == "swapped") or (
            (table, plan) == ("partial", "record_index")
        ):
            continue  # an indexed column is not dropped; records of parts of rows are not indexed
        yield table, plan, alteration


def pairwise(every: Sequence[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Return few of the cases, among them each pair of values that occurs in any."""
    pairs = {case: {*combinations(enumerate(case), 2)} for case in every}
    left, chosen = set().union(*pairs.values()), []
    while left:
        chosen.append(max(every, key=lambda case: len(pairs[case] & left)))
        left -= pairs[chosen[-1]]
    return chosen


EVERY = [(*case, step) for case in cases() for step in STEPS]
SOME = pairwise(EVERY)
Row = dict[str, Any]
ById = dict[int, Any]


@dataclass
class Beside:
    """A table, its oracle, and what happens beside a plan.

    Attributes:
        name: the kind of the table.
        table: the table.
        records: all rows that were written, by column id, and what else is known of each.
        moments: the rows that readers saw, by column id, at each write.
    """

    name: str
    table: Table
    clock: FakeClock
    records: dict[int, ById] = field(default_factory=dict)
    defaults: ById = field(default_factory=dict)
    moments: list[ById] = field(default_factory=list)
    written: int = 0

    @property
    def state(self) -> State:
        """Return the newest version."""
        return self.table.state()

    def put(self, seen: State, keys: Sequence[int], wide: int = 0) -> None:
        """Write rows of some keys in the columns of a version."""
        table = seen.table
        given = to_arrow(table.kind.input_schema(table.schema, table.time_column))
        self.written += 1
        self.clock.advance(1)
        own = 0 if table.kind.rules else 10 * self.written  # without a key each row is its own
        rows = pa.Table.from_pylist([self.made(given, own + key, wide) for key in keys], given)
        commit_id = f"write {self.written}"
        if seen.table.kind.rules:
            upsert(self.table.ports, records_of(rows, seen), commit_id=commit_id, state=seen)
        else:
            rows = check_filled(rows, given, "at")
            stored = arrow_kind_of(table.kind).prepared(rows, "at")
            prepare = incoming(self.table.ports, stored, seen)
            append(self.table.ports, prepare, commit_id=commit_id, wait_s=0, state=seen)
        self.note(seen, rows.to_pylist())

    def made(self, schema: pa.Schema, key: int, wide: int) -> Row:
        """Return a row whose every value is its own."""
        at = self.written
        row: Row = {}
        for each in schema:
            if each.name == "at":
                row["at"] = NOW + key % 2 * DAY_US + key % 10 * HOUR_US
            elif each.name == "key":
                row["key"] = key
            elif pa.types.is_string(each.type):
                row[each.name] = f"{each.name} {key} {at}"
            else:
                row[each.name] = key % 10 * 10 + at + (wide if each.type == pa.int64() else 0)
            if each.nullable and (key + at) % 4 == 3 and each.name != "top":
                row[each.name] = None
        return row

    def note(self, seen: State, rows: Sequence[Row]) -> None:
        """Add rows to the oracle."""
        ids = {column.name: column.id for column in seen.table.schema.numbered}
        partial = seen.table.kind.rules is not None and seen.table.kind.rules.partial
        for given in rows:
            row = given | {"top": given.get("score")}  # the metric of a group of one row
            new = {ids[name]: value for name, value in row.items() if name in ids}
            old = self.records.get(row["key"], {}) if partial else {}
            kept = {i: value for i, value in new.items() if value is not None or not partial}
            self.records[row["key"]] = {**old, **kept}
        self.moments += [dict(row) for row in self.records.values()]

    def delete(self, key: int) -> None:
        """Delete a key by a condition."""
        self.table.delete(f"key = {key}")
        self.records.pop(key, None)

    def shown(self, records: Sequence[ById]) -> list[Row]:
        """Return records in the present columns."""
        table = self.state.table
        partial, rows = table.kind.rules is not None and table.kind.rules.partial, []
        for record in records:
            row = {}
            for column in table.schema.numbered:
                default = self.defaults.get(column.id)
                value = record.get(column.id, default)
                row[column.name] = default if value is None and partial else value
            rows.append(row)
        return sorted(rows, key=lambda row: row["key"])

    def alter(self, alteration: str) -> bool:
        """Alter the table, unless a pending plan sorts by what it would change."""
        changes = COLUMNS[alteration]
        sorts = any(
            known.plan.facts()["clustering"] == "rank" for known in self.state.pending_plans()
        )
        if sorts and alteration in ORDERS:
            with pytest.raises(CommitConflict, match="carry it out first"):
                self.table.alter(columns=changes)
            return False
        self.table.alter(columns=changes, set=PROPERTIES)
        for change in changes:
            if isinstance(change, AddColumn) and change.default is not None:
                column = self.state.table.schema.find(change.name)
                assert column is not None
                self.defaults[column.id] = "x" if column.type == "string" else 7
        return True

    def check_rows(self) -> list[Row]:
        """Compare all rows with the oracle, and return them."""
        rows = self.shown([*self.records.values()])
        found = self.table.scan(rolled_up=self.name == "rollup").to_arrow()
        assert _sorted(found) == rows
        assert tuple(found.schema.names) == self.state.table.schema.names
        return rows

    def check(self) -> None:
        """Compare every way of reading with the oracle."""
        rows = self.check_rows()
        assert self.table.scan(rolled_up=self.name == "rollup").count() == len(rows)
        names = [name for name in self.state.table.schema.names if name not in ("at", "key")]
        self.check_filter(names[self.state.n % len(names)], rows)
        if self.state.table.kind.rules:
            seen = self.shown(self.moments)
            bases = self.table.scan(base_only=True).to_arrow()
            assert all(row in seen for row in _sorted(bases))
        assert list(violations(self.state)) == []

    def check_filter(self, name: str, rows: Sequence[Row]) -> None:
        """Compare filters on one column with the oracle."""
        values = sorted({row[name] for row in rows if row[name] is not None})
        wanted = [f"{name} is null", *(f"{name} = {value!r}" for value in values[-1:])]
        for where in wanted:
            text = where.rpartition(" = ")[2]
            keys = [
                row["key"]
                for row in rows
                if (repr(row[name]) == text if " = " in where else row[name] is None)
            ]
            found = self.table.scan(columns=["key", name], where=where).to_arrow()
            assert sorted(found.column("key").to_pylist()) == keys, where


def _sorted(rows: pa.Table) -> list[Row]:
    return sorted(rows.to_pylist(), key=lambda row: row["key"])


def new_world(name: str) -> Beside:
    """Return an empty table in memory, with its oracle."""
    clock = FakeClock()
    ports = context_in_memory(clock=clock)
    definition = TableDefinition(
        table_id="00000000-0000-0000-0000-000000000027",
        name="t",
        schema=from_arrow(ROLLED_UP if name == "rollup" else SCHEMA),
        time_column="at",
        granularity=Granularity.DAY,
    )
    create_table(ports, of_kind(definition, TABLES[name]))
    return Beside(name, Table(ports), clock)


def planned(table: Table, plan: str) -> list[str]:
    """Request a plan; return the ids."""
    kind, options = PLANS[plan]
    if kind == "index":
        table.create_index("own", plan, options.get("columns", ()))
        known = requested_plan(table.ports, "own")
        return [known.plan.id] if known else []
    if table.state().table.kind.name == "append" and kind != "minor":
        options = {**options, "clustering": "rank"}
    return [known.plan.id for known in request(table.ports, kind, **options)]


def carried_out(
    table: Table, ids: Sequence[str], inflight: Callable[[], None], written: Callable[[], None]
) -> None:
    """Carry plans out, as tasks do: jobs are sent as bytes. Call back before and after they run."""
    before, after = [inflight], [written]

    def execute(jobs: Sequence[Job]) -> Iterator[Done]:
        for call in (*before,):
            before.remove(call)
            call()
        for at, job in enumerate(jobs):
            done = run_one(at, pickle.loads(pickle.dumps(job)), table.ports.files)  # noqa: S301
            some = isinstance(done.value, tuple)  # of rows: segments, or what was counted
            wrote = not some or any(isinstance(each, Segment) for each in done.value)
            if at == len(jobs) - 1 and wrote:
                for call in (*after,):
                    after.remove(call)
                    call()
            yield done

    results = compact(table.ports, ids, execute)
    assert [(r.ended, r.message) for r in results] == [
        (Ended.COMPLETED, r.message) for r in results
    ]
    assert not after


def beside(world: Beside, plan: str, alteration: str, step: str) -> None:
    """Play one case."""
    name = world.name
    for _ in range(2):
        world.put(world.state, range(6))
    world.delete(min(world.records))
    ids = planned(world.table, plan)

    def disturb() -> None:
        seen = world.state
        altered = world.alter(alteration)
        if name in ("latest", "partial") or plan != "major to hours" or step == "requested":
            world.put(world.state, range(1, 7), WIDE if altered else 0)
            world.put(seen, (2, 4, 7, 9))
        world.delete(max(world.records))

    calls = {each: disturb if each == step else lambda: None for each in STEPS}
    calls["requested"]()
    carried_out(world.table, ids, calls["inflight"], calls["written"])
    world.check()
    again = [known.plan.id for known in request(world.table.ports, "major")]
    carried_out(world.table, again, lambda: None, lambda: None)
    world.check_rows()
    assert verify(world.table.ports, deep=True).findings == ()


@pytest.mark.parametrize(("table", "plan", "alteration", "step"), SOME)
def test_every_read_is_the_oracles(table: str, plan: str, alteration: str, step: str) -> None:
    """Whatever is altered beside a plan, no value of any writer is lost, in any column."""
    beside(new_world(table), plan, alteration, step)


@pytest.mark.long
@pytest.mark.parametrize(
    ("table", "plan", "alteration", "step"), [c for c in EVERY if c not in SOME]
)
def test_every_other_read_is_the_oracles(table: str, plan: str, alteration: str, step: str) -> None:
    """The other half of the cases."""
    beside(new_world(table), plan, alteration, step)


@pytest.mark.parametrize("alteration", ["added", "swapped"])
def test_the_doctor_knows_values_that_an_older_segtable_left_out(alteration: str) -> None:
    """A log whose divided files have fewer columns than the late ones is named; others are not."""
    world = new_world("latest")
    beside(world, "major to 3 buckets", alteration, "inflight")
    ports, state = world.table.ports, world.state
    assert [*lost_values(ports, state)] == []
    done = (known.last_n for known in state.plans.values() if known.plan.facts()["buckets"] == 3)
    event = ports.log.event(min(done))
    assert event is not None
    assert isinstance(event.action, PlanCompleted)
    older = tuple(replace(segment, schema=0) for segment in event.action.segments)
    was = replace(event, action=replace(event.action, segments=older))
    ports.storage.replace(event_path(event.n), encode(was))
    findings = [each for each in examine(ports).findings if each.code == "lost-values"]
    if alteration == "swapped":  # no column was added
        assert findings == []
        return
    (finding,) = findings
    assert finding.severity is Severity.CRITICAL
    assert "values of sevens, more, which were added while it ran" in finding.what
    assert f"--version {event.n - 1} --since-version" in finding.do
    since = int(finding.do.partition("--since-version ")[2].partition(";")[0])
    found = world.table.scan(version=event.n - 1, since_version=since).to_arrow()
    assert {1, 2, 3} <= {*found.column("key").to_pylist()}


def test_the_cases_cover_all_kinds() -> None:
    """A new kind of plan, of table or of change of columns needs its cases here."""
    assert {kind for kind, _ in PLANS.values()} == {kind.kind for kind in kinds()}
    assert {type(change) for some in COLUMNS.values() for change in some} == {
        *get_args(ColumnChange)
    }
