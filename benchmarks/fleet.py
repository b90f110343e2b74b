"""What a planner of a fleet costs: 1,000 tables with 1,000,000 segments in all.

1. A table has 50 days of 20 segments. Each day but the newest has been replaced by a major
   compaction. In one table of ten the newest day has small files, so a compaction is due there.
   Their data files do not exist: nothing here reads them.
2. ``first`` is a run that remembers nothing: it opens every table. ``unchanged`` is a run with the
   memory of the one before, ``ten commits`` one after a commit to each of ten tables; of these the
   median. They write nothing, as ``segtable fleet status`` does. For all of them it is the time of
   the first one, so that no look is repeated because of its age; ``a minute later`` has the tables
   whose look is repeated within a minute.
3. ``next task`` is what a planner's task does first and last: it reads the memory, asks ZooKeeper
   what is announced, decides, and writes the memory. Commits are announced in a real ZooKeeper.
4. Requests to storage are counted by an adapter around each table's storage. Peak memory
   (``VmHWM``) is that of a process of its own, which makes none of the tables.
5. ``DAG file`` is the parsing of a file with ``fleet_dags`` in this process, once Airflow is
   imported, and the number of its DAGs. Parsing reads neither the fleet file nor any table.
6. Each goal is printed with what was measured, and whether it is met. Times that a busy machine
   distorts are printed with the processor time.

Usage: ``python benchmarks/fleet.py [--quick] [--tables N] [--on DIR] [--json]``.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pyarrow as pa
from results import Result, report

from airflow_provider_segtable.coordination.address import connect
from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper
from airflow_provider_segtable.core.log.events import Event, encode
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.fold import apply
from airflow_provider_segtable.core.log.log_paths import event_path
from airflow_provider_segtable.core.segment import ChunkKey, Segment, Shard
from airflow_provider_segtable.core.time import DAY_US, MINUTE_US, Granularity, Interval
from airflow_provider_segtable.planning.fleet.fleet_file import read_fleet
from airflow_provider_segtable.planning.fleet.fleet_memory import FleetMemory
from airflow_provider_segtable.ports.coordination import Coordinator
from airflow_provider_segtable.services.fleet_memory_file import read_memory, write_memory
from airflow_provider_segtable.services.fleet_run import FleetRun, run_fleet
from airflow_provider_segtable.services.fleet_tables import find_tables
from airflow_provider_segtable.storage import open_storage
from airflow_provider_segtable.storage.local import SystemClock
from airflow_provider_segtable.table.context import TableContext, open_context
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.table import Table

START = Granularity.DAY.chunk(1_356_998_400_000_000).start
DAYS, EACH = 50, 20
BUSY_ONE_OF = 10
CHANGED = 10
ROUNDS = 5
FILE = """
[budget]
plans = 8
[groups.all]
tables = ["**"]
objective = {files_read = 200, overlap = 40}
"""
GOAL_FIRST_S, GOAL_AGAIN_MS, GOAL_MIB, GOAL_PARSE_S = 2.0, 100.0, 500.0, 1.0
SCHEMA = pa.schema(
    [pa.field("at", pa.timestamp("us", tz="UTC"), nullable=False), ("n", pa.int64())]
)


# The tables
def segments(version: int, *, busy: bool) -> list[Segment]:
    """Return the segments of a table; the last one alone is in its last event."""
    made: list[Segment] = []
    for day in range(DAYS):
        interval = Interval(START + day * DAY_US, START + (day + 1) * DAY_US)
        key, newest = ChunkKey(interval, version), day == DAYS - 1
        core = 0 if newest else EACH
        for partition in range(EACH):
            token = f"{day * EACH + partition:016x}"
            segment = Segment(
                id=key.segment(partition),
                shard=Shard.first_generation(partition, core, core),
                path=f"data/{interval.name}/{version}_{partition}-{token}.parquet",
                rows=20_000 + partition,
                size=(1 if busy and newest else 130) << 20,
                row_groups=1,
                time_min=interval.start + partition * (DAY_US // EACH),
                time_max=interval.start + (partition + 1) * (DAY_US // EACH) - 1,
                created=interval.start,
            )
            made.append(segment)
    return made


def make(root: Path, tables: int) -> None:
    """Make the tables, each with a checkpoint; its last event is stored, too."""
    for n in range(tables):
        folder = root / f"group_{n % 10}" / f"table_{n:04}"
        Table.create(str(folder), schema=SCHEMA, time_column="at", granularity="day")
        log = EventLog(open_context(str(folder)).storage)
        state = log.load()
        every = segments(state.base_version, busy=n % BUSY_ONE_OF == 0)
        for part in (every[:-1], every[-1:]):
            event = Event(
                n=state.n + 1,
                time=state.time + 1,
                commit=f"append-{state.n}",
                author="fleet",
                action=Appended(segments=tuple(part)),
            )
            state = apply(state, event)
        log.storage.create(event_path(event.n), encode(event))
        log.checkpoint(state)


class Counted:
    """A storage whose requests are counted by name."""

    def __init__(self, storage: Any, requests: Counter[str]) -> None:
        """Pass everything on to ``storage``."""
        self._storage, self._requests = storage, requests

    def __getattr__(self, name: str) -> Any:
        if name not in ("uri", "remote"):
            self._requests[name] += 1
        return getattr(self._storage, name)


# What is measured
class Planner:
    """A planner of all tables below a root."""

    def __init__(self, root: str, coordinator: Coordinator) -> None:
        """Find the tables."""
        self.fleet = read_fleet(FILE, "fleet.toml")
        self.requests: Counter[str] = Counter()
        self.names = find_tables(self.fleet, lambda uri: open_storage(uri or root)).names
        self.coordinator = coordinator
        self.now = SystemClock().now()
        self._root = root

    def ports_of(self, name: str) -> AbstractContextManager[TableContext]:
        """Open a table."""
        ports = open_context(f"{self._root}/{name}")
        storage = Counted(ports.storage, self.requests)
        return nullcontext(replace(ports, storage=storage, optional_coordinator=self.coordinator))

    def run(self, memory: FleetMemory) -> FleetRun:
        """Plan all tables, and request nothing."""
        return run_fleet(
            self.fleet, self.names, self.ports_of, self.now, memory=memory, dry_run=True
        )

    def commit(self, name: str) -> None:
        """Append a row to a table."""
        ports = replace(open_context(f"{self._root}/{name}"), optional_coordinator=self.coordinator)
        Table(ports).append(pa.table({"at": [START], "n": [1]}).cast(SCHEMA))


def timed(act: Callable[..., Any], *arguments: Any) -> tuple[Any, tuple[float, float]]:
    """Return what an act returns, its milliseconds, and those of processor time."""
    begin, spent = time.perf_counter(), time.process_time()
    found = act(*arguments)
    return found, (1e3 * (time.perf_counter() - begin), 1e3 * (time.process_time() - spent))


def measure(root: str, zookeeper: str) -> dict[str, Any]:
    """Measure the planner, in this process."""
    pa.array([0])  # pyarrow imports pandas, if there is any, at the first conversion
    planner = Planner(root, connect(zookeeper))
    first, first_ms = timed(planner.run, FleetMemory())
    requests = {"first": sum(planner.requests.values())}
    errors = [each.error for each in first.tables if each.error]
    if errors or not first.plan.chosen:
        raise SystemExit(f"the planner chose nothing: {errors[:1]}")
    # As a planner does that finds nothing announced: from now on ZooKeeper knows each version.
    for each in first.memory.tables.values():
        planner.coordinator.announce(each.look.table_id, each.look.version)
    memory, found = first.memory, {"first": [first_ms], "unchanged": [], "ten commits": []}
    for _ in range(ROUNDS):
        planner.requests.clear()
        run, took = timed(planner.run, memory)
        found["unchanged"].append(took)
        requests["unchanged"] = sum(planner.requests.values())
        memory = run.memory
        for name in planner.names[:: max(1, len(planner.names) // CHANGED)][:CHANGED]:
            planner.commit(name)
        planner.requests.clear()
        run, took = timed(planner.run, memory)
        found["ten commits"].append(took)
        requests["ten commits"] = sum(planner.requests.values())
        memory = run.memory
    looked = len(run.looked)
    found["next task"] = [timed(next_task, planner, root, memory)[1] for _ in range(3)]
    planner.now += MINUTE_US
    planner.requests.clear()
    run, took = timed(planner.run, memory)
    found["a minute later"] = [took]
    requests["a minute later"] = sum(planner.requests.values())
    planner.coordinator.close()
    return {
        "looked": looked,
        "repeated": len(run.looked),
        "requests": requests,
        "peak_mib": peak_mib(),
        "ms": {name: middle(some) for name, some in found.items()},
    }


def next_task(planner: Planner, root: str, memory: FleetMemory) -> None:
    """Do what a planner's task does with its memory, which another one has written."""
    storage = open_storage(root)
    write_memory(storage, "lake", memory)
    run = planner.run(read_memory(storage, "lake"))
    if run.looked:
        raise SystemExit(f"unchanged tables were looked at: {run.looked}")


def middle(pairs: Sequence[tuple[float, float]]) -> tuple[float, float]:
    """Return the medians of pairs."""
    return (statistics.median(a for a, _ in pairs), statistics.median(b for _, b in pairs))


def peak_mib() -> float:
    """Return the most memory that this process ever had."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


def parse() -> tuple[float, int]:
    """Return the seconds of parsing a DAG file of a fleet, and the number of its DAGs."""
    from airflow_provider_segtable.dag_factory import fleet_dags

    made, (took_ms, _) = timed(lambda: fleet_dags("fleet.toml", name="lake", schedule=None))
    return took_ms / 1000, 1 + len(made.of_kind) + (made.upkeep is not None)


def main(argv: Sequence[str] | None = None) -> int:
    """Make the tables, measure in a process of its own, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="10 tables: does it still work?")
    parser.add_argument("--tables", type=int, default=1000, help="number of tables (1,000)")
    parser.add_argument("--on", type=Path, help="a directory on the disk to measure")
    parser.add_argument("--json", action="store_true", help="results as lines of JSON")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--zookeeper", help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if given.measure:
        print(json.dumps(measure(given.measure, given.zookeeper)))
        return 0
    tables = 10 if given.quick else given.tables
    with tempfile.TemporaryDirectory(dir=given.on) as folder:
        make(Path(folder) / "lake", tables)
        with EmbeddedZooKeeper(Path(folder) / "zookeeper") as zk:
            command = [sys.executable, __file__, "--measure", f"{folder}/lake"]
            command += ["--zookeeper", zk.address]
            told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    found = json.loads(told.stdout)
    shown(tables, found)
    report([*results(found)], as_json=given.json)
    return 0


def shown(tables: int, found: dict[str, Any]) -> None:
    """Print what was measured."""
    print(f"{tables:,} tables, {tables * DAYS * EACH:,} segments")
    print(f"{'run':<14}{'ms':>10}{'processor ms':>14}{'requests':>10}")
    for name, (took, spent) in found["ms"].items():
        asked = found["requests"].get(name, "")
        print(f"{name:<14}{took:>10,.1f}{spent:>14,.1f}{asked:>10}")
    print(f"looks that were repeated a minute later: {found['repeated']}")
    print(f"peak memory {found['peak_mib']:.0f} MiB\n")


def results(found: dict[str, Any]) -> Iterator[Result]:
    """Yield what has a goal."""
    seconds, dags = parse()
    for what, reached, most, unit in (
        ("first plan", found["ms"]["first"][0] / 1000, GOAL_FIRST_S, "s"),
        ("plan after ten commits", found["ms"]["ten commits"][0], GOAL_AGAIN_MS, "ms"),
        ("peak memory", found["peak_mib"], GOAL_MIB, "MiB"),
        ("requests of unchanged tables", found["requests"]["unchanged"], 0, "requests"),
        (f"DAG file of {dags} DAGs", seconds, GOAL_PARSE_S, "s"),
    ):
        yield Result(benchmark="fleet", what=what, ours=reached, unit=unit, most=most)


if __name__ == "__main__":
    sys.exit(main())
