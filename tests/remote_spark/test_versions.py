"""Drivers and clusters of other versions of Spark: what works on each, and what is refused."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper
from airflow_provider_segtable.hooks.submission import SparkSubmit
from airflow_provider_segtable.operators.compact import SegtableCompactOperator
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.spark.driver.session import spark_app_path
from airflow_provider_segtable.table.table import Table
from tests.cluster import test_journey as journey
from tests.cluster.conftest import SCHEMA, Desk, numbered
from tests.cluster.standalone import Standalone
from tests.remote_spark.conftest import needs, standalone
from tests.remote_spark.prepare import TOO_OLD, VERSIONS, home_of, python_with
from tests.support.processes import importable

pytestmark = [pytest.mark.slow, pytest.mark.airflow, pytest.mark.spark, pytest.mark.zookeeper]


PATIENCE_S = 1800
"""Without archived classes and beside other work, a journey takes minutes."""


@dataclass(frozen=True)
class Elsewhere:
    """A cluster of a version of Spark, and what a driver of this version did on it."""

    version: str
    cluster: Standalone
    steps: journey.Steps


@pytest.fixture(scope="module", params=VERSIONS)
def elsewhere(
    request: pytest.FixtureRequest,
    zookeeper: EmbeddedZooKeeper,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Elsewhere]:
    """Yield a cluster, after a driver of its version has done all that it can."""
    version = str(request.param)
    with standalone(tmp_path_factory.mktemp("cluster"), version) as cluster:
        folder = tmp_path_factory.mktemp("journey")
        python = str(python_with(version))
        steps = journey.journeyed(cluster, zookeeper, folder, python, PATIENCE_S)
        yield Elsewhere(version, cluster, steps)


@pytest.mark.parametrize(
    "check",
    [
        journey.test_ingest_all_compactions_and_deletes,
        journey.test_changes,
        journey.test_rollup_tables,
        journey.test_a_stream,
        journey.test_the_data_source,
        journey.test_a_log_store,
        journey.test_primary_keys,
        journey.test_an_index,
        journey.test_a_scan_in_tasks,
    ],
    ids=lambda check: check.__name__.removeprefix("test_"),
)
def test_work(elsewhere: Elsewhere, check: Callable[[journey.Steps], None]) -> None:
    """Each step gives on this version what it gives on the one of ``tests/cluster``."""
    check(elsewhere.steps)


@pytest.fixture
def desk(tmp_path: Path, elsewhere: Elsewhere, zookeeper: EmbeddedZooKeeper) -> Desk:
    """Give an empty table of days, which two small segments are enough to compact."""
    made = Table.create(
        str(tmp_path / "trips"),
        schema=SCHEMA,
        time_column="at",
        properties={"compaction.min_segments": "2"},
        zookeeper=zookeeper.address,
    )
    made.ports.coordinator.close()
    return Desk(tmp_path, elsewhere.cluster, zookeeper.address)


@pytest.mark.filterwarnings(
    # SparkSubmitHook leaves the pipe of its spark-submit to the garbage collector.
    "ignore::pytest.PytestUnraisableExceptionWarning"
)
def test_airflow_submits_by_the_cluster_s_spark_submit(
    desk: Desk, elsewhere: Elsewhere, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With PySpark 4.3 beside Airflow, SPARK_HOME and PATH decide which Spark the driver has."""
    table = desk.table
    for start in (0, 60):
        table.append(numbered(start, 60))
    plans = [known.plan.id for known in request(table.ports, "minor")]
    table.ports.coordinator.close()
    home = home_of(elsewhere.version)
    host, _, port = desk.cluster.master.rpartition(":")
    spark = {"conn_type": "spark", "host": host, "port": int(port)}
    place = {"conn_type": "segtable", "host": str(desk.folder)}
    environment = {
        **desk.environment(SPARK_HOME=str(home)),
        "PATH": f"{home / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "AIRFLOW_CONN_CLUSTER": json.dumps(spark),
        "AIRFLOW_CONN_SEGTABLE_DEFAULT": json.dumps(
            {**place, "extra": {"zookeeper": desk.zookeeper}}
        ),
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    operator = SegtableCompactOperator(
        task_id="compact",
        table="trips",
        plans=plans,
        engine="spark",
        launcher=SparkSubmit("cluster"),
    )
    told = operator.execute({})
    assert told["completed"] == len(plans) == 2
    assert desk.rows() == list(range(120))


def test_a_driver_of_another_version_is_told_in_one_line(desk: Desk) -> None:
    """A driver of 4.3 is refused by the master or in a task; nothing is in the table."""
    told = desk.run(["ingest", "trips", desk.file(0), "--engine", "spark"])
    assert told.returncode == 1
    (line,) = [line for line in told.stderr.splitlines() if line.startswith("error:")]
    ways_out = ("give the driver the cluster's version", "has this version of Spark (4.3.")
    assert any(way_out in line for way_out in ways_out), line
    assert desk.rows() == []


@pytest.mark.parametrize("way", ["python", "spark-submit"])
def test_spark_3_is_refused_at_the_start(way: str, tmp_path: Path) -> None:
    """An application says it in one line and ends with 3, before anything is asked."""
    needs(TOO_OLD)
    asked = [str(spark_app_path("compact")), "--table", str(tmp_path), "--zookeeper", "zk://x:1"]
    submit = home_of(TOO_OLD) / "bin" / "spark-submit"
    start = [str(python_with(TOO_OLD))] if way == "python" else [str(submit)]
    done = subprocess.run(
        [*start, *asked, "--all-pending"],
        env={
            **os.environ,
            "PYTHONPATH": importable(),
            "PYSPARK_PYTHON": sys.executable,
            "SPARK_HOME": str(home_of(TOO_OLD)),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    said = done.stdout + done.stderr  # spark-submit joins what its Python says
    assert done.returncode == 3, said
    (line,) = [line for line in said.splitlines() if line.startswith("segtable:")]
    assert f"PySpark {TOO_OLD} is too old: segtable needs Spark 4" in line
