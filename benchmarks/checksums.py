"""What checksums cost, in one run: appending, merging, sorting and reading, with them and without.

1. The rows are those of ``minor``. *Without* means: no page checksums, a CRC that does nothing, and
   inputs whose descriptors name no checksum, as older versions wrote them.
2. *zlib* and *ISA-L* are the two ways of computing the same CRC-32 (extra ``fast``).
3. Each round runs every way once on the same files, in turns, so that a drift of the machine hits
   all. Reported are medians of each round's ratio to *without*: of seconds, and of processor time,
   which a busy machine distorts less (not for Spark, whose work is in other processes). Inputs are
   in the page cache; what is written is synced.

Usage: ``python benchmarks/checksums.py [--quick] [--rounds N] [--no-spark]``.
"""

import argparse
import os
import statistics
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import minor
import results
import sort_ways
from isal import isal_zlib
from pyspark.sql import SparkSession

from airflow_provider_segtable.coordination.memory import MemoryCoordinator, MemoryService
from airflow_provider_segtable.core.segment import Segment, SegmentId
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.time import Granularity
from airflow_provider_segtable.data.arrow_schema import from_arrow
from airflow_provider_segtable.data.jobs.segment_writer import PARQUET, write_segment
from airflow_provider_segtable.data.open_files import LocalFiles
from airflow_provider_segtable.data.parquet import descriptor
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.spark.driver.session import session
from airflow_provider_segtable.spark.reads.dataframe_scan import scan
from airflow_provider_segtable.storage.memory_storage import MemoryStorage
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.snapshot import Snapshot
from airflow_provider_segtable.table.table import Table, create_table
from tests.support.clock import FakeClock, FakeRandomness

WITHOUT, ZLIB, ISAL = "without", "zlib", "ISA-L"
CRC: dict[str, Callable[..., int]] = {
    WITHOUT: lambda _data, _value=0: 0,
    ZLIB: zlib.crc32,
    ISAL: isal_zlib.crc32,
}
Task = Callable[[str, Path], None]
Rounds = list[tuple[float, float]]
"""The seconds and the processor time of each round."""
Found = dict[str, dict[str, Rounds]]
"""By task and way."""


@contextmanager
def computing(way: str) -> Iterator[None]:
    """Compute checksums in this way meanwhile."""
    before = descriptor.crc32
    descriptor.crc32 = CRC[way]
    PARQUET["write_page_checksum"] = way != WITHOUT
    try:
        yield
    finally:
        descriptor.crc32 = before
        PARQUET["write_page_checksum"] = True


def known(way: str, segments: tuple[Segment, ...]) -> tuple[Segment, ...]:
    """Return inputs as their descriptors name them."""
    return tuple(replace(s, footer=None) for s in segments) if way == WITHOUT else segments


def append(rows: int) -> Task:
    """Return a task that writes one segment."""
    made = minor.events(rows, 0)

    def task(_: str, place: Path) -> None:
        name = SegmentId(minor.MONTH, minor.START, 0)
        files, token = LocalFiles(place), f"{0:016x}"
        write_segment(
            files, made, segment_id=name, time_column="event_time", created=minor.START, token=token
        )

    return task


def merging(data: minor.Data) -> Task:
    """Return a task that merges small files, in this process."""

    def task(way: str, _: Path) -> None:
        merges = tuple(known(way, merge) for merge in data.merges)
        for path in minor.ours(in_process())(replace(data, merges=merges), Path()):
            path.unlink()

    return task


def sorting(data: sort_ways.Data) -> Task:
    """Return a task that sorts files, in this process."""

    def task(way: str, _: Path) -> None:
        given = replace(data, segments=known(way, data.segments))
        for path in sort_ways.ours(in_process())(given, Path()):
            path.unlink()

    return task


def table_at(place: Path, files: int, rows: int) -> Table:
    """Return a table of several segments."""
    clock = FakeClock()
    ports = TableContext(
        uri=str(place),
        storage=MemoryStorage(clock=clock),
        files=LocalFiles(place),
        clock=clock,
        randomness=FakeRandomness(),
        author="benchmark",
        optional_coordinator=MemoryCoordinator(clock, MemoryService()),
    )
    definition = TableDefinition(
        table_id="t",
        name="t",
        schema=from_arrow(minor.events(1, 0).schema),
        time_column="event_time",
        granularity=Granularity.MONTH,
    )
    table = create_table(ports, definition)
    for number in range(files):
        table.append(minor.events(rows, number))
    return table


def reading(table: Table, read: Callable[[Snapshot], object]) -> Task:
    """Return a task that reads a snapshot."""

    def task(way: str, _: Path) -> None:
        read(table.snapshot(checked=way != WITHOUT))

    return task


def all_columns(snapshot: Snapshot) -> None:
    """Read everything."""
    for _ in snapshot.batches():
        pass


def two_columns(snapshot: Snapshot) -> None:
    """Read some small columns."""
    for _ in snapshot.batches(columns=["kind", "device"]):
        pass


def by_spark(spark: SparkSession) -> Callable[[Snapshot], None]:
    """Return what reads everything in Spark."""

    def read(snapshot: Snapshot) -> None:
        scan(spark, snapshot).write.format("noop").mode("overwrite").save()

    return read


def measure(task: Task, way: str, work: Path) -> tuple[float, float]:
    """Run a task once in a way, and return the seconds and the processor time it took."""
    with tempfile.TemporaryDirectory(dir=work) as place, computing(way):
        os.sync()  # nobody pays for the pages of the one before
        began, used = time.perf_counter(), time.process_time()
        task(way, Path(place))
        return time.perf_counter() - began, time.process_time() - used


def arguments() -> argparse.Namespace:
    """Parse the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="little data, one round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--no-spark", action="store_true", help="leave Spark's reader out")
    parser.add_argument("--json", action="store_true")
    return parser.parse_args()


def main() -> None:
    """Measure everything and print a table."""
    args = arguments()
    files, rows, rounds = (4, 5_000, 1) if args.quick else (128, 40_000, args.rounds)
    with tempfile.TemporaryDirectory(prefix="segtable-bench-") as made:
        work = Path(made)
        table = table_at(work / "table", max(2, files // 16), rows * 10)
        tasks: dict[str, Task] = {
            "append": append(rows * 25),
            "minor": merging(minor.generate(work / "minor", files, rows)),
            "sort": sorting(
                sort_ways.generate(work / "sort", sort_ways.events, max(2, files // 4), rows)
            ),
            "scan, all columns": reading(table, all_columns),
            "scan, two columns": reading(table, two_columns),
        }
        if not args.no_spark:
            spark = session("segtable-benchmark", "local[2]", {"spark.driver.memory": "2g"})
            tasks["Spark scan, all columns"] = reading(table, by_spark(spark))
        found: Found = {task: {way: [] for way in CRC} for task in tasks}
        for number in range(rounds + 1):
            for name, task in tasks.items():
                ways = [*CRC][number % len(CRC) :] + [*CRC][: number % len(CRC)]
                for way in ways:
                    took = measure(task, way, work)
                    if number:  # the first round warms up
                        found[name][way].append(took)
        report(found, as_json=args.json)


def report(found: Found, *, as_json: bool) -> None:
    """Print the medians."""
    if as_json:
        results.report([*judged(found)], as_json=True)
        return
    print(f"| task | {WITHOUT}, s | {ZLIB} | {ISAL} | {ZLIB}, processor | {ISAL}, processor |")
    print("|---|---|---|---|---|---|")
    for name, ways in found.items():
        cases = [(way, which) for which in (0, 1) for way in (ZLIB, ISAL)]
        ratios = [ratio(ways[way], ways[WITHOUT], which) for way, which in cases]
        shown = " | ".join(f"{each:.2f}" for each in ratios)
        seconds = statistics.median(took for took, _ in ways[WITHOUT])
        print(f"| {name} | {seconds:.2f} | {shown} |")


def judged(found: Found) -> Iterator[results.Result]:
    """Yield processor time with checksums against that without."""
    for name, ways in found.items():
        for way in (ZLIB, ISAL):
            yield results.Result(
                benchmark="checksums",
                what=f"{name}, {way}",
                ours=statistics.median(used for _, used in ways[way]),
                unit="s",
                peer=statistics.median(used for _, used in ways[WITHOUT]),
                against=WITHOUT,
            )


def ratio(some: Rounds, base: Rounds, which: int) -> float:
    """Return the median ratio of two ways in the same round."""
    return statistics.median(a[which] / b[which] for a, b in zip(some, base, strict=True))


if __name__ == "__main__":
    main()
