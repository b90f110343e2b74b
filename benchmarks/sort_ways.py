"""What ``sort_and_rollup.py`` measures: the rows, and the ways to sort them or roll them up.

1. Sorting: event rows in order of time, as appends write them (zstd level 1), sorted by ``kind``
   (few words) and ``user`` (skewed numbers).
2. Rollup: rows of three dimensions that make about a million groups, one event each.
3. Every way reads the same files and writes zstd level 1.
"""

import os
import pickle
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
from deltalake import DeltaTable, convert_to_deltalake
from pyspark.sql import SparkSession
from pyspark.sql import functions as sf

from airflow_provider_segtable.core.schema import Order
from airflow_provider_segtable.core.segment import Place, Segment, SegmentId, Shard
from airflow_provider_segtable.core.tables.append_kind import Append
from airflow_provider_segtable.core.tables.rollup_kind import (
    EVENTS,
    Metric,
    MetricKind,
    QueryGranularity,
    Rollup,
)
from airflow_provider_segtable.core.time import Granularity, parse_instant
from airflow_provider_segtable.data.arrow_schema import from_arrow
from airflow_provider_segtable.data.jobs.segment_writer import write_segment
from airflow_provider_segtable.data.open_files import LocalFiles
from airflow_provider_segtable.data.sort.sorting import SortSpec, sort_stages
from airflow_provider_segtable.data.table_kinds import arrow_kind_of
from airflow_provider_segtable.services.attempt import Execute, in_process
from airflow_provider_segtable.spark.writes.distribution import spark_execute

TARGET = 64 << 20
MEMORY = 512 << 20
START = parse_instant("2026-01-01")
MONTH = Granularity.MONTH.chunk(START)
ORDER = ("kind", "user")
DIMENSIONS = ("kind", "device", "campaign")
ROLLUP = Rollup(
    dimensions=DIMENSIONS,
    metrics=(
        Metric(name="amount", kind=MetricKind.SUM, source="amount"),
        Metric(name="duration", kind=MetricKind.SUM, source="duration"),
        Metric(name="least", kind=MetricKind.MIN, source="least"),
        Metric(name="most", kind=MetricKind.MAX, source="most"),
    ),
    query_granularity=QueryGranularity.MONTH,
)


@dataclass(frozen=True, slots=True)
class Data:
    """The files, and how many rows a result must have."""

    root: Path
    segments: tuple[Segment, ...]
    result: int

    @property
    def rows(self) -> int:
        """Return the rows of all segments."""
        return sum(segment.rows for segment in self.segments)

    @property
    def size(self) -> int:
        """Return the bytes of all segments."""
        return sum(segment.size for segment in self.segments)

    @property
    def paths(self) -> list[str]:
        """Return absolute paths."""
        return [str(self.root / segment.path) for segment in self.segments]


def events(rows: int, seed: int) -> pa.Table:
    """Make event rows: times in order, a skewed user, few kinds, many URLs, random numbers."""
    randomness = np.random.default_rng(seed)
    kinds = pa.array(["view", "click", "scroll", "add", "remove", "buy", "search", "login"])
    pages = pa.array([f"https://shop.example/p/{n:05d}?from=mail" for n in range(3000)])
    return pa.table(
        {
            "event_time": _times(rows, seed, randomness),
            "event_id": randomness.integers(0, 2**63 - 1, rows),
            "user": (randomness.pareto(1.2, rows) * 1000).astype("int64") % 5_000_000,
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


def measures(rows: int, seed: int) -> pa.Table:
    """Make rows of a rollup table of which each stands for one event: 8 x 200 x 600 groups."""
    table = events(rows, seed)
    randomness = np.random.default_rng(seed + 1_000_000)
    score = table.column("score")
    return pa.table(
        {
            "event_time": pa.array(np.full(rows, START), pa.timestamp("us", "UTC")),
            "kind": table.column("kind"),
            "device": table.column("device"),
            "campaign": randomness.integers(0, 600, rows).astype("int32"),
            "amount": table.column("amount").fill_null(0),
            "duration": table.column("duration"),
            "least": score,
            "most": score,
            EVENTS: np.ones(rows, np.int64),
        }
    )


def _times(rows: int, seed: int, randomness: np.random.Generator) -> pa.Array:
    times = START + seed * 60_000_000 + np.sort(randomness.integers(0, 60_000_000, rows))
    return pa.array(times, pa.timestamp("us", "UTC"))


def generate(root: Path, make: Callable[[int, int], pa.Table], files: int, rows: int) -> Data:
    """Write the small segments, or find them where an earlier run has left them."""
    known = root / "data.pickle"
    if not known.exists():
        table = LocalFiles(root)
        segments = tuple(
            write_segment(
                table,
                make(rows, number),
                segment_id=SegmentId(MONTH, START, number),
                time_column="event_time",
                created=START,
                token=f"{number:016x}",
            )
            for number in range(files)
        )
        data = Data(root, segments, files * rows)
        if make is measures:
            groups = pl.read_parquet(data.paths, columns=list(DIMENSIONS)).n_unique()
            data = replace(data, result=groups)
        known.write_bytes(pickle.dumps(data))
    found: Data = pickle.loads(known.read_bytes())  # noqa: S301  # written above
    return found


def ours(execute: Execute, *, rollup: Rollup | None = None) -> Callable[[Data, Path], list[Path]]:
    """Return the kernel as a way to sort, or to roll up."""

    def run(data: Data, _: Path) -> list[Path]:
        make = events if rollup is None else measures
        hidden = [name for name in make(1, 0).column_names if name.startswith("__")]
        spec = SortSpec(
            uri=str(data.root),
            storage_options={},
            schema=from_arrow(make(1, 0).drop_columns(hidden).schema),
            time_column="event_time",
            order=Order() if rollup else Order(columns=ORDER),
            intervals=(MONTH,),
            target_size=TARGET,
            memory=MEMORY,
            attempt=os.urandom(8).hex(),
            created=START,
            row_kind=arrow_kind_of(rollup or Append()),
        )
        stages = sort_stages(spec, data.segments, named)
        jobs = next(stages)
        while True:
            done = sorted(execute(jobs), key=lambda one: one.index)
            errors = [one.error for one in done if one.error]
            if errors:
                raise SystemExit(errors[0])
            try:
                jobs = stages.send([one.value for one in done])
            except StopIteration as stop:
                return [data.root / segment.path for segment in stop.value]

    return run


def named(
    counts: Mapping[Place, int],
) -> dict[Place, tuple[tuple[SegmentId, Shard], ...]]:
    """Name the outputs: the core set of a new version."""
    return {
        place: tuple(
            (
                SegmentId(place.interval, START + 1, p),
                Shard.first_generation(p, core=count, base=count),
            )
            for p in range(count)
        )
        for place, count in counts.items()
    }


SPARK_ZSTD = {"compression": "zstd", "parquet.compression.codec.zstd.level": "1"}


def spark_sort(spark: SparkSession, *, total: bool) -> Callable[[Data, Path], list[Path]]:
    """Return Spark's sort: a total order, or ranges sorted within."""

    def run(data: Data, out: Path) -> list[Path]:
        frame = spark.read.parquet(*data.paths)
        frame = (
            frame.orderBy(*ORDER)
            if total
            else frame.repartitionByRange(4, *ORDER).sortWithinPartitions(*ORDER)
        )
        frame.write.options(**SPARK_ZSTD).parquet(str(out / "result"))
        return list((out / "result").glob("*.parquet"))

    return run


def spark_rollup(spark: SparkSession) -> Callable[[Data, Path], list[Path]]:
    """Return Spark's aggregation."""

    def run(data: Data, out: Path) -> list[Path]:
        frame = spark.read.parquet(*data.paths).groupBy(*DIMENSIONS)
        made = frame.agg(
            sf.sum("amount").alias("amount"),
            sf.sum("duration").alias("duration"),
            sf.min("least").alias("least"),
            sf.max("most").alias("most"),
            sf.sum(EVENTS).alias(EVENTS),
        )
        made.write.options(**SPARK_ZSTD).parquet(str(out / "result"))
        return list((out / "result").glob("*.parquet"))

    return run


def links(data: Data, out: Path) -> None:
    """Make a Delta table of links to the files."""
    for number, path in enumerate(data.paths):
        os.link(path, out / f"{number:05d}.parquet")
    convert_to_deltalake(str(out))


def delta(_: Data, out: Path) -> list[Path]:
    """Run deltalake's z-order."""
    DeltaTable(str(out)).optimize.z_order(list(ORDER), target_size=TARGET)
    return [out / path for path in DeltaTable(str(out)).to_pyarrow_dataset().files]


def duck(query: str) -> Callable[[Data, Path], list[Path]]:
    """Return DuckDB's COPY of a query over ``files``."""

    def run(data: Data, out: Path) -> list[Path]:
        with duckdb.connect() as connection:
            connection.execute("SET threads = 2")
            files = f"read_parquet({data.paths})"
            connection.execute(
                f"COPY ({query.replace('files', files, 1)}) TO '{out / 'result.parquet'}' "
                "(FORMAT parquet, COMPRESSION zstd, COMPRESSION_LEVEL 1)"
            )
        return [out / "result.parquet"]

    return run


DUCK_SORT = """SELECT * FROM files ORDER BY kind, "user\""""
DUCK_ROLLUP = """
    SELECT kind, device, campaign, sum(amount) AS amount, sum(duration) AS duration,
        min(least) AS least, max(most) AS most, sum(__segtable_events) AS __segtable_events
    FROM files GROUP BY ALL
"""


def polars_sort(data: Data, out: Path) -> list[Path]:
    """Sort in memory and write."""
    frame = pl.read_parquet(data.paths).sort(ORDER)
    frame.write_parquet(out / "result.parquet", compression="zstd", compression_level=1)
    return [out / "result.parquet"]


def polars_rollup(data: Data, out: Path) -> list[Path]:
    """Group lazily and write."""
    least, most = pl.col("least").min(), pl.col("most").max()
    frame = pl.scan_parquet(data.paths).group_by(*DIMENSIONS)
    made = frame.agg(pl.col("amount", "duration", EVENTS).sum(), least, most).collect()
    made.write_parquet(out / "result.parquet", compression="zstd", compression_level=1)
    return [out / "result.parquet"]


@dataclass(frozen=True, slots=True)
class Way:
    """One way to do it; ``prepare`` is not measured; ``spark`` tells that it needs a session."""

    name: str
    run: Callable[[SparkSession | None], Callable[[Data, Path], list[Path]]]
    prepare: Callable[[Data, Path], None] = lambda _data, _out: None
    spark: bool = False


OURS = "segtable in Spark tasks"
ALONE = "segtable in one process"
SORTS = (
    Way(OURS, lambda spark: ours(spark_execute(spark)), spark=True),
    Way(ALONE, lambda _: ours(in_process())),
    Way("Spark range + sort within", lambda spark: spark_sort(spark, total=False), spark=True),
    Way("Spark orderBy", lambda spark: spark_sort(spark, total=True), spark=True),
    Way("deltalake z-order", lambda _: delta, links),
    Way("DuckDB COPY ORDER BY", lambda _: duck(DUCK_SORT)),
    Way("Polars sort", lambda _: polars_sort),
)
ROLLUPS = (
    Way(OURS, lambda spark: ours(spark_execute(spark), rollup=ROLLUP), spark=True),
    Way(ALONE, lambda _: ours(in_process(), rollup=ROLLUP)),
    Way("Spark groupBy", spark_rollup, spark=True),
    Way("DuckDB GROUP BY", lambda _: duck(DUCK_ROLLUP)),
    Way("Polars group_by", lambda _: polars_rollup),
)
TASKS = {"sort": (events, SORTS), "rollup": (measures, ROLLUPS)}
