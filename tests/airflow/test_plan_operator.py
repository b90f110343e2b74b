"""The planner as a task."""

import pytest

from airflow_provider_segtable.core.errors import InvalidInput, NotATable
from airflow_provider_segtable.operators.plan import SegtablePlanOperator
from airflow_provider_segtable.services.compaction.compaction import compact
from airflow_provider_segtable.services.compaction.execution import in_process
from airflow_provider_segtable.services.compaction.request import request

from .conftest import Flights


def planner(**overrides: object) -> SegtablePlanOperator:
    arguments = {"table": "flights", "trigger_dag_ids": {"minor": "minor_dag"}, **overrides}
    return SegtablePlanOperator(task_id="plan", **arguments)


def test_small_segments_become_a_run_to_emit(flights: Flights) -> None:
    """The plan is in the log, and its run names it."""
    (run,) = planner().execute({})
    (known,) = flights.table.state().pending_plans()
    assert run["trigger_dag_id"] == "minor_dag"
    assert run["conf"]["plans"] == [known.plan.id]
    assert run["conf"]["table"] == "flights"
    assert known.plan.id in run["trigger_run_id"]


def test_planning_again_emits_the_same_run(flights: Flights) -> None:
    """A planner that is run twice changes nothing and names the same run: Airflow skips it."""
    first = planner().execute({})
    version = flights.table.state().n
    assert planner().execute({}) == first
    assert flights.table.state().n == version


@pytest.mark.usefixtures("flights")
def test_a_policy_override_counts_over_the_tables_own() -> None:
    """More wanted neighbours than there are: nothing to do, and the log says why."""
    assert planner(policy={"min_segments": 99}).execute({}) == []


@pytest.mark.usefixtures("flights")
def test_an_unknown_policy_name_is_refused() -> None:
    """A typo would silently mean a default."""
    with pytest.raises(InvalidInput, match=r"compaction\.min_segment'.*known are"):
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
def test_a_table_that_is_none_fails_the_task() -> None:
    """The error names the place and the way out."""
    with pytest.raises(NotATable, match=r"nowhere.*segtable table create"):
        planner(table="nowhere").execute({})


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


def test_every_kind_has_its_dag(flights: Flights) -> None:
    """What is to be sorted goes to the DAG of semi-major runs."""
    dags = {"minor": "a", "semi-major": "b", "major": "c"}
    (run,) = planner(trigger_dag_ids=dags, policy={"clustering": "row"}).execute({})
    assert run["trigger_dag_id"] == "b"
    (known,) = flights.table.state().pending_plans()
    assert known.plan.clustering == "row"
