"""Compactions on YARN, by the Airflow operator with a Spark connection, in both deploy modes."""

import json
import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper
from airflow_provider_segtable.hooks.submission import SparkSubmit, spark_home
from airflow_provider_segtable.operators.compact import SegtableCompactOperator
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.table.table import Table
from tests.cluster.conftest import SCHEMA, numbered
from tests.remote_spark.prepare import YARN_JARS
from tests.remote_spark.yarn import Yarn, driver_python
from tests.support.processes import importable

pytestmark = [pytest.mark.slow, pytest.mark.airflow, pytest.mark.spark, pytest.mark.zookeeper]


@pytest.fixture(scope="module")
def yarn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Yarn]:
    """Yield a running YARN."""
    if not any(YARN_JARS.glob("*.jar")):
        pytest.skip("there are no jars of YARN: make test-remote-spark")
    made = Yarn(tmp_path_factory.mktemp("yarn"))
    try:
        made.start()
        yield made
    finally:
        made.stop()


@pytest.mark.parametrize("mode", ["client", "cluster"])
@pytest.mark.filterwarnings(
    # SparkSubmitHook leaves the pipe of its spark-submit to the garbage collector.
    "ignore::pytest.PytestUnraisableExceptionWarning"
)
def test_a_compaction(
    mode: str,
    yarn: Yarn,
    zookeeper: EmbeddedZooKeeper,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    """Two plans are completed by a driver below the task, and by one in a container of YARN."""
    made = Table.create(
        str(tmp_path / "trips"),
        schema=SCHEMA,
        time_column="at",
        properties={"compaction.min_segments": "2"},
        zookeeper=zookeeper.address,
    )
    for start in (0, 60):
        made.append(numbered(start, 60))
    plans = [known.plan.id for known in request(made.ports, "minor")]
    made.ports.coordinator.close()
    environment = {
        "HADOOP_CONF_DIR": str(yarn.conf),
        "SPARK_HOME": str(spark_home()),
        "PATH": f"{spark_home() / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "PYSPARK_PYTHON": sys.executable,
        "PYTHONPATH": importable(),
        "AIRFLOW_CONN_YARN": json.dumps({"conn_type": "spark", "host": "yarn"}),
        "AIRFLOW_CONN_SEGTABLE_DEFAULT": json.dumps(
            {
                "conn_type": "segtable",
                "host": str(tmp_path),
                "extra": {"zookeeper": zookeeper.address},
            }
        ),
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    if mode == "cluster":  # else Spark would put this checkout before the archive that it ships
        monkeypatch.delenv("PYTHONPATH")
    operator = SegtableCompactOperator(
        task_id="compact",
        table="trips",
        plans=plans,
        engine="spark",
        spark_conf={**yarn.settings, **driver_python()},
        launcher=SparkSubmit("yarn", deploy_mode=mode),
    )
    told = operator.execute({})
    assert told["completed"] == len(plans) == 2
    rows = Table.open(str(tmp_path / "trips")).snapshot().to_arrow(columns=["row"])["row"]
    assert sorted(rows.to_pylist()) == list(range(120))
