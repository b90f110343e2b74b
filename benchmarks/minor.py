"""Minor compaction against copying, deltalake, Spark and DuckDB, in one run.

1. The data: many small segments of event rows, written as an append writes them (zstd level 1).
2. Every way merges the same files into about equally many outputs; each round runs every way
   once, so that a drift of the machine hits all of them. Inputs are in the page cache.
3. Reported are medians and their ratios to copying the bytes, in plain form (``copy``) and with
   fsync (``durable copy``). Ours always syncs file and directory; the peers never do.
4. Every result is checked: as many rows as went in.

Usage: ``python benchmarks/minor.py [--quick] [--rounds N] [--keep DIR]``.
"""

import argparse
import os
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import results
from deltalake import DeltaTable, convert_to_deltalake
from pyspark.sql import SparkSession

from airflow_provider_segtable.core.segment import Segment, SegmentId, Shard
from airflow_provider_segtable.core.time import Granularity, parse_instant
from airflow_provider_segtable.data.jobs.minor_job import MinorJob
from airflow_provider_segtable.data.jobs.segment_writer import write_segment
from airflow_provider_segtable.data.open_files import LocalFiles
from airflow_provider_segtable.services.attempt import Execute, in_process
from airflow_provider_segtable.spark.driver.session import session
from airflow_provider_segtable.spark.writes.distribution import spark_execute

TARGET = 128 << 20
START = parse_instant("2026-01-01")
MONTH = Granularity.MONTH.chunk(START)


@dataclass(frozen=True, slots=True)
class Data:
    """The small files, and the merges that are wanted."""

    root: Path
    segments: tuple[Segment, ...]
    merges: tuple[tuple[Segment, ...], ...]

    @property
    def rows(self) -> int:
        """Return the rows of all segments."""
        return sum(segment.rows for segment in self.segments)

    @property
    def size(self) -> int:
        """Return the bytes of all segments."""
        return sum(segment.size for segment in self.segments)

    def paths(self, segments: Sequence[Segment] = ()) -> list[str]:
        """Return absolute paths."""
        return [str(self.root / segment.path) for segment in segments or self.segments]


def events(rows: int, seed: int) -> pa.Table:
    """Make event rows: times in order, a skewed user, few kinds, many URLs, random numbers."""
    randomness = np.random.default_rng(seed)
    kinds = pa.array(["view", "click", "scroll", "add", "remove", "buy", "search", "login"])
    pages = pa.array([f"https://shop.example/p/{n:05d}?from=mail" for n in range(3000)])
    times = START + seed * 60_000_000 + np.sort(randomness.integers(0, 60_000_000, rows))
    return pa.table(
        {
            "event_time": pa.array(times, pa.timestamp("us", "UTC")),
            "event_id": randomness.integers(0, 2**63 - 1, rows),
            "user": (randomness.pareto(1.2, rows) * 1000).astype("int64") % 5_000_000,
            "session": randomness.integers(0, 2**48, rows),
            "kind": kinds.take(pa.array(randomness.integers(0, len(kinds), rows))),
            "url": pages.take(pa.array(randomness.integers(0, len(pages), rows))),
            "duration": randomness.exponential(30.0, rows),
            "score": randomness.normal(size=rows),
            "amount": pa.array(
                np.where(randomness.random(rows) < 0.1, 1999, 0), mask=randomness.random(rows) < 0.5
            ),
            "device": randomness.integers(0, 200, rows).astype("int32"),
        }
    )


def generate(root: Path, files: int, rows: int) -> Data:
    """Write the small segments."""
    table = LocalFiles(root)
    segments = tuple(
        write_segment(
            table,
            events(rows, number),
            segment_id=SegmentId(MONTH, START, number),
            time_column="event_time",
            created=START,
            token=f"{number:016x}",
        )
        for number in range(files)
    )
    merges: list[list[Segment]] = [[]]
    for segment in segments:
        if sum(other.size for other in merges[-1]) + segment.size > TARGET:
            merges.append([])
        merges[-1].append(segment)
    return Data(root, segments, tuple(map(tuple, merges)))


def copy(data: Data, out: Path, *, durable: bool = False) -> list[Path]:
    """Copy each merge's bytes into one file, in the kernel."""
    results = []
    for number, merge in enumerate(data.merges):
        results.append(out / f"{number}.bytes")
        sink = os.open(results[-1], os.O_CREAT | os.O_WRONLY)
        for path in data.paths(merge):
            source = os.open(path, os.O_RDONLY)
            left = os.fstat(source).st_size
            while left:
                left -= os.copy_file_range(source, sink, left)
            os.close(source)
        if durable:
            os.fsync(sink)
        os.close(sink)
    return results


def ours(execute: Execute) -> Callable[[Data, Path], list[Path]]:
    """Return the kernel as a way to merge."""

    def merge(data: Data, _: Path) -> list[Path]:
        jobs = [
            MinorJob(
                uri=str(data.root),
                storage_options={},
                inputs=inputs,
                outputs=((_month_id(32768 + number), _shard(number, inputs)),),
                created=START,
                time_column="event_time",
                attempt=os.urandom(8).hex(),
            )
            for number, inputs in enumerate(data.merges)
        ]
        done = list(execute(jobs))
        errors = [one.error for one in done if one.error]
        if errors:
            raise SystemExit(errors[0])
        return [data.root / segment.path for one in done for segment in one.value]

    return merge


def _month_id(partition: int) -> SegmentId:
    return SegmentId(MONTH, START, partition)


def _shard(number: int, inputs: Sequence[Segment]) -> Shard:
    return Shard(
        partition=32768 + number,
        root_start=inputs[0].shard.root_start,
        root_end=inputs[-1].shard.root_end,
        minor_version=1,
        group_size=1,
    )


def optimize(_: Data, out: Path) -> list[Path]:
    """Run deltalake's OPTIMIZE on a table that already has the files."""
    table = DeltaTable(str(out))
    table.optimize.compact(target_size=TARGET)
    return [out / path for path in DeltaTable(str(out)).to_pyarrow_dataset().files]


def prepare_optimize(data: Data, out: Path) -> None:
    """Make a Delta table of links to the files."""
    for number, path in enumerate(data.paths()):
        os.link(path, out / f"{number:05d}.parquet")
    convert_to_deltalake(str(out))


def spark_rewrite(spark: SparkSession) -> Callable[[Data, Path], list[Path]]:
    """Return Spark's usual way: read, coalesce, write."""

    def merge(data: Data, out: Path) -> list[Path]:
        frame = spark.read.parquet(*data.paths()).coalesce(len(data.merges))
        options = {"compression": "zstd", "parquet.compression.codec.zstd.level": "1"}
        frame.write.options(**options).parquet(str(out / "result"))
        return list((out / "result").glob("*.parquet"))

    return merge


def duck(data: Data, out: Path) -> list[Path]:
    """Let DuckDB copy, unordered, into files of about the target size."""
    with duckdb.connect() as connection:
        connection.execute("SET preserve_insertion_order = false")
        connection.execute("SET threads = 2")
        connection.execute(
            f"COPY (SELECT * FROM read_parquet({data.paths()})) TO '{out / 'result'}' "  # noqa: S608
            f"(FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1, FILE_SIZE_BYTES {TARGET})"
        )
    return list((out / "result").glob("*.parquet"))


@dataclass(frozen=True, slots=True)
class Way:
    """One way of merging; ``prepare`` is not measured."""

    name: str
    run: Callable[[Data, Path], list[Path]]
    prepare: Callable[[Data, Path], None] = lambda _data, _out: None
    parquet: bool = True


def measure(way: Way, data: Data, work: Path) -> float:
    """Run one way once, check and remove its result, and return the seconds it took."""
    out = Path(tempfile.mkdtemp(dir=work))
    way.prepare(data, out)
    os.sync()  # nobody pays for the pages of the one before
    began = time.perf_counter()
    results = way.run(data, out)
    took = time.perf_counter() - began
    if way.parquet:
        rows = sum(pq.read_metadata(path).num_rows for path in results)
        if rows != data.rows:
            raise SystemExit(f"{way.name}: {rows} rows of {data.rows}")
    for path in results:
        path.unlink()
    shutil.rmtree(out)
    return took


@contextmanager
def workplace(keep: str | None) -> Iterator[Path]:
    """Yield a directory, removed afterwards unless it was named."""
    if keep:
        Path(keep).mkdir(parents=True, exist_ok=True)
        yield Path(keep)
        return
    with tempfile.TemporaryDirectory(prefix="segtable-bench-") as made:
        yield Path(made)


def report(data: Data, times: dict[str, list[float]], *, as_json: bool) -> None:
    """Print medians and ratios."""
    medians = {name: statistics.median(taken) for name, taken in times.items()}
    if as_json:
        results.report([*judged(medians)], as_json=True)
        return
    print(
        f"{len(data.segments)} files, {data.rows:,} rows, {data.size / 1e6:,.0f} MB "
        f"-> {len(data.merges)} files; {os.cpu_count()} cores, medians of "
        f"{max(map(len, times.values()))} rounds"
    )
    best = medians["segtable in Spark tasks"]
    print(f"{'way':<28}{'s':>8}{'x copy':>9}{'x durable copy':>16}{'x segtable':>12}")
    for name, median in medians.items():
        ratios = (median / medians["copy"], median / medians["durable copy"], median / best)
        print(f"{name:<28}{median:>8.2f}{ratios[0]:>9.1f}{ratios[1]:>16.1f}{ratios[2]:>12.1f}")


def judged(medians: dict[str, float]) -> Iterator[results.Result]:
    """Yield ours against copying, as durable and not, and against the other tools."""
    goals = {("segtable in Spark tasks", "copy"): 1.8}
    for name, ours in medians.items():
        for peer, seconds in medians.items() if name.startswith("segtable") else ():
            if not peer.startswith("segtable"):
                yield results.Result(
                    benchmark="minor",
                    what=f"merging small files, {name.removeprefix('segtable ')}",
                    ours=ours,
                    unit="s",
                    peer=seconds,
                    against=peer,
                    most=goals.get((name, peer)),
                )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="8 files and one round, for tests")
    parser.add_argument("--files", type=int, default=544)
    parser.add_argument("--rows", type=int, default=40_000, help="rows a file")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--keep", help="work here and leave the small files")
    parser.add_argument("--only", default="", help="ways whose name contains this")
    args = parser.parse_args(argv)
    files, rounds = (8, 1) if args.quick else (args.files, args.rounds)
    with workplace(args.keep) as work:
        data = generate(work / "table", files, args.rows)
        spark = session("segtable-benchmark", "local[2]", {"spark.driver.memory": "4g"})
        ways = [
            Way("copy", copy, parquet=False),
            Way("durable copy", lambda d, o: copy(d, o, durable=True), parquet=False),
            Way("segtable in one process", ours(in_process())),
            Way("segtable in Spark tasks", ours(spark_execute(spark))),
            Way("deltalake OPTIMIZE", optimize, prepare_optimize),
            Way("Spark read-coalesce-write", spark_rewrite(spark)),
            Way("DuckDB COPY", duck),
        ]
        ways = [way for way in ways if args.only in way.name or way.name.endswith("copy")]
        spark.sparkContext.parallelize(range(2), 2).map(str).collect()  # workers are up
        times: dict[str, list[float]] = {way.name: [] for way in ways}
        for _ in range(rounds):
            for way in ways:
                times[way.name].append(measure(way, data, work))
        report(data, times, as_json=args.json)
        spark.stop()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
