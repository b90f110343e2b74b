"""A canary among the credentials, looked for wherever others can read, for each launcher."""

import asyncio
import json
import logging
import os
import re
import stat
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import AirflowFailException, TaskDeferred
from airflow.sdk.execution_time.task_runner import _serialize_rendered_fields

from airflow_provider_segtable.core.errors import ExecutionFailed, InvalidInput
from airflow_provider_segtable.core.requests.change_request import arguments_of
from airflow_provider_segtable.hooks.segtable import Place, SegtableHook
from airflow_provider_segtable.hooks.submission import (
    Launcher,
    LocalSparkSubmit,
    SparkSubmit,
    Submission,
)
from airflow_provider_segtable.operators.change import (
    SegtableDeleteOperator,
    SegtableMergeOperator,
)
from airflow_provider_segtable.operators.checkpoint import SegtableCheckpointOperator
from airflow_provider_segtable.operators.clean import SegtableCleanOperator
from airflow_provider_segtable.operators.compact import SegtableCompactOperator
from airflow_provider_segtable.operators.index import SegtableIndexOperator
from airflow_provider_segtable.operators.plan import SegtablePlanOperator
from airflow_provider_segtable.operators.publish import SegtablePublishOperator
from airflow_provider_segtable.operators.schedule_index import SegtableScheduleIndexOperator
from airflow_provider_segtable.operators.settle import SegtableSettleOperator
from airflow_provider_segtable.sensors.index_available import SegtableIndexAvailableSensor
from airflow_provider_segtable.sensors.log_store_lag import LogStoreLagSensor
from airflow_provider_segtable.sensors.published import SegtablePublishedSensor
from airflow_provider_segtable.sensors.small_segments import SegtableSmallSegmentsSensor
from airflow_provider_segtable.services.planner import plan_table
from airflow_provider_segtable.table.remote_results import leave
from airflow_provider_segtable.triggers.watch import TableTrigger

from .conftest import CONNECTION, Flights, InThisProcess

CANARY = "canary-7f3a91c2"
RUN = {"ti": SimpleNamespace(dag_id="d", run_id="r", task_id="t", map_index=-1, try_number=1)}
OPTIONS = {"aws_secret_access_key": CANARY, "region": "eu"}
SUBMISSION = Submission(
    application=Path("/apps/change.py"),
    arguments=("delete", "--where=n = 1", "--table=/t"),
    name="segtable-change",
    conf={"spark.hadoop.fs.s3a.secret.key": CANARY, "spark.executor.memory": "1g"},
    storage_options=OPTIONS,
    reader_options={"password": CANARY},
)
STAND_IN = """#!/bin/sh
printf '%s\\n' "$@" > {record}.argv
env > {record}.env
while [ $# -gt 0 ]; do
  if [ "$1" = --properties-file ]; then cp -p "$2" {record}.properties; fi
  shift
done
echo "driver has $SEGTABLE_STORAGE_OPTIONS and aws_secret_access_key={canary}"
exit {code}
"""


@dataclass
class Spark:
    """What a stand-in for ``spark-submit`` was started with."""

    submit: Path
    record: Path

    def ends(self, code: int) -> None:
        """Let it end with this exit code."""
        self.submit.write_text(STAND_IN.format(record=self.record, canary=CANARY, code=code))

    def read(self, what: str) -> str:
        """Return its arguments, environment or properties."""
        file = self.record.with_suffix(f".{what}")
        return file.read_text() if file.exists() else ""


@pytest.fixture
def spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Spark:
    """Give a Spark whose ``spark-submit`` only writes down how it was started."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf" / "spark-defaults.conf").write_text("spark.yarn.jars local:/jars/*")
    made = Spark(tmp_path / "bin" / "spark-submit", tmp_path / "record")
    made.submit.touch(0o755)
    made.ends(0)
    monkeypatch.setenv("SPARK_HOME", str(tmp_path))
    monkeypatch.setenv("PATH", f"{made.submit.parent}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.delenv("SPARK_CONF_DIR", raising=False)
    for name, host in (("HERE", "local[1]"), ("YARN", "yarn")):
        spark = json.dumps({"conn_type": "spark", "host": host})
        monkeypatch.setenv(f"AIRFLOW_CONN_{name}", spark)
    return made


@pytest.fixture(params=["local", "client", "cluster"])
def launcher(request: pytest.FixtureRequest) -> Iterator[Launcher]:
    """Give each launcher that ships; close what the Spark hook leaves open."""
    if request.param == "local":
        yield LocalSparkSubmit("local[1]")
        return
    where = {"client": "here", "cluster": "yarn"}[request.param]
    made = SparkSubmit(where, deploy_mode=request.param, options={"env_vars": {"TOKEN": CANARY}})
    yield made
    made._hook._submit_sp.stdout.close()


@pytest.mark.parametrize("code", [0, 3])
def test_no_launcher_shows_a_credential(
    spark: Spark,
    launcher: Launcher,
    capfd: pytest.CaptureFixture[str],
    caplog: pytest.LogCaptureFixture,
    *,
    code: int,
) -> None:
    """Arguments, log and error have none, whether it ends well or not; all arrive."""
    caplog.set_level(logging.DEBUG)
    spark.ends(code)
    said: list[str] = []
    try:
        launcher.launch(SUBMISSION, said.append)
    except ExecutionFailed as error:
        said += [str(error), repr(error.__cause__)]
        assert code == 3
    assert "--name" in spark.read("argv")
    assert CANARY not in spark.read("argv")
    seen = (*said, *capfd.readouterr()) if isinstance(launcher, LocalSparkSubmit) else said
    assert CANARY not in "".join(seen)
    arrived = spark.read("env") if launcher.attached else spark.read("properties")
    assert f'SEGTABLE_STORAGE_OPTIONS{"=" if launcher.attached else " "}{{"aws_' in arrived
    assert f'{{"password": "{CANARY}"}}' in arrived
    assert f"spark.hadoop.fs.s3a.secret.key {CANARY}" in spark.read("properties")
    assert "spark.executor.memory" not in spark.read("properties")
    assert "spark.executor.memory=1g" in spark.read("argv")


def test_the_file_of_credentials_is_private_keeps_the_defaults_and_goes(spark: Spark) -> None:
    """Mode 0600, ``spark-defaults.conf`` first as Spark would read it, and nothing is left."""
    LocalSparkSubmit().launch(SUBMISSION, lambda _: None)
    copy = spark.record.with_suffix(".properties")
    assert stat.S_IMODE(copy.stat().st_mode) == 0o600
    assert copy.read_text().splitlines()[0] == "spark.yarn.jars local:/jars/*"
    (named,) = re.findall(r"--properties-file\n(.+)", spark.read("argv"))
    assert not Path(named).exists()
    LocalSparkSubmit().launch(replace(SUBMISSION, conf={}), lambda _: None)
    assert "--properties-file" not in spark.read("argv")


@pytest.mark.parametrize(
    ("conf", "wanted"),
    [
        ({}, "spark.kubernetes.driverEnv.SEGTABLE_STORAGE_OPTIONS"),
        (
            {"spark.kubernetes.driver.secretKeyRef.SEGTABLE_STORAGE_OPTIONS": "lake:options"},
            "spark.kubernetes.driver.secretKeyRef.SEGTABLE_STORAGE_OPTIONS",
        ),
    ],
)
def test_kubernetes_may_hold_the_credentials_itself(
    monkeypatch: pytest.MonkeyPatch, conf: dict[str, str], wanted: str
) -> None:
    """A driver's environment is a setting of Spark, unless a Secret of the cluster has it."""
    spark = {"conn_type": "spark", "host": "k8s://https://127.0.0.1:1"}
    monkeypatch.setenv("AIRFLOW_CONN_K8S", json.dumps(spark))
    submission = replace(SUBMISSION, conf=conf, reader_options={})
    hidden = SparkSubmit("k8s", deploy_mode="cluster")._hidden(submission)
    assert list(hidden) == [wanted]


def test_no_text_of_a_connection_or_submission_shows_a_credential(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """``repr`` of what carries credentials has their names alone; Airflow masks them in logs."""
    from airflow.sdk.log import redact

    extra = {"storage_options": json.dumps({"account_key": CANARY})}
    connection = {"conn_type": "segtable", "host": "/t", "extra": extra}
    monkeypatch.setenv(CONNECTION, json.dumps(connection))
    place = SegtableHook().place
    with place.table_ports("flights") as ports:
        assert CANARY not in f"{place!r} {SUBMISSION!r} {ports!r}"
    assert "account_key" in repr(place)
    assert redact(f"somebody logs {CANARY}") == "somebody logs ***"


@pytest.mark.parametrize(
    "fields",
    [
        {"root": f"s3://me:{CANARY}@lake"},
        {"root": f"s3://lake?token={CANARY}"},
        {"root": "/t", "zookeeper": f"zk://me:{CANARY}@127.0.0.1:2181"},
    ],
)
def test_credentials_in_other_fields_of_a_connection_are_refused(fields: dict[str, str]) -> None:
    """Root and ZooKeeper's address are shown everywhere; the refusal does not repeat them."""
    with pytest.raises(InvalidInput, match="storage_options") as refused:
        Place(conn_id="c", **fields)
    assert CANARY not in str(refused.value)


def test_rendered_fields_show_no_credential() -> None:
    """Airflow stores what templates made: credentials in it are masked by then."""
    conf = {"spark.hadoop.fs.azure.account.key.x": CANARY, "spark.executor.memory": "1g"}
    task = SegtableMergeOperator(
        task_id="t",
        table="{{ table }}",
        source="s.csv",
        on="n",
        spark_conf=conf,
        options={"sas": f"{CANARY}2"},
    )
    task.render_template_fields({"table": "flights"})
    stored = json.dumps(_serialize_rendered_fields(task))
    assert "flights" in stored
    assert "1g" in stored
    assert CANARY not in stored
    assert CANARY not in " ".join(arguments_of(task.request(None)))
    assert task.secret_options() == {"sas": f"{CANARY}2"}


@pytest.mark.parametrize(
    ("kind", "more"),
    [
        (SegtableMergeOperator, {"source": "s.csv", "on": "n"}),
        (SegtableCompactOperator, {}),
        (SegtableCleanOperator, {}),
        (SegtablePlanOperator, {"trigger_dag_ids": {}}),
        (SegtableSmallSegmentsSensor, {}),
        (SegtableIndexAvailableSensor, {"index": "files"}),
        (SegtableIndexOperator, {}),
        (SegtableCheckpointOperator, {}),
        (LogStoreLagSensor, {}),
        (SegtablePublishOperator, {}),
        (SegtableSettleOperator, {}),
        (SegtablePublishedSensor, {}),
        (SegtableScheduleIndexOperator, {"index": "files"}),
    ],
)
def test_a_refused_table_is_not_stored_with_its_credentials(kind: Any, more: Any) -> None:
    """Airflow stores rendered fields before the task can refuse them."""
    secret = f"canary-{kind.__name__}"
    task = kind(task_id="t", table="s3://me:{{ password }}@lake/t", **more)
    task.render_template_fields({"password": secret})
    assert task.table == f"s3://me:{secret}@lake/t"
    assert secret not in json.dumps(_serialize_rendered_fields(task))


@pytest.fixture
def kept(flights: Flights, monkeypatch: pytest.MonkeyPatch) -> Flights:
    """Give a table whose connection has credentials."""
    connection = json.loads(flights.connection)
    connection["extra"]["storage_options"] = OPTIONS
    monkeypatch.setenv(CONNECTION, json.dumps(connection))
    return flights


def test_neither_triggers_nor_xcoms_nor_files_of_the_table_hold_credentials(
    kept: Flights, caplog: pytest.LogCaptureFixture
) -> None:
    """A compaction below the task, and a deferred one whose driver failed, leave no trace of it."""
    caplog.set_level(logging.DEBUG)
    plan_table(kept.table.ports)
    told = SegtableCompactOperator(
        task_id="t", table="flights", engine="spark", launcher=InThisProcess(), wait_s=0
    ).execute(RUN)
    far = SegtableDeleteOperator(
        task_id="t",
        table="flights",
        where="row < 6",
        engine="spark",
        deferrable=True,
        launcher=Far(kept),
    )
    with pytest.raises(TaskDeferred) as deferred:
        far.execute(RUN)
    _, stored = deferred.value.trigger.serialize()
    assert "segtable_default" in json.dumps(stored)

    async def first() -> Any:
        return (await asyncio.wait_for(anext(aiter(TableTrigger(**stored).run())), 60)).payload

    event = asyncio.run(first())
    with pytest.raises(AirflowFailException) as failed:
        far.execute_complete(RUN, event, **deferred.value.kwargs)
    shown = [json.dumps([told, stored, deferred.value.kwargs]), str(failed.value), caplog.text]
    assert CANARY not in "".join(shown)
    files = [path for path in kept.root.rglob("*") if path.is_file()]
    assert files
    assert not [path for path in files if CANARY.encode() in path.read_bytes()]


@dataclass
class Far:
    """A driver elsewhere that fails as asked; its library quotes a signed URL."""

    table: Flights
    attached: bool = False

    def launch(self, submission: Submission, say: Any) -> None:
        """Leave a failure as the application does."""
        from airflow_provider_segtable.core.errors import StorageError
        from airflow_provider_segtable.spark.driver.application import _refused

        name = submission.arguments[submission.arguments.index("--leave-result") + 1]
        error = StorageError(f"https://a/x?sig={CANARY} is refused, password={CANARY}")
        ports = self.table.table.ports
        leave(ports.storage, name, _refused(error, 2).facts | {"code": 2}, now=ports.clock.now())
        say("accepted")

    def kill(self) -> None:
        """Do nothing."""
