"""Airflow with a Spark connection to the cluster: spark-submit in client mode."""

import json
import os
from pathlib import Path

import pytest

from airflow_provider_segtable.hooks.submission import SparkSubmit, spark_home
from airflow_provider_segtable.operators.compact import SegtableCompactOperator
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.spark.driver.session import package_archive
from tests.cluster.conftest import Desk, numbered

pytestmark = [
    pytest.mark.slow,
    pytest.mark.airflow,
    pytest.mark.spark,
    pytest.mark.zookeeper,
]


@pytest.mark.filterwarnings(
    # SparkSubmitHook leaves the pipe of its spark-submit to the garbage collector.
    "ignore::pytest.PytestUnraisableExceptionWarning"
)
def test_a_plan_is_carried_out_by_a_spark_connection(
    desk: Desk, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The operator's plans are completed on the cluster, submitted with the package's archive."""
    table = desk.table
    for start in (0, 60):
        table.append(numbered(start, 60))
    plans = [known.plan.id for known in request(table.ports, "minor")]
    table.ports.coordinator.close()
    host, _, port = desk.cluster.master.rpartition(":")
    spark = {"conn_type": "spark", "host": host, "port": int(port)}
    place = {"conn_type": "segtable", "host": str(desk.folder)}
    environment = {
        **desk.environment(SPARK_HOME=str(spark_home())),
        "PATH": f"{spark_home() / 'bin'}{os.pathsep}{os.environ['PATH']}",
        "AIRFLOW_CONN_CLUSTER": json.dumps(spark),
        "AIRFLOW_CONN_SEGTABLE_DEFAULT": json.dumps(
            {**place, "extra": {"zookeeper": desk.zookeeper}}
        ),
    }
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    archive = str(package_archive(tmp_path))
    operator = SegtableCompactOperator(
        task_id="compact",
        table="trips",
        plans=plans,
        engine="spark",
        launcher=SparkSubmit("cluster", options={"py_files": archive}),
    )
    told = operator.execute({})
    assert told["completed"] == len(plans) == 2
    assert desk.rows() == list(range(120))
