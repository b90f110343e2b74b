"""Spark reads tables with a history as one plain model says: each kind, old and written since."""

from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from airflow_provider_segtable.core.tables.table_kind import DeletionForm
from airflow_provider_segtable.spark.source.registration import register
from airflow_provider_segtable.table.context import open_context
from tests.every_reader import Look, Rows, Shown, differences, disagreements
from tests.simulation.pairs.pair import base

pytestmark = pytest.mark.spark


def spark_reads(spark: SparkSession, look: Look) -> Iterator[str]:
    """Compare the data source: all rows, some, an earlier version, a window and its changes."""
    names, newest = look.shown.names, look.newest
    read = partial(rows_of, spark, look)
    yield from differences("spark", read(), newest)
    value = sorted(row[0] for row in newest)[newest.total() // 2]
    right = Counter(row for row in newest.elements() if row[0] >= value)
    yield from differences("spark where", read(where=f"{names[0]} >= {value}"), right)
    for n in look.versions[-1:]:
        yield from differences(f"spark version {n}", read(version=str(n)), look.shown.rows[n])
    if look.kind is DeletionForm.PREDICATE:
        return
    for n in look.starts[:1]:
        since = {"sinceVersion": str(n)}
        if strange := read(**since) - newest:
            yield f"spark since {n}: {strange} is not there"
        rows = Counter(look.shown.rows[n])
        for *row, effect in read("_segtable_change", changes="true", **since).elements():
            rows[tuple(row)] += 1 if effect in ("insert", "update_after") else -1
        yield from differences(f"spark changes since {n}", +rows, newest)


def rows_of(spark: SparkSession, look: Look, *more: str, **options: str) -> Rows:
    """Return rows that Spark reads; a rollup table's groups as wholes."""
    if look.kind is DeletionForm.PREDICATE:
        options["rolledUp"] = "true"
    found = spark.read.format("segtable").options(**options).load(look.ports.uri)
    names: tuple[Any, ...] = tuple(
        F.unix_micros(name) if name == look.time else F.col(name) for name in look.shown.names
    )
    return Counter(tuple(row) for row in found.select(*names, *more).collect())


@pytest.mark.parametrize("kind", ["append", "rollup", "latest"])
def test_spark_reads_the_model(kind: str, spark: SparkSession, tmp_path: Path) -> None:
    """After deletes, compactions, added columns and late writes, Spark finds the model's rows."""
    made = base(kind, "old")
    for entry in made.stage.storage.list(""):
        path = tmp_path / entry.path
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(made.stage.storage.read(entry.path))
    own = spark.newSession()
    register(own)
    columns = {column for column in made.newest.columns if column.name not in ("id", "z")}
    names = ("id", *sorted(column.name for column in columns))
    rows = {n: m.shown(names) for n, m in made.history.items() if columns <= {*m.columns}}
    shown = Shown(names=names, rows=rows, key="id" if made.newest.keyed else "")

    def with_spark(look: Look) -> Iterator[str]:
        yield from spark_reads(own, look)

    assert [*disagreements(open_context(str(tmp_path)), shown, [with_spark])] == []
