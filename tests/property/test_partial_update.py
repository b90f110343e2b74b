"""Partial updates: writers that each fill their own columns of a row join them without state.

Three writers, whose clocks differ, upsert and delete in any order, late events among them, with
compactions and cleanings between. The model merges all records at once, one after another
(``merge_model``).
"""

from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_segtable.coordination.memory import MemoryCoordinator, MemoryService
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.data.keyed.group_reader import own_root
from airflow_provider_segtable.data.keyed.key_groups import Root
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.planning.properties import Retention
from airflow_provider_segtable.services.cleaning import clean
from airflow_provider_segtable.storage.local import SystemClock
from airflow_provider_segtable.table.context import ClockCheck
from tests.property.merge_model import FIXED, File, Record, Row, rules, schema, visible

COLUMNS = schema([pa.int64()], pa.int64())
DAY = date(2013, 1, 1)
GONE = "gone"
KEYS = 8
SECOND_US = 1_000_000
OWN = (("seq_ab", "a", "b"), ("seq_c", "c"), ("x", "y"))
"""The columns that each writer fills."""


@dataclass(frozen=True)
class OffClock(SystemClock):
    """The clock of a host that is ahead, or behind."""

    ahead_us: int = 0

    def now(self) -> Instant:
        """Return the wrong time."""
        return super().now() + self.ahead_us


@dataclass
class World:
    """The table as its writers have it, and all records that were written."""

    draw: Random
    writers: list[Table]
    ordering: bool
    files: list[File] = field(default_factory=list)

    @property
    def table(self) -> Table:
        """Return the table as one of the writers has it."""
        return self.draw.choice(self.writers)

    def expected(self) -> list[Row]:
        """Return the rows of the model, sorted by key."""
        return visible(self.files, rules(1, partial=True, ordering=self.ordering), COLUMNS)

    def remember(self, n: int | None, records: list[Record]) -> None:
        """Add the records of an event to the model, as of their writer's clock."""
        if n is None:
            return
        event = self.table.ports.log.event(n)
        assert event is not None
        instant = own_root(event.action.segments[0]).instant
        root = Root(partition=0, instant=instant, log_version=0, write_token="", completed=0)
        self.files.append(File(root=root, records=tuple(records)))

    def upsert(self) -> None:
        """Let a writer fill some of its own columns, or delete keys; event times may be late."""
        at = self.draw.randrange(3)
        records = []
        for _ in range(self.draw.randint(1, 4)):
            deletes = self.draw.random() < 0.2
            names = ("seq_ab", "seq_c") if deletes else OWN[at]
            row = {name: self.value(name) for name in ("seq", *names)}
            key = {"k0": self.draw.randrange(KEYS), FIXED: DAY}
            records.append(Record({**dict.fromkeys(COLUMNS.names), **row, **key}, deletes))
        rows = pa.Table.from_pylist(
            [{**record.row, GONE: record.deletes} for record in records],
            schema=COLUMNS.append(pa.field(GONE, pa.bool_())),
        )
        unknown = {*COLUMNS.names} - {"k0", FIXED, "seq", "seq_ab", "seq_c", *OWN[at]}
        done = self.writers[at].upsert(rows.drop_columns([*unknown]), deleted=GONE)
        self.remember(done.n, records)

    def value(self, name: str) -> Any:
        """Return a value of a column, or null."""
        drawn = self.draw.choice([None, *range(6)])
        if drawn is None or name in ("seq", "seq_ab", "a", "y"):
            return drawn
        if name == "seq_c":
            return datetime.fromtimestamp(drawn, UTC)
        return [drawn] if name == "c" else f"{name}{drawn}"

    def delete(self) -> None:
        """Delete by a condition: the tombstone has what was seen of the row."""
        key = self.draw.randrange(KEYS)
        seen = [row for row in self.expected() if row["k0"] == key]
        done = self.table.delete(f"k0 = {key}")
        assert done.deleted == len(seen)
        self.remember(done.n, [Record(row, deletes=True) for row in seen])

    def update(self) -> None:
        """Update by a condition: the row is written again, as it was seen."""
        key = self.draw.randrange(KEYS)
        seen = [{**row, "x": "set"} for row in self.expected() if row["k0"] == key]
        done = self.table.update({"x": "set"}, where=f"k0 = {key}")
        self.remember(done.n, [Record(row, deletes=False) for row in seen])

    def compact(self) -> None:
        """Merge log files, or make base files, if there is anything to merge."""
        try:
            self.table.compact(self.draw.choice(["minor", "semi-major"]))
        except InvalidInput as error:
            assert "nothing to compact" in str(error)  # noqa: PT017 - often there is something

    def clean(self) -> None:
        """Delete what only older versions need."""
        clean(self.table.ports, retention=Retention(hours=0, versions=1, orphan_hours=0))

    def settle(self) -> None:
        """Record which rows are shown."""
        self.table.settle()

    def step(self) -> None:
        """Do something, then compare the table with the model."""
        acts = [self.upsert, self.delete, self.update, self.compact, self.clean, self.settle]
        self.draw.choices(acts, [8, 1, 1, 3, 1, 3])[0]()
        rows = self.table.scan().to_arrow().sort_by("k0").to_pylist()
        assert rows == self.expected()


@pytest.mark.parametrize("ordering", [False, True])
@pytest.mark.parametrize("seed", range(3))
def test_three_writers_join_their_columns(tmp_path: Path, seed: int, *, ordering: bool) -> None:
    """After every step the table has, column by column, what all records together say."""
    how = rules(1, partial=True, ordering=ordering)
    made = Table.create(
        str(tmp_path),
        schema=COLUMNS,
        time_column=FIXED,
        granularity="all",
        primary_key=how.key,
        buckets=2,
        ordering=how.ordering,
        merge=how.engine,
        groups={group.ordering: group.columns for group in how.groups},
    )
    coordinator = MemoryCoordinator(SystemClock(), MemoryService())
    writers = [
        Table(
            replace(
                made.ports,
                clock=OffClock(ahead_us=ahead_s * SECOND_US),
                clock_check=ClockCheck(),
                optional_coordinator=coordinator,
            )
        )
        for ahead_s in (0, 20, -20)
    ]
    world = World(Random(seed), writers, ordering)
    for _ in range(25):
        world.step()
    assert world.expected(), "the model has rows to compare"
