"""Histories of real tables on this disk, and ways to damage them."""

import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa

from airflow_provider_segtable.coordination.memory import MemoryCoordinator, MemoryService
from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.tables.rollup_kind import Rollup
from airflow_provider_segtable.core.time import HOUR_US, Granularity, Interval
from airflow_provider_segtable.services.attempt import Done, in_process
from airflow_provider_segtable.services.compaction import compact
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.table.context import TableContext, open_context
from airflow_provider_segtable.table.table import Table, create_table
from tests.support.clock import FakeClock, FakeRandomness
from tests.support.in_memory import defined_by

SCHEMA = pa.schema([("at", pa.timestamp("us", "UTC")), ("row", pa.int64())])
DAYS = 3


def ports_at(
    folder: Path, *, clock: FakeClock | None = None, service: MemoryService | None = None
) -> TableContext:
    """Return ports of a table on disk, with locks in memory."""
    clock = clock or FakeClock()
    coordinator = MemoryCoordinator(clock, service or MemoryService())
    made = open_context(str(folder), author="test")
    # the disk has a clock of its own
    return replace(
        made,
        clock=clock,
        randomness=FakeRandomness(),
        optional_coordinator=coordinator,
        most_skew_s=float("inf"),
    )


@dataclass
class World:
    """A table, what was appended to it, and chance."""

    ports: TableContext
    random: Random
    rows: list[int] = field(default_factory=list)
    appends: int = 0

    @staticmethod
    def begin(
        folder: Path,
        seed: int,
        *,
        granularity: Granularity = Granularity.HOUR,
        rollup: Rollup | None = None,
    ) -> "World":
        """Create a table."""
        ports = ports_at(folder)
        if rollup:
            Table.create(
                str(folder),
                schema=SCHEMA,
                time_column="at",
                granularity=granularity,
                kind=rollup,
            )
        else:
            properties = {"compaction.min_segments": "2"}
            create_table(ports, defined_by(SCHEMA, granularity, properties))
        return World(ports=ports, random=Random(seed))

    @property
    def folder(self) -> Path:
        """Return where the table is."""
        return Path(self.ports.uri)

    def append(self, *hours: int, ports: TableContext | None = None) -> None:
        """Append a few rows to some hours."""
        hours = hours or tuple(self.random.sample(range(24 * DAYS), self.random.randint(1, 3)))
        numbers = [len(self.rows) + n for n in range(2 * len(hours))]
        times = [hour * HOUR_US + n for n, hour in zip(numbers, (*hours, *hours), strict=True)]
        at = pa.array(times, SCHEMA.field("at").type)
        self.rows += numbers
        self.appends += 1
        Table(ports or self.ports).append(pa.table({"at": at, "row": numbers}, SCHEMA))

    def compact(self, kind: str, *, late: bool = False, **options: Any) -> None:
        """Ask for a compaction, and carry it out; ``late`` appends while it runs."""
        try:
            asked = request(self.ports, kind, **options)
        except SegtableError:
            return  # there was nothing to do

        def execute(jobs: Sequence[Any]) -> Iterator[Done]:
            nonlocal late
            if late:
                late = False
                self.append(ports=replace(self.ports, author="late"))
            yield from in_process(self.ports.files)(jobs)

        compact(self.ports, [one.plan.id for one in asked], execute, wait_s=0.0)

    def step(self) -> None:
        """Do one thing by chance."""
        kind = self.random.choice(("append", "append", "minor", "semi-major", "major", "major"))
        if kind == "append":
            self.append()
            return
        first = self.random.randrange(24 * DAYS)
        last = self.random.randint(first + 1, 24 * DAYS)
        whole = self.random.random() < 0.3
        interval = None if whole else Interval(first * HOUR_US, last * HOUR_US)
        cut = self.random.choice((None, "day", "hour")) if kind == "major" else None
        late = self.random.random() < 0.5 and not cut
        self.compact(kind, interval=interval, granularity=cut, late=late)

    def live(self, steps: int) -> "World":
        """Append, then do so many things."""
        self.append()
        for _ in range(steps):
            self.step()
        return self

    def contents(self) -> list[tuple[Any, ...]]:
        """Return all rows, sorted."""
        rows = Table(self.ports).snapshot().to_arrow()
        return sorted(zip(*(column.to_pylist() for column in rows.columns), strict=True))

    def lose_log(self) -> None:
        """Delete the log; locks and their counters are gone, too."""
        shutil.rmtree(self.folder / "_segtable")
        self.restart()

    def restart(self) -> None:
        """Forget all locks."""
        clock = self.ports.clock
        fresh = MemoryCoordinator(clock, MemoryService())
        self.ports = replace(self.ports, optional_coordinator=fresh)

    def check_alive(self) -> None:
        """Appends and compactions go on, and nothing is lost or doubled."""
        assert list(violations(Table(self.ports).state())) == []
        for kind in ("append", "minor", "append", "semi-major", "append", "major"):
            before = len(self.rows)
            if kind == "append":
                self.append()
            else:
                self.compact(kind)
            assert list(violations(Table(self.ports).state())) == []
            assert before <= len(self.rows)
