"""Runs that a planner triggers itself, and plans that wait for one."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from airflow_provider_segtable.core.time import MINUTE_US
from airflow_provider_segtable.operators.dag_runs import OfThisTask, Placed, placed_run
from airflow_provider_segtable.operators.emission import Emission, Located, emissions, times_due
from airflow_provider_segtable.services.planner import Launch

PLANNER = "host:1 segtable_planner__lake/run-1/plan"
WORKER = "host:2 segtable_minor__lake/run-2/compact"


@dataclass
class Runs:
    """Airflow's runs, by id; of one DAG."""

    states: dict[str, str] = field(default_factory=dict)
    is_paused: bool = False
    marked: str = ""

    def trigger(self, dag_id: str, run_id: str, *, conf: Mapping[str, Any], note: str) -> bool:
        """Make a run; False if there is one with this id."""
        assert dag_id == "minor_dag"
        assert conf["table"] == "events/orders"
        assert note.startswith("events/orders: 1 minor plan")
        if run_id in self.states:
            return False
        self.states[run_id] = "queued"
        return True

    def state(self, dag_id: str, run_id: str) -> str:
        """Return the state of a run."""
        del dag_id
        return self.states.get(run_id, "")

    def skipped(self, dag_id: str, run_id: str) -> bool:
        """Return whether a run was marked before it began."""
        del dag_id
        return run_id == self.marked

    def paused(self, dag_id: str) -> bool:
        """Return whether the DAG is paused."""
        del dag_id
        return self.is_paused


def emission(attempts: int = 0, author: str = PLANNER) -> Emission:
    """Return a run of one plan that last changed at 0."""
    launch = Launch(
        plan_id="minor-1",
        kind="minor",
        reason="",
        segments=2,
        size=9,
        attempts=attempts,
        event=7,
        author=author,
    )
    located = [Located(table="events/orders", launch=launch)]
    (made,) = emissions(located, trigger_dag_ids={"minor": "minor_dag"}, plans_per_run=16)
    return made


def placed(runs: Runs, minutes: float = 0, one: Emission | None = None) -> Placed:
    """Place a run so long after its plans changed."""
    return placed_run(one or emission(), runs, int(minutes * MINUTE_US), conf={"planned_by": "p"})


def test_a_run_that_waits_or_runs_keeps_its_plans() -> None:
    """However long; what waits is said with the run."""
    runs, base = Runs(), emission().run_id
    assert placed(runs).run_id == base
    for state in ("queued", "running"):
        runs.states[base] = state
        for minutes in (0, 10, 1000):
            found = placed(runs, minutes)
            assert found.run_id == ""
            assert f"minor-1 waits: its run {base} of minor_dag is {state}" in str(found)
    assert [*runs.states] == [base]


@pytest.mark.parametrize("ended", ["success", "failed"])
def test_a_run_that_ended_without_its_plans_is_repeated(ended: str) -> None:
    """Lost by its executor, or failed early: at once, then later, and in the end warned."""
    runs, base = Runs(), emission().run_id
    placed(runs)
    runs.states[base] = ended
    assert placed(runs, 1).run_id == f"{base}.1"
    runs.states[f"{base}.1"] = ended
    assert "triggered again later" in placed(runs, 4).why
    assert placed(runs, 5).run_id == f"{base}.2"
    assert placed(runs, 6).run_id == ""
    runs.states = dict.fromkeys([base, f"{base}.1", f"{base}.2"], ended)
    found = placed(runs, 16)
    assert found.warn
    assert "launched 3 times, no worker took it; its run is now" in found.why
    assert f"{base}.3" in runs.states


@pytest.mark.parametrize("marked", ["success", "failed"])
def test_a_run_that_was_marked_before_it_began_cancels_its_plans(marked: str) -> None:
    """Nothing is triggered in its place, however long ago that was."""
    base = emission().run_id
    runs = Runs({base: marked}, marked=base)
    for minutes in (0, 100):
        found = placed(runs, minutes)
        assert found.cancelled
        said = f"minor-1 is cancelled: its run {base} of minor_dag was marked as {marked} before"
        assert said in str(found)
    assert [*runs.states] == [base]


def test_a_run_that_was_deleted_is_made_again_at_once() -> None:
    """Its id is free."""
    runs = Runs()
    first = placed(runs)
    runs.states.clear()
    assert placed(runs, 1) == first


def test_a_paused_dag_is_named_and_gets_no_more_runs() -> None:
    """From the first run on."""
    runs = Runs(is_paused=True)
    for minutes in (0, 1, 100):
        found = placed(runs, minutes)
        assert found.warn
        assert "paused" in found.why
        assert "minor_dag" in found.why
    assert len(runs.states) == 1


def test_a_plan_that_failed_is_its_runs_to_retry_for_a_while() -> None:
    """Then another run takes it; and at once, if that run has ended."""
    runs, one = Runs({"run-2": "running"}), emission(attempts=1, author=WORKER)
    assert "run-2 of segtable_minor__lake tried it" in placed(runs, 1, one).why
    assert placed(runs, 3, one).run_id == one.run_id
    ended = Runs({"run-2": "failed"})
    assert placed(ended, 1, one).run_id == one.run_id


def test_outside_a_task_there_are_no_runs() -> None:
    """Then a mapped task of the planner's DAG triggers."""
    assert OfThisTask.known({}) is None


def test_pauses_grow_to_an_hour() -> None:
    """5, 10, 20, 40 minutes, then 60."""
    assert [times_due(at) for at in (0, 4.9, 5, 14, 15, 35, 75, 134, 135, 195)] == [
        *(0, 0, 1, 1, 2, 3, 4, 4, 5, 6)
    ]
