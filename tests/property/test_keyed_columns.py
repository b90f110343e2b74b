"""Random alterations of a primary-key table beside upserts, deletes and compactions.

The oracle is a list of records, each a dict from column id to value, and merges them one after
another as the rules say: whole records, or register by register. A column that was added has its
default where nothing set it; a dropped one is not asked for.
"""

from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from tempfile import TemporaryDirectory
from typing import Any

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.coordination.memory import MemoryCoordinator, MemoryService
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.tables.evolution import (
    AddColumn,
    ColumnChange,
    DropColumn,
    RenameColumn,
    Reorder,
    WidenColumn,
)
from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.core.tables.merge_rules import ColumnGroup, MergeEngine
from airflow_provider_segtable.core.time import Granularity
from airflow_provider_segtable.data.arrow_schema import from_arrow
from airflow_provider_segtable.health.verify import verify
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.storage.local import SystemClock
from airflow_provider_segtable.table.context import open_context
from airflow_provider_segtable.table.definition import of_kind
from airflow_provider_segtable.table.log.checkpoint import read_checkpoint, write_checkpoint
from airflow_provider_segtable.table.table import create_table
from airflow_provider_segtable.table.upsert import records_of, upsert
from tests.every_reader import READERS, Reader, Shown, by_turns, disagreements, filled
from tests.examples import examples

SCHEMA = pa.schema(
    [
        ("key", pa.int64()),
        ("day", pa.date32()),
        ("seq", pa.int64()),
        ("seen", pa.int64()),
        ("page", pa.string()),
        ("count", pa.int32()),
        ("name", pa.string()),
    ]
)
FIXED = ("key", "day", "seq", "seen")
GONE = "gone"
WIDER = {"int32": "int64", "float": "double"}
STEPS = (
    *("upsert", "upsert", "upsert", "late writer", "delete", "minor", "semi-major", "major"),
    *("settle", "settle"),
    *("update", "merge", "merge"),
    *("add", "add to group", "drop", "rename", "widen", "reorder", "restore"),
)
Row = dict[str, Any]
ById = dict[int, Any]


@dataclass(frozen=True, slots=True)
class Record:
    """One record: its columns by id, whether it deletes its key, and its place among all."""

    row: ById
    deletes: bool
    place: int


@dataclass
class World:
    """The table and its oracle."""

    table: Table
    partial: bool
    records: list[Record] = field(default_factory=list)
    defaults: ById = field(default_factory=dict)
    past: dict[int, tuple[int, list[Row]]] = field(default_factory=dict)
    states: list[State] = field(default_factory=list)
    written: int = 0
    names: int = 0

    @property
    def state(self) -> State:
        """Return the newest version."""
        return self.table.state()

    def ids(self, state: State | None = None) -> dict[str, int]:
        """Return the ids of a version's columns, by name."""
        schema = (state or self.state).table.schema
        return {column.name: column.id for column in schema.numbered}

    def play(self, step: str, pick: int) -> None:
        """Do one step; ``pick`` decides the rest."""
        free = [name for name in self.ids() if name not in FIXED]
        match step:
            case "upsert":
                self.upsert(self.state, pick)
            case "late writer":
                self.upsert(self.states[pick % len(self.states)], pick)
            case "delete":
                self.delete(pick % 5)
            case "minor" | "semi-major" | "major" | "settle":
                self.tend(step, pick)
            case "add" | "add to group":
                self.add(pick, "seen" if self.partial and step == "add to group" else "")
            case "reorder":
                order = sorted(self.ids(), key=lambda name: (len(name) * pick) % 7)
                self.alter(Reorder(names=tuple(order)))
            case "restore":
                self.restore(pick)
            case "update" | "merge" if free:
                self.set(free[pick % len(free)], pick % 7, merge=step == "merge")
            case _ if free:
                self.change(step, free[pick % len(free)])

    def tend(self, step: str, pick: int) -> None:
        """Settle or compact; there may be nothing to compact."""
        with suppress(InvalidInput):
            if step == "settle":
                self.table.settle()
            else:
                self.table.compact(step, buckets=1 + pick % 3 if step == "major" else None)

    def change(self, step: str, name: str) -> None:
        """Drop, rename or widen a column."""
        self.names += 1
        found = self.state.table.schema.find(name)
        kind = found.type if found else ""
        if step == "drop":
            self.alter(DropColumn(name=name))
        elif step == "rename":
            free = {"page", "count", "name"} - set(self.ids())
            self.alter(RenameColumn(name=name, new=min(free, default=f"r{self.names}")))
        elif kind in WIDER:
            self.alter(WidenColumn(name=name, type=WIDER[kind]))

    def alter(self, *changes: ColumnChange) -> None:
        """Alter the columns."""
        self.table.alter(columns=changes)

    def add(self, pick: int, group: str) -> None:
        """Add a column, sometimes under a name that another one had."""
        self.names += 1
        gone = {"page", "count", "name"} - set(self.ids())
        name = min(gone) if gone and pick % 2 else f"c{self.names}"
        kinds = (("int32", "7", 7), ("string", "x", "x"), ("string", None, None))
        kind, text, value = kinds[pick % 3]
        self.alter(AddColumn(name=name, type=kind, default=None if group else text, group=group))
        self.defaults[self.ids()[name]] = None if group else value

    def upsert(self, seen: State, pick: int) -> None:
        """Write records with the columns of a version, which may be an earlier one."""
        ids = self.ids(seen)
        added = [name for name, number in ids.items() if number in self.defaults]
        left_out = {name for at, name in enumerate(added) if (pick + at) % 3 == 0}
        rows = [self.made(seen, left_out, pick + at) for at in range(1 + pick % 4)]
        schema = self.table.snapshot(version=seen.n).schema
        fields = [each for each in schema if each.name not in left_out]
        given = pa.Table.from_pylist(rows, pa.schema([*fields, pa.field(GONE, pa.bool_())]))
        upsert(
            self.table.ports,
            records_of(given, seen, GONE),
            commit_id=f"upsert {self.written}",
            state=seen,
        )
        for row in rows:
            self.note({ids[name]: v for name, v in row.items() if name in ids}, deletes=row[GONE])

    def made(self, seen: State, left_out: set[str], pick: int) -> Row:
        """Return a record."""
        self.written += 1
        at = self.written
        row: Row = {"key": (pick * 7) % 5, "day": 0, GONE: pick % 5 == 4}
        row |= {"seq": pick % 6 or None, "seen": (pick * 5) % 4 or None}
        for column in seen.table.schema.columns:
            if column.name in row or column.name in left_out:
                continue
            value = at if column.type.startswith("int") else f"v{at}"
            row[column.name] = None if (at + len(column.name)) % 3 == 0 else value
        return row

    def note(self, row: ById, *, deletes: bool) -> None:
        """Add a record to the oracle."""
        self.records.append(Record(row, deletes, len(self.records)))

    def delete(self, key: int) -> None:
        """Delete a key by a condition: the tombstone has the ordering values of the row."""
        self.table.delete(f"key = {key}")
        numbers = self.ids()
        for row in self.shown(self.records, self.state):
            if row["key"] == key:
                self.note({numbers[name]: row[name] for name in FIXED}, deletes=True)

    def set(self, name: str, key: int, *, merge: bool) -> None:
        """Set a column of a key by a condition, or by a merge, which may insert it."""
        self.written += 1
        column = self.state.table.schema.find(name)
        assert column is not None
        value = self.written if column.type.startswith("int") else f"v{self.written}"
        ids, seen = self.ids(), self.state
        rows = {row["key"]: row for row in self.shown(self.records, seen)}
        if merge:
            fields = [
                each for each in self.table.scan().schema if each.name in ("key", "day", name)
            ]
            source = pa.Table.from_pylist([{"key": key, "day": 0, name: value}], pa.schema(fields))
            self.table.merge(source, on="key")
        else:
            self.table.update({name: value}, f"key = {key}")
        if key in rows:
            kept = self.beside(name, rows[key], seen) if self.partial else rows[key]
            self.note({ids[n]: v for n, v in {**kept, name: value}.items()}, deletes=False)
        elif merge:
            self.note({1: key, 2: 0, 3: None, 4: None, ids[name]: value}, deletes=False)

    def beside(self, name: str, row: Row, state: State) -> Row:
        """Return what a record has that sets a column where records fill each other."""
        kind = state.table.kind
        assert isinstance(kind, PrimaryKey)
        grouped = (each.names for each in kind.groups if name in each.names)
        kept = ("key", "day", "seq", *next(grouped, ()))
        return {"seen": None, **{n: row[n] for n in kept}}

    def restore(self, pick: int) -> None:
        """Show the rows of an earlier version again, in the present columns."""
        kept = [n for n in self.past if self.state.keeps(n)]
        if kept:
            n = kept[pick % len(kept)]
            self.table.restore(version=n)
            self.records = self.records[: self.past[n][0]]

    def shown(self, records: Sequence[Record], state: State) -> list[Row]:
        """Return the rows of some records as a version's readers see them."""
        merge = self.by_register if self.partial else self.by_record
        keys = sorted({record.row[1] for record in records})
        rows = (merge([r for r in records if r.row[1] == key], state) for key in keys)
        return [row for row in rows if row is not None]

    def by_record(self, records: Sequence[Record], state: State) -> Row | None:
        """Return the row of the highest record."""
        best = max(records, key=lambda record: _order(record, 3))
        if best.deletes:
            return None
        return {n: best.row.get(i, self.defaults.get(i)) for n, i in self.ids(state).items()}

    def by_register(self, records: Sequence[Record], state: State) -> Row | None:
        """Return the row of the highest record of each register."""
        kind = state.table.kind
        assert isinstance(kind, PrimaryKey)
        grouped = {name for group in kind.groups for name in group.names}
        whole, group = _winner(records, 3), _winner(records, 4, sets=4)
        if whole is None and group is None:
            return None
        row: Row = {}
        for name, number in self.ids(state).items():
            if name in grouped:
                row[name] = group.row.get(number) if group else None
            elif name in ("key", "day"):
                row[name] = records[0].row[number]
            elif name == "seq":
                row[name] = whole.row[number] if whole else None
            else:
                found = _winner(records, 3, sets=number)
                value = found.row[number] if found else None
                row[name] = self.defaults.get(number) if value is None else value
        return row

    def check(self) -> None:
        """Compare the newest version, and the changes since the last one, with the oracle."""
        state = self.state
        rows = self.shown(self.records, state)
        assert tuple(self.table.scan().schema.names) == tuple(self.ids())
        assert list(violations(state)) == []
        assert read_checkpoint(write_checkpoint(state)) == state
        if self.past:
            self.follow(max(self.past), rows)
        self.past[state.n] = (len(self.records), rows)
        self.states.append(state)
        self.compare(by_turns(len(self.states)))

    def compare(self, readers: Sequence[Reader]) -> None:
        """Compare readers, by the versions that have all of the present columns."""
        columns = self.ids()
        names = tuple(sorted(columns, key=lambda name: name != "key"))
        rows = {
            state.n: Counter(tuple(row[name] for name in names) for row in self.past[state.n][1])
            for state in self.states
            if state.n in self.past and columns.items() <= self.ids(state).items()
        }
        shown = Shown(names=names, rows=self.between(rows), key="key")
        assert [*disagreements(self.table.ports, shown, readers)] == []

    def between(self, rows: dict[int, Counter[Any]]) -> dict[int, Counter[Any]]:
        """Return the rows also of what came between: events of compactions."""
        first = 1 + max((n for n in self.past if n < max(rows) and n not in rows), default=-1)
        return {**rows, **filled({n: some for n, some in rows.items() if n >= first})}

    def follow(self, since: int, rows: list[Row]) -> None:
        """Apply the changes of a window to the rows before it."""
        if self.past[since][0] > len(self.records):
            return  # restored: the oracle forgot the records of that version
        then = self.shown(self.records[: self.past[since][0]], self.state)
        copy = {row["key"]: row for row in then}
        for change in self.table.scan(since_version=since, changes=True).to_arrow().to_pylist():
            row = {name: change[name] for name in self.ids()} | {"day": 0}
            if change["_segtable_change"] in ("delete", "update_before"):
                assert copy.pop(row["key"]) == row
            else:
                copy[row["key"]] = row
        assert sorted(copy.values(), key=lambda row: row["key"]) == rows


def _order(record: Record, ordering: int) -> tuple[Any, ...]:
    value = record.row[ordering]
    return value is not None, value or 0, record.place


def _winner(records: Sequence[Record], ordering: int, sets: int = 0) -> Record | None:
    """Return the highest record of a register, unless a tombstone is higher."""
    group = sets == ordering
    those = [
        record
        for record in records
        if not sets or (record.deletes and not group) or record.row.get(sets) is not None
    ]
    best = max(those, key=lambda record: _order(record, ordering), default=None)
    return None if best is None or best.deletes else best


def _sorted(rows: pa.Table) -> list[Row]:
    found = [row | {"day": 0} for row in rows.to_pylist()]
    return sorted(found, key=lambda row: row["key"])


def world(place: str, merge: MergeEngine) -> World:
    """Create an empty table in a folder, and its oracle."""
    clock = SystemClock()
    context = replace(
        open_context(place), optional_coordinator=MemoryCoordinator(clock, MemoryService())
    )
    definition = TableDefinition(
        table_id="00000000-0000-0000-0000-000000000045",
        name="keyed",
        schema=from_arrow(SCHEMA),
        time_column="day",
        granularity=Granularity.ALL,
    )
    partial = merge is MergeEngine.PARTIAL_UPDATE
    kind = PrimaryKey(
        key=("key",),
        buckets=2,
        ordering="seq",
        merge=merge,
        groups=(ColumnGroup(columns=("page",), ordering="seen"),) if partial else (),
    )
    create_table(context, of_kind(definition, kind))
    made = World(Table(context), partial)
    made.states.append(made.state)
    return made


@examples(6)
@given(
    st.sampled_from(["latest", "partial_update"]),
    st.lists(st.tuples(st.sampled_from(STEPS), st.integers(0, 23)), max_size=14),
)
def test_every_version_shows_the_merge_in_its_columns(
    merge: str, steps: list[tuple[str, int]]
) -> None:
    """Whatever is altered, written late or compacted, each version and feed is the oracle's."""
    with TemporaryDirectory() as place:
        one = world(place, MergeEngine(merge))
        for step in (("upsert", 3), *steps, ("upsert", 2)):
            one.play(*step)
            one.check()
        one.compare(READERS)
        for n, (_, rows) in one.past.items():
            assert _sorted(one.table.scan(version=n).to_arrow()) == rows
        assert verify(one.table.ports, deep=True, all_versions=True).findings == ()
