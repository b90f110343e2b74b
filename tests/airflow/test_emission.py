"""Run ids and batches."""

import re
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.operators.emission import (
    LONGEST_RUN_ID,
    Located,
    check_emission,
    emissions,
    legal_run_id,
)
from airflow_provider_segtable.services.planner import Launch

AIRFLOW_TAKES = re.compile(r"^[A-Za-z0-9_.~:+-]+$")


def launch(n: int, attempts: int = 0, author: str = "host:1") -> Launch:
    return Launch(
        plan_id=f"minor-{n}",
        kind="minor",
        reason=f"reason {n}",
        segments=12,
        size=1000,
        attempts=attempts,
        event=n,
        author=author,
    )


def made(
    launches: list[Launch], table: str = "flights", plans_per_run: int = 9
) -> list[dict[str, Any]]:
    """Return the arguments of the runs of one table."""
    located = [Located(table=table, launch=each) for each in launches]
    ids = {each.kind: each.kind for each in launches}
    runs = emissions(located, trigger_dag_ids=ids, plans_per_run=plans_per_run)
    return [run.arguments(0, {"planned_by": "p"}) for run in runs]


def plans(runs: list[dict[str, Any]]) -> list[list[str]]:
    return [run["conf"]["plans"] for run in runs]


def test_plans_share_runs_and_each_is_emitted_once() -> None:
    """Five plans at two a run make three runs, in the planner's order, with conf and reasons."""
    runs = made([launch(n) for n in range(5)], plans_per_run=2)
    assert plans(runs) == [["minor-0", "minor-1"], ["minor-2", "minor-3"], ["minor-4"]]
    assert runs[0]["trigger_dag_id"] == "minor"
    assert runs[0]["conf"]["reasons"] == {"minor-0": "reason 0", "minor-1": "reason 1"}
    assert runs[0]["conf"]["table"] == "flights"
    assert len({run["trigger_run_id"] for run in runs}) == 3


def test_waiting_plans_stay_in_their_runs_whatever_comes_or_goes() -> None:
    """New plans, and the beginning of some, leave the runs of the others with their ids."""
    first = made([launch(n) for n in range(4)], plans_per_run=2)
    later = made([launch(n) for n in (2, 3)] + [launch(4, author="host:2")], plans_per_run=2)
    assert later[0] == first[1]
    assert plans(later)[1] == ["minor-4"]
    (left,) = made([launch(3)], plans_per_run=2)
    assert left["trigger_run_id"] == first[1]["trigger_run_id"]


def test_a_plan_that_was_tried_has_another_run() -> None:
    """So a worker's death is followed by a new run, at once; of each table its own."""
    ids = {
        run["trigger_run_id"]
        for attempts in (0, 1)
        for table in ("a/flights", "b/flights")
        for run in made([launch(1, attempts)], table)
    }
    assert len(ids) == 4


@given(st.text(max_size=400))
def test_every_run_id_is_one_that_airflow_takes(table: str) -> None:
    """Whatever a table is called, its run ids are legal, and differ if the names do."""
    located = [Located(table=table, launch=launch(1))]
    (run,) = emissions(located, trigger_dag_ids={"minor": "dag"}, plans_per_run=1)
    for run_id in (run.named(0), run.named(12)):
        assert AIRFLOW_TAKES.match(run_id)
        assert len(run_id) <= LONGEST_RUN_ID
    assert legal_run_id(f"{table}a") != legal_run_id(f"{table}b")


def test_smaller_kinds_are_emitted_first() -> None:
    """Each kind has runs and a DAG of its own; minor ones head the list, whatever the ranking."""
    kinds = ["major", "minor", "semi-major", "minor"]
    launches = [replace(launch(n), kind=kind) for n, kind in enumerate(kinds)]
    runs = made(launches)
    assert [run["trigger_dag_id"] for run in runs] == ["minor", "semi-major", "major"]
    assert runs[0]["conf"]["plans"] == ["minor-1", "minor-3"]


def test_nothing_to_do_emits_nothing() -> None:
    """No launches make no runs, so the mapped task is skipped."""
    assert emissions([], trigger_dag_ids={}, plans_per_run=1) == []


def test_a_kind_without_a_dag_is_refused_by_name() -> None:
    """A forgotten DAG is said, not skipped: its plans would wait for ever."""
    with pytest.raises(InvalidInput, match=r"'minor'.*major"):
        check_emission(["minor"], {"major": "x"}, 1)


def test_an_impossible_batch_size_is_refused() -> None:
    """A run without plans is none."""
    with pytest.raises(InvalidInput, match="plans_per_run = 0"):
        emissions([], trigger_dag_ids={}, plans_per_run=0)
