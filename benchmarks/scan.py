"""The data source for Spark against Spark's own Parquet reader, over the same files, in one run.

1. The data: a table of days, one well-sized file each; then the same with 1 % of the rows deleted.
   The files are in the page cache.
2. The ways: ``spark.read.parquet`` of the files, which knows of no deletes; ``format("segtable")``;
   and a data source in Python over the files, with its filters pushed, as the alternative.
3. Every round asks every question of every way once. Reported are medians, and their ratios to
   Spark's own reader. The answers are compared.

Usage: ``python benchmarks/scan.py [--quick] [--rounds N] [--days N] [--rows N] [--native]``.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as Spark's own guide writes it
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    Filter,
    GreaterThanOrEqual,
    InputPartition,
    LessThan,
)
from pyspark.sql.types import StructType

from airflow_provider_segtable.core.time.interval import DAY_US, parse_instant
from airflow_provider_segtable.spark.driver.session import session
from airflow_provider_segtable.spark.source.registration import register
from airflow_provider_segtable.table.table import Table

START = parse_instant("2026-01-01")
PUSHED = "spark.sql.python.filterPushdown.enabled"
COLUMNS = "at timestamp, user string, n bigint, x double, y double, kind int, page string"


def day(number: int, rows: int) -> pa.Table:
    """Make the rows of a day, in order of time."""
    randomness = np.random.default_rng(number)
    at = START + number * DAY_US + np.sort(randomness.integers(0, DAY_US, rows))
    return pa.table(
        {
            "at": pa.array(at, pa.timestamp("us", "UTC")),
            "user": pa.array(randomness.integers(0, 5000, rows)).cast(pa.string()),
            "n": pa.array(randomness.integers(0, 10**9, rows)),
            "x": randomness.random(rows),
            "y": randomness.random(rows),
            "kind": pa.array(randomness.integers(0, 20, rows), pa.int32()),
            "page": pa.array([f"/p/{n}" for n in randomness.integers(0, 100_000, rows)]),
        }
    )


class PythonSource(DataSource):
    """A data source in Python: Arrow batches of files, filtered by what Spark pushes."""

    @classmethod
    def name(cls) -> str:
        """Return the name of the format."""
        return "python_source"

    def schema(self) -> str:
        """Return the columns."""
        return COLUMNS

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return the reader; Spark gives it all columns, whatever a query needs."""
        return PythonReader(self.options["files"].split(","), schema.names)


class PythonReader(DataSourceReader):
    """Reads files, one a partition."""

    def __init__(self, files: Sequence[str], columns: Sequence[str]) -> None:
        """Read all rows, until filters are pushed."""
        self.files, self.columns = files, columns
        self.bounds: list[tuple[str, str, Any]] = []

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802  # Spark's name
        """Take bounds of columns; Spark evaluates the rest."""
        for each in filters:
            if isinstance(each, GreaterThanOrEqual | LessThan):
                how = "greater_equal" if isinstance(each, GreaterThanOrEqual) else "less"
                self.bounds.append((how, each.attribute[0], each.value))
            else:
                yield each

    def partitions(self) -> Sequence[InputPartition]:
        """Return the files."""
        return [InputPartition(file) for file in self.files]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the rows of a file."""
        test = None
        for how, name, value in self.bounds:
            one = getattr(pc, how)(pc.field(name), pa.scalar(value, pa.timestamp("us", "UTC")))
            test = one if test is None else test & one
        yield from ds.dataset(partition.value).to_batches(columns=self.columns, filter=test)


def asked() -> Mapping[str, Callable[[DataFrame], object]]:
    """Return the questions."""

    def everything(rows: DataFrame) -> None:
        rows.write.format("noop").mode("overwrite").save()

    def a_day(rows: DataFrame) -> object:
        inside = rows.where("at >= '2026-01-03' and at < '2026-01-04'")
        return inside.agg(F.count("x")).first()

    return {
        "all columns": everything,
        "one column": lambda rows: rows.agg(F.sum("n")).first(),
        "time filter": a_day,
        "count": lambda rows: rows.count(),
    }


def ways(spark: SparkSession, table: Table, *, native: bool) -> Mapping[str, DataFrame]:
    """Return the DataFrames of a table's rows; ``native`` leaves out the source in Python."""
    root = Path(table.ports.uri)
    files = [str(root / segment.path) for segment in table.snapshot().segments()]
    found = {
        "spark.read.parquet": spark.read.schema(COLUMNS).parquet(*files),
        "segtable": spark.read.format("segtable").load(table.ports.uri),
    }
    if not native:
        python = spark.read.format("python_source").option("files", ",".join(files))
        found["a source in Python"] = python.load()
    return found


def measured(
    spark: SparkSession, table: Table, rounds: int, *, exact: bool, native: bool
) -> Mapping[tuple[str, str], float]:
    """Return the median seconds of each question, asked of each way."""
    seconds: dict[tuple[str, str], list[float]] = {}
    for turn in range(rounds + 1):  # the first round warms up
        for question, ask in asked().items():
            answers = {}
            for way, rows in ways(
                spark, table, native=native
            ).items():  # made anew: Python's keeps filters
                began = time.perf_counter()
                answers[way] = str(ask(rows))
                if turn:
                    seconds.setdefault((question, way), []).append(time.perf_counter() - began)
            if exact and len({*answers.values()}) > 1:
                raise ValueError(f"{question}: {answers}")
    return {key: statistics.median(found) for key, found in seconds.items()}


def shown(title: str, medians: Mapping[tuple[str, str], float]) -> None:
    """Print a table of medians and ratios."""
    names = list(dict.fromkeys(way for _, way in medians))
    print(f"\n{title}\n\n| question | {' | '.join(names)} |\n|---|{'---|' * len(names)}")
    for question in dict.fromkeys(question for question, _ in medians):
        base = medians[question, names[0]]
        cells = (f"{medians[question, n]:.2f} ({medians[question, n] / base:.2f})" for n in names)
        print(f"| {question} | {' | '.join(cells)} |")


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="few rows, one round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--days", type=int, default=8)
    parser.add_argument("--rows", type=int, default=1_250_000, help="rows a day")
    parser.add_argument("--native", action="store_true", help="leave out the source in Python")
    asked_for = parser.parse_args(argv)
    native = asked_for.native
    rows, rounds = (20_000, 1) if asked_for.quick else (asked_for.rows, asked_for.rounds)
    with tempfile.TemporaryDirectory(prefix="segtable-scan-") as folder:
        spark = session("scan", "local[2]", {"spark.driver.extraJavaOptions": "", PUSHED: "true"})
        began = time.perf_counter()
        register(spark)
        print(f"registered in {time.perf_counter() - began:.2f} s")
        spark.dataSource.register(PythonSource)
        first = day(0, 1).schema
        table = Table.create(
            f"{folder}/table", schema=first, time_column="at", zookeeper="memory://scan"
        )
        for number in range(asked_for.days):
            table.append(day(number, rows))
        shown("without deletes", measured(spark, table, rounds, exact=True, native=native))
        gone = table.delete("n % 100 = 0")
        print(f"\n{gone.deleted} of {asked_for.days * rows} rows deleted")
        shown("with deletes", measured(spark, table, rounds, exact=False, native=native))
        spark.stop()
    return 0


if __name__ == "__main__":
    sys.exit(main())
