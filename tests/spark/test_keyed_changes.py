"""Changes of primary-key tables in Spark: what only it evaluates, and merges as the library's."""

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as everybody calls it

from airflow_provider_segtable.core.errors import ExecutionFailed, InvalidInput
from airflow_provider_segtable.core.requests.change_request import Sql
from airflow_provider_segtable.core.tables.evolution import AddColumn
from airflow_provider_segtable.health.verify import verify
from airflow_provider_segtable.spark.writes.spark_engine import delete, merge, update
from airflow_provider_segtable.table.table import Table

pytestmark = pytest.mark.spark

NOW = 1_356_998_400_000_000
DAY_US = 86_400_000_000
SCHEMA = pa.schema(
    [
        pa.field("key", pa.int64(), nullable=False),
        ("at", pa.timestamp("us", "UTC")),
        ("seq", pa.int64()),
        ("a.text", pa.string()),
        ("when", pa.timestamp("ns")),
        ("count", pa.int32()),
    ]
)


def table(place: Path, **more: Any) -> Table:
    """Create a table with four keys, without a coordinator."""
    given = {"primary_key": "key", "buckets": 2, "ordering": "seq", "granularity": "day", **more}
    made = Table.create(str(place), schema=SCHEMA, time_column="at", properties={}, **given)
    rows = [
        {"key": key, "at": NOW, "seq": 5, "a.text": f"t{key}", "when": 1_001 + key, "count": key}
        for key in range(4)
    ]
    made.upsert(pa.Table.from_pylist(rows, SCHEMA))
    return made


def found(made: Table) -> dict[int, tuple[Any, ...]]:
    """Return the rows without their event times, by key; ``when`` in nanoseconds."""
    read = made.scan().to_arrow().drop_columns(["at"])
    at = read.column_names.index("when")
    exact = read.set_column(at, "when", read.column("when").cast(pa.int64())).to_pylist()
    each = {row["key"]: tuple(row.values())[1:] for row in exact}
    assert len(each) == len(exact)
    return dict(sorted(each.items()))


def source(spark: SparkSession, *rows: tuple[int, int | None, int], days: int = 0) -> DataFrame:
    """Return rows of keys, ordering values and counts."""
    frame = spark.createDataFrame(list(rows), "key long, seq long, count int")
    return frame.withColumn("at", F.timestamp_micros(F.lit(NOW + days * DAY_US)))


def test_conditions_and_values_that_only_spark_evaluates(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Rows are chosen and computed by any expression, and by rows of another DataFrame."""
    made = table(tmp_path)
    n = made.state().n
    done = delete(spark, made.ports, "reverse(`a.text`) rlike '^0'")
    assert (done.n, done.matched, done.deleted, done.inserted) == (n + 1, 1, 1, 0)
    asked = {"count": "aggregate(array(count, 10), 0, (x, y) -> x + y)"}
    dry = update(spark, made.ports, asked, "key in (select 1 + 1)", dry_run=True)
    assert (dry.n, dry.matched, made.state().n) == (None, 1, n + 1)
    done = update(spark, made.ports, asked, "key in (select 1 + 1)")
    assert (done.n, done.matched, done.deleted, done.inserted) == (n + 2, 1, 1, 1)
    delete(spark, made.ports, matches=spark.createDataFrame([(3,)], "key long"))
    assert found(made) == {1: (5, "t1", 1_002, 1), 2: (5, "t2", 1_003, 12)}
    assert delete(spark, made.ports, "key = 77").n is None
    made.upsert(pa.Table.from_pylist([{"key": 0, "at": NOW, "seq": 4}], SCHEMA))  # late
    assert 0 not in found(made)
    with pytest.raises(InvalidInput, match="decides where a row is kept"):
        update(spark, made.ports, {"key": "key + 1"}, "true")
    again = update(spark, made.ports, asked, "true", commit_id="once").n
    assert update(spark, made.ports, asked, "true", commit_id="once").n == again


@pytest.mark.parametrize(
    ("matched", "unmatched", "given"),
    [
        ("update", "insert", None),
        ("update", "ignore", {"count": "target.count + source.count"}),
        ("delete", "insert", None),
        ("ignore", "insert", None),
    ],
)
@pytest.mark.parametrize("engine", ["latest", "partial_update"])
def test_a_merge_is_that_of_the_library(
    spark: SparkSession,
    tmp_path: Path,
    engine: str,
    matched: str,
    unmatched: str,
    given: dict[str, str] | None,
) -> None:
    """Spark and this process count and write the same, also what is late, and nanoseconds stay."""
    rows = source(spark, (1, 6, 10), (2, 4, 20), (3, None, 30), (8, 1, 80))
    ways = []
    for place in ("spark", "arrow"):
        made = table(tmp_path / place, merge=engine)
        made.alter(columns=[AddColumn(name="plan", type="string", default="free")])
        ways.append(made)
    first, second = ways
    asked: dict[str, Any] = {"on": ["key"], "matched": matched, "unmatched": unmatched}
    by_spark = merge(spark, first.ports, rows, set=given, **asked)
    sets = None if given is None else {name: Sql(text) for name, text in given.items()}
    here = second.merge(rows.toArrow(), set=sets, **asked)
    for name in ("n", "matched", "deleted", "inserted"):
        assert getattr(by_spark, name) == getattr(here, name), name
    assert found(first) == found(second)
    assert verify(first.ports, deep=True).sound


def test_what_a_merge_cannot_mean_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    """Nothing is written, and the message names the key and the way out."""
    made = table(tmp_path, merge="partial_update")
    n = made.state().n
    for rows, asked, says in (
        (source(spark, (1, 6, 1), (1, 7, 1)), {"on": ["key"]}, "that with key = 1: the merge is"),
        (source(spark, (1, 6, 1), days=1), {"on": ["key"]}, "source row of key = 1 .* time chunk"),
        (source(spark, (1, 6, 1)), {"on": ["count"]}, "the merge joins on count: join on the key"),
        (source(spark, (1, 6, 1)), {"on": "target.key = source.key"}, "joins on target.key"),
    ):
        with pytest.raises(InvalidInput, match=says):
            merge(spark, made.ports, rows, **asked)
    with pytest.raises(ExecutionFailed, match="'count' would be set to null in a row"):
        update(spark, made.ports, {"count": "nullif(count, count)"}, "true")
    assert made.state().n == n
