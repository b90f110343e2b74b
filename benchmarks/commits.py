"""What commits cost: durable creates a second, and appends a second by one writer and by eight.

1. *Creates*: each way creates small objects, as events are, under fresh names in one directory.
   ``durable`` is what segtable does: fsync of the file and of its directory before it returns.
   ``unsynced`` is the same without the two syncs, ``obstore`` its LocalStore, which never syncs.
2. *Appends*: 100 rows each through ``Table.append``, with a real ZooKeeper and fsync. A writer is a
   process of its own, which opens the table once. All of them begin together, after a few appends
   that are not measured; the rate is that of all together, while all of them run.
3. Rounds take turns, so that a drift of the machine hits all ways. Medians are reported.
   ``processor`` is the processor time of all writers and of the ZooKeeper server an append: unlike
   the rate it hardly depends on what else the machine does.

4. *Far*: threads of one process commit appends of files that exist already to a table in memory
   whose requests take 30 ms each, as an object store's. ``alone`` is one commit after another.
   ``puts`` is the number of events' files a commit. On a busy machine ``--stretch`` makes requests
   slower, as the processor is: with a fifth of a core, five times. The goal is as much lower, and
   the share of a core that this process has is printed.
5. At the end, the goals are printed, and whether they are met.

Usage: ``python benchmarks/commits.py [--quick] [--rounds N] [--on DIR]
[--only creates|appends|far] [--stretch N]``.
``--quick`` has two writers, little to do, and one round: does it still work?
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from threading import Barrier

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import obstore
import pyarrow as pa
from obstore.store import LocalStore

from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.segment import ChunkKey, Segment, Shard
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.time import Granularity, Interval
from airflow_provider_segtable.data.arrow_schema import from_arrow
from airflow_provider_segtable.data.open_files import MemoryFiles
from airflow_provider_segtable.ports.storage import Entry
from airflow_provider_segtable.storage import LocalStorage
from airflow_provider_segtable.storage.local import SystemClock, SystemRandomness
from airflow_provider_segtable.storage.memory_storage import MemoryStorage
from airflow_provider_segtable.table.committer import Change, commit_or_raise
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.table import Table, create_table

EVENT = b"x" * 1000
WRITERS = (1, 8)
WARM = 20
GOAL_RATE = 150
"""Appends a second by one writer."""
GOAL_TOGETHER = 2.0
"""How much faster eight writers are to be than one."""
TRIP_S = 0.03
WARM_FAR = 3
GOAL_FAR = 500
"""Commits a second by 64 threads where a request takes ``TRIP_S``."""
START_US = 1_356_998_400_000_000
SCHEMA = pa.schema(
    [
        pa.field("at", pa.timestamp("us", tz="UTC"), nullable=False),
        ("number", pa.int64()),
        ("word", pa.string()),
    ]
)
Create = Callable[[str, bytes], object]


def ways(root: Path) -> dict[str, Create]:
    """Return the ways of creating an object, each in a directory of its own."""
    store = LocalStore(root / "obstore", mkdir=True)
    return {
        "durable": LocalStorage(root / "durable").create,
        "unsynced": LocalStorage(root / "unsynced", sync=lambda _: None).create,
        "obstore": lambda path, data: obstore.put(store, path, data, mode="create"),
    }


def creates_per_second(create: Create, round_: int, count: int) -> float:
    """Create ``count`` objects and return the rate."""
    begin = time.perf_counter()
    for n in range(count):
        create(f"timeline/{round_}-{n:020d}.json", EVENT)
    return count / (time.perf_counter() - begin)


def measure_creates(root: Path, rounds: int, count: int) -> None:
    """Print the rates of durable and other creates."""
    rates: dict[str, list[float]] = {}
    for round_ in range(rounds):
        for name, create in ways(root).items():
            rates.setdefault(name, []).append(creates_per_second(create, round_, count))
    medians = {name: statistics.median(found) for name, found in rates.items()}
    for name, rate in medians.items():
        ratio = medians["unsynced"] / rate
        print(f"{name:<10}{rate:>10,.0f} creates/s {1e6 / rate:>8,.0f} us each {ratio:>7.1f} x")
    print(f"durability costs {medians['unsynced'] / medians['durable']:.1f} x here")


@dataclass(frozen=True, slots=True, kw_only=True)
class Appends:
    """One round of appends: rate, seconds of each append, and processor time an append."""

    rate: float
    took_s: tuple[float, ...]
    processor_ms: float


def hundred_rows() -> pa.Table:
    """Return the rows of one append."""
    columns = {
        "at": [START_US + n for n in range(100)],
        "number": [*range(100)],
        "word": ["abc"] * 100,
    }
    return pa.table(columns).cast(SCHEMA)


def write(uri: str, zookeeper: str, count: int) -> dict[str, object]:
    """Append ``count`` times, once a line on the standard input says so."""
    table, rows = Table.open(uri, zookeeper=zookeeper), hundred_rows()
    for _ in range(WARM):
        table.append(rows)
    print("ready", flush=True)
    sys.stdin.readline()
    begin, processor, took = time.time(), time.process_time(), []
    for _ in range(count):
        started = time.perf_counter()
        table.append(rows)
        took.append(time.perf_counter() - started)
    spent = time.process_time() - processor
    return {"begin": begin, "end": time.time(), "took": took, "processor": spent}


def append_by(writers: int, count: int, folder: Path, zk: EmbeddedZooKeeper) -> Appends:
    """Let writers append to a new table at the same time."""
    uri = str(folder)
    Table.create(uri, schema=SCHEMA, time_column="at", granularity="day", zookeeper=zk.address)
    command = [sys.executable, __file__, "--write", uri, "--zookeeper", zk.address]
    command += ["--count", str(count // writers)]
    running = [
        subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(writers)
    ]
    for each in running:
        each.stdout.readline()
    server = processor_s(zk.pid)
    for each in running:
        each.stdin.write("go\n")
        each.stdin.flush()
    found = [json.loads(each.communicate()[0]) for each in running]
    done = sum(len(one["took"]) for one in found)
    wall = max(one["end"] for one in found) - min(one["begin"] for one in found)
    spent = sum(one["processor"] for one in found) + processor_s(zk.pid) - server
    took = tuple(seconds for one in found for seconds in one["took"])
    return Appends(rate=done / wall, took_s=took, processor_ms=1000 * spent / done)


def processor_s(pid: int) -> float:
    """Return the processor time of a process."""
    ticks = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    return sum(map(int, ticks)) / os.sysconf("SC_CLK_TCK")


def measure_appends(root: Path, rounds: int, count: int, numbers: Sequence[int]) -> None:
    """Print the rates of one writer and of several."""
    found: dict[int, list[Appends]] = {}
    with EmbeddedZooKeeper(root / "zookeeper") as zk:
        for round_ in range(rounds):
            for writers in numbers:
                one = append_by(writers, count, root / f"t{round_}-{writers}", zk)
                found.setdefault(writers, []).append(one)
    print(f"{'writers':<8}{'appends/s':>10}{'median':>10}{'p95':>10}{'most':>10}{'processor':>12}")
    for writers, some in found.items():
        took = [1000 * sorted_at(one.took_s, 0.5) for one in some]
        most = [1000 * sorted_at(one.took_s, 0.95) for one in some]
        print(
            f"{writers:<8}{statistics.median(one.rate for one in some):>10.0f}"
            f"{statistics.median(took):>7.1f} ms{statistics.median(most):>7.1f} ms"
            f"{1000 * max(max(one.took_s) for one in some):>7.0f} ms"
            f"{statistics.median(one.processor_ms for one in some):>9.1f} ms"
        )
    print(f"load {os.getloadavg()[0]:.1f}")
    one, many = (statistics.median(some.rate for some in found[n]) for n in numbers)
    judge(f"{GOAL_RATE} appends/s by one writer", one / GOAL_RATE)
    together = many / one / GOAL_TOGETHER
    judge(f"{numbers[-1]} writers together {GOAL_TOGETHER} x as fast as one", together)


def judge(goal: str, ratio: float) -> None:
    """Print how much of a goal is reached."""
    print(f"goal: {goal}: {ratio:.2f} of it, {'✔' if ratio >= 1 else '✗'}")


# Commits over a network
class FarStorage(MemoryStorage):
    """A table in memory, each request of which takes as long as one to an object store."""

    def __init__(self) -> None:
        """Start empty, and near until ``trip_s`` is set."""
        super().__init__("memory://far", remote=True, clock=SystemClock())
        self.trip_s = 0.0
        self.puts = 0

    def _trip(self) -> None:
        if self.trip_s:
            time.sleep(self.trip_s)

    def read(self, path: str) -> bytes:
        """Return an object's bytes."""
        self._trip()
        return super().read(path)

    def create(self, path: str, data: bytes, *, ready: Callable[[], None] | None = None) -> None:
        """Create an object."""
        self._trip()
        self.puts += 1
        super().create(path, data, ready=ready)

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[Entry]:
        """List objects."""
        self._trip()
        return super().list(prefix, after=after)


def far_table() -> tuple[TableContext, FarStorage]:
    """Return the context of a new table."""
    storage = FarStorage()
    context = TableContext(
        uri=storage.uri,
        storage=storage,
        files=MemoryFiles(),
        clock=SystemClock(),
        randomness=SystemRandomness(),
        author="benchmark",
    )
    schema = from_arrow(SCHEMA)
    create_table(
        context,
        TableDefinition(
            table_id="far",
            name="far",
            schema=schema,
            time_column="at",
            granularity=Granularity.DAY,
            properties={},
        ),
    )
    return context, storage


def commits_of(
    context: TableContext, writer: int, count: int, begin: Barrier
) -> list[tuple[float, float]]:
    """Commit appends of one segment each, one after another; return when each began and ended.

    The first ``WARM_FAR`` are not measured.
    """
    day = Interval(START_US, START_US + 86_400_000_000)
    chunk = ChunkKey(day, context.log.known().base_version)
    took, state = [], context.log.known()
    for turn in range(-WARM_FAR, count):
        if turn == 0:
            begin.wait()
        partition = writer * (count + WARM_FAR) + turn + WARM_FAR
        segment = Segment(
            id=chunk.segment(partition),
            shard=Shard.first_generation(partition),
            path=f"data/{day.name}/{partition:05d}-{partition:016x}.parquet",
            rows=100,
            size=5000,
            row_groups=1,
            time_min=day.start,
            time_max=day.end - 1,
            created=START_US,
        )
        action = Appended(segments=(segment,))
        started = time.perf_counter()
        done = commit_or_raise(context, state, Change(action=action, commit_id=f"{writer}-{turn}"))
        took.append((started, time.perf_counter()))
        state = done.state
    return took[WARM_FAR:]


def far_by(writers: int, count: int, trip_s: float) -> tuple[Appends, float]:
    """Let threads commit at the same time; return also the puts a commit.

    The rate is that of all together, while all of them run.
    """
    context, storage = far_table()
    context.log.load()
    context.checked_now()
    storage.trip_s, begin = trip_s, Barrier(writers)
    processor = time.process_time()
    with ThreadPoolExecutor(writers) as pool:
        some = pool.map(lambda each: commits_of(context, each, count, begin), range(writers))
        found = [*some]
    spent, done = time.process_time() - processor, writers * (count + WARM_FAR)
    began = min(one[0][0] for one in found)
    ended = min(one[-1][1] for one in found)
    meanwhile = sum(end <= ended for one in found for _, end in one)
    return (
        Appends(
            rate=meanwhile / (ended - began),
            took_s=tuple(end - start for one in found for start, end in one),
            processor_ms=1000 * spent / done,
        ),
        storage.puts / done,
    )


def measure_far(rounds: int, writers: int, count: int, stretch: float) -> None:
    """Print the rates of one thread and of many."""
    trip_s, goal_rate = TRIP_S * stretch, GOAL_FAR / stretch
    if stretch != 1:
        print(f"requests take {1000 * trip_s:.0f} ms; {share_of_a_core():.2f} of a core is ours")
    found: dict[int, list[tuple[Appends, float]]] = {}
    for _ in range(rounds):
        for number in (1, writers):
            found.setdefault(number, []).append(far_by(number, count, trip_s))
    print(f"{'threads':<8}{'commits/s':>10}{'median':>10}{'p95':>10}{'puts':>10}{'processor':>12}")
    for number, some in found.items():
        print(
            f"{number:<8}{statistics.median(one.rate for one, _ in some):>10.0f}"
            f"{statistics.median(1000 * sorted_at(one.took_s, 0.5) for one, _ in some):>7.1f} ms"
            f"{statistics.median(1000 * sorted_at(one.took_s, 0.95) for one, _ in some):>7.1f} ms"
            f"{statistics.median(puts for _, puts in some):>10.3f}"
            f"{statistics.median(one.processor_ms for one, _ in some):>9.2f} ms"
        )
    many = statistics.median(one.rate for one, _ in found[writers])
    goal = f"{writers} threads {goal_rate:.0f} commits/s at {1000 * trip_s:.0f} ms a request"
    judge(goal, many / goal_rate)


def share_of_a_core() -> float:
    """Return how much of a core this process has: its processor time in a second of work."""
    begin, processor = time.perf_counter(), time.process_time()
    while time.perf_counter() - begin < 1.0:
        pass
    return time.process_time() - processor


def sorted_at(numbers: Sequence[float], share: float) -> float:
    """Return the number that this share of the others does not exceed."""
    return sorted(numbers)[int(len(numbers) * share)]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer objects and appends")
    parser.add_argument("--rounds", type=int, help="rounds (default 5; 1 with --quick)")
    parser.add_argument("--on", type=Path, help="a directory on the disk to measure")
    parser.add_argument("--only", choices=("creates", "appends", "far"), help="one of them")
    parser.add_argument("--stretch", type=float, default=1.0, help="slower requests (far)")
    parser.add_argument("--write", help=argparse.SUPPRESS)
    parser.add_argument("--zookeeper", help=argparse.SUPPRESS)
    parser.add_argument("--count", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if given.write:
        print(json.dumps(write(given.write, given.zookeeper, given.count)))
        return 0
    rounds = given.rounds or (1 if given.quick else 5)
    creates, appends, writers = (50, 20, (1, 2)) if given.quick else (2000, 800, WRITERS)
    with tempfile.TemporaryDirectory(dir=given.on) as root:
        if given.only in (None, "creates"):
            measure_creates(Path(root), rounds, creates)
        if given.only in (None, "appends"):
            measure_appends(Path(root), rounds, appends, writers)
    if given.only in (None, "far"):
        measure_far(min(rounds, 2), *((4, 3) if given.quick else (64, 25)), given.stretch)
    return 0


if __name__ == "__main__":
    sys.exit(main())
