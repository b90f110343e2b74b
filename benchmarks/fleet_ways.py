"""Who looks after the tables of ``fleet_beside_homemade.py``: a fleet, own clocks, or OPTIMIZE.

1. *a fleet*: a planner run every minute over all tables, by ``FLEET``; what it chooses is carried
   out in the same process.
2. *own clocks*: a planner run every five minutes a table, by the default policy, as DAGs of
   ``compaction_dags`` do.
3. *OPTIMIZE*: tables of ``deltalake`` by the day, each with ``optimize.compact`` and ``vacuum`` at
   a minute of its own: once in the time, or every quarter of an hour. The settings are the
   defaults, except that files are compressed as segtable's are.
4. The time of segtable's clock is set by the minute. Storage, ZooKeeper and data files are real.
   So each compares its clock with another time, and the bound on the difference is lifted.
5. A write that loses a race is tried again, ``ATTEMPTS`` times in all; an OPTIMIZE likewise, as a
   task with retries does.
"""

import math
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Protocol

import pyarrow as pa
from deltalake import DeltaTable, WriterProperties, write_deltalake
from deltalake.exceptions import CommitFailedError
from fleet_stream import (
    DAY_US,
    MINUTE_US,
    SCHEMA,
    START_US,
    TODAY_US,
    Append,
    Delete,
    Size,
)

from airflow_provider_segtable import Table
from airflow_provider_segtable.core.errors import CommitConflict
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.time import Granularity, Instant, Interval, iso
from airflow_provider_segtable.planning.fleet.fleet_file import read_fleet
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compact_table import carry_out
from airflow_provider_segtable.services.compaction import Ended
from airflow_provider_segtable.services.fleet_run import run_fleet
from airflow_provider_segtable.services.planner import plan_table
from airflow_provider_segtable.storage.local import SystemClock
from airflow_provider_segtable.table.context import ClockCheck, TableContext, open_context
from airflow_provider_segtable.table.definition import checked_schema
from airflow_provider_segtable.table.table import create_table

ATTEMPTS = 5
PAUSE_S = 0.1
TODAY = Interval(TODAY_US, TODAY_US + DAY_US)
FLEET = """
[budget]
bytes_per_hour = "256 MiB"
plans = 8

[objective]
files_read = 20

[groups.all]
tables = ["**"]
"""


@dataclass(slots=True)
class Done:
    """What an act came to: tasks that Airflow would start, races that were lost, and failures."""

    tasks: int = 0
    lost: int = 0
    failed: int = 0

    def add(self, other: "Done") -> None:
        """Add what another act came to."""
        self.tasks += other.tasks
        self.lost += other.lost
        self.failed += other.failed


class Way(Protocol):
    """Tables of one kind, and their maintenance; each process has a value of its own."""

    title: str

    def create(self, table: str) -> None:
        """Make a table."""
        ...

    def write(self, write: Append | Delete, minute: int) -> Done:
        """Write at a minute."""
        ...

    def maintain(self, size: Size, minute: int) -> Done:
        """Do what is due at a minute."""
        ...

    def files(self, table: str) -> int:
        """Return how many files a reader of today opens."""
        ...

    def content(self, table: str) -> tuple[int, int]:
        """Return the number of rows, and the sum of their ids."""
        ...


def attempted(act: Callable[[], object], lost: type[Exception]) -> Done:
    """Act until it is no lost race, at most ``ATTEMPTS`` times."""
    done = Done(tasks=1)
    for attempt in range(ATTEMPTS):
        try:
            act()
        except lost:
            done.lost += 1
            time.sleep(PAUSE_S * attempt)
        else:
            return done
    done.failed += 1
    return done


# segtable
class MinuteClock(SystemClock):
    """A clock whose minutes are set, and whose seconds go on by themselves."""

    def __init__(self) -> None:
        self.to(0)

    def to(self, minute: int) -> None:
        """Begin a minute."""
        self._begin = START_US + minute * MINUTE_US
        self._at = time.monotonic()

    def now(self) -> Instant:
        """Return the simulated time; a minute does not reach into the next one."""
        since = int((time.monotonic() - self._at) * 1_000_000)
        return self._begin + min(since, MINUTE_US - 1)


@dataclass
class Segtable:
    """Tables of segtable by the day; its ways differ in who plans."""

    root: Path
    zookeeper: str
    clock: MinuteClock = field(default_factory=MinuteClock)
    opened: dict[str, TableContext] = field(default_factory=dict)

    def ports(self, table: str) -> TableContext:
        """Return the ports of a table; all share one session with ZooKeeper."""
        if table not in self.opened:
            uri, first = str(self.root / table), next(iter(self.opened.values()), None)
            self.opened[table] = first.at(uri) if first else self._first(uri)
        return self.opened[table]

    def _first(self, uri: str) -> TableContext:
        real = open_context(uri, zookeeper=self.zookeeper)
        return replace(real, clock=self.clock, most_skew_s=math.inf, clock_check=ClockCheck())

    def create(self, table: str) -> None:
        """Make a table by the day."""
        definition = TableDefinition(
            table_id=str(uuid.uuid4()),
            name=table,
            schema=checked_schema(SCHEMA, "at"),
            time_column="at",
            granularity=Granularity.DAY,
        )
        create_table(self.ports(table), definition)

    def write(self, write: Append | Delete, minute: int) -> Done:
        """Append, or delete by a condition."""
        self.clock.to(minute)
        table = Table(self.ports(write.table))
        match write:
            case Append(rows=rows):
                return attempted(lambda: table.append(rows), CommitConflict)
            case Delete(user=user):
                return attempted(lambda: table.delete(f"user = {user}"), CommitConflict)

    def files(self, table: str) -> int:
        """Count data files of today, and files of deletion vectors that apply to them."""
        plan = Table(self.ports(table)).scan(interval=TODAY).explain()
        return len(plan.files) + plan.deletes.vector_files

    def content(self, table: str) -> tuple[int, int]:
        """Read the ids."""
        ids = Table(self.ports(table)).scan(columns=["id"]).to_arrow()["id"].to_numpy()
        return len(ids), int(ids.sum())

    def carried_out(self, table: str, plans: list[str]) -> Done:
        """Carry out plans of a table; a plan that did not complete is a lost race or a failure."""
        if not plans:
            return Done()
        ports = self.ports(table)
        ends = [each.ended for each in carry_out(ports, plans, in_process(ports.files))]
        failed = ends.count(Ended.FAILED)
        return Done(tasks=1, lost=len(ends) - failed - ends.count(Ended.COMPLETED), failed=failed)


class Fleet(Segtable):
    """One planner for all tables."""

    title = "segtable, a fleet"

    def maintain(self, size: Size, minute: int) -> Done:
        """Plan all tables, and carry out what is chosen."""
        self.clock.to(minute)
        fleet = read_fleet(FLEET, "fleet.toml")
        run = run_fleet(fleet, size.names(), self._opened, self.clock.now())
        done = Done(tasks=1, failed=sum(bool(each.error) for each in run.tables))
        for each in run.tables:
            for planned in each.runs.values():
                done.add(self.carried_out(each.name, [one.plan_id for one in planned.launches]))
        return done

    @contextmanager
    def _opened(self, table: str) -> Iterator[TableContext]:
        yield self.ports(table)


class OwnClocks(Segtable):
    """A planner for each table."""

    title = "segtable, own clocks"
    EVERY = 5

    def maintain(self, size: Size, minute: int) -> Done:
        """Plan the tables whose minute it is, and carry out their plans."""
        self.clock.to(minute)
        done = Done()
        for number, table in enumerate(size.names()):
            if (minute + number) % self.EVERY == 0:
                launches = plan_table(self.ports(table)).launches
                done.add(Done(tasks=1))
                done.add(self.carried_out(table, [one.plan_id for one in launches]))
        return done


# deltalake
@dataclass
class Delta:
    """Tables of deltalake, partitioned by the day."""

    root: Path
    zookeeper: str
    written: WriterProperties = field(
        default_factory=lambda: WriterProperties(compression="ZSTD", compression_level=1)
    )

    def create(self, table: str) -> None:
        """Make a table by the day."""
        DeltaTable.create(self._uri(table), schema=SCHEMA, partition_by=["day"])

    def write(self, write: Append | Delete, minute: int) -> Done:  # noqa: ARG002
        """Append, or delete by a condition."""
        uri = self._uri(write.table)
        match write:
            case Append(rows=rows):
                return attempted(lambda: self._append(uri, rows), CommitFailedError)
            case Delete(user=user):
                return attempted(lambda: self._delete(uri, user), CommitFailedError)

    def _append(self, uri: str, rows: pa.Table) -> None:
        write_deltalake(uri, rows, mode="append", writer_properties=self.written)

    def _delete(self, uri: str, user: int) -> None:
        DeltaTable(uri).delete(f"user = {user}", writer_properties=self.written)

    def _optimized(self, table: str) -> Done:
        done = attempted(lambda: self._compact(table), CommitFailedError)
        DeltaTable(self._uri(table)).vacuum(dry_run=False)
        return done

    def _compact(self, table: str) -> None:
        DeltaTable(self._uri(table)).optimize.compact(writer_properties=self.written)

    def files(self, table: str) -> int:
        """Count the files of today."""
        today = iso(TODAY_US).partition("T")[0]
        return len(DeltaTable(self._uri(table)).file_uris([("day", "=", today)]))

    def content(self, table: str) -> tuple[int, int]:
        """Read the ids."""
        ids = DeltaTable(self._uri(table)).to_pyarrow_table(columns=["id"])["id"].to_numpy()
        return len(ids), int(ids.sum())

    def _uri(self, table: str) -> str:
        return str(self.root / table)


class Nightly(Delta):
    """OPTIMIZE once, when three quarters of the time are over."""

    title = "deltalake, OPTIMIZE once"

    def maintain(self, size: Size, minute: int) -> Done:
        """Optimize all tables, if it is time."""
        done = Done()
        if minute == size.minutes * 3 // 4:
            for table in size.names():
                done.add(self._optimized(table))
        return done


class Often(Delta):
    """OPTIMIZE every quarter of an hour."""

    title = "deltalake, OPTIMIZE every 15 minutes"
    EVERY = 15

    def maintain(self, size: Size, minute: int) -> Done:
        """Optimize the tables whose minute it is."""
        done = Done()
        for number, table in enumerate(size.names()):
            if (minute + number + 1) % self.EVERY == 0:
                done.add(self._optimized(table))
        return done


WAYS: dict[str, type[Fleet | OwnClocks | Nightly | Often]] = {
    "fleet": Fleet,
    "clocks": OwnClocks,
    "nightly": Nightly,
    "often": Often,
}
