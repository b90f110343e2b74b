"""The planner as a task."""

from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest
from airflow.providers.common.compat.sdk import AirflowFailException
from airflow.sdk.execution_time.context import OutletEventAccessors

from airflow_provider_segtable.core.indexes.index_state import folder
from airflow_provider_segtable.dag_factory import compaction_dags
from airflow_provider_segtable.operators.change import SegtableDeleteOperator
from airflow_provider_segtable.operators.clean import SegtableCleanOperator
from airflow_provider_segtable.operators.compact import SegtableCompactOperator
from airflow_provider_segtable.operators.index import SegtableIndexOperator
from airflow_provider_segtable.operators.plan import SegtablePlanOperator
from airflow_provider_segtable.operators.schedule_index import SegtableScheduleIndexOperator
from airflow_provider_segtable.sensors.index_catch_up import SegtableIndexCatchupSensor
from airflow_provider_segtable.sensors.small_segments import SegtableSmallSegmentsSensor
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compaction import compact
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.table.indexes import index_entries

from .conftest import SCHEMA, Flights

Operator = Callable[..., Any]
OPERATORS = [
    partial(SegtablePlanOperator, task_id="t", trigger_dag_ids={"minor": "minor_dag"}),
    partial(SegtableCompactOperator, task_id="t"),
    partial(SegtableCleanOperator, task_id="t"),
    partial(SegtableDeleteOperator, task_id="t", where="row < 6", commit_id="c"),
    partial(SegtableSmallSegmentsSensor, task_id="t"),
    partial(SegtableSmallSegmentsSensor, task_id="t", deferrable=True),
    partial(SegtableIndexCatchupSensor, task_id="t", index="files"),
    partial(SegtableScheduleIndexOperator, task_id="t", index="files"),
    partial(SegtableIndexOperator, task_id="t"),
]


def planner(**overrides: object) -> SegtablePlanOperator:
    arguments = {"table": "flights", "trigger_dag_ids": {"minor": "minor_dag"}, **overrides}
    return SegtablePlanOperator(task_id="plan", **arguments)


def test_small_segments_become_a_run_to_emit(flights: Flights) -> None:
    """The plan is in the log, and its run names it and the table."""
    (run,) = planner().execute({})
    (known,) = flights.table.state().pending_plans()
    assert run["trigger_dag_id"] == "minor_dag"
    assert run["conf"]["plans"] == [known.plan.id]
    assert run["conf"]["table"] == "flights"
    assert run["note"].startswith("flights: 1 minor plan: 16 segments, ")
    assert run["note"].endswith(", 2013-01-01T00:00:00Z/2014-01-01T00:00:00Z")
    assert run["trigger_run_id"].startswith("minor__flights__")


def test_planning_again_emits_the_same_run(flights: Flights) -> None:
    """A planner that is run twice changes nothing and names the same run: Airflow skips it."""
    first = planner().execute({})
    version = flights.table.state().n
    assert planner().execute({}) == first
    assert flights.table.state().n == version


def test_the_table_of_an_index_is_planned_and_compacted_likewise(
    flights: Flights, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its run names it by its place, and the task of the factory's DAG finds it there."""
    monkeypatch.setattr(index_entries, "MOST_INLINE", 0)  # a file for each of the appends
    flights.table.create_index("files", kind="files")
    flights.append(8)
    dags = {"minor": "minor_dag", "semi-major": "semi_major_dag"}
    runs = {run["conf"]["table"]: run for run in planner(trigger_dag_ids=dags).execute({})}
    own = f"flights/{folder(flights.table.index('files').definition.id)}"
    assert runs.keys() == {"flights", own}
    conf = runs[own]["conf"]
    made = compaction_dags(table="flights", schedule=None, engine="local")
    task = made.of_kind["semi-major"].get_task("compact")
    task.render_template_fields({"dag_run": SimpleNamespace(conf=conf)})
    outlets = OutletEventAccessors()
    assert task.execute({"outlet_events": outlets})["completed"] == 1
    assert not outlets[task.alias].asset_alias_events  # no DAG waits for the table of an index
    assert planner(trigger_dag_ids=dags).execute({}) == [runs["flights"]]


@pytest.mark.usefixtures("flights")
def test_a_policy_override_counts_over_the_tables_own() -> None:
    """More wanted neighbours than there are: nothing to do, and the log says why."""
    assert planner(policy={"min_segments": 99}).execute({}) == []


@pytest.mark.usefixtures("flights")
def test_an_unknown_policy_name_is_refused() -> None:
    """A typo would silently mean a default."""
    with pytest.raises(AirflowFailException, match=r"compaction\.min_segment'.*known are"):
        planner(policy={"min_segment": 2}).execute({})


@pytest.mark.usefixtures("flights")
def test_reasons_are_logged_for_chosen_and_skipped(capsys: pytest.CaptureFixture[str]) -> None:
    """People who look at the task see why each segment was taken or left."""
    planner(policy={"min_segments": 99}).execute({})
    planner().execute({})
    logged = capsys.readouterr().out
    assert "[0-15]: only 16 adjacent small segments of 99" in logged
    assert "16 small segments of" in logged


@pytest.mark.usefixtures("flights")
@pytest.mark.parametrize("operator", OPERATORS, ids=lambda made: made(table="t").operator_name)
def test_a_missing_table_or_connection_fails_the_task_at_once(operator: Operator) -> None:
    """No retry follows; the error names the place or the connection, and the way out."""
    with pytest.raises(AirflowFailException, match=r"nowhere.*segtable table create"):
        operator(table="nowhere").execute({})
    with pytest.raises(AirflowFailException, match=r"'lake'.*AIRFLOW_CONN_LAKE='\{"):
        operator(table="flights", segtable_conn_id="lake").execute({})


def test_neighbouring_chunks_that_are_skipped_alike_share_a_line(
    flights: Flights, capsys: pytest.CaptureFixture[str]
) -> None:
    """The log joins them as the command line does."""
    more = datetime(2014, 5, 1, tzinfo=UTC)
    flights.table.append(pa.table([[more], [0]], schema=SCHEMA))
    flights.table.append(pa.table([[more.replace(year=2015)], [0]], schema=SCHEMA))
    planner().execute({})
    logged = capsys.readouterr().out
    assert logged.count("skipped by minor") == 1
    assert "skipped by minor: 2014-01-01T00:00:00Z/2016-01-01T00:00:00Z [0]: alone" in logged


def test_larger_kinds_without_a_dag_are_not_planned(flights: Flights) -> None:
    """They would wait for ever; one that a person asked for is left to that person."""
    always = {"clustering": "row", "semi_major_unclustered": 0}
    assert [run["trigger_dag_id"] for run in planner(policy=always).execute({})] == ["minor_dag"]
    (known,) = flights.table.state().pending_plans()
    compact(flights.table.ports, [known.plan.id], in_process())
    asked = request(flights.table.ports, "major")
    assert planner(policy=always).execute({}) == []
    both = {"minor": "minor_dag", "major": "major_dag"}
    (run,) = planner(trigger_dag_ids=both).execute({})
    assert run["trigger_dag_id"] == "major_dag"
    assert run["conf"]["plans"] == [asked[0].plan.id]


@pytest.mark.parametrize("wrong", [{"trigger_dag_ids": {"major": "m"}}, {"plans_per_run": 0}])
def test_runs_that_could_not_be_made_fail_before_anything_is_planned(
    flights: Flights, wrong: dict[str, Any]
) -> None:
    """Minor compactions cannot be turned off, so they need a DAG; no retry would help."""
    version = flights.table.state().n
    with pytest.raises(AirflowFailException, match=r"'minor' plans.*add one|give at least 1"):
        planner(**wrong).execute({})
    assert flights.table.state().n == version


def test_every_kind_has_its_dag(flights: Flights) -> None:
    """What is to be sorted goes to the DAG of semi-major runs."""
    dags = {"minor": "a", "semi-major": "b", "major": "c"}
    (run,) = planner(trigger_dag_ids=dags, policy={"clustering": "row"}).execute({})
    assert run["trigger_dag_id"] == "b"
    (known,) = flights.table.state().pending_plans()
    assert known.plan.clustering == "row"
