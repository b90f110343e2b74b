"""A delete beside a sorting compaction of the same rows; and what deletes cost readers.

1. *Race*: 1 % of 10 million rows, scattered over 200 segments of one time chunk, is deleted while a
   semi-major compaction sorts the chunk in a process of its own, under real ZooKeeper. Both orders:
   the delete commits first, or the compaction (the delete has found its rows before, and commits
   after). Both must commit, neither may start again; contents are checked row by row.
2. What the race costs at the commit is the time inside the commit calls, beside a control in which
   nobody raced.
3. The same race in a Delta table (``deltalake``, of the same rows and files): z-order in a process
   of its own, the delete beside it. Who fails is tried again until both are done.
4. *Scan*: all rows are read with nothing deleted, 1 %, 10 %, and again after a semi-major
   compaction has left them out; and with 1 % deleted since. Rounds take turns, after one that does
   not count; medians are reported.

Usage: ``python benchmarks/parallel_update.py [--quick] [--rounds N] [--only race|scan]``.
"""

import argparse
import json
import multiprocessing
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import DeltaError
from pyroaring import BitMap
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as Spark's own guide writes it

from airflow_provider_segtable import Table
from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper
from airflow_provider_segtable.core.log.plan import PlanStatus
from airflow_provider_segtable.core.requests.change_request import ChangeKind
from airflow_provider_segtable.core.segment import SegmentId
from airflow_provider_segtable.data.row_filter import hidden_of
from airflow_provider_segtable.services import compaction
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.spark.driver.session import session
from airflow_provider_segtable.spark.reads.dataframe_scan import scan
from airflow_provider_segtable.table.changes import row_change
from airflow_provider_segtable.table.context import open_context
from airflow_provider_segtable.table.snapshot import Snapshot

ORDERS = ("control", "delete first", "compaction first")
BUCKETS = 100
GONE = 7
START_US = 1_767_225_600_000_000


def rows_of(number: int, rows: int) -> pa.Table:
    """Return the rows of file ``number``: ids in order, times and the rest at random."""
    random = np.random.default_rng(number)
    ids = np.arange(number * rows, (number + 1) * rows)
    return pa.table(
        {
            "at": pa.array(START_US + random.integers(0, 86_400_000_000, rows)).cast(
                pa.timestamp("us", "UTC")
            ),
            "id": ids,
            "bucket": random.integers(0, BUCKETS, rows).astype(np.int32),
            "user": pa.array(random.zipf(1.3, rows) % 100_000),
            "kind": pa.array([f"kind-{k}" for k in random.integers(0, 8, rows)]),
            "amount": random.normal(100, 20, rows),
        }
    )


def make_table(root: Path, zookeeper: str, files: int, rows: int) -> Table:
    """Create a table of ``files`` segments in one time chunk."""
    schema = rows_of(0, 1).schema
    table = Table.create(
        str(root), schema=schema, time_column="at", granularity="day", zookeeper=zookeeper
    )
    for number in range(files):
        table.append(rows_of(number, rows))
    return table


def find(snapshot: Snapshot, buckets: int) -> row_change.Found:
    """Return the addresses of the rows of the first buckets from ``GONE`` on."""
    found: dict[SegmentId, BitMap] = {}
    for batch in snapshot.addressed(columns=["bucket"]):
        bucket = batch.column("bucket")
        wanted = pc.and_(pc.greater_equal(bucket, GONE), pc.less(bucket, GONE + buckets))
        names, codes, numbers = hidden_of(batch.filter(wanted))
        for code, name in enumerate(names):
            some = BitMap(numbers[codes == code].astype(np.uint32))
            if some:
                found.setdefault(SegmentId.parse(name), BitMap()).update(some)
    return row_change.Found(rows=found, matched=sum(map(len, found.values())))


def delete(
    table: Table, buckets: int = 1, *, before_commit: Callable[[], None] = lambda: None
) -> row_change.ChangeResult:
    """Delete the rows of some buckets; ``before_commit`` runs when they are found."""
    tries = []

    def once(snapshot: Snapshot) -> row_change.Found:
        tries.append(snapshot)
        found = find(snapshot, buckets)
        before_commit()
        return found

    done = row_change.change(
        table.ports,
        once,
        kind=ChangeKind.DELETE,
        reason=f"buckets {GONE} to {GONE + buckets - 1}",
        commit_id=table.ports.randomness.token(),
    )
    if len(tries) != 1:
        raise SystemExit(f"the delete began {len(tries)} times")
    return done


class Timed:
    """Adds up the time inside a function of a module, which it replaces."""

    def __init__(self, module: Any, name: str) -> None:
        self.seconds = 0.0
        self.real = getattr(module, name)
        setattr(module, name, self)
        self.restore = lambda: setattr(module, name, self.real)

    def __call__(self, *given: Any, **named: Any) -> Any:
        """Call it."""
        began = time.perf_counter()
        try:
            return self.real(*given, **named)
        finally:
            self.seconds += time.perf_counter() - began


def compact_it(root: str, zookeeper: str, told: Connection) -> None:
    """Sort the chunk, in a process of its own; tell what became of it."""
    ports = open_context(root, zookeeper=zookeeper)
    asked = request(ports, "semi-major", clustering="user")
    commits = Timed(compaction, "complete")
    began = time.perf_counter()
    (result,) = compaction.compact(
        ports, [known.plan.id for known in asked], in_process(ports.files), wait_s=60
    )
    told.send(
        {
            "ended": result.ended.value,
            "message": result.message,
            "s": time.perf_counter() - began,
            "commit_ms": commits.seconds * 1000,
        }
    )
    ports.coordinator.close()


def plan_status(table: Table) -> PlanStatus | None:
    """Return how far the newest plan is."""
    plans = table.state().plans.values()
    return max(plans, key=lambda plan: plan.last_n).status if plans else None


def await_status(table: Table, *wanted: PlanStatus) -> None:
    """Wait until the newest plan is that far; stop if the process beside us has failed."""
    until = time.monotonic() + 300
    while plan_status(table) not in wanted:
        ended = not multiprocessing.active_children() or time.monotonic() > until
        if ended and plan_status(table) not in wanted:
            raise SystemExit(f"the compaction beside this process did not become {wanted[0]}")
        time.sleep(0.02)


@contextmanager
def beside(target: Callable[..., None], *given: Any) -> Iterator[Connection]:
    """Run a function in a process of its own; yield where it tells its result."""
    here, there = multiprocessing.Pipe()
    process = multiprocessing.get_context("spawn").Process(target=target, args=(*given, there))
    process.start()
    there.close()  # so that its end is noticed
    try:
        yield here
    finally:
        process.join(timeout=600)


def check(table: Table, files: int, rows: int, buckets: int) -> None:
    """Compare all rows with what must be left, by an order-free digest."""
    expected = pa.concat_tables(rows_of(number, rows) for number in range(files))
    bucket = expected.column("bucket")
    gone = pc.and_(pc.greater_equal(bucket, GONE), pc.less(bucket, GONE + buckets))
    expected = expected.filter(pc.invert(gone)).sort_by("id")
    found = table.snapshot().to_arrow().sort_by("id")
    if not found.equals(expected):
        raise SystemExit(f"contents differ: {found.num_rows} rows, expected {expected.num_rows}")


def race_ours(work: Path, zookeeper: str, files: int, rows: int, order: str) -> dict[str, Any]:
    """Run the race once in one order (``control``: one after the other) and check the contents."""
    root = work / "ours"
    table = make_table(root, zookeeper, files, rows)
    commits, writes = Timed(row_change, "commit"), Timed(row_change, "write_vectors")
    with beside(compact_it, str(root), zookeeper) as told:
        await_status(table, PlanStatus.INFLIGHT, PlanStatus.COMPLETED)
        compacted = told.recv() if order == "control" else None
        before_commit = _until_compacted(table) if order == "compaction first" else lambda: None
        began = time.perf_counter()
        done = delete(table, before_commit=before_commit)
        took = time.perf_counter() - began
        overtaken = plan_status(table) is PlanStatus.COMPLETED
        compacted = compacted or told.recv()
    commits.restore()
    writes.restore()
    if compacted["ended"] != "completed" or overtaken != (order != "delete first"):
        raise SystemExit(f"the race was not {order}: {compacted}")
    check(table, files, rows, 1)
    attempts = max(plan.attempts for plan in table.state().plans.values())
    shutil.rmtree(root)
    return {
        "order": order,
        "deleted": done.deleted,
        "compaction_s": compacted["s"],
        "compaction_commit_ms": compacted["commit_ms"],
        "compaction_attempts": attempts,
        "delete_s": took,
        "delete_commit_ms": commits.seconds * 1000,
        "vectors_ms": writes.seconds * 1000,
    }


def _until_compacted(table: Table) -> Callable[[], None]:
    return lambda: await_status(table, PlanStatus.COMPLETED)


def optimize_it(root: str, told: Connection) -> None:
    """Z-order the Delta table in a process of its own, as often as it takes."""
    told.send("begun")
    failures, began = [], time.perf_counter()
    while True:
        once = time.perf_counter()
        try:
            DeltaTable(root).optimize.z_order(["user"])
            break
        except DeltaError as error:
            failures.append((time.perf_counter() - once, str(error).splitlines()[0]))
    told.send({"s": time.perf_counter() - began, "failures": failures})


def race_delta(work: Path, files: int, rows: int, order: str) -> dict[str, Any]:
    """Run the same race in a Delta table."""
    root = work / "delta"
    for number in range(files):
        write_deltalake(root, rows_of(number, rows), mode="append")
    failures: list[tuple[float, str]] = []
    with beside(optimize_it, str(root)) as told:
        told.recv()
        time.sleep(0.0 if order == "together" else 1.0)
        began = time.perf_counter()
        while True:
            once = time.perf_counter()
            try:
                DeltaTable(root).delete(f"bucket = {GONE}")
                break
            except DeltaError as error:
                failures.append((time.perf_counter() - once, str(error).splitlines()[0]))
        took = time.perf_counter() - began
        optimized = told.recv()
    shutil.rmtree(root)
    return {
        "order": order,
        "z_order_s": optimized["s"],
        "z_order_failed": optimized["failures"],
        "delete_s": took,
        "delete_failed": failures,
    }


def scan_s(table: Table) -> float:
    """Read all columns of all rows with Arrow, and return the seconds."""
    began = time.perf_counter()
    for _ in table.snapshot().batches():
        pass
    return time.perf_counter() - began


def readers(spark: SparkSession) -> dict[str, Callable[[Table], float]]:
    """Return the ways of reading: each reads a table and returns the seconds."""

    def timed(of: Callable[[DataFrame], DataFrame]) -> Callable[[Table], float]:
        def read(table: Table) -> float:
            began = time.perf_counter()
            of(scan(spark, table.snapshot())).collect()
            return time.perf_counter() - began

        return read

    every = ("at", "id", "bucket", "user", "kind", "amount")
    return {
        "Arrow, all columns": scan_s,
        "Spark, all columns": timed(lambda rows: rows.agg(F.max(F.xxhash64(*every)))),
        "Spark, one column": timed(lambda rows: rows.agg(F.sum("amount"))),
    }


def scans(
    work: Path, zookeeper: str, files: int, rows: int, rounds: int
) -> dict[str, dict[str, float]]:
    """Return the median seconds of reading everything, by reader and by what was deleted before."""
    tables = {}
    for name, buckets in (("nothing deleted", 0), ("1 % deleted", 1), ("10 % deleted", 10)):
        table = make_table(work / f"scan-{buckets}", zookeeper, files, rows)
        if buckets:
            delete(table, buckets)
        tables[name] = table
    sorted_, again = "10 % deleted, rewritten", "10 % rewritten, then 1 % of it deleted"
    for number, name in enumerate((sorted_, again)):
        table = make_table(work / f"scan-sorted-{number}", zookeeper, files, rows)
        delete(table, 10)
        with beside(compact_it, str(table.ports.uri), zookeeper) as told:
            told.recv()
        tables[name] = table
    delete(tables[again], 11)
    spark = session("segtable-benchmark", "local[2]", {"spark.driver.memory": "4g"})
    ways = readers(spark)
    seconds: dict[str, dict[str, list[float]]] = {way: {} for way in ways}
    for warm in (True, *[False] * rounds) if rounds > 1 else (False,):
        for name, table in tables.items():
            for way, read in ways.items():
                took = read(table)
                if not warm:
                    seconds[way].setdefault(name, []).append(took)
    spark.stop()
    return {
        way: {name: statistics.median(times) for name, times in found.items()}
        for way, found in seconds.items()
    }


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="4 files, one race, one round")
    parser.add_argument("--rounds", type=int, default=3, help="rounds (default 3)")
    parser.add_argument("--only", choices=("race", "scan", "delta"), help="one part")
    given = parser.parse_args(argv)
    files, rows = (4, 2_000) if given.quick else (200, 50_000)
    rounds = 1 if given.quick else given.rounds
    with (
        tempfile.TemporaryDirectory(prefix="segtable-bench-") as made,
        EmbeddedZooKeeper(Path(made) / "zookeeper") as server,
    ):
        work, zookeeper = Path(made), server.address
        if given.only in (None, "race"):
            for _ in range(rounds):
                for order in ORDERS[-1:] if given.quick else ORDERS:
                    print(json.dumps(race_ours(work, zookeeper, files, rows, order)), flush=True)
        if given.only in (None, "race", "delta"):
            for order in ("together",) if given.quick else ("together", "a second later"):
                print(json.dumps(race_delta(work, files, rows, order)), flush=True)
        if given.only in (None, "scan"):
            found = scans(work, zookeeper, files, rows, rounds)
            for way, medians in found.items():
                print(way)
                for name, seconds in medians.items():
                    ratio = seconds / medians["nothing deleted"]
                    print(f"  {name:<42}{seconds:>8.2f} s{ratio:>8.2f} x")
    return 0


if __name__ == "__main__":
    sys.exit(main())
