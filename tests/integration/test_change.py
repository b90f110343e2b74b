"""Delete, update and merge as users start them: the command and the application, with Spark."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper
from airflow_provider_segtable.operators.change import (
    SegtableMergeOperator,
    SegtableUpdateOperator,
)
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compaction import compact
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.table.table import Table

REPOSITORY = Path(__file__).parents[2]
SEGTABLE = (sys.executable, "-c", "from airflow_provider_segtable.cli import main; main()")
HOUR_US = 3_600_000_000
ROWS = 96
TIMEOUT_S = 240.0

pytestmark = [
    pytest.mark.zookeeper,
    pytest.mark.spark,
]

Segtable = Callable[..., Any]


@pytest.fixture
def events(tmp_path: Path, zookeeper: EmbeddedZooKeeper) -> Iterator[Table]:
    """Give a table of numbered rows in eight segments on four days."""
    numbers = list(range(ROWS))
    at = pa.array([1_356_998_400_000_000 + n * HOUR_US for n in numbers], pa.timestamp("us", "UTC"))
    rows = pa.table({"at": at, "n": numbers, "who": [f"user {n % 7}" for n in numbers]})
    made = Table.create(
        str(tmp_path / "events"), schema=rows.schema, time_column="at", zookeeper=zookeeper.address
    )
    for start in range(0, ROWS, 12):
        made.append(rows.slice(start, 12))
    yield made
    made.ports.coordinator.close()


@pytest.fixture
def segtable(tmp_path: Path, zookeeper: EmbeddedZooKeeper) -> Segtable:
    """Return what runs ``segtable`` in a process of its own, and parses its answer."""
    environment = {
        **os.environ,
        "SEGTABLE_ZOOKEEPER": zookeeper.address,
        "PYTHONPATH": str(REPOSITORY),
    }

    def run(*arguments: str) -> Any:
        done = subprocess.run(
            [*SEGTABLE, *arguments, "--json"],
            cwd=tmp_path,
            env=environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    return run


def users(table: Table) -> dict[int, str]:
    """Return who each row is of, by its number."""
    found = table.snapshot().to_arrow(columns=["n", "who"]).to_pylist()
    assert len({row["n"] for row in found}) == len(found)
    return {row["n"]: row["who"] for row in found}


@pytest.mark.long
def test_spark_takes_over_what_a_process_cannot_read(segtable: Segtable, events: Table) -> None:
    """A function and a sub-expression go to Spark by themselves; what is left is a plain filter's.

    The rows were compacted into sorted outputs before, so their addresses are hidden columns.
    """
    before = users(events)
    asked = request(events.ports, "semi-major", clustering="who")
    compact(events.ports, [known.plan.id for known in asked], in_process())
    told = segtable("delete", "events", "--where", "n % 3 = 0 and octet_length(who) = 6")
    assert (told["engine"], told["matched"], told["deleted"]) == ("spark", 32, 32)
    assert users(events) == {n: who for n, who in before.items() if n % 3}


def test_spark_loads_a_table_with_a_primary_key(segtable: Segtable, tmp_path: Path) -> None:
    """Files are upserted, one event each, in Spark; rows that say so delete their keys."""
    schema = pa.schema([("at", pa.timestamp("us", "UTC")), ("n", pa.int64()), ("who", pa.string())])
    table = Table.create(
        str(tmp_path / "users"), schema=schema, time_column="at", primary_key="n", buckets=2
    )
    for name, keys, gone in (("a", range(20), "false"), ("b", range(10, 30, 2), "true")):
        lines = (f"2013-01-01T00:00:00Z,{n},{name}{n},{gone}" for n in keys)
        (tmp_path / f"{name}.csv").write_text("\n".join(["at,n,who,gone", *lines]) + "\n")
    on_spark = ("--engine", "spark")
    told = segtable("ingest", "users", "a.csv", "b.csv", "--deleted", "gone", *on_spark)
    assert [each["version"] for each in told["appends"]] == [1, 2]
    left = {n: f"a{n}" for n in range(20) if n < 10 or n % 2}
    assert users(table) == left


def test_a_task_runs_the_application_once(
    events: Table,
    zookeeper: EmbeddedZooKeeper,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """An update by a list of ids goes through spark-submit; a second try finds it in the log."""
    (tmp_path / "ids.csv").write_text("who\nuser 2\nuser 5\n")
    connection = {"conn_type": "segtable", "host": str(tmp_path)}
    extra = {"zookeeper": zookeeper.address, "spark_master": "local[2]"}
    monkeypatch.setenv("AIRFLOW_CONN_SEGTABLE_DEFAULT", json.dumps({**connection, "extra": extra}))
    update = SegtableUpdateOperator(
        task_id="hide",
        table="events",
        set={"who": "concat('hidden ', substring(who, 6, 1))"},
        matches=str(tmp_path / "ids.csv"),
    )
    run = {"ti": SimpleNamespace(dag_id="d", run_id="r", task_id="hide", map_index=-1)}
    before = users(events)
    first, again = update.execute(run), update.execute(run)
    wanted = {n: who.replace("user", "hidden") for n, who in before.items() if n % 7 in (2, 5)}
    assert (first["matched"], first["deleted"], first["inserted"]) == (len(wanted),) * 3
    assert users(events) == {**before, **wanted}
    assert (again["event"], again["changed_before"]) == (first["event"], True)
    assert events.state().n == first["event"]


@pytest.mark.long
def test_tasks_change_a_table_with_a_primary_key_on_spark(
    zookeeper: EmbeddedZooKeeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A condition and values that only Spark evaluates choose and set rows; a merge joins there."""
    made = Table.create(
        str(tmp_path / "users"),
        schema=pa.schema(
            [("at", pa.timestamp("us", "UTC")), ("n", pa.int64()), ("who", pa.string())]
        ),
        time_column="at",
        primary_key="n",
        buckets=2,
    )
    at = pa.array([1_356_998_400_000_000] * 6, pa.timestamp("us", "UTC"))
    made.upsert(pa.table({"at": at, "n": range(6), "who": [f"user {n}" for n in range(6)]}))
    connection = {"conn_type": "segtable", "host": str(tmp_path)}
    extra = {"zookeeper": zookeeper.address, "spark_master": "local[2]"}
    monkeypatch.setenv("AIRFLOW_CONN_SEGTABLE_DEFAULT", json.dumps({**connection, "extra": extra}))
    source = tmp_path / "new.parquet"
    pq.write_table(pa.table({"at": at[:2], "n": [4, 9], "who": ["merged", "new"]}), source)
    tasks = (
        SegtableUpdateOperator(
            task_id="a",
            table="users",
            set={"who": "reverse(who)"},
            where="regexp_extract(who, '[03]$', 0) <> ''",
        ),
        SegtableMergeOperator(
            task_id="b", table="users", source=str(source), on="n", engine="spark"
        ),
    )
    told = []
    for task in tasks:
        run = {"ti": SimpleNamespace(dag_id="d", run_id="r", task_id=task.task_id, map_index=-1)}
        first = task.execute(run)
        assert made.state().n == first["event"]
        told.append((first["matched"], first["deleted"], first["inserted"]))
    assert told == [(2, 2, 2), (1, 1, 2)]
    changed = {0: "0 resu", 3: "3 resu", 4: "merged", 9: "new"}
    assert users(made) == {1: "user 1", 2: "user 2", 5: "user 5", **changed}
