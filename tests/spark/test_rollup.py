"""Rollup in Spark: the same rows as in Arrow, both ways, and sketches that merge in any order."""

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper
from airflow_provider_segtable.core.errors import ExecutionFailed, InvalidInput, TimeOutOfRange
from airflow_provider_segtable.core.schema import Order
from airflow_provider_segtable.core.segment import Place, Segment, SegmentId, Shard
from airflow_provider_segtable.core.tables.rollup_kind import Metric, QueryGranularity, Rollup
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.data.arrow_schema import physical_schema
from airflow_provider_segtable.data.parquet.descriptor import read_descriptor
from airflow_provider_segtable.data.parquet.segment_scan import SegmentRead
from airflow_provider_segtable.data.rollup.rollup_rows import from_input as arrow_from_input
from airflow_provider_segtable.data.rollup.rollup_rows import rolled_up as arrow_rolled_up
from airflow_provider_segtable.data.rollup.rollup_rows import visible
from airflow_provider_segtable.data.sort.sorting import SortSpec
from airflow_provider_segtable.data.table_kinds import RollupArrow
from airflow_provider_segtable.spark import table_kinds as in_spark
from airflow_provider_segtable.spark.reads.dataframe_scan import scan
from airflow_provider_segtable.spark.spark_columns import spark_schema
from airflow_provider_segtable.spark.writes.dataframe_ingest import ingest
from airflow_provider_segtable.spark.writes.distribution import spark_rollup
from airflow_provider_segtable.table.table import Table
from tests.examples import examples
from tests.property import rollup_model as model

pytestmark = [pytest.mark.spark, pytest.mark.zookeeper]


def in_arrow(df: DataFrame, like: pa.Schema) -> pa.Table:
    """Return what Spark made, in the physical types."""
    return df.toArrow().cast(like)


@given(rows=model.rows(), granularity=st.sampled_from(list(QueryGranularity)))
@examples(8)
def test_spark_and_arrow_agree(
    spark: SparkSession, granularity: QueryGranularity, rows: pa.Table
) -> None:
    """Given rows, and rolled-up ones of either, become the same in both, hidden columns, too."""
    how = model.rollup(granularity)
    expected = arrow_from_input(rows, how, time_column="at")
    made = in_spark.from_input(spark.createDataFrame(rows), how, time_column="at")
    arrived = in_arrow(made, expected.schema)
    assert model.found(arrived, how) == model.found(expected, how)
    halves = [
        arrow_from_input(part, how, time_column="at")
        for part in (rows.slice(0, rows.num_rows // 2), rows.slice(rows.num_rows // 2))
    ]
    mixed = pa.concat_tables([*halves, arrived])
    twice = arrow_rolled_up(mixed, how, time_column="at")
    again = in_spark.rolled_up_rows(spark.createDataFrame(mixed), how, time_column="at")
    assert model.found(in_arrow(again, expected.schema), how) == model.found(twice, how)


VISITS = pa.schema(
    [
        ("at", pa.timestamp("us", "UTC")),
        ("page.`x`", pa.string()),
        ("user", pa.int32()),
        ("ms", pa.float64()),
    ]
)
METRICS = tuple(
    map(
        Metric.parse,
        [
            "visits=count",
            "users=hll(user,10)",
            "people=theta(user)",
            "times=kll(ms)",
            "ids=kll(user,64)",
            "slowest=max(ms)",
        ],
    )
)
HOW = Rollup(dimensions=("page.`x`",), metrics=METRICS, query_granularity=QueryGranularity.DAY)
MakeRollup = Callable[..., Table]


@pytest.fixture
def make_rollup(tmp_path: Path, zookeeper: EmbeddedZooKeeper) -> Iterator[MakeRollup]:
    """Return a maker of a rollup table of visits, closed in the end."""
    made: list[Table] = []

    def make(rollup: Rollup = HOW, schema: pa.Schema = VISITS) -> Table:
        place = str(tmp_path / f"table{len(made)}")
        address = zookeeper.address
        made.append(
            Table.create(
                place,
                schema=schema,
                time_column="at",
                granularity="month",
                kind=rollup,
                zookeeper=address,
            )
        )
        return made[-1]

    yield make
    for table in made:
        table.ports.coordinator.close()


def visits(rows: int, seed: int) -> pa.Table:
    """Return visits of two days to three pages by a thousand users."""
    randomness = random.Random(seed)
    start = datetime(2024, 1, 31, tzinfo=UTC)
    return pa.Table.from_pylist(
        [
            {
                "at": start + timedelta(seconds=randomness.randrange(2 * 86_400)),
                "page.`x`": randomness.choice(["a", "b", None]),
                "user": randomness.randrange(1_000),
                "ms": float(randomness.randrange(1, 10_000)),
            }
            for _ in range(rows)
        ],
        VISITS,
    )


def test_ingest_rolls_up_and_queries_see_one_row_a_group(
    spark: SparkSession, make_rollup: MakeRollup
) -> None:
    """Two ingests of plain metrics: as many rows as groups when asked for, and all events."""
    plain = Rollup(
        dimensions=HOW.dimensions,
        metrics=tuple(map(Metric.parse, ["n=count", "ms=sum(ms)", "user=last(user)"])),
        query_granularity=QueryGranularity.DAY,
    )
    table = make_rollup(plain)
    tables = [visits(400, 1), visits(300, 2)]
    for rows in tables:
        ingest(table.ports, spark.createDataFrame(rows), rows_per_segment=2)
    table.append(visits(200, 3))
    tables.append(visits(200, 3))
    snapshot = table.snapshot()
    assert sum(segment.events for segment in snapshot.segments()) == 900
    assert {segment.id.interval.name[:6] for segment in snapshot.segments()} == {"202401", "202402"}
    bound = snapshot.state.table.kind
    assert bound is not None
    once = visible(arrow_from_input(pa.concat_tables(tables), bound, time_column="at"))
    by = [("at", "ascending"), ("page.`x`", "ascending")]
    assert scan(spark, snapshot).count() == snapshot.count() == 18
    merged = scan(spark, snapshot, rolled_up=True).toArrow().cast(once.schema)
    assert merged.sort_by(by).equals(once.sort_by(by))
    assert snapshot.rolled_up().sort_by(by).equals(once.sort_by(by))
    narrow = scan(spark, snapshot, columns=["n"], rolled_up=True)
    assert narrow.columns == ["n"]
    assert narrow.agg(F.sum("n")).first()[0] == 900


def test_sketches_merge_in_any_order(spark: SparkSession, make_rollup: MakeRollup) -> None:
    """HLL and theta say the same however merged, KLL stays within its error, all near the truth."""
    table = make_rollup()
    how = table.state().table.kind
    assert how is not None
    users, people, times, ids = (how.metrics[at] for at in (1, 2, 3, 4))
    parts = [visits(1500, seed) for seed in range(3)]
    whole = spark.createDataFrame(pa.concat_tables(parts))
    for rows in parts:
        ingest(table.ports, spark.createDataFrame(rows))

    def told(rolled: DataFrame) -> dict[tuple[object, object], tuple[float, ...]]:
        asked = rolled.select(
            F.col("at").alias("at"),
            rolled["`page.``x```"].alias("page"),
            in_spark.estimate(rolled, users).alias("users"),
            in_spark.estimate(rolled, people).alias("people"),
            in_spark.quantile(rolled, how, times, 0.5).alias("median"),
            in_spark.quantile(rolled, how, ids, 0.5).alias("middle"),
        )
        return {(row["at"], row["page"]): tuple(row)[2:] for row in asked.collect()}

    at_once = told(in_spark.from_input(whole, how, time_column="at"))
    merged = told(scan(spark, table.snapshot(), rolled_up=True))
    made = [
        in_spark.from_input(spark.createDataFrame(part), how, time_column="at") for part in parts
    ]
    pairs = made[2]
    for part in made[:2]:
        pairs = in_spark.rolled_up_rows(pairs.union(part), how, time_column="at")
    chained = told(pairs)
    assert at_once.keys() == merged.keys() == chained.keys()
    assert len(at_once) == 6
    for key, (users_, people_, median, middle) in at_once.items():
        assert people_ == merged[key][1] == chained[key][1]
        assert users_ == pytest.approx(merged[key][0], rel=0.01)
        assert merged[key][0] == chained[key][0]
        assert users_ == pytest.approx(people_, rel=0.1)
        for one in (at_once[key], merged[key], chained[key]):
            assert one[2] == pytest.approx(5_000, rel=0.15)
            assert one[3] == pytest.approx(500, rel=0.15)
        assert not math.isnan(median + middle)


def test_arrow_refuses_sketches_and_says_where_to_go(make_rollup: MakeRollup) -> None:
    """Appending by Arrow, and reading rolled up by Arrow, name the sketch and Spark."""
    table = make_rollup()
    for act in (lambda: table.append(visits(3, 1)), lambda: table.snapshot().rolled_up()):
        with pytest.raises(InvalidInput, match=r"users=hll\(user,10\) is a sketch, which only Sp"):
            act()


def test_only_the_right_sketch_answers(spark: SparkSession, make_rollup: MakeRollup) -> None:
    """Asking a maximum for an estimate, or for the quantile 2, is refused by name."""
    how = make_rollup().state().table.kind
    assert how is not None
    df = spark.range(1)
    with pytest.raises(InvalidInput, match=r"slowest=max\(ms\) has no estimate"):
        in_spark.estimate(df, how.metrics[5])
    with pytest.raises(InvalidInput, match=r"quantile 2 of metric times"):
        in_spark.quantile(df, how, how.metrics[3], 2)


def test_bad_times_and_too_large_sums_are_named(
    spark: SparkSession, make_rollup: MakeRollup
) -> None:
    """Null times are counted in given rows; a sum over int64 names its metric. Nothing is left."""
    schema = pa.schema([("at", pa.timestamp("us", "UTC")), ("n", pa.int64())])
    table = make_rollup(Rollup(metrics=(Metric.parse("n=sum(n)"),)), schema)
    null = spark.sql("select cast(null as timestamp) at, id n from range(7)")
    with pytest.raises(TimeOutOfRange, match="7 are null"):
        ingest(table.ports, null)
    large = spark.sql("select timestamp'2024-01-01' at, 9223372036854775807L n from range(2)")
    with pytest.raises(ExecutionFailed, match=r"metric n=sum\(n\): a sum is more than bigint"):
        ingest(table.ports, large)
    assert table.snapshot().segments() == ()


def test_sketches_compact_to_one_row_a_group(spark: SparkSession, make_rollup: MakeRollup) -> None:
    """Three ingests become sorted segments of a later generation: same estimates, all events."""
    table = make_rollup()
    for seed in range(3):
        ingest(table.ports, spark.createDataFrame(visits(500, seed)))
    snapshot = table.snapshot()
    definition = snapshot.state.table
    how = definition.kind
    assert how is not None
    january = snapshot.segments()[0].id.chunk
    inputs = [segment for segment in snapshot.segments() if segment.id.chunk == january]
    asked: list[dict[Interval, int]] = []

    def outputs(
        counts: Mapping[Interval, int],
    ) -> dict[Interval, list[tuple[SegmentId, Shard]]]:
        asked.append(dict(counts))
        named = {}
        for interval, count in counts.items():
            shards = [
                Shard(
                    partition=32768 + number,
                    root_start=0,
                    root_end=3,
                    minor_version=1,
                    group_size=count,
                )
                for number in range(count)
            ]
            named[interval] = [(january.segment(shard.partition), shard) for shard in shards]
        return named

    spec = SortSpec(
        uri=table.ports.uri,
        storage_options={},
        schema=definition.schema,
        time_column="at",
        order=Order(columns=("slowest",)),
        intervals=(january.interval,),
        target_size=sum(segment.size for segment in inputs) // 2,
        attempt="0" * 16,
        created=7,
        row_kind=RollupArrow(how),
    )
    done = spark_rollup(spark, spec, how, inputs, outputs)
    assert asked == [{Place(january.interval): len(done)}]
    assert sum(segment.rows for segment in done) == 3
    assert sum(segment.events for segment in done) == sum(segment.events for segment in inputs)
    files = table.ports.files
    assert [read_descriptor(files, segment.path) for segment in done] == list(done)
    assert {(segment.clustering, segment.created) for segment in done} == {("slowest", 7)}
    physical = physical_schema(snapshot.schema, how)
    rows = pa.Table.from_batches(
        [
            batch
            for segment in done
            for batch in SegmentRead(files, segment, schema=physical, time_column="at").batches()
        ]
    )
    slowest = rows.column("slowest").to_pylist()
    assert slowest == sorted(slowest)
    before = in_spark.rolled_up_rows(
        scan_physical(spark, table, inputs, physical), how, time_column="at"
    )
    sketch = how.metrics[2]

    def told(df: DataFrame) -> set[tuple[object, ...]]:
        columns = (df["`page.``x```"], df["visits"], in_spark.estimate(df, sketch))
        return {tuple(row) for row in df.select(*columns).collect()}

    assert told(before) == told(scan_physical(spark, table, done, physical))


def scan_physical(
    spark: SparkSession, table: Table, segments: Sequence[Segment], schema: pa.Schema
) -> DataFrame:
    """Read files as they are, hidden columns and all."""
    paths = [f"{table.ports.uri}/{segment.path}" for segment in segments]
    return spark.read.schema(spark_schema(schema)).parquet(*paths)


def test_a_z_order_of_sketches_is_refused(spark: SparkSession, make_rollup: MakeRollup) -> None:
    """Spark cannot follow a z-order; the error names it."""
    table = make_rollup()
    ingest(table.ports, spark.createDataFrame(visits(5, 1)))
    state = table.state()
    segments = table.snapshot().segments()
    spec = SortSpec(
        uri=table.ports.uri,
        storage_options={},
        schema=state.table.schema,
        time_column="at",
        order=Order.parse("zorder(visits,slowest)"),
        intervals=tuple({segment.id.interval for segment in segments}),
        target_size=1 << 20,
        attempt="0" * 16,
        created=7,
        row_kind=RollupArrow(state.table.kind),
    )
    with pytest.raises(InvalidInput, match=r"zorder\(visits,slowest\).* name them one after"):
        spark_rollup(spark, spec, state.table.kind, segments, lambda _: {})
    assert spark_rollup(spark, spec, state.table.kind, (), lambda _: {}) == ()
