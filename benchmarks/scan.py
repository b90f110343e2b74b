"""Scans by Spark's data source and by ``Table.scan``, against Parquet readers of the same files.

1. The tables: days of rows, one file each; the same with 1 % of the rows deleted; the same rows in
   a table with a primary key, as base files; these with log files, of which each day has ``LOGS``,
   each with 2 % of the day's keys; these settled, and then with upserts of 1 % after it. The files
   are in the page cache.
2. The ways: ``spark.read.parquet`` and ``format("segtable")``; ``pyarrow.dataset`` and
   ``Table.scan``. The Parquet readers know neither of deletes nor of keys: they read all records.
   With ``--python`` also a data source in Python, whose filters are pushed.
3. Every round asks every question of every way once. Reported are medians, and ratios to the
   Parquet reader of the same engine. Both ways of segtable must agree, and all must where
   nothing is deleted or merged.
4. Goals are ratios of processor time of all processes: of seconds on a machine with other work
   little would follow (``GOALS``; the last table has them).

Usage: ``python benchmarks/scan.py [--quick] [--rounds N] [--days N] [--rows N] [--only TABLE]
[--json] [--python]``.

``--keyed`` measures reads of primary-key tables in this process alone, without Spark. Each round
asks every question of a table of events with files of equal rows (the yardstick: nothing is hidden
there), of the keyed tables, and of ``pyarrow.dataset`` over their files. Reported are processor
times, their ratio to the yardstick and to ``pyarrow.dataset``, and the first read of
``FIRST_COMMITS`` commits that nothing has compacted or settled. A settled table has goals, with
and without a tail (``GOAL_KEYED``), and so has a first read (``GOAL_FIRST_S``).
"""

import argparse
import os
import re
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import scan_python_source
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as Spark's own guide writes it
from results import Result, report
from scan_python_source import COLUMNS, PUSHED, PythonSource

from airflow_provider_segtable.core.time import DAY_US, parse_instant
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.spark.driver.session import session
from airflow_provider_segtable.spark.source.registration import register

FIRST_COMMITS = 470
START = parse_instant("2026-01-01")
LOGS = 4
NAMES = ["id", "at", "user", "n", "x", "y", "kind", "page"]
INSIDE = "at >= TIMESTAMP '2026-01-02' AND at < TIMESTAMP '2026-01-03'"
FIRST, LAST = (pa.scalar(START + day * DAY_US, pa.timestamp("us", "UTC")) for day in (1, 2))


def day(number: int, rows: int, *, seed: int = 0, share: float = 1.0) -> pa.Table:
    """Make the rows of a day, in order of time; or other values for a share of its keys."""
    randomness = np.random.default_rng([number, seed])
    keys = np.sort(randomness.choice(rows, int(rows * share), replace=False))
    count = len(keys)
    at = START + number * DAY_US + keys * (DAY_US // rows)
    return pa.table(
        {
            "id": number * rows + keys,
            "at": pa.array(at, pa.timestamp("us", "UTC")),
            "user": pa.array(randomness.integers(0, 5000, count)).cast(pa.string()),
            "n": pa.array(randomness.integers(0, 10**9, count)),
            "x": randomness.random(count),
            "y": randomness.random(count),
            "kind": pa.array(randomness.integers(0, 20, count), pa.int32()),
            "page": pa.array([f"/p/{n}" for n in randomness.integers(0, 100_000, count)]),
        }
    )


def appended(place: str, days: int, rows: int) -> Table:
    """Make a table of events."""
    table = Table.create(place, schema=day(0, 1).schema, time_column="at", zookeeper="memory://a")
    for number in range(days):
        table.append(day(number, rows))
    return table


def upserted(place: str, days: int, rows: int) -> Table:
    """Make a table with a primary key, of base files."""
    table = Table.create(
        place,
        schema=day(0, 1).schema,
        time_column="at",
        primary_key="id",
        buckets=1,
        zookeeper="memory://k",
    )
    for number in range(days):
        table.upsert(day(number, rows))
    if days:
        table.compact("semi-major")
    return table


def log_files(table: Table, days: int, rows: int) -> None:
    """Upsert new values of some keys of each day, several times."""
    for seed in range(1, LOGS + 1):
        some = [day(number, rows, seed=seed, share=0.02) for number in range(days)]
        table.upsert(pa.concat_tables(some))


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """A question, as it is asked of a DataFrame, a dataset and a table."""

    spark: Callable[[DataFrame], object]
    parquet: Callable[[ds.Dataset], object]
    table: Callable[[Table], object]


def everything(rows: DataFrame) -> None:
    """Read all rows in Spark."""
    rows.write.format("noop").mode("overwrite").save()


def total(batches: Any, name: str) -> int:
    """Return the sum of a column."""
    return sum(pc.sum(batch.column(name)).as_py() or 0 for batch in batches)


def length(batches: Any) -> int:
    """Return the number of rows."""
    return sum(batch.num_rows for batch in batches)


INSIDE_FILES = (ds.field("at") >= FIRST) & (ds.field("at") < LAST)
QUESTIONS = {
    "all columns": Question(
        spark=everything,
        parquet=lambda files: length(files.to_batches(columns=NAMES)) and None,
        table=lambda table: length(table.scan().to_batches()) and None,
    ),
    "one column": Question(
        spark=lambda rows: rows.agg(F.sum("n")).first()[0],
        parquet=lambda files: total(files.to_batches(columns=["n"]), "n"),
        table=lambda table: total(table.scan(columns=["n"]).to_batches(), "n"),
    ),
    "time filter": Question(
        spark=lambda rows: rows.where(INSIDE).agg(F.count("x")).first()[0],
        parquet=lambda files: length(files.to_batches(columns=["x"], filter=INSIDE_FILES)),
        table=lambda table: length(table.scan(columns=["x"], where=INSIDE).to_batches()),
    ),
    "count": Question(
        spark=lambda rows: rows.count(),
        parquet=lambda files: files.count_rows(),
        table=lambda table: table.scan().count(),
    ),
}
Ways = Mapping[str, Callable[[Question], object]]

GOALS = {"events": 1.1, "deleted": 1.3, "base files": 1.3, "settled": 1.3}
"""Most of the processor time of ``spark.read.parquet``, by the end of a table's name."""
GOAL_KEYED, GOAL_FIRST_S = 1.2, 1.0


@dataclass(frozen=True, slots=True)
class Cost:
    """Seconds, and seconds of processor time of this process and all below it."""

    seconds: float
    processor: float


def processor_s() -> float:
    """Return the processor time of this process and all below it, Java among them."""
    children: dict[int, list[tuple[int, int]]] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):  # it has ended
            fields = file.read_text().rpartition(")")[2].split()
            ticks = sum(map(int, fields[11:15]))
            children.setdefault(int(fields[1]), []).append((int(file.parent.name), ticks))
    total, left = time.process_time(), [os.getpid()]
    while left:
        for pid, ticks in children.get(left.pop(), ()):
            total += ticks / os.sysconf("SC_CLK_TCK")
            left.append(pid)
    return total


def ways(spark: SparkSession, table: Table, *, python: bool) -> Ways:
    """Return how to ask each way; a Parquet reader comes before its engine's ways of segtable."""
    root = Path(table.ports.uri)
    files = [str(root / segment.path) for segment in table.snapshot().segments()]

    def from_python() -> DataFrame:  # made anew each time: it keeps the filters of a query
        source = spark.read.format("python_source").option("files", ",".join(files))
        return source.load()

    parquet = spark.read.schema(COLUMNS)
    found: dict[str, Callable[[Question], object]] = {
        "spark.read.parquet": lambda asked: asked.spark(parquet.parquet(*files)),
        "segtable in Spark": lambda asked: asked.spark(
            spark.read.format("segtable").load(table.ports.uri)
        ),
        "pyarrow.dataset": lambda asked: asked.parquet(ds.dataset(files)),
        "Table.scan": lambda asked: asked.table(Table.open(table.ports.uri)),
    }
    if python:
        found["a source in Python"] = lambda asked: asked.spark(from_python())
    return found


def measured(asking: Ways, rounds: int, *, plain: bool) -> Mapping[tuple[str, str], Cost]:
    """Return the median cost of each question, asked of each way; check the answers."""
    found: dict[tuple[str, str], list[Cost]] = {}
    for turn in range(rounds + 1) if rounds > 1 else (1,):  # round 0 warms up
        for question, asked in QUESTIONS.items():
            answers = {}
            for way, ask in asking.items():
                used, began = processor_s(), time.perf_counter()
                answers[way] = str(ask(asked))
                cost = Cost(time.perf_counter() - began, processor_s() - used)
                if turn:
                    found.setdefault((question, way), []).append(cost)
            equal = answers if plain else {"segtable in Spark", "Table.scan"}
            if len({answers[way] for way in equal}) > 1:
                raise SystemExit(f"{question}: {answers}")
    return {
        key: Cost(
            statistics.median(each.seconds for each in some),
            statistics.median(each.processor for each in some),
        )
        for key, some in found.items()
    }


def shown(title: str, medians: Mapping[tuple[str, str], Cost]) -> None:
    """Print a table of medians, and ratios to the Parquet reader of the same engine."""
    names = list(dict.fromkeys(way for _, way in medians))
    print(f"\n{title}\n\n| question | {' | '.join(names)} |\n|---|{'---|' * len(names)}")
    for question in dict.fromkeys(question for question, _ in medians):
        cells = []
        for name in names:
            peer = "pyarrow.dataset" if name in {"pyarrow.dataset", "Table.scan"} else names[0]
            taken, base = medians[question, name].seconds, medians[question, peer].seconds
            cells.append(f"{taken:.3f}" + ("" if name == peer else f" ({taken / base:.2f})"))
        print(f"| {question} | {' | '.join(cells)} |", flush=True)


def results(title: str, medians: Mapping[tuple[str, str], Cost]) -> Iterator[Result]:
    """Yield what each question takes in Spark, with the goal of the table, if it has one."""
    goal = next((goal for end, goal in GOALS.items() if title.endswith(end)), None)
    for question in dict.fromkeys(question for question, _ in medians):
        yield Result(
            benchmark="scan",
            what=f"{title}: {question}, in Spark",
            ours=medians[question, "segtable in Spark"].processor,
            unit="s of processors",
            peer=medians[question, "spark.read.parquet"].processor,
            against="spark.read.parquet",
            most=goal,
        )


def cases(folder: str, days: int, rows: int, only: str) -> Any:
    """Yield the tables: what they are, the table, and whether its files have its rows alone."""
    named = [
        "events",
        "events, 1 % deleted",
        "primary key, base files",
        f"primary key, base files and {LOGS} log files a day",
        f"primary key, base files and {LOGS} log files a day, settled",
        "primary key, settled, and 1 % after it",
    ]
    wanted = [bool(re.search(only, name)) for name in named]
    if any(wanted[:2]):
        table = appended(f"{folder}/events", days, rows)
        if wanted[0]:
            yield named[0], table, True
        if wanted[1]:
            table.delete("n % 100 = 0")
            yield named[1], table, False
    if any(wanted[2:]):
        table = upserted(f"{folder}/keyed", days, rows)
        if wanted[2]:
            yield named[2], table, True
        if any(wanted[3:]):
            log_files(table, days, rows)
        if wanted[3]:
            yield named[3], table, False
        if wanted[4]:
            table.settle()
            yield named[4], table, False
        if wanted[5]:
            table.settle()
            after = [day(number, rows, seed=LOGS + 1, share=0.01) for number in range(days)]
            table.upsert(pa.concat_tables(after))
            yield named[5], table, False


# Keyed reads without Spark
def keyed_tables(folder: str, days: int, rows: int) -> Mapping[str, Table]:
    """Make the tables of ``--keyed``, by what they are."""
    events = appended(f"{folder}/events", days, rows)
    for seed in range(1, LOGS + 1):
        for number in range(days):
            events.append(day(number, rows, seed=seed, share=0.02))
    made = {"events in the same files": events}
    for name in ("base files", "log files", "settled", "settled, and 1 % after it"):
        made[name] = upserted(f"{folder}/{name.split(',')[0]}{len(made)}", days, rows)
        if name != "base files":
            log_files(made[name], days, rows)
        if name.startswith("settled"):
            made[name].settle()
    after = [day(number, rows, seed=LOGS + 1, share=0.01) for number in range(days)]
    made[name].upsert(pa.concat_tables(after))
    return made


def processor_ms(ask: Callable[[], object]) -> float:
    """Return the processor time of a question, in ms."""
    began = time.process_time()
    ask()
    return (time.process_time() - began) * 1e3


def keyed(folder: str, days: int, rows: int, rounds: int) -> Iterator[Result]:
    """Print the processor times of keyed reads; yield those of settled tables and their ratios."""
    tables = keyed_tables(folder, days, rows)
    print("| question | table | first, ms | ms | to events | to pyarrow.dataset |")
    print("|---|---|---|---|---|---|")
    for question in ("one column", "all columns", "count"):
        asked = QUESTIONS[question]
        first = {n: processor_ms(partial(asked.table, t)) for n, t in tables.items()}
        mine: dict[str, list[float]] = {name: [] for name in tables}
        peer: dict[str, list[float]] = {name: [] for name in tables}
        for _ in range(rounds):
            for name, table in tables.items():
                root = Path(table.ports.uri)
                files = [str(root / segment.path) for segment in table.snapshot().segments()]
                mine[name].append(processor_ms(partial(asked.table, table)))
                peer[name].append(processor_ms(partial(asked.parquet, ds.dataset(files))))
        plain = statistics.median(mine["events in the same files"])
        for name in tables:
            took, other = statistics.median(mine[name]), statistics.median(peer[name])
            print(
                f"| {question} | {name} | {first[name]:.1f} | {took:.1f} | {took / plain:.2f} "
                f"| {took / other:.2f} |",
                flush=True,
            )
            if name.startswith("settled"):
                yield Result(
                    benchmark="scan",
                    what=f"primary key, {name}: {question}",
                    ours=took,
                    unit="ms of processors",
                    peer=plain,
                    against="events in the same files",
                    most=GOAL_KEYED if question == "one column" else None,
                )


def first_read(folder: str, rows: int, commits: int) -> Iterator[Result]:
    """Yield the processor time of the first reads of many commits; print the wall time, too."""
    for settled in (False, True):
        table = upserted(f"{folder}/commits{settled}", 0, 1)
        for seed in range(1, commits + 1):
            table.upsert(day(0, rows, seed=seed, share=1000 / rows))
        if settled:
            table.settle()
        again = Table.open(table.ports.uri)
        began = time.perf_counter()
        took = processor_ms(again.scan().to_arrow) / 1e3
        wall = time.perf_counter() - began
        what = f"first read of {commits} commits, {'settled' if settled else 'unsettled'}"
        print(f"{what}: {took:.2f} s of processors, {wall:.2f} s", flush=True)
        yield Result(
            benchmark="scan", what=what, ours=took, unit="s of processors", most=GOAL_FIRST_S
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="few rows, one round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--days", type=int, default=8)
    parser.add_argument("--rows", type=int, default=500_000, help="rows a day")
    parser.add_argument("--only", default="", help="tables whose name matches this")
    parser.add_argument("--keyed", action="store_true", help="keyed reads alone, without Spark")
    parser.add_argument("--json", action="store_true", help="results as lines of JSON")
    parser.add_argument("--python", action="store_true", help="also a data source in Python")
    asked = parser.parse_args(argv)
    days, rows, rounds = (2, 2_000, 1) if asked.quick else (asked.days, asked.rows, asked.rounds)
    if asked.keyed:
        with tempfile.TemporaryDirectory(prefix="segtable-scan-") as folder:
            found = [*keyed(folder, days, rows, rounds)]
            many = (1000, 5) if asked.quick else (100_000, FIRST_COMMITS)
            report([*found, *first_read(folder, *many)], as_json=asked.json)
        return 0
    with tempfile.TemporaryDirectory(prefix="segtable-scan-") as folder:
        spark = session("scan", "local[2]", {"spark.driver.extraJavaOptions": "", PUSHED: "true"})
        began = time.perf_counter()
        register(spark)
        print(f"registered in {time.perf_counter() - began:.2f} s; {days} x {rows:,} rows")
        cloudpickle.register_pickle_by_value(scan_python_source)  # workers do not find it
        spark.dataSource.register(PythonSource)
        found = []
        for title, table, plain in cases(folder, days, rows, asked.only):
            costs = measured(ways(spark, table, python=asked.python), rounds, plain=plain)
            shown(title, costs)
            found += results(title, costs)
        spark.stop()
    report(found, as_json=asked.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
