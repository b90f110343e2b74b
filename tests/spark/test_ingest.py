"""Batch ingest: what goes in is what is read back, or nothing goes in."""

import random
from collections import Counter
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import polars as pl
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from airflow_provider_segtable.core.errors import (
    ExecutionFailed,
    RowsOutOfBalance,
    SchemaMismatch,
    TimeOutOfRange,
)
from airflow_provider_segtable.core.time import (
    DAY_US,
    EPOCH,
    HOUR_US,
    Granularity,
    Interval,
    Layout,
    aligned,
)
from airflow_provider_segtable.spark.spark_columns import chunk_key, instant
from airflow_provider_segtable.spark.writes.dataframe_ingest import ingest, take_census
from tests.spark.conftest import MakeTable

pytestmark = [pytest.mark.spark, pytest.mark.zookeeper]

EVENTS = pa.schema([("at", pa.timestamp("us", "UTC")), ("n", pa.int64())])


def sorted_rows(table: pa.Table) -> list[dict[str, object]]:
    return sorted(table.to_pylist(), key=str)


def test_odd_types_and_zones_arrive_exactly(spark: SparkSession, make_table: MakeTable) -> None:
    """Microseconds in any zone, decimals, bytes, nested values, nulls and narrow integers hold."""
    schema = pa.schema(
        [
            ("at", pa.timestamp("us", "UTC")),
            ("local", pa.timestamp("us")),
            ("day", pa.date32()),
            ("price", pa.decimal128(20, 4)),
            ("raw", pa.binary()),
            ("small", pa.uint8()),
            ("large", pa.uint64()),
            ("code", pa.binary(4)),
            ("tags", pa.list_(pa.string())),
            ("who", pa.struct([("name", pa.string()), ("age", pa.int32())])),
            ("counts", pa.map_(pa.string(), pa.int64())),
            ("a.b `c`", pa.float64()),
        ]
    )
    rows = spark.sql(
        """select timestamp'2013-03-10 02:30:00.123456 America/New_York' + make_dt_interval(id) at,
        timestamp_ntz'2013-03-10 02:30:00.000001' `local`, date'0099-12-31' day,
        cast(-id as decimal(20, 4)) / 8 * 1.0000 price, cast(concat('x', id) as binary) raw,
        cast(id as int) small, cast(18446744073709551615 - id as decimal(20, 0)) large,
        cast(lpad(id, 4, '0') as binary) code, if(id = 1, null, array('a', null)) tags,
        named_struct('name', concat('n', id), 'age', cast(id as int)) who,
        map('k', id) counts, if(id = 2, double('nan'), id / 3) `a.b ``c``` from range(60)"""
    ).withColumn("price", F.col("price").cast("decimal(20,4)"))
    table = make_table(schema, granularity=Granularity.DAY)

    ingest(table.ports, rows, rows_per_segment=7)

    found = table.snapshot().to_arrow()
    at = datetime(2013, 3, 10, 6, 30, 0, 123456, tzinfo=UTC) + timedelta(hours=1)
    assert found.num_rows == 60
    assert len(table.snapshot().visible()) > 55
    first = min(found.to_pylist(), key=lambda row: row["at"])
    assert first == {
        "at": at.replace(tzinfo=UTC),
        "local": datetime(2013, 3, 10, 2, 30, 0, 1),  # noqa: DTZ001
        "day": date(99, 12, 31),
        "price": Decimal("0.0000"),
        "raw": b"x0",
        "small": 0,
        "large": 2**64 - 1,
        "code": b"0000",
        "tags": ["a", None],
        "who": {"name": "n0", "age": 0},
        "counts": [("k", 0)],
        "a.b `c`": 0.0,
    }
    assert sorted(found["small"].to_pylist()) == list(range(60))


def zoned(granularity: Granularity, randomness: random.Random) -> Layout:
    """Return a layout whose regions, hours to decades long, were cut anew several times."""
    layout = Layout(granularity=granularity)
    for width in (3, 40, 400, 9_000, 200_000):
        start = randomness.randrange(-700_000, 2_700_000) * DAY_US
        region = Interval(start, start + width * randomness.choice([HOUR_US, DAY_US]))
        cut = randomness.choice([cut for cut in Granularity if cut is not Granularity.ALL])
        layout = layout.recut(aligned(region, cut), cut)
    return layout


@pytest.mark.parametrize("overrides", [True, pytest.param(False, marks=pytest.mark.long)])
@pytest.mark.parametrize("granularity", list(Granularity))
def test_spark_and_the_core_cut_time_alike(
    spark: SparkSession,
    granularity: Granularity,
    overrides: bool,  # noqa: FBT001  # a parameter of the test
) -> None:
    """For any instant a table can hold, of any time type and session zone, the chunk is equal."""
    randomness = random.Random(granularity)  # a str seeds alike in every process
    layout = zoned(granularity, randomness) if overrides else Layout(granularity=granularity)
    edges = [edge for z in layout.overrides for edge in (z.interval.start, z.interval.end)]
    days = [randomness.randrange(-719_000, 2_932_000) for _ in range(40)] + [
        -719_162,
        2_932_531,
        0,
        -1,
    ]
    days += [edge // DAY_US + step for edge in edges for step in (-8, -1, 0, 1, 8)]
    micros = [day * DAY_US + randomness.randrange(DAY_US) for day in days]
    micros += [edge + step for edge in edges for step in (-HOUR_US, -1, 0, 1, HOUR_US)]
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        moments = spark.createDataFrame([(at,) for at in micros], "us long").select(
            "us",
            F.timestamp_micros("us").alias("at"),
            F.expr(
                "timestamp_ntz'1970-01-01' + make_dt_interval("
                "us div 86400000000, 0, 0, (us % 86400000000) / 1000000.0)"
            ).alias("ntz"),
            F.expr("date_from_unix_date(int((us - pmod(us, 86400000000)) div 86400000000))").alias(
                "day"
            ),
        )
        for column in ("at", "ntz", "day"):
            cut = DAY_US if column == "day" else 1
            wanted = Counter(layout.chunk(at - at % cut) for at in micros)
            assert take_census(moments, column, layout).chunks == wanted
            key = chunk_key(instant(moments, column), layout)
            keyed = moments.select("us", key.alias("key")).collect()
            pairs = {(row["key"], layout.chunk(row["us"] - row["us"] % cut)) for row in keyed}
            assert len(pairs) == len(wanted) == len({key for key, _ in pairs})
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ("cast(null as timestamp)", ["3 are null"]),
        ("timestamp_micros(253402300800000000)", ["3 lie outside", "+10000-01-01"]),
        ("timestamp_micros(-62167219200000000 * 2)", ["3 lie outside"]),
    ],
)
def test_bad_times_refuse_all_rows(
    spark: SparkSession,
    make_table: MakeTable,
    files: Callable[[], set[str]],
    bad: str,
    said: list[str],
) -> None:
    """One null or impossible time refuses the ingest with value and count; nothing is written."""
    table = make_table(EVENTS)
    good = "timestamp'2013-01-01 00:00:00'"
    rows = spark.range(9).selectExpr(f"if(id < 3, {bad}, {good}) at", "id n")
    with pytest.raises(TimeOutOfRange) as refused:
        ingest(table.ports, rows)
    assert all(part in str(refused.value) for part in (*said, "'at'"))
    assert table.state().n == 0
    assert files() == set()


@pytest.mark.parametrize(
    ("select", "said"),
    [
        ("at", "missing: n"),
        ("at, n, n as m", "unknown: m"),
        ("at, cast(n as string) n", "'n'"),
        ("cast(at as string) at, n", "'at'"),
    ],
)
def test_a_wrong_schema_is_refused_by_name(
    spark: SparkSession, make_table: MakeTable, select: str, said: str
) -> None:
    """Missing, unknown and mistyped columns are named before any row is read."""
    table = make_table(EVENTS)
    rows = spark.sql("select timestamp'2013-01-01 00:00:00' at, id n from range(1)")
    with pytest.raises(SchemaMismatch, match=said):
        ingest(table.ports, rows.selectExpr(*select.split(", ")))
    assert table.state().n == 0


def test_a_value_that_does_not_fit_leaves_nothing(
    spark: SparkSession, make_table: MakeTable, files: Callable[[], set[str]]
) -> None:
    """A fault found only in a task has its own type, and files that other slots wrote are gone."""
    table = make_table(pa.schema([("at", pa.timestamp("us", "UTC")), ("n", pa.int8())]))
    rows = spark.sql("select timestamp'2013-01-01 00:00:00' at, id n from range(200)")
    with pytest.raises(SchemaMismatch, match="'n'"):
        ingest(table.ports, rows, rows_per_segment=20)
    assert table.state().n == 0
    assert files() == set()


def test_a_failing_source_leaves_nothing(
    spark: SparkSession, make_table: MakeTable, files: Callable[[], set[str]]
) -> None:
    """When Spark itself fails, the error says why in one line and no file is left."""
    table = make_table(EVENTS)
    rows = spark.sql(
        "select timestamp'2013-01-01 00:00:00' at, "
        "if(id = 90, raise_error('broken disk'), id) n from range(100)"
    )
    with pytest.raises(ExecutionFailed, match="broken disk") as failed:
        ingest(table.ports, rows, rows_per_segment=10)
    assert "\n" not in str(failed.value)
    assert files() == set()


def test_a_source_that_changes_between_the_passes_is_refused(
    spark: SparkSession, make_table: MakeTable, files: Callable[[], set[str]], tmp_path: Path
) -> None:
    """Rows counted and rows written must agree, or nothing is committed."""
    marker = tmp_path / "seen"
    table = make_table(EVENTS)

    def shrinking(batches):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202
        again = marker.exists()
        marker.touch()
        for batch in batches:
            yield batch.slice(1) if again else batch

    rows = spark.sql("select timestamp'2013-01-01 00:00:00' at, id n from range(0, 50, 1, 1)")
    with pytest.raises(RowsOutOfBalance, match="50 rows of 2013-01-01"):
        ingest(table.ports, rows.mapInArrow(shrinking, "at timestamp, n bigint"))
    assert table.state().n == 0
    assert files() == set()


def test_equal_commit_ids_append_once(spark: SparkSession, make_table: MakeTable) -> None:
    """Running an ingest again under its commit id answers with the first event."""
    table = make_table(EVENTS)
    rows = spark.sql("select timestamp'2013-01-01 00:00:00' at, id n from range(5)")
    first = ingest(table.ports, rows, commit_id="same")
    again = ingest(table.ports, rows, commit_id="same")
    assert (first.n, again.n) == (1, 1)
    assert table.snapshot().count() == 5


def test_an_ingest_is_published(spark: SparkSession, make_table: MakeTable) -> None:
    """The driver publishes what it has committed, as every author does."""
    table = make_table(EVENTS, publish__delta="on", publish__lag_seconds="0")
    rows = spark.sql("select timestamp'2013-01-01 00:00:00' at, id n from range(5)")
    ingest(table.ports, rows)
    found = pl.scan_delta(table.ports.uri).collect()
    assert sorted(found["n"]) == [*range(5)]


def test_no_rows_are_said_so(spark: SparkSession, make_table: MakeTable) -> None:
    """An empty source makes no event, and no error."""
    table = make_table(EVENTS)
    rows = spark.sql("select timestamp'2013-01-01 00:00:00' at, id n from range(0)")
    done = ingest(table.ports, rows)
    assert (done.n, done.rows, done.segments, table.state().n) == (0, 0, 0, 0)


def test_segments_are_sorted_and_sized(spark: SparkSession, make_table: MakeTable) -> None:
    """Each segment is sorted by event time and holds about as many rows as asked for."""
    table = make_table(EVENTS)
    rows = spark.sql(
        "select timestamp_micros(1356998400000000 + (id * 7919 % 5000) * 1000000) at, id n "
        "from range(5000)"
    )
    ingest(table.ports, rows, rows_per_segment=1000)
    snapshot = table.snapshot()
    assert len(snapshot.segments()) == 5
    assert all(800 < segment.rows < 1200 for segment in snapshot.segments())
    times = snapshot.to_arrow()["at"].to_pylist()
    start = 0
    for segment in snapshot.segments():
        part = times[start : start + segment.rows]
        assert part == sorted(part)
        assert (part[0] - EPOCH) // timedelta(microseconds=1) == segment.time_min
        start += segment.rows
