"""Durations, times of day, nanoseconds and half floats through Spark, and back."""

from collections.abc import Iterator
from datetime import UTC, datetime, time, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as Spark's own guide writes it

from airflow_provider_segtable.core.errors import SchemaMismatch
from airflow_provider_segtable.spark.reads.dataframe_scan import scan
from airflow_provider_segtable.spark.reads.input_source import read_source, read_stream_source
from airflow_provider_segtable.spark.writes.dataframe_ingest import ingest
from airflow_provider_segtable.spark.writes.spark_engine import delete, merge, update
from airflow_provider_segtable.table.table import Table
from tests.spark.conftest import MakeTable

pytestmark = pytest.mark.spark

NANO = pa.timestamp("ns", "UTC")
HELD = {
    **{f"long_{unit}": pa.duration(unit) for unit in ("s", "ms", "us")},
    "clock_s": pa.time32("s"),
    "clock_ms": pa.time32("ms"),
    "clock_us": pa.time64("us"),
    "half": pa.float16(),
    "embedding": pa.list_(pa.float16(), 2),
    "times": pa.struct([("d", pa.list_(pa.duration("us"))), ("t", pa.time64("us"))]),
}
LOST = {
    "long_ns": pa.duration("ns"),
    "clock_ns": pa.time64("ns"),
    "moments": pa.list_(NANO),
    "named": pa.map_(pa.string(), pa.struct([("at", NANO), ("n", pa.int32())])),
}
SCHEMA = pa.schema([("at", NANO), ("row", pa.int64()), *HELD.items(), *LOST.items()])
TICK = -1_001
"""Before the epoch, with digits that Spark cannot hold."""


def given(rows: int = 4) -> pa.Table:
    """Return rows of all types; those of row 1 are null."""
    at = pa.array([TICK + n * 3_600_000_000_001 for n in range(rows)], pa.int64()).cast(NANO)
    columns: dict[str, Any] = {"at": at, "row": pa.array(range(rows), pa.int64())}
    for name, kind in {**HELD, **LOST}.items():
        columns[name] = _values(rows, kind)
    return pa.table(columns, schema=SCHEMA)


def _values(rows: int, kind: pa.DataType) -> pa.Array:
    if pa.types.is_float16(kind):
        return pa.array([None if n == 1 else n + 0.5 for n in range(rows)], kind)
    if pa.types.is_fixed_size_list(kind):
        return pa.array([None if n == 1 else [n + 0.5, None] for n in range(rows)], kind)
    some = [None if n == 1 else 1_001 * n + 1 for n in range(rows)]
    if pa.types.is_list(kind):
        return pa.array([n and [n, None] for n in some], pa.list_(pa.int64())).cast(kind)
    if pa.types.is_struct(kind):
        return pa.array([n and {"d": [-n], "t": n} for n in some], kind)
    if pa.types.is_map(kind):
        return pa.array([n and [("a", {"at": n, "n": 1})] for n in some], kind)
    width = pa.int32() if pa.types.is_time32(kind) else pa.int64()
    return pa.array(some, width).cast(kind)


def rows_of(table: Table) -> pa.Table:
    return table.snapshot().to_arrow().sort_by("row")


@pytest.fixture
def table(make_table: MakeTable) -> Table:
    made: Table = make_table(SCHEMA)
    made.append(given())
    return made


def test_all_are_read_and_written(spark: SparkSession, make_table: MakeTable, table: Table) -> None:
    """A scan has intervals, times and floats; written again, they are the same to a microsecond."""
    frame = scan(spark, table.snapshot())
    kinds = dict(frame.dtypes)
    assert {kinds[name] for name in kinds if name.startswith("long")} == {"interval day to second"}
    assert {kinds[name] for name in kinds if name.startswith("clock")} == {"time(6)"}
    other = make_table(SCHEMA, name="other")
    ingest(other.ports, frame)
    found = rows_of(other)
    assert found.select(["row", *HELD]).equals(given().select(["row", *HELD]))
    assert found["long_ns"].cast(pa.int64()).to_pylist() == [0, None, 2000, 3000]
    assert [found["at"][n].value for n in (0, 3)] == [-2_000, 10_799_999_999_000]
    few = scan(
        spark, table.snapshot(), where="long_us > interval 1 millisecond and clock_s is not null"
    )
    assert few.select("row", "clock_s", "long_us").sort("row").collect() == [
        (2, time(0, 33, 23), timedelta(microseconds=2003)),
        (3, time(0, 50, 4), timedelta(microseconds=3004)),
    ]


def test_changes_keep_what_they_do_not_set(spark: SparkSession, table: Table) -> None:
    """Update, merge and delete leave every nanosecond of other columns as it was."""
    update(spark, table.ports, {"row": "row + 10", "long_s": "long_s * 2"}, "row < 3")
    wanted = given()
    doubled = pa.array([2, None, 4006, 3004], pa.int64()).cast(pa.duration("s"))
    at = SCHEMA.get_field_index("long_s")
    wanted = wanted.set_column(at, "long_s", doubled)
    wanted = wanted.set_column(1, "row", pa.array([10, 11, 12, 3])).sort_by("row")
    assert rows_of(table).equals(wanted)

    coming = spark.createDataFrame(
        [(12, datetime(1970, 1, 1, tzinfo=UTC), 0.25), (13, datetime(1970, 1, 2, tzinfo=UTC), 2.5)],
        "row bigint, at timestamp, half float",
    )
    merge(spark, table.ports, coming, on=["row"], set={"half": "source.half"})
    after = rows_of(table)
    assert after["half"].to_pylist() == [3.5, 0.5, None, 0.25, 2.5]
    others = [name for name in SCHEMA.names if name != "half"]
    assert after.slice(0, 4).select(others).equals(wanted.select(others))
    new = after.slice(4).select(others).to_pylist()[0]
    assert {name for name in new if new[name] is not None} == {"at", "row"}
    delete(spark, table.ports, "clock_ns > TIME'00:00:00.000001'")
    assert rows_of(table)["row"].to_pylist() == [10, 11, 13]


def test_durations_of_a_parquet_file_are_numbers_to_spark(
    spark: SparkSession, table: Table, tmp_path: Path
) -> None:
    """They have lost their unit, so they are refused with the ways out; nothing is written."""
    pq.write_table(given().select(["long_ms"]), tmp_path / "x.parquet")
    numbers = read_source(spark, str(tmp_path / "x.parquet")).where("long_ms is not null")
    rows = scan(spark, table.snapshot()).drop("long_ms").crossJoin(numbers)
    with pytest.raises(SchemaMismatch, match=r"'long_ms' is duration\[ms\].*bigint.*engine local"):
        ingest(table.ports, rows)
    made = rows.withColumn("long_ms", F.expr("make_dt_interval(0, 0, 0, long_ms / 1e3)"))
    ingest(table.ports, made.where("row = 3"))
    found = rows_of(table).filter(pc.field("row") == 3)["long_ms"].cast(pa.int64()).to_pylist()
    assert sorted(found) == [1, 2003, 3004, 3004]
    files = str(tmp_path)
    parquet = dict(read_stream_source(spark, files, "parquet", schema=SCHEMA).dtypes)
    text = dict(read_stream_source(spark, files, "json", schema=SCHEMA).dtypes)
    assert (parquet["long_ms"], text["long_ms"]) == ("bigint", "interval day to second")
    assert parquet["times"] == "struct<d:array<bigint>,t:time(6)>"


@pytest.fixture
def without_time(spark: SparkSession) -> Iterator[SparkSession]:
    spark.conf.set("spark.sql.timeType.enabled", "false")
    yield spark
    spark.conf.set("spark.sql.timeType.enabled", "true")


def test_times_of_day_need_sparks_type(without_time: SparkSession, make_table: MakeTable) -> None:
    """Where it is switched off, the column is refused with the ways out, when it is asked for."""
    table = make_table(pa.schema([("at", pa.timestamp("us")), ("o'clock", pa.time32("s"))]))
    with pytest.raises(SchemaMismatch, match=r"o'clock.*timeType.enabled=true.*columns="):
        scan(without_time, table.snapshot())
    assert scan(without_time, table.snapshot(), columns=["at"]).count() == 0
