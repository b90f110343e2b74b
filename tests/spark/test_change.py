"""Changes on Spark: what is deleted, updated and merged is what a plain model says."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper
from airflow_provider_segtable.core.errors import ExecutionFailed, InvalidInput, SchemaMismatch
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.schema import Metric
from airflow_provider_segtable.core.segment import ROOT, ROW
from airflow_provider_segtable.core.tables.evolution import AddColumn
from airflow_provider_segtable.core.tables.rollup_kind import QueryGranularity, Rollup
from airflow_provider_segtable.core.time import parse_instant
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compaction import Ended, compact
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.spark.reads.dataframe_scan import scan
from airflow_provider_segtable.spark.writes.dataframe_ingest import ingest
from airflow_provider_segtable.spark.writes.distribution import spark_execute
from airflow_provider_segtable.spark.writes.spark_engine import delete, merge, overwrite, update
from airflow_provider_segtable.table.table import Table
from tests.spark.conftest import MakeTable
from tests.support.clock import FakeClock
from tests.unit.table.test_change import Late

pytestmark = [pytest.mark.spark, pytest.mark.zookeeper]

EVENTS = pa.schema([("at", pa.timestamp("us", "UTC")), ("n", pa.int32()), ("who", pa.string())])
ROWS = (
    "select timestamp_micros(1356998400000000 + id * 7776000000) at, cast(id as int) n, "
    "if(id % 10 = 0, null, concat('w', id % 9)) who from range(1000)"
)


@pytest.fixture
def table(spark: SparkSession, make_table: MakeTable) -> Table:
    """Return a table of 1,000 rows in 10 segments of three months."""
    made = make_table(EVENTS)
    ingest(made.ports, spark.sql(ROWS), rows_per_segment=100)
    return made


def numbers(table: Table) -> list[int]:
    return sorted(table.snapshot().to_arrow(columns=["n"])["n"].to_pylist())


def on_spark(spark: SparkSession, table: Table, columns: Sequence[str] = ("n",)) -> list[int]:
    return sorted(row.n for row in scan(spark, table.snapshot(), columns=list(columns)).collect())


@pytest.mark.parametrize(
    ("where", "left"),
    [
        ("n % 7 = 3", lambda n: n % 7 != 3),
        ("who is null or target.n >= 500", lambda n: n % 10 and n < 500),
        pytest.param("n in (select n from bad)", lambda n: n not in (3, 4), marks=pytest.mark.long),
        ("exists (select 1 from bad where bad.n = target.n + 1)", lambda n: n not in (2, 3)),
        ("n > (select max(n) from bad)", lambda n: n <= 4),
        pytest.param("at >= '2013-03-01' and true", lambda n: n < 656, marks=pytest.mark.long),
        ("true", lambda _: False),
    ],
)
def test_a_condition_deletes(spark: SparkSession, table: Table, where: str, left) -> None:  # type: ignore[no-untyped-def]  # noqa: ANN001
    """Any expression may say it, sub-queries too; nulls and the unknown stay."""
    spark.createDataFrame([(3,), (4,)], "n int").createOrReplaceTempView("bad")
    expected = [n for n in range(1000) if left(n)]
    tried = delete(spark, table.ports, where, dry_run=True)
    assert (tried.n, tried.matched, numbers(table)) == (None, 1000 - len(expected), [*range(1000)])
    done = delete(spark, table.ports, where, commit_id="once")
    assert (done.matched, done.deleted, done.inserted) == (1000 - len(expected),) * 2 + (0,)
    assert numbers(table) == on_spark(spark, table) == expected
    again = delete(spark, table.ports, "true", commit_id="once")
    assert (again.n, again.deleted, numbers(table)) == (done.n, done.deleted, expected)
    assert not [*violations(table.state())]


def test_rows_that_equal_others_are_deleted(spark: SparkSession, table: Table) -> None:
    """All columns of the others count, null equals null, and a condition beside them too."""
    others = spark.createDataFrame([(None,), ("w3",)], "who string")
    done = delete(spark, table.ports, "n < 500", matches=others)
    gone = [n for n in range(500) if n % 10 == 0 or n % 9 == 3]
    assert done.deleted == len(gone)
    assert on_spark(spark, table) == sorted({*range(1000)} - {*gone})
    mine = scan(spark, table.snapshot()).where("n between 600 and 620")
    assert delete(spark, table.ports, matches=mine).deleted == 21
    with pytest.raises(SchemaMismatch, match="no column 'm'"):
        delete(spark, table.ports, matches=spark.createDataFrame([(1,)], "m int"))


def test_addresses_delete_what_is_still_there(spark: SparkSession, table: Table) -> None:
    """They outlive other deletes; what is gone is left out, what never was, too."""
    before = scan(spark, table.snapshot(), columns=["n"], addressed=True)
    assert before.columns == ["n", ROOT, ROW]
    some = before.where("n < 50").localCheckpoint()
    delete(spark, table.ports, "n < 10")
    strange = spark.createDataFrame(
        [(None, 1), (some.first()[ROOT], 10**6)], f"{ROOT} string, {ROW} int"
    )
    given = some.union(some).select(ROOT, ROW).union(strange)
    done = delete(spark, table.ports, addresses=given)
    assert (done.matched, done.deleted) == (40, 40)
    assert on_spark(spark, table) == numbers(table) == [*range(50, 1000)]
    assert delete(spark, table.ports, addresses=given).n is None
    with pytest.raises(InvalidInput, match="scan a newer snapshot"):
        delete(spark, table.ports, addresses=some.withColumn(ROOT, F.lit("x/y")))


def test_an_update_is_one_event(spark: SparkSession, table: Table) -> None:
    """Values see the row as it was, rows may move to other time chunks, and all fits its type."""
    sets = {"n": "n + 10000L", "who": "null", "at": "at + interval 40 days"}
    done = update(spark, table.ports, sets, "n < 100")
    assert (done.matched, done.deleted, done.inserted) == (100, 100, 100)
    assert numbers(table) == on_spark(spark, table) == [*range(100, 1000), *range(10000, 10100)]
    assert table.state().n == done.n == 2
    rows = scan(spark, table.snapshot()).where("n >= 10000 and who is null")
    assert rows.where("at >= '2013-02-10'").count() == 100
    assert not [*violations(table.state())]


def test_an_update_keeps_its_rows_when_time_is_cut_anew(spark: SparkSession, table: Table) -> None:
    """If time is cut anew while an update waits, rows loaded since it began stay as they are."""
    late = pa.Table.from_pylist([{"at": 0, "n": 2000, "who": "w1"}], EVENTS)

    def act() -> None:
        table.append(late)
        for cut in ("week", "year"):
            plans = [known.plan.id for known in request(table.ports, "major", granularity=cut)]
            compact(table.ports, plans, in_process(table.ports.files))

    ports = replace(table.ports, optional_coordinator=Late(table.ports.coordinator, act))  # type: ignore[arg-type]
    done = update(spark, ports, {"n": "n + 1"}, "n >= 990")
    assert (done.matched, done.deleted, done.inserted) == (10, 10, 10)
    assert numbers(table) == [*range(990), *range(991, 1001), 2000]


def test_chance_is_asked_once(spark: SparkSession, table: Table) -> None:
    """Where the condition and the values are random, what goes is still what comes back."""
    done = update(spark, table.ports, {"who": "cast(rand() as string)"}, "rand() < 0.5")
    assert 300 < done.inserted == done.deleted < 700
    assert numbers(table) == on_spark(spark, table) == [*range(1000)]


@pytest.mark.parametrize(
    ("sets", "error", "said"),
    [
        ({"n": "n * 3000000000"}, ExecutionFailed, "column n is int and cannot hold"),
        ({"n": "1.5"}, ExecutionFailed, "column n is int and cannot hold 1.5"),
        ({"n": "'1'"}, SchemaMismatch, "column 'n' is int and cannot be set to string"),
        ({"m": "1"}, SchemaMismatch, "no column 'm' to set"),
        ({"n": "nobody"}, InvalidInput, "nobody"),
        ({"at": "null"}, InvalidInput, "100 are null"),
        ({}, InvalidInput, "set is empty"),
    ],
)
def test_a_value_that_does_not_fit(
    spark: SparkSession, table: Table, sets: dict[str, str], error: type[Exception], said: str
) -> None:
    """It is refused whatever Spark's settings are, and nothing is changed."""
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        with pytest.raises(error, match=said):
            update(spark, table.ports, sets, "n >= 900")
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
    assert table.state().n == 1


def test_a_merge_updates_and_inserts(spark: SparkSession, table: Table) -> None:
    """By key: rows that match get the source's columns, the others come; null matches nothing."""
    source = spark.sql(
        "select timestamp'2013-05-01' at, cast(id as int) n, 'new' who from range(990, 1010)"
    )
    plan = AddColumn(name="plan", type="string", default="free")
    table.alter(columns=[plan, AddColumn(name="note", type="int32")])
    done = merge(spark, table.ports, source, ["n"])
    assert (done.matched, done.deleted, done.inserted) == (10, 10, 20)
    added = {(row.plan, row.note) for row in scan(spark, table.snapshot()).collect()}
    assert added == {("free", None)}  # inserted rows, too, have the default
    assert numbers(table) == on_spark(spark, table) == [*range(1010)]
    assert scan(spark, table.snapshot()).where("who = 'new'").count() == 20
    again = merge(spark, table.ports, source.drop("who"), ["n"], matched="ignore")
    assert (again.n, again.matched, again.inserted) == (None, 20, 0)
    gone = merge(
        spark, table.ports, source.select("n"), ["n"], matched="delete", unmatched="ignore"
    )
    assert (gone.deleted, gone.inserted) == (20, 0)
    nulls = spark.createDataFrame([(None, "x")], "who string, y string").select("who")
    with pytest.raises(SchemaMismatch, match="no column 'at'"):
        merge(spark, table.ports, nulls, ["who"])
    assert merge(spark, table.ports, nulls, ["who"], unmatched="ignore").matched == 0
    assert on_spark(spark, table) == [*range(990)]
    assert not [*violations(table.state())]


def test_a_merge_by_condition_and_expressions(spark: SparkSession, table: Table) -> None:
    """Both sides have names, the source may have columns of its own, and chance is asked once."""
    source = spark.sql(
        "select cast(id as int) n, rand() more, timestamp'2013-01-05' at from range(5)"
    )
    done = merge(
        spark,
        table.ports,
        source,
        "target.n = source.n * 100",
        set={"who": "concat(target.n, '-', source.n, '-', more)"},
        unmatched="ignore",
    )
    assert (done.matched, done.inserted) == (5, 5)
    found = scan(spark, table.snapshot()).where("who like '%-%-%'").collect()
    assert sorted("-".join(row.who.split("-")[:2]) for row in found) == [
        f"{n}00-{n}" if n else "0-0" for n in range(5)
    ]
    assert numbers(table) == [*range(1000)]


def test_two_rows_for_one_are_refused(spark: SparkSession, table: Table) -> None:
    """The message names the key; ignoring is no harm."""
    source = spark.sql("select cast(id % 3 + 5 as int) n, 'x' who from range(4)")
    for on, shown in ((["n"], "with n = 5"), ("target.n = source.n", "n=5|n = 5")):
        with pytest.raises(InvalidInput, match=f"2 rows of the source.*{shown}"):
            merge(spark, table.ports, source, on, unmatched="ignore")
    with pytest.raises(InvalidInput, match="nothing to do"):
        merge(spark, table.ports, source, ["n"], matched="ignore", unmatched="ignore")
    assert table.state().n == 1


def test_a_rollup_table_forgets_by_predicate(
    spark: SparkSession, tmp_path: Path, zookeeper: EmbeddedZooKeeper
) -> None:
    """Only over dimensions and time; what comes later is not meant, whatever is compacted."""
    table = Table.create(
        str(tmp_path / "table"),
        schema=EVENTS,
        time_column="at",
        granularity="month",
        kind=Rollup(
            dimensions=("who",),
            metrics=(Metric.parse("rows=count"), Metric.parse("total=sum(n)")),
            query_granularity=QueryGranularity.DAY,
        ),
        zookeeper=zookeeper.address,
    )
    rows = spark.sql(ROWS)
    ingest(table.ports, rows)
    spelled = "who is null or who in ('w1', 'w2') and at < '2013-02-01'"
    tried = delete(spark, table.ports, spelled, dry_run=True)
    done = delete(spark, table.ports, spelled)
    assert (done.deleted, done.matched) == (None, tried.matched)
    ingest(table.ports, rows.where("who = 'w1'"))
    kept = rows.where(f"not coalesce({spelled}, false)").union(rows.where("who = 'w1'"))
    wanted = dict(kept.groupBy("who").sum("n").collect())
    for plan in (None, "major"):
        if plan:
            plans = [known.plan.id for known in request(table.ports, plan)]
            assert {r.ended for r in compact(table.ports, plans, spark_execute(spark))} == {
                Ended.COMPLETED
            }
        for rolled_up in (False, True):
            found = scan(spark, table.snapshot(), columns=["who", "total"], rolled_up=rolled_up)
            assert dict(found.groupBy("who").sum("total").collect()) == wanted
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:  # the log's predicates are in UTC, and the rows are compared with these
        late = spark.sql("select timestamp'2013-02-05T02:00:00Z' at, 1 n, 'w1' who")
        with pytest.raises(InvalidInput, match="1 of 1 rows are not in what is overwritten"):
            overwrite(table.ports, late, where="at < '2013-02-05'", dry_run=True)
        assert overwrite(table.ports, late, where="at < '2013-02-06'", dry_run=True).inserted == 1
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    for bad, said in (
        (lambda: delete(spark, table.ports, "total > 3"), "is a metric"),
        (lambda: delete(spark, table.ports, matches=rows.select("who")), "rollup table"),
        (lambda: update(spark, table.ports, {"who": "'x'"}, "true"), "cannot be updated"),
        (lambda: merge(spark, table.ports, rows, ["who"]), "cannot be merged"),
        (lambda: scan(spark, table.snapshot(), addressed=True), "no addresses"),
    ):
        with pytest.raises(InvalidInput, match=said):
            bad()
    table.ports.coordinator.close()


def test_an_interval_and_touched_chunks_are_overwritten(spark: SparkSession, table: Table) -> None:
    """A day's rows go and others come, once for a commit id; rows outside leave nothing behind."""
    day = spark.sql(ROWS).where("n between 100 and 109")
    when = "2013-01-10/2013-01-11"
    for _ in range(2):
        done = overwrite(table.ports, day, interval=when, commit_id="again")
    assert (done.deleted, done.inserted) == (12, 10)
    version = table.state().n
    with pytest.raises(InvalidInput, match="10 of 10 rows"):
        overwrite(table.ports, day, interval="2013-01-11/2013-01-12")
    assert overwrite(table.ports, day.limit(0), interval=when, dry_run=True).deleted == 10
    named = overwrite(table.ports, day, where="pmod(n, 1000) between 100 and 109", dry_run=True)
    assert (named.n, named.deleted, named.inserted) == (None, 10, 10)
    then = replace(table.ports, clock=FakeClock(parse_instant("2013-01-11")))
    past = overwrite(then, day, where="at < now() and n > -1", dry_run=True)
    assert (past.deleted, past.inserted) == (table.scan(where="at < '2013-01-11'").count(), 10)
    replaced = overwrite(table.ports, day, interval="chunks")
    assert replaced.n == version + 1
    rest = [n for n in range(1000) if n >= 345]  # January is gone but for these rows
    assert numbers(table) == on_spark(spark, table) == [*range(100, 110), *rest]
