"""Trigger runs from a planner's own task, each unless Airflow has one with the same plans.

1. A mapped task for each run costs a worker a second or more, and the run waits for it. So the task
   that plans triggers by the channel by which Airflow's own operator does. Where there is none (an
   Airflow that has changed it, or no Airflow at all), the mapped task triggers.
2. A run that waits or runs keeps its plans: nothing is triggered. A run that has ended without them
   is repeated when it is due (``operators.emission``). So a run that was lost, deleted or marked by
   hand delays its plans, and loses none.
3. A plan that its run's task failed at is that task's to retry, for ``GRACE_S``; then, as if its
   worker was killed, another run takes it.
4. What waits is said, with its reason.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from airflow.providers.common.compat.sdk import Context

from airflow_provider_segtable.core.log.author import task_named
from airflow_provider_segtable.core.time import SECOND_US, Instant, iso
from airflow_provider_segtable.operators.emission import Emission

LIVE = ("queued", "running")
GRACE_S = 120.0
WARNED_AFTER = 3
"""Runs that no worker took before the planner warns."""


class DagRuns(Protocol):
    """The runs of DAGs."""

    def trigger(self, dag_id: str, run_id: str, *, conf: Mapping[str, Any], note: str) -> bool:
        """Make a run; False if there is one with this id."""
        ...

    def state(self, dag_id: str, run_id: str) -> str:
        """Return the state of a run; empty if there is none."""
        ...

    def paused(self, dag_id: str) -> bool:
        """Return whether a DAG is paused, as far as Airflow tells."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Where a run's plans are: triggered as ``run_id``, or waiting, and why."""

    emission: Emission
    run_id: str = ""
    why: str = ""
    warn: bool = False

    def __str__(self) -> str:
        """Return the outcome in one line."""
        plans = ", ".join(launch.plan_id for launch in self.emission.launches)
        if self.run_id:
            return f"triggered {self.run_id} of {self.emission.dag_id}: {self.emission.note}"
        return f"{self.emission.table}: {plans} waits: {self.why}"


def placed_run(
    emission: Emission, runs: DagRuns, now: Instant, *, conf: Mapping[str, Any]
) -> Placed:
    """Trigger a run, unless its plans have one.

    Args:
        emission: the run.
        runs: Airflow's runs.
        now: the wall clock.
        conf: added to the run's conf.
    """
    dag_id, whole = emission.dag_id, emission.conf(conf)
    if why := _retrying(emission, runs, now):
        return Placed(emission=emission, why=why)
    for again in range(emission.due(now) + 1):
        run_id = emission.named(again)
        if runs.trigger(dag_id, run_id, conf=whole, note=emission.note):
            return _triggered(emission, runs, run_id, again)
        state = runs.state(dag_id, run_id)
        if state in LIVE:
            paused = state == LIVE[0] and runs.paused(dag_id)
            why = f"its run {run_id} of {dag_id} is {state}"
            return Placed(
                emission=emission,
                why=f"{why}, and the DAG is paused: unpause it" if paused else why,
                warn=paused,
            )
    times = emission.due(now) + 1
    why = f"its run {run_id} of {dag_id} ended ({state}) and left it; it is triggered again later"
    return Placed(emission=emission, why=why, warn=times >= WARNED_AFTER)


def _triggered(emission: Emission, runs: DagRuns, run_id: str, again: int) -> Placed:
    """Return a run that was just triggered, with a warning where it may not begin."""
    if runs.paused(emission.dag_id):
        why = f"DAG {emission.dag_id} is paused, so its run {run_id} does not begin: unpause it"
        return Placed(emission=emission, why=why, warn=True)
    if again >= WARNED_AFTER:
        why = f"launched {again} times, no worker took it; its run is now {run_id}: see its log"
        return Placed(emission=emission, why=why, warn=True)
    return Placed(emission=emission, run_id=run_id)


def _retrying(emission: Emission, runs: DagRuns, now: Instant) -> str:
    """Return why plans are left to the run that tried them last (rule 3); empty if they are not."""
    first = emission.launches[0]
    task = task_named(first.author)
    if not first.attempts or task is None or now - emission.changed_at > GRACE_S * SECOND_US:
        return ""
    run_id, dag_id = task.run_id, task.dag_id
    if runs.state(dag_id, run_id) not in LIVE:
        return ""
    until = iso(emission.changed_at + int(GRACE_S * SECOND_US))
    return f"its run {run_id} of {dag_id} tried it, and may retry it; another one may at {until}"


class OfThisTask:
    """Airflow's runs, by the channel of a running task."""

    def __init__(self, ti: Any, channel: Any) -> None:
        """Use the task instance, and the channel to its supervisor."""
        self._ti = ti
        self._channel = channel

    @staticmethod
    def known(context: Context) -> "OfThisTask | None":
        """Return the runs; None outside a task, or if this Airflow has another channel."""
        ti = context.get("ti")
        try:
            from airflow.sdk.execution_time import comms, task_runner

            channel = task_runner.SUPERVISOR_COMMS
            _ = comms.TriggerDagRun, channel.send
        except (ImportError, AttributeError):
            return None
        return None if ti is None else OfThisTask(ti, channel)

    def trigger(self, dag_id: str, run_id: str, *, conf: Mapping[str, Any], note: str) -> bool:
        """Make a run; False if there is one with this id."""
        from airflow.sdk.execution_time.comms import TriggerDagRun

        asked: dict[str, Any] = {"dag_id": dag_id, "run_id": run_id, "conf": dict(conf)}
        if "note" in TriggerDagRun.model_fields:
            asked["note"] = note
        answer = self._channel.send(TriggerDagRun(**asked))
        return getattr(answer, "error", None) is None

    def state(self, dag_id: str, run_id: str) -> str:
        """Return the state of a run; empty if there is none."""
        if not self._ti.get_dr_count(dag_id=dag_id, run_ids=[run_id]):
            return ""
        found = self._ti.get_dagrun_state(dag_id=dag_id, run_id=run_id)
        return str(getattr(found, "value", found))

    def paused(self, dag_id: str) -> bool:
        """Return whether a DAG is paused; Airflow tells it from 3.2 on."""
        ask = getattr(self._ti, "get_dag", None)
        return bool(ask and ask(dag_id).is_paused)
