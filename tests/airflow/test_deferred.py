"""Drivers on a cluster are waited for by the table, in the triggerer or here, with one result."""

import asyncio
import json
import os
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from airflow.providers.common.compat.sdk import (
    AirflowException,
    AirflowFailException,
    BaseOperator,
    TaskDeferred,
)

from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper
from airflow_provider_segtable.core.errors import ExecutionFailed
from airflow_provider_segtable.hooks.submission import Submission
from airflow_provider_segtable.operators.change import SegtableDeleteOperator
from airflow_provider_segtable.operators.compact import SegtableCompactOperator
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compaction import compact
from airflow_provider_segtable.services.planner import plan_table
from airflow_provider_segtable.table.remote_results import fetch, leave
from airflow_provider_segtable.triggers.watch import TableTrigger

from .conftest import CONNECTION, Flights, InThisProcess, make_flights

RUN = {
    "ti": SimpleNamespace(
        dag_id="forget", run_id="manual__1", task_id="delete", map_index=-1, try_number=1
    )
}
COMMIT = "forget/manual__1/delete"
LONG_S = 600.0
NOTHING = {"event": None, "matched": 0, "deleted": 0, "inserted": 0, "seconds": 0.5}


@dataclass
class Cluster:
    """A launcher that only takes applications on; what their drivers do, the test does."""

    attached: bool = False
    fault: str | None = None
    when_submitted: Callable[[Submission], None] = lambda _: None
    submissions: list[Submission] = field(default_factory=list)

    def launch(self, submission: Submission, say: Callable[[str], None]) -> None:
        """Take it on."""
        self.submissions.append(submission)
        say("accepted")
        self.when_submitted(submission)
        if self.fault:
            raise ExecutionFailed(self.fault)

    def kill(self) -> None:
        """Do nothing: nobody is asked."""


def deleter(**overrides: Any) -> SegtableDeleteOperator:
    arguments = {"table": "flights", "where": "row < 60", "launcher": Cluster(), "deferrable": True}
    arguments["engine"] = "spark"
    return SegtableDeleteOperator(
        task_id="delete", **{**arguments, "poll_interval": LONG_S, **overrides}
    )


def compactor(**overrides: Any) -> SegtableCompactOperator:
    arguments = {"table": "flights", "launcher": Cluster(), "deferrable": True, "wait_s": 0.0}
    arguments["engine"] = "spark"
    return SegtableCompactOperator(task_id="compact", **{**arguments, **overrides})


def deferred(operator: BaseOperator) -> TaskDeferred:
    with pytest.raises(TaskDeferred) as raised:
        operator.execute(RUN)
    return raised.value


def event_of(waits: TaskDeferred) -> dict[str, Any]:
    """Return the event of a trigger as the triggerer has it: made anew from plain values."""
    _, arguments = waits.trigger.serialize()
    trigger = TableTrigger(**json.loads(json.dumps(arguments)))

    async def first() -> Any:
        return (await asyncio.wait_for(anext(aiter(trigger.run())), 60)).payload

    return json.loads(json.dumps(asyncio.run(first())))


def resumed(operator: Any, waits: TaskDeferred) -> Any:
    """Go on as another process does, after the trigger's event."""
    operator.launcher = None
    return operator.execute_complete(RUN, event_of(waits), **waits.kwargs)


def leave_for(flights: Flights, submission: Submission, facts: dict[str, Any]) -> None:
    """Leave a result as a driver does."""
    name = submission.arguments[submission.arguments.index("--leave-result") + 1]
    ports = flights.table.ports
    leave(ports.storage, name, facts, now=ports.clock.now())


def test_a_change_is_waited_for_by_the_log(flights: Flights) -> None:
    """The trigger is woken by the commit; the task's result is the attached one's."""
    operator = deleter()
    waits = deferred(operator)
    (submission,) = operator.launcher.submissions
    assert not submission.wait
    assert f"--commit-id={COMMIT}" in submission.arguments
    assert not {"--result-file", "--die-with-parent"} & {*submission.arguments}
    driver = threading.Thread(
        target=lambda: flights.table.delete(where="row < 60", commit_id=COMMIT)
    )
    driver.start()
    told = resumed(operator, waits)
    driver.join()
    assert told == {
        "kind": "delete",
        "event": flights.table.state().n,
        "matched": 60,
        "deleted": 60,
        "inserted": 0,
        "seconds": None,
        "dry_run": False,
        "changed_before": False,
    }


def test_a_retry_asks_the_log_before_anything_is_submitted(flights: Flights) -> None:
    """The driver of a killed task went on and committed; nothing is started again."""
    flights.table.delete(where="row < 60", commit_id=COMMIT)
    operator = deleter()
    assert operator.execute(RUN)["changed_before"] is True
    assert operator.launcher.submissions == []


@pytest.mark.parametrize("deferrable", [True, False])
def test_that_nothing_matched_is_told_beside_the_log(flights: Flights, *, deferrable: bool) -> None:
    """Both ways of waiting find it, take it away, and no event is written."""
    version = flights.table.state().n
    operator = deleter(deferrable=deferrable)
    facts = {"code": 0, "kind": "delete", **NOTHING}
    operator.launcher.when_submitted = lambda submission: leave_for(flights, submission, facts)
    cluster = operator.launcher
    told = resumed(operator, deferred(operator)) if deferrable else operator.execute(RUN)
    assert told == {"kind": "delete", **NOTHING, "dry_run": False, "changed_before": False}
    assert flights.table.state().n == version
    (submission,) = cluster.submissions
    assert fetch(flights.table.ports.storage, submission.arguments[-1]) is None


@pytest.mark.parametrize(
    ("facts", "kind", "said"),
    [
        ({"code": 2, "error": "there is no column 'rwo'"}, AirflowFailException, "as asked.*rwo"),
        ({"code": 1, "error": "ChangeConflict: event 7 won"}, AirflowException, "event 7 won"),
        ({"code": 143, "error": "stopped by a signal"}, AirflowException, "stopped by a signal"),
    ],
)
def test_a_driver_that_failed_says_why(
    flights: Flights, facts: dict[str, Any], kind: type[Exception], said: str
) -> None:
    """The task fails as an attached one does: at once for ever, or to be tried again."""
    operator = deleter()
    operator.launcher.when_submitted = lambda submission: leave_for(flights, submission, facts)
    with pytest.raises(AirflowException, match=said) as raised:
        resumed(operator, deferred(operator))
    assert type(raised.value) is kind


@pytest.mark.usefixtures("flights")
@pytest.mark.parametrize("deferrable", [True, False])
def test_a_driver_without_a_word_is_given_up_at_the_deadline(*, deferrable: bool) -> None:
    """The message says that it may land yet, and what to look at."""
    operator = deleter(wait_timeout=timedelta(0), deferrable=deferrable)
    with pytest.raises(AirflowException, match=r"not landed yet.*segtable-change-flights"):
        _ = resumed(operator, deferred(operator)) if deferrable else operator.execute(RUN)


def test_a_commit_after_the_last_look_counts(flights: Flights) -> None:
    """The log is asked once more before the task fails."""
    operator = deleter(wait_timeout=timedelta(0))
    waits = deferred(operator)
    event = event_of(waits)
    assert event["status"] == "timeout"
    flights.table.delete(where="row < 60", commit_id=COMMIT)
    assert operator.execute_complete(RUN, event, **waits.kwargs)["deleted"] == 60


@pytest.mark.usefixtures("flights")
def test_what_cannot_be_submitted_fails_at_once() -> None:
    """Nothing is waited for; the error is that of the submission."""
    with pytest.raises(AirflowException, match="no queue"):
        deleter(launcher=Cluster(fault="no queue")).execute(RUN)


@pytest.mark.usefixtures("flights")
@pytest.mark.parametrize("event", [None, {"status": "error", "message": "StorageError: gone"}])
def test_a_trigger_that_failed_fails_the_task(event: dict[str, Any] | None) -> None:
    """Its message, or that there was none, is told."""
    operator = deleter()
    waits = deferred(operator)
    with pytest.raises(AirflowException, match=r"StorageError: gone|without an event"):
        operator.execute_complete(RUN, event, **waits.kwargs)


def test_a_driver_below_the_task_is_not_deferred(
    flights: Flights, capsys: pytest.CaptureFixture[str]
) -> None:
    """Not even where Airflow defers by default; the log says why."""
    plan_table(flights.table.ports)
    assert compactor(launcher=InThisProcess()).execute({})["completed"] == 1
    assert "not deferred: the driver is a child process of this task" in capsys.readouterr().out


def test_plans_are_waited_for_until_none_is_pending(flights: Flights) -> None:
    """What they did is told by their events, as an attached application tells it."""
    (launch,) = plan_table(flights.table.ports).launches
    operator = compactor(plans=[launch.plan_id])
    waits = deferred(operator)
    (attached,) = compact(flights.table.ports, [launch.plan_id], in_process())
    told = resumed(operator, waits)
    assert told["plans"] == [{**vars_of(attached), "ended": "completed"}]
    assert (told["completed"], told["segments_in"], told["segments_out"]) == (1, 16, 1)


def test_a_deferred_task_that_a_person_ends_cancels_its_plans(flights: Flights) -> None:
    """By its trigger, under the name of the task: so another try takes them up again."""
    (launch,) = plan_table(flights.table.ports).launches
    waits = deferred(compactor(plans=[launch.plan_id]))
    _, arguments = waits.trigger.serialize()
    trigger = TableTrigger(**json.loads(json.dumps(arguments)))
    trigger.task_instance = RUN["ti"]
    asyncio.run(trigger.on_kill())
    (known,) = flights.table.state().plans.values()
    assert known.status.value == "aborted"
    task = "/".join(getattr(RUN["ti"], name) for name in ("dag_id", "run_id", "task_id"))
    assert known.note == f"cancelled: the task {task} was ended"
    deferred(compactor(plans=[launch.plan_id]))
    assert flights.table.state().plans[launch.plan_id].status.pending


@pytest.mark.parametrize(("ended", "fails"), [("yielded", False), ("failed", True)])
def test_plans_that_stay_pending_are_told_beside_the_log(
    flights: Flights, ended: str, *, fails: bool
) -> None:
    """Who gave way is no failure, who failed is, by name."""
    (launch,) = plan_table(flights.table.ports).launches
    result = {"plan_id": launch.plan_id, "ended": ended, "message": "so it was"}
    facts = {"code": int(fails), "plans": [result]}
    operator = compactor(plans=[launch.plan_id])
    operator.launcher.when_submitted = lambda submission: leave_for(flights, submission, facts)
    waits = deferred(operator)
    if fails:
        with pytest.raises(AirflowException, match=f"{launch.plan_id}: so it was"):
            resumed(operator, waits)
    else:
        assert resumed(operator, waits)["plans"][0]["ended"] == ended


def vars_of(result: Any) -> dict[str, Any]:
    return {name: getattr(result, name) for name in result.__dataclass_fields__}


DAG_FILE = """
from airflow.sdk import DAG

from airflow_provider_segtable.operators.change import SegtableDeleteOperator

with DAG("forget", schedule=None):
    SegtableDeleteOperator(
        task_id="delete",
        table="flights",
        where="row < length(repeat('x', 60))",
        engine="spark",
        spark_conn_id="yarn",
        deferrable=True,
        poll_interval=4,
    )
"""
STAND_IN = """#!/bin/sh
echo "$@" >> {folder}/submitted
while [ "${{1%.py}}" = "$1" ]; do shift; done
{python} "$@" --master 'local[1]' > {folder}/driver.log 2>&1 &
"""


@pytest.fixture
def forget(
    tmp_path: Path,
    airflow_db: None,  # noqa: ARG001  # its tables must be there
    zookeeper: EmbeddedZooKeeper,
    monkeypatch: pytest.MonkeyPatch,
) -> tuple[Any, Flights]:
    """Give a DAG that deletes, and its table; ``spark-submit`` starts the driver and comes back."""
    from airflow.dag_processing.dagbag import DagBag, sync_bag_to_db
    from airflow.models.dagbundle import DagBundleModel
    from airflow.utils.session import create_session

    flights = make_flights(tmp_path, zookeeper.address, 3)
    (tmp_path / "bin").mkdir()
    submit = tmp_path / "bin" / "spark-submit"
    submit.write_text(STAND_IN.format(folder=tmp_path, python=sys.executable))
    submit.chmod(0o755)
    monkeypatch.setenv("PATH", str(submit.parent), prepend=os.pathsep)
    monkeypatch.setenv(CONNECTION, flights.connection)
    yarn = {"conn_type": "spark", "host": "yarn", "extra": {"deploy-mode": "cluster"}}
    monkeypatch.setenv("AIRFLOW_CONN_YARN", json.dumps(yarn))
    (tmp_path / "dags").mkdir()
    (tmp_path / "dags" / "forget.py").write_text(DAG_FILE)
    with create_session() as session:
        session.merge(DagBundleModel(name="testing"))
    bag = DagBag(str(tmp_path / "dags"), bundle_name="testing")
    assert bag.import_errors == {}
    sync_bag_to_db(bag, "testing", None)
    return bag.dags["forget"], flights


@pytest.mark.airflow
@pytest.mark.zookeeper
@pytest.mark.spark
@pytest.mark.long
@pytest.mark.filterwarnings("ignore")  # Airflow's Spark hook leaves a pipe open
def test_airflow_defers_to_a_real_driver_and_goes_on(
    forget: tuple[Any, Flights], tmp_path: Path
) -> None:
    """Submitted, deferred, woken by the commit of another process, and the rows are told."""
    dag, flights = forget
    run = dag.test()
    (ti,) = run.get_task_instances()
    assert str(ti.state) == "success", (tmp_path / "driver.log").read_text()
    submitted = (tmp_path / "submitted").read_text()
    assert "--deploy-mode cluster" in submitted
    assert "spark.yarn.submit.waitAppCompletion=false" in submitted
    told = ti.xcom_pull(task_ids="delete", key="return_value", run_id=run.run_id)
    assert (told["matched"], told["deleted"], told["event"]) == (60, 60, flights.table.state().n)
    assert flights.rows() == list(range(60, 150))
