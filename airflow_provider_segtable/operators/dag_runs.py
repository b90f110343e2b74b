"""Trigger runs from a planner's own task, each unless Airflow has one with the same plans.

1. A mapped task for each run costs a worker a second or more, and the run waits for it. So the task
   that plans triggers by the channel by which Airflow's own operator does. Where there is none (an
   Airflow that has changed it, or no Airflow at all), the mapped task triggers.
2. A run that waits or runs keeps its plans: nothing is triggered. A run that was deleted, or has
   ended without its plans, is repeated at once: Airflow says that it does not come back. Later ones
   are repeated when they are due (``operators.emission``).
3. A run whose task was skipped was marked by a person before it began: Airflow skips no task of
   these DAGs otherwise. That cancels its plans, as marking a task that runs does
   (``services.cancelling``). A plan that has begun elsewhere meanwhile is not cancelled: the log
   refuses it. Before 3.3 the tasks of a run that was marked as successful are so, too; it is
   repeated like one that was lost.
4. A plan that its run's task failed at is that task's to retry, for ``GRACE_S``; then, as if its
   worker was killed, another run takes it.
5. What waits is said, with its reason. What cannot be triggered or cancelled delays no other run,
   and fails the task at the end.
"""

from collections.abc import Iterable, Mapping, Sequence
from inspect import signature
from logging import INFO, WARNING
from typing import Any, Protocol

from airflow.providers.common.compat.sdk import AirflowException, Context
from airflow.sdk.exceptions import AirflowRuntimeError

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.log.author import task_named
from airflow_provider_segtable.core.time import SECOND_US, Instant, iso
from airflow_provider_segtable.hooks.segtable import PortsOf
from airflow_provider_segtable.operators.emission import Emission, Located, emissions
from airflow_provider_segtable.operators.rendered import run_name

LIVE = ("queued", "running")
SKIPPED = "skipped"
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

    def skipped(self, dag_id: str, run_id: str) -> bool:
        """Return whether the tasks of a run were skipped."""
        ...

    def paused(self, dag_id: str) -> bool:
        """Return whether a DAG is paused, as far as Airflow tells."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Placed:
    """Where a run's plans are: triggered as ``run_id``, to be cancelled, or waiting, and why."""

    emission: Emission
    run_id: str = ""
    cancelled: bool = False
    why: str = ""
    warn: bool = False

    @property
    def plans(self) -> list[str]:
        """Return the ids of the plans."""
        return [launch.plan_id for launch in self.emission.launches]

    def __str__(self) -> str:
        """Return the outcome in one line."""
        if self.run_id:
            return f"triggered {self.run_id} of {self.emission.dag_id}: {self.emission.note}"
        does = "is cancelled" if self.cancelled else "waits"
        return f"{self.emission.table}: {', '.join(self.plans)} {does}: {self.why}"


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
    times = emission.due(now) + 2  # the first time, and at once after its end
    for again in range(times):
        run_id = emission.named(again)
        if runs.trigger(dag_id, run_id, conf=whole, note=emission.note):
            return _triggered(emission, runs, run_id, again)
        state = runs.state(dag_id, run_id)
        if state in LIVE:
            return _waiting(emission, runs, run_id, state)
        if runs.skipped(dag_id, run_id):
            why = f"its run {run_id} of {dag_id} was marked as {state} before it began"
            return Placed(emission=emission, cancelled=True, why=why)
    why = f"its run {run_id} of {dag_id} ended ({state}) and left it; it is triggered again later"
    return Placed(emission=emission, why=why, warn=times >= WARNED_AFTER)


def _waiting(emission: Emission, runs: DagRuns, run_id: str, state: str) -> Placed:
    """Return plans that their run keeps, with a warning if it cannot begin."""
    paused = state == LIVE[0] and runs.paused(emission.dag_id)
    why = f"its run {run_id} of {emission.dag_id} is {state}"
    if paused:
        why = f"{why}, and the DAG is paused: unpause it"
    return Placed(emission=emission, why=why, warn=paused)


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
    """Return why plans are left to the run that tried them last (rule 4); empty if they are not."""
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

    def skipped(self, dag_id: str, run_id: str) -> bool:
        """Return whether the tasks of a run were skipped."""
        states = self._ti.get_task_states(dag_id=dag_id, run_ids=[run_id]).get(run_id, {})
        return bool(states) and {str(each) for each in states.values()} == {SKIPPED}

    def paused(self, dag_id: str) -> bool:
        """Return whether a DAG is paused; Airflow tells it from 3.2 on."""
        ask = getattr(self._ti, "get_dag", None)
        return bool(ask and ask(dag_id).is_paused)


@dataclass(frozen=True, slots=True, kw_only=True)
class Emitter:
    """Trigger the runs of what a planner's task found.

    Attributes:
        trigger_dag_ids: for each kind of plan, the DAG that carries it out.
        plans_per_run: the most plans that one run gets.
        ports_of: opens a table.
        log: the task's log.
    """

    trigger_dag_ids: Mapping[str, str]
    plans_per_run: int
    ports_of: PortsOf
    log: Any  # each Airflow has another type of it

    def emitted(self, context: Context, located: Iterable[Located]) -> list[dict[str, Any]]:
        """Trigger the runs of launches; return those that a mapped task has to (rule 1).

        Raises:
            AirflowException: some could not be triggered or cancelled, all others were.
        """
        from airflow_provider_segtable.storage.local import SystemClock

        launches = [each for each in located if self._has_dag(each)]
        runs = emissions(
            launches, trigger_dag_ids=self.trigger_dag_ids, plans_per_run=self.plans_per_run
        )
        plans, made = counted(len(launches), "plan"), counted(len(runs), "DAG run")
        self.log.info("%s to run in %s", plans, made)
        known, now = OfThisTask.known(context), SystemClock().now()
        conf = {"planned_by": run_name(context)}
        if known is None:
            return _mapped(runs, now, conf)
        tried = [self._place(run, known, now, conf) for run in runs]
        failed = [error for error in tried if error]
        if failed:
            of = counted(len(failed), "DAG run")
            raise AirflowException(f"{of} not triggered; a retry does. The first: {failed[0]}")
        return []

    def _has_dag(self, located: Located) -> bool:
        """Return whether a launch has a DAG; a user's plan without one is left pending."""
        launch = located.launch
        if launch.kind in self.trigger_dag_ids:
            return True
        known = ", ".join(self.trigger_dag_ids)
        left = "%s: %s stays pending: trigger_dag_ids names no DAG for %s plans, only for %s"
        self.log.warning(left, located.table, launch.plan_id, launch.kind, known)
        return False

    def _place(self, run: Emission, runs: DagRuns, now: Instant, conf: Mapping[str, Any]) -> str:
        """Trigger a run, unless its plans have one or are cancelled; return the error, if any."""
        from airflow_provider_segtable.services.cancelling import cancel

        try:
            placed = placed_run(run, runs, now, conf=conf)
            if placed.cancelled:
                with self.ports_of(run.table) as ports:
                    cancel(ports, placed.plans, lambda _: True, placed.why)
        except (AirflowRuntimeError, SegtableError, OSError) as error:
            self.log.warning("not triggered: %s of %s: %s", run.run_id, run.dag_id, error)
            return f"{run.table}: {error}"
        self.log.log(WARNING if placed.warn or placed.cancelled else INFO, "%s", placed)
        return ""


def _mapped(
    runs: Sequence[Emission], now: Instant, conf: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """Return the arguments of the mapped task."""
    # Imported here, because it brings Airflow's database models to each DAG file and task.
    from airflow.providers.standard.operators.trigger_dagrun import TriggerDagRunOperator

    notes = "note" in signature(TriggerDagRunOperator).parameters
    return [run.arguments(now, conf, notes=notes) for run in runs]
