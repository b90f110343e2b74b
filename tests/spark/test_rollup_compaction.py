"""Rollup tables with sketches through all three compactions: equal answers, no litter."""

import random
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.tables.rollup_kind import Metric, QueryGranularity, Rollup
from airflow_provider_segtable.core.time import Granularity, Interval
from airflow_provider_segtable.data.rollup.rollup_rows import from_input
from airflow_provider_segtable.planning.properties import Policy
from airflow_provider_segtable.ports.job import Job
from airflow_provider_segtable.services.attempt import Done, Execute, in_process
from airflow_provider_segtable.services.compaction import Ended, PlanResult, compact
from airflow_provider_segtable.services.planner import plan_table
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.spark.reads.dataframe_scan import scan
from airflow_provider_segtable.spark.table_kinds import estimate, quantile
from airflow_provider_segtable.spark.writes.dataframe_ingest import ingest
from airflow_provider_segtable.spark.writes.distribution import (
    Piece,
    SparkRun,
    grouped,
    packed,
    spark_execute,
)
from airflow_provider_segtable.table.table import Table

pytestmark = [pytest.mark.spark, pytest.mark.zookeeper]

VISITS = pa.schema(
    [
        ("at", pa.timestamp("us", "UTC")),
        ("page", pa.string()),
        ("user", pa.int32()),
        ("ms", pa.int64()),
    ]
)
PLAIN = (
    "visits=count",
    "total=sum(ms)",
    "fastest=min(ms)",
    "slowest=max(ms)",
    "came=first(user)",
    "left=last(user)",
)
SKETCHES = ("users=hll(user,10)", "people=theta(user)", "times=kll(ms)")
START = datetime(2024, 2, 28, tzinfo=UTC)
RANK_ERROR = 0.025
"""Of a KLL sketch with k = 200, with some room: two-sided, at 99 %, it is 0.0165."""

MakeRollup = Callable[..., Table]


def rollup(*metrics: str, by: QueryGranularity = QueryGranularity.HOUR) -> Rollup:
    made = tuple(map(Metric.parse, metrics))
    return Rollup(dimensions=("page",), metrics=made, query_granularity=by)


@pytest.fixture
def make_rollup(tmp_path: Path, zookeeper: EmbeddedZooKeeper) -> Iterator[MakeRollup]:
    """Return a maker of rollup tables of visits, closed in the end."""
    made: list[Table] = []

    def make(how: Rollup | None = None, granularity: str = "day", **properties: object) -> Table:
        made.append(
            Table.create(
                str(tmp_path / f"table{len(made)}"),
                schema=VISITS,
                time_column="at",
                granularity=granularity,
                kind=how or rollup(*PLAIN, *SKETCHES),
                properties={f"compaction.{key}": str(v) for key, v in properties.items()},
                zookeeper=zookeeper.address,
            )
        )
        return made[-1]

    yield make
    for table in made:
        table.ports.coordinator.close()


def visits(rows: int, seed: int, hours: int = 30) -> pa.Table:
    """Return visits of a day and some hours to three pages."""
    randomness = random.Random(seed)
    return pa.Table.from_pylist(
        [
            {
                "at": START
                + timedelta(hours=randomness.choice([*range(0, hours, 5)]), seconds=number),
                "page": randomness.choice(["a", "b", None]),
                "user": randomness.choice([None, *range(400)]),
                "ms": randomness.randrange(1, 10_000),
            }
            for number in range(rows)
        ],
        VISITS,
    )


class Model:
    """All rows that a table was given, and what it must answer."""

    def __init__(self, spark: SparkSession, table: Table) -> None:
        self.spark, self.table = spark, table
        self.parts: list[pa.Table] = []
        self.estimates: dict[object, tuple[object, ...]] = {}

    def ingest(self, rows: pa.Table) -> None:
        """Give rows to the table and to the model."""
        ingest(self.table.ports, self.spark.createDataFrame(rows), rows_per_segment=8)
        self.parts.append(rows)
        self.estimates = {}

    @property
    def groups(self) -> list[dict[str, Any]]:
        """Return the rows of plain metrics that the table must answer with, sorted."""
        rows = pa.concat_tables(self.parts)
        made = from_input(rows, rollup(*PLAIN), time_column="at")
        names = ["at", "page", *(name.split("=")[0] for name in PLAIN)]
        return sorted(made.select(names).to_pylist(), key=_key)

    def check(self) -> None:
        """The table answers as the model, and its sketches as ever since the last ingest."""
        snapshot = self.table.snapshot()
        how = snapshot.state.table.kind
        assert how is not None
        rolled = scan(self.spark, snapshot, rolled_up=True)
        asked = _asked(rolled, how).collect()
        plain = [name.split("=")[0] for name in PLAIN]
        found = [{name: row[name] for name in ("at", "page", *plain)} for row in asked]
        found = [{**row, "at": row["at"].astimezone(UTC)} for row in found]
        assert sorted(found, key=_key) == self.groups
        estimates = {_key({**row.asDict()}): (row["users"], row["people"]) for row in asked}
        assert estimates == (self.estimates or estimates)
        self.estimates = estimates
        self._check_quantiles(asked)
        given = sum(part.num_rows for part in self.parts)
        assert sum(segment.events for segment in snapshot.segments()) == given
        assert list(violations(snapshot.state)) == []
        assert files(self.table) >= {s.path for s in snapshot.segments()}

    def _check_quantiles(self, asked: Sequence[Any]) -> None:
        numbers: dict[object, list[int]] = {}
        for row in pa.concat_tables(self.parts).to_pylist():
            at = row["at"].replace(minute=0, second=0, microsecond=0)
            numbers.setdefault(_key({**row, "at": at}), []).append(row["ms"])
        for row in asked:
            exact = sorted(numbers[_key(row.asDict())])
            for rank in (0.1, 0.5, 0.9):
                value = row[f"at_{rank}"]
                low, high = bisect_left(exact, value), bisect_right(exact, value)
                error = max(low / len(exact) - rank, rank - high / len(exact), 0)
                assert error <= RANK_ERROR + 1 / len(exact)


def _asked(rolled: DataFrame, how: Rollup) -> DataFrame:
    users, people, times = how.sketches
    plain = ("at", "page", *(name.split("=")[0] for name in PLAIN))
    return rolled.select(
        *plain,
        estimate(rolled, users).alias("users"),
        estimate(rolled, people).alias("people"),
        *(quantile(rolled, how, times, rank).alias(f"at_{rank}") for rank in (0.1, 0.5, 0.9)),
    )


def _key(row: dict[str, Any]) -> tuple[float, str]:
    return row["at"].timestamp(), row["page"] or ""


def files(table: Table) -> set[str]:
    root = Path(table.ports.uri)
    return {str(p.relative_to(root)) for p in (root / "data").rglob("*") if p.is_file()}


def done(table: Table, execute: Execute, kind: str, **wish: Any) -> list[PlanResult]:
    """Ask for compactions of a kind, and carry them out."""
    asked = request(table.ports, kind, **wish)
    results = compact(table.ports, [one.plan.id for one in asked], execute, wait_s=120)
    assert {
        (one.ended, one.message) for one in results if one.ended is not Ended.COMPLETED
    } == set()
    return list(results)


def core_rows(table: Table) -> int:
    return sum(s.rows for s in table.snapshot().segments() if s.shard.partition < s.shard.core)


def test_every_metric_survives_every_compaction(
    spark: SparkSession, make_rollup: MakeRollup
) -> None:
    """Minor, semi-major and major compaction, time cut anew twice: the same answers throughout."""
    table = make_rollup()
    model, execute = Model(spark, table), spark_execute(spark)
    for seed in range(3):
        model.ingest(visits(1_500, seed))
    model.check()
    before = len(table.snapshot().segments())

    done(table, execute, "minor")
    assert len(table.snapshot().segments()) < before
    model.check()

    done(table, execute, "semi-major", clustering="page")
    assert {s.clustering for s in table.snapshot().segments()} == {"page"}
    model.check()

    model.ingest(visits(600, 3))
    groups = len(model.groups)
    late = visits(800, 4)

    def with_appends(jobs: Sequence[Job]) -> Iterator[Done]:
        model.ingest(late)
        yield from execute(jobs)

    done(table, with_appends, "major", interval=Interval.parse("2024-02-28/2024-02-29"))
    assert len(model.parts) == 5
    model.check()

    for cut, chunks in ((Granularity.HOUR, 6), (Granularity.DAY, 2)):
        done(table, execute, "major", granularity=cut, rollup="perfect")
        model.check()
        assert core_rows(table) == table.snapshot().count() == len(model.groups) == groups
        assert len({s.id.interval for s in table.snapshot().segments()}) == chunks
    assert table.ports.coordinator.locks(table.state().table.table_id) == ()


def test_a_planner_s_plans_are_carried_out(spark: SparkSession, make_rollup: MakeRollup) -> None:
    """What the policy wants for a table with sketches, Spark carries out; then nothing is left."""
    table = make_rollup(min_segments=2)
    model = Model(spark, table)
    for seed in range(3):
        model.ingest(visits(200, seed))
    for kinds in ({"minor", "semi-major", "major"}, set()):
        launches = plan_table(table.ports).launches
        assert {launch.kind for launch in launches} <= kinds
        results = compact(table.ports, [one.plan_id for one in launches], spark_execute(spark))
        assert [one.ended for one in results] == [Ended.COMPLETED] * len(launches)
    assert len(table.snapshot().segments()) == 2
    model.check()


@pytest.mark.long
def test_segments_are_well_sized(spark: SparkSession, make_rollup: MakeRollup) -> None:
    """Of three uneven days every segment is 0.75 to 1.8 of the target: no slivers at borders."""
    target = 60_000
    table = make_rollup(rollup(*PLAIN, *SKETCHES, by=QueryGranularity.MINUTE), target_size=target)
    for seed in range(2):
        minute = F.floor(F.pow(F.rand(seed), 1.5) * 4320)  # three days, the first the longest
        rows = spark.range(30_000).select(
            F.timestamp_seconds(START.timestamp() + minute * 60).alias("at"),
            F.concat(F.lit("p"), F.col("id") % 3).alias("page"),
            (F.col("id") % 997).cast("int").alias("user"),
            F.col("id").alias("ms"),
        )
        ingest(table.ports, rows, rows_per_segment=1_000)
    results = done(table, spark_execute(spark), "major", clustering="page")
    assert len(results) == 3
    sizes: dict[Interval, list[float]] = {}
    for segment in table.snapshot().segments():
        sizes.setdefault(segment.id.interval, []).append(segment.size / target)
    assert min(map(len, sizes.values())) > 1, sizes
    assert all(0.75 <= size <= 1.8 for some in sizes.values() for size in some), sizes

    done(table, spark_execute(spark), "major", granularity=Granularity.MONTH)
    whole = [segment.size / target for segment in table.snapshot().segments()]
    assert len({s.id.interval for s in table.snapshot().segments()}) == 2
    assert sum(not 0.75 <= size <= 1.8 for size in whole) == 0, whole


def test_ranges_are_grouped_evenly() -> None:
    """Pieces become slots of about the target, one a chunk at least, never across chunks."""
    pieces = [Piece(0, n, 10.0) for n in range(10)] + [Piece(3, 9, 1.0), Piece(4, 9, 30.0)]
    slots = grouped(pieces, 25.0)
    assert [len(slot) for slot in slots] == [2, 3, 2, 3, 1, 1]
    assert [piece for slot in slots for piece in slot] == pieces
    assert all(len({piece.chunk for piece in slot}) == 1 for slot in slots)
    assert [len(slot) for slot in grouped(pieces[:10], 25.0, 1)] == [10]
    assert [len(slot) for slot in grouped(pieces[:10], 0.1, 0)] == [1] * 10
    assert grouped([], 25.0) == []


def test_without_spark_the_sketch_is_named(spark: SparkSession, make_rollup: MakeRollup) -> None:
    """Run in one process the plan fails, says which sketch and where to go, and is not lost."""
    table = make_rollup()
    for seed in range(2):
        ingest(table.ports, spark.createDataFrame(visits(40, seed, hours=20)))
    before = files(table)
    (asked,) = request(table.ports, "semi-major")
    (result,) = compact(table.ports, [asked.plan.id], in_process())
    assert result.ended is Ended.FAILED
    assert "InvalidInput: users=hll(user,10)" in result.message
    assert "in Spark" in result.message
    assert files(table) == before
    (again,) = compact(table.ports, [asked.plan.id], spark_execute(spark))
    assert again.ended is Ended.COMPLETED


def test_a_failed_attempt_leaves_no_file(spark: SparkSession, make_rollup: MakeRollup) -> None:
    """An input that is gone, or another's file in its place, fails its plan by name."""
    table = make_rollup()
    for seed in range(2):
        ingest(table.ports, spark.createDataFrame(visits(40, seed, hours=20)))
    (asked,) = request(table.ports, "semi-major")
    first, second = table.snapshot().segments()
    place = Path(table.ports.uri, first.path)
    kept = place.read_bytes()
    before = files(table)

    place.unlink()
    (result,) = compact(table.ports, [asked.plan.id], spark_execute(spark))
    assert result.ended is Ended.FAILED
    assert first.path.rsplit("/", 1)[1] in result.message
    place.write_bytes(Path(table.ports.uri, second.path).read_bytes())
    (result,) = compact(table.ports, [asked.plan.id], spark_execute(spark))
    assert result.ended is Ended.FAILED
    assert "CorruptTable" in result.message
    assert f"the log says {first.id}" in result.message
    assert files(table) == before

    place.write_bytes(kept)
    (result,) = compact(table.ports, [asked.plan.id], spark_execute(spark))
    assert result.ended is Ended.COMPLETED
    assert table.ports.coordinator.locks(table.state().table.table_id) == ()


def test_nobody_waits_for_a_stopped_job(spark: SparkSession, make_rollup: MakeRollup) -> None:
    """When the consumer stops before ids are given, the job on the driver ends without a file."""
    table = make_rollup()
    for seed in range(2):
        ingest(table.ports, spark.createDataFrame(visits(40, seed, hours=20)))
    before = files(table)
    runs: list[Iterator[Done]] = []

    def stopping(jobs: Sequence[Job]) -> Iterator[Done]:
        run = SparkRun(spark, "stopping")
        run.stopping.set()
        runs.append(run.results(packed(jobs, 2), 2))
        yield from runs[0]

    (asked,) = request(table.ports, "semi-major")
    (result,) = compact(table.ports, [asked.plan.id], stopping)
    assert result.ended is Ended.FAILED
    assert "was stopped" in result.message
    assert files(table) == before


def test_wishes_that_cannot_be_are_refused_at_once(make_rollup: MakeRollup) -> None:
    """An order by metrics or along a curve, time cut finer than groups: no plan is made."""
    table = make_rollup()
    with pytest.raises(InvalidInput, match=r"total is a metric.*choose among at, page"):
        request(table.ports, "semi-major", clustering="page,total")
    with pytest.raises(InvalidInput, match=r"zorder\(page,at\).*users=hll.*write page,at"):
        request(table.ports, "major", clustering="zorder(page,at)")
    with pytest.raises(InvalidInput, match=r"zorder\(page,at\)"):
        plan_table(table.ports, policy=Policy(clustering="zorder(page,at)"))
    coarse = make_rollup(rollup(*PLAIN, by=QueryGranularity.DAY))
    with pytest.raises(InvalidInput, match=r"rolled up by day.*cut by hour"):
        request(coarse.ports, "major", granularity="hour")
    with pytest.raises(InvalidInput, match=r"rolled up by day.*cut by hour"):
        plan_table(coarse.ports, policy=Policy(major_granularity="hour"))
    with pytest.raises(InvalidInput, match="no rows"):
        request(coarse.ports, "major", granularity="day")
    assert coarse.state().n == table.state().n == 0


@pytest.mark.parametrize("clustering", ["", "page", "at,page", "zorder(page,at)"])
def test_plain_metrics_need_no_spark(make_rollup: MakeRollup, clustering: str) -> None:
    """Without sketches the same by Arrow: however sorted, major leaves one row a group."""
    table = make_rollup(rollup(*PLAIN, by=QueryGranularity.MINUTE), target_size=6_000)
    parts = [visits(3_000, seed) for seed in range(3)]
    for part in parts:
        table.append(part)
    expected = table.snapshot().rolled_up()
    groups = {(row["at"], row["page"]) for row in expected.to_pylist()}
    done(table, in_process(), "major", clustering=clustering)
    found = table.snapshot().to_arrow()
    assert found.num_rows == len(groups) == expected.num_rows
    assert len(table.snapshot().segments()) > 2
    by = [("at", "ascending"), ("page", "ascending")]
    assert found.sort_by(by).equals(expected.sort_by(by))
