"""The two commands that can use Spark, over the library's own functions of a session."""

import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession

from airflow_provider_segtable.cli.ingest import append_facts
from airflow_provider_segtable.cli.output import Facts
from airflow_provider_segtable.cli.sources import file_format
from airflow_provider_segtable.spark import session as sessions
from airflow_provider_segtable.spark.ingest import ingest
from airflow_provider_segtable.table.table import Table, given_schema


@contextmanager
def session(master: str | None, name: str) -> Iterator[SparkSession]:
    """Give a session and stop it at the end."""
    spark = sessions.session(name, master)
    try:
        yield spark
    finally:
        spark.stop()


def ingest_files(
    table: Table,
    files: Sequence[Path],
    format_: str | None,
    commit_id: str | None,
    master: str | None,
) -> Iterator[Callable[[], Facts]]:
    """Yield one append a file; each runs when it is called."""
    with session(master, f"segtable ingest {table.state().table.name}") as spark:
        for path in files:
            name = f"{commit_id}/{path.name}/0" if commit_id else None

            def append(path: Path = path, name: str | None = name) -> Facts:
                again = name is not None and name in table.state().commits
                rows = _read(spark, table, path, file_format(path, format_))
                committed = ingest(table.ports, rows, commit_id=name)
                return append_facts(table, committed.n, path, again=again)

            yield append


def _read(spark: SparkSession, table: Table, path: Path, kind: str) -> DataFrame:
    place = "file:" + re.sub(r"([*?\[\]{}\\,])", r"\\\1", str(path.absolute()))
    if kind == "parquet":
        return spark.read.parquet(place)
    if kind == "csv":
        return spark.read.csv(place, header=True, inferSchema=True)
    rows = spark.read.json(place)  # it has no times of its own: they are texts
    given = given_schema(table.state().table)
    times = {field.name for field in given if str(field.type).startswith("timestamp")}
    for name, found in rows.dtypes:
        if name in times and found == "string":
            rows = rows.withColumn(name, rows[name].cast("timestamp"))
    return rows
