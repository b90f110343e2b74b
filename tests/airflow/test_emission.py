"""Run ids and batches."""

import re
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.operators.emission import (
    LONGEST_RUN_ID,
    batch_run_id,
    emissions,
    legal_run_id,
)
from airflow_provider_segtable.services.planner import Launch

AIRFLOW_TAKES = re.compile(r"^[A-Za-z0-9_.~:+-]+$")


def launch(n: int, turn: int = 0, table: str = "flights") -> Launch:
    return Launch(
        plan_id=f"minor-{n}",
        kind="minor",
        run_id=f"minor__{table}__minor-{n}__7.0.{turn}",
        reason=f"reason {n}",
        segments=12,
        size=1000,
    )


def test_plans_share_runs_and_each_is_emitted_once() -> None:
    """Five plans at two a run make three runs, in the planner's order, with conf and reasons."""
    runs = emissions(
        [launch(n) for n in range(5)],
        trigger_dag_ids={"minor": "dag"},
        plans_per_run=2,
        conf={"table": "flights"},
    )
    plans = [run["conf"]["plans"] for run in runs]
    assert plans == [["minor-0", "minor-1"], ["minor-2", "minor-3"], ["minor-4"]]
    assert runs[0]["trigger_dag_id"] == "dag"
    assert runs[0]["conf"]["reasons"] == {"minor-0": "reason 0", "minor-1": "reason 1"}
    assert runs[2]["trigger_run_id"] == "minor__flights__minor-4__7.0.0"
    assert len({run["trigger_run_id"] for run in runs}) == 3


def test_the_same_launches_name_the_same_run_and_others_another() -> None:
    """A batch's id depends on its launches, and on nothing else."""
    batch = [launch(1), launch(2)]
    assert batch_run_id(batch) == batch_run_id([launch(1), launch(2)])
    assert batch_run_id(batch) != batch_run_id([launch(1), launch(2, turn=1)])
    assert batch_run_id(batch) != batch_run_id([launch(1), launch(3)])


@given(st.text(max_size=400))
def test_every_run_id_is_one_that_airflow_takes(table: str) -> None:
    """Whatever a table is called, its run ids are legal, and differ if the names do."""
    for batch in ([launch(1, table=table)], [launch(1, table=table), launch(2, table=table)]):
        run_id = batch_run_id(batch)
        assert AIRFLOW_TAKES.match(run_id)
        assert len(run_id) <= LONGEST_RUN_ID
    assert legal_run_id(f"{table}a") != legal_run_id(f"{table}b")


def test_smaller_kinds_are_emitted_first() -> None:
    """Each kind has runs and a DAG of its own; minor ones head the list, whatever the ranking."""
    kinds = ["major", "minor", "semi-major", "minor"]
    launches = [replace(launch(n), kind=kind) for n, kind in enumerate(kinds)]
    runs = emissions(
        launches, trigger_dag_ids={kind: kind for kind in kinds}, plans_per_run=9, conf={}
    )
    assert [run["trigger_dag_id"] for run in runs] == ["minor", "semi-major", "major"]
    assert runs[0]["conf"]["plans"] == ["minor-1", "minor-3"]


def test_nothing_to_do_emits_nothing() -> None:
    """No launches make no runs, so the mapped task is skipped."""
    assert emissions([], trigger_dag_ids={}, plans_per_run=1, conf={}) == []


def test_a_kind_without_a_dag_is_refused_by_name() -> None:
    """A forgotten DAG is said, not skipped: its plans would wait for ever."""
    with pytest.raises(InvalidInput, match=r"'minor'.*major"):
        emissions([launch(1)], trigger_dag_ids={"major": "x"}, plans_per_run=1, conf={})


def test_an_impossible_batch_size_is_refused() -> None:
    """A run without plans is none."""
    with pytest.raises(InvalidInput, match="plans_per_run = 0"):
        emissions([], trigger_dag_ids={}, plans_per_run=0, conf={})
