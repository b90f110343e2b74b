"""Scans: Spark reads from a snapshot what Arrow reads."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from pyspark.sql import SparkSession

from airflow_provider_segtable.core.errors import InvalidInput, SchemaMismatch
from airflow_provider_segtable.core.reads.read_facts import FilterKind
from airflow_provider_segtable.core.requests.read_request import read_request
from airflow_provider_segtable.core.time import HOUR_US, Interval, parse_instant
from airflow_provider_segtable.spark.reads.dataframe_scan import read, rows_to_change, scan
from airflow_provider_segtable.spark.writes.dataframe_ingest import ingest
from airflow_provider_segtable.spark.writes.spark_engine import delete
from airflow_provider_segtable.table.read_recorder import ReadRecorder, recorded_reads
from airflow_provider_segtable.table.table import Table
from tests.spark.conftest import MakeTable
from tests.support.clock import FakeClock

pytestmark = [pytest.mark.spark, pytest.mark.zookeeper]

EVENTS = pa.schema([("at", pa.timestamp("us", "UTC")), ("n", pa.int64()), ("who", pa.string())])
DAYS_90 = (
    "select timestamp_micros(1356998400000000 + id * 777600000) at, id n, concat('w', id % 9) who "
    "from range(10000)"
)


def test_a_scan_reads_what_arrow_reads(spark: SparkSession, make_table: MakeTable) -> None:
    """Interval, columns and their order give equal rows, from a folder of odd name too."""
    table = make_table(EVENTS, name="odd {a,b} [x]* %41=\\ é")
    ingest(table.ports, spark.sql(DAYS_90), rows_per_segment=900)
    snapshot = table.snapshot()
    interval = Interval.parse("2013-01-15T00:00:00.5Z/2013-03-02")
    for columns, within in ((["who", "n"], None), (["n"], interval), (["n", "at"], interval)):
        frame = scan(spark, snapshot, within, columns)
        assert frame.columns == columns
        rows = snapshot.to_arrow(columns=columns, interval=within)
        wanted = sorted(tuple(row.values()) for row in rows.select(["n"]).to_pylist())
        assert sorted(map(tuple, frame.select("n").collect())) == wanted
        assert wanted


def test_a_condition_reads_what_arrow_reads(spark: SparkSession, make_table: MakeTable) -> None:
    """SQL that segments are chosen by, and SQL that only Spark reads; an expression is refused."""
    table = make_table(EVENTS)
    ingest(table.ports, spark.sql(DAYS_90), rows_per_segment=900)
    snapshot = table.snapshot()
    first = "at < timestamp '2013-01-20' AND (who = 'w3' OR who IS NULL)"
    found = scan(spark, snapshot, columns=["n"], where=first)
    assert found.columns == ["n"]
    assert len(found.inputFiles()) < len(snapshot.segments())
    wanted = snapshot.scan(columns=["n"], where=first).to_arrow()["n"].to_pylist()
    assert sorted(row.n for row in found.collect()) == sorted(wanted)
    assert wanted
    clock = FakeClock(parse_instant("2013-01-20"))
    then = replace(snapshot, ports=replace(table.ports, clock=clock))
    past = scan(spark, then, columns=["n"], where="at < now() and current_date = '2013-01-20'")
    assert (past.count(), len(past.inputFiles())) == (2112, len(found.inputFiles()))
    assert scan(spark, snapshot, where="length(who) = 2 and n % 7 = 0").count() == 1429
    with pytest.raises(InvalidInput, match="Spark needs the condition in SQL"):
        scan(spark, snapshot, where=pc.field("n") == 1)  # type: ignore[arg-type]
    with pytest.raises(InvalidInput, match="nobody"):
        scan(spark, snapshot, where="nobody = 1")


@pytest.mark.parametrize("kind", [pa.timestamp("us"), pa.date32(), pa.timestamp("ms", "UTC")])
def test_a_scan_clips_any_time_type(
    spark: SparkSession, make_table: MakeTable, kind: pa.DataType
) -> None:
    """Times without a zone and dates are clipped as Arrow clips them, in any session zone."""
    table = make_table(pa.schema([("at", kind), ("n", pa.int64())]))
    hours = [1356998400 + 3600 * hour for hour in range(400)]
    at = pa.array(hours, pa.timestamp("s")).cast(kind, safe=False)
    table.append(pa.table({"at": at, "n": range(400)}))
    interval = Interval.parse("2013-01-03T05:00:00Z/2013-01-10T23:00:00Z")
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        found = scan(spark, table.snapshot(), interval, ["n"]).collect()
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    wanted = table.snapshot().to_arrow(columns=["n"], interval=interval)
    assert sorted(row.n for row in found) == sorted(wanted["n"].to_pylist())
    assert wanted.num_rows


def test_times_without_zone_are_those_of_the_session(
    spark: SparkSession, make_table: MakeTable
) -> None:
    """Files are not left out by a time that is another one for Spark."""
    table, day = make_table(EVENTS), "2013-01-%02d"
    for n in range(4):
        at = [parse_instant(day % (n + 1)) + hour * HOUR_US for hour in (0, 4, 6)]
        table.append(pa.table([at, [n] * 3, ["x"] * 3], schema=EVENTS))
    where = f"at < '{day % 3}'"  # four o'clock of that day in UTC is the day before
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        found = scan(spark, table.snapshot(), where=where).count()
        window = scan_request(spark, table, where=where, since_version=0)
        gone = delete(spark, table.ports, where, dry_run=True).matched
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert (found, window, gone, table.scan(where=where).count()) == (8, 8, 8, 6)


def scan_request(spark: SparkSession, table: Table, **asked: Any) -> int:
    """Return how many rows a request reads."""
    return read(spark, table.ports, table.state(), read_request(**asked)).count()


def test_an_empty_table_scans_to_no_rows(spark: SparkSession, make_table: MakeTable) -> None:
    """The schema is the table's."""
    frame = scan(spark, make_table(EVENTS).snapshot())
    assert (frame.columns, frame.count()) == (EVENTS.names, 0)


def test_nanoseconds_and_half_floats_are_read_too(
    spark: SparkSession, make_table: MakeTable
) -> None:
    """Columns that Spark's reader refuses come as the nearest type; unsigned ones are signed."""
    unsigned = pa.struct([("small", pa.uint16())])
    kinds = [("at", pa.timestamp("ns", "UTC")), ("half", pa.float16()), ("n", pa.uint8())]
    table = make_table(pa.schema([*kinds, ("in", unsigned)]))
    times = pa.array([1356998400_000_000_001, 1357084800_123_456_789], pa.timestamp("ns", "UTC"))
    half, inside = pa.array([0.5, 1.5], pa.float16()), [{"small": 1}, {"small": 65535}]
    rows = {"at": times, "half": half, "n": [1, 255], "in": pa.array(inside, unsigned)}
    table.append(pa.table(rows))
    frame = scan(spark, table.snapshot(), Interval.parse("2013-01-02/2013-01-03"))
    assert frame.dtypes == [
        *(("at", "timestamp"), ("half", "float"), ("n", "smallint")),
        ("in", "struct<small:int>"),
    ]
    (row,) = frame.collect()
    assert (row.half, row.n, row["in"].small) == (1.5, 255, 65535)
    assert row.at.astimezone(UTC) == datetime(2013, 1, 2, 0, 0, 0, 123456, tzinfo=UTC)


def test_a_column_that_is_not_there(spark: SparkSession, make_table: MakeTable) -> None:
    """The error lists what there is."""
    with pytest.raises(SchemaMismatch, match="no column 'm': the table has at, n, who"):
        scan(spark, make_table(EVENTS).snapshot(), columns=["m"])


def test_a_planned_frame_is_a_recorded_read(spark: SparkSession, make_table: MakeTable) -> None:
    """By the driver, once, without counts of rows; rows to change are no read."""
    table = make_table(EVENTS)
    table.alter(set={"statistics.reads": "all"})
    ingest(table.ports, spark.sql(DAYS_90), rows_per_segment=900)
    ports = replace(table.ports, reads=ReadRecorder())
    snapshot = replace(table.snapshot(), ports=ports)
    assert scan(spark, snapshot, columns=["n"], where="who = 'w3'").count() > 0
    rows_to_change(spark, snapshot, where="n = 1")
    ports.reads.close()
    (found,) = recorded_reads(ports.storage, table.state().table.table_id, 0)
    ((shape, counts),) = found.shapes.items()
    assert (shape.filters, shape.measured) == ((("who", FilterKind.EQUALITY),), False)
    assert (counts.reads, counts.opened) == (1, len(snapshot.segments()))
