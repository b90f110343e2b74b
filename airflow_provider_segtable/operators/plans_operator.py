"""Base of the operators that carry out plans of the log: compactions, and index builds.

1. The plans are named, or made first (``plan_ids``); a retry finds them again.
2. Read the log and the locks for the plans that are still to do. A retry may meet the driver of
   its earlier try, alive or dead: ``outstanding`` waits for a live driver and launches none of
   the plans it holds.
3. Choose the engine (``planning.engine``): for a few megabytes Spark takes longer to start than
   the work takes.
4. Carry out the rest in this process, or launch the application ``compact``: one start of Spark
   for all plans of a run. Both lock, mark each plan inflight and commit by the log's rules: an
   orphan and its successor can never both commit a plan.
5. The triggerer may wait for a driver on a cluster (``operators.spark_operator``).
6. Judge by the application's report; without one, by the log. Only failed plans fail the task.
   Plans that are done already, running elsewhere, overtaken or yielded are logged as success:
   the next planner run launches a yielded plan again.
7. Completed plans are emitted as one asset event of the table (``operators.rendered``). Another
   task may be about to emit a plan that is done already. So it counts only if this try launched
   it, or if this is a retry, and the plan is named or of an earlier try.
8. The task's log has one line for each plan, from the process that carried it out, and at the end
   one line for the run.

Which plans are still to do, and how the others ended:

9. Read the log first and the locks second. A plan that finishes in between is launched, and the
   application reports it as done already.
10. A plan whose lock is held, or waited for, has a live worker: perhaps the orphan of an earlier
    try of the same task. If nothing else is to do, wait for that worker. At the deadline the plan
    *runs elsewhere*, which is no failure: if its worker dies, the planner launches the plan again.
11. After an application has ended, the log completes its report.
"""

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from threading import Thread
from typing import TYPE_CHECKING, Any, ClassVar

from airflow.providers.common.compat.sdk import AirflowException, BaseOperatorLink, Context

from airflow_provider_segtable.core.arguments import option, plan_id_of, seconds
from airflow_provider_segtable.core.counted import counted, describe_size
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log.author import same_task, task_of
from airflow_provider_segtable.core.secret import redacted
from airflow_provider_segtable.hooks.segtable import Place
from airflow_provider_segtable.operators.metrics import send_durations, send_outcomes
from airflow_provider_segtable.operators.rendered import (
    SegtablePlannerLink,
    author_of,
    refused_at_once,
)
from airflow_provider_segtable.operators.spark_operator import Report, SegtableSparkOperator

if TYPE_CHECKING:
    from airflow_provider_segtable.core.log.state import State
    from airflow_provider_segtable.services.compaction import PlanResult
    from airflow_provider_segtable.table.context import TableContext

LOOK_AGAIN_S = 2.0
"""Longest pause between looks: a lock that ends with its session is not announced."""

CANCEL_S = 4.0
"""Longest wait for the cancelled plans: 5 s after its signal Airflow kills the process."""


# Outstanding plans, and outcomes of the others
@dataclass(frozen=True, slots=True, kw_only=True)
class Outstanding:
    """``todo``: plans to launch now. ``settled``: outcomes of the others."""

    todo: tuple[str, ...]
    settled: "tuple[PlanResult, ...]"


def outstanding(
    ports: "TableContext",
    asked: Sequence[str] | None,
    *,
    wait_s: float,
    report: Callable[[str], None] = lambda _: None,
) -> Outstanding:
    """Sort plans into plans to launch and ended plans.

    Args:
        ports: the table, with a coordinator.
        asked: plan ids; every pending plan if None.
        wait_s: how long to wait, in seconds, if all plans that are left run elsewhere.
        report: called once with the reason for waiting.
    """
    from airflow_provider_segtable.services.compaction import Ended, ending, whole

    log, clock = ports.log, ports.clock
    state = log.load()
    plan_ids = _named(state, asked)
    over: dict[str, PlanResult] = {}
    deadline = clock.monotonic() + wait_s
    reported = False
    while True:
        holders = _holders(ports, _id(state))
        for plan_id in plan_ids:
            if plan_id not in over and (result := ending(plan_id, state, whole(log))):
                over[plan_id] = result
        found = _sorted(plan_ids, over, holders)
        busy = [r for r in found.settled if r.ended is Ended.RUNNING_ELSEWHERE]
        left = deadline - clock.monotonic()
        if found.todo or not busy or left <= 0:
            return found
        if not reported:
            report(
                f"waiting up to {wait_s:g} s for {counted(len(busy), 'plan')} elsewhere: "
                f"{busy[0].message}"
            )
            reported = True
        pause = min(left, LOOK_AGAIN_S)
        ports.coordinator.wait_head(_id(state), beyond=state.n, wait_s=pause)
        state = log.refresh(state)


def complete_report(
    ports: "TableContext", plan_ids: Sequence[str], reported: "Sequence[PlanResult]", error: str
) -> "tuple[PlanResult, ...]":
    """Complete an application's report from the log.

    Args:
        ports: the table, for reading.
        plan_ids: the plans that were launched.
        reported: results that the application reported; may miss plans.
        error: the message of missing plans that are still pending.
    """
    from airflow_provider_segtable.services.compaction import Ended, PlanResult, ending, whole

    missing = set(plan_ids) - {result.plan_id for result in reported}
    if not missing:
        return tuple(reported)
    log = ports.log
    state = log.load()
    found = {i: ending(i, state, whole(log)) for i in plan_ids if i in missing}
    known = (result for result in found.values() if result)
    failed = (
        PlanResult(plan_id=plan_id, ended=Ended.FAILED, message=error)
        for plan_id, result in found.items()
        if result is None
    )
    return (*reported, *known, *failed)


def _holders(ports: "TableContext", table: str) -> dict[str, str]:
    """Return for each plan the holder of its locks, or a waiter for them."""
    found = (*ports.coordinator.waiters(table), *ports.coordinator.locks(table))
    return {lock.purpose: lock.holder for lock in found}


def _named(state: "State", asked: Sequence[str] | None) -> tuple[str, ...]:
    if asked is None:
        return tuple(known.plan.id for known in state.pending_plans())
    return tuple(dict.fromkeys(asked))


def _sorted(
    plan_ids: Sequence[str], over: "Mapping[str, PlanResult]", holders: Mapping[str, str]
) -> Outstanding:
    from airflow_provider_segtable.services.compaction import Ended, PlanResult

    todo: list[str] = []
    settled: list[PlanResult] = []
    for plan_id in plan_ids:
        ended = over.get(plan_id)
        if ended is None and plan_id in holders:
            message = f"plan {plan_id} is held by {holders[plan_id]}"
            ended = PlanResult(plan_id=plan_id, ended=Ended.RUNNING_ELSEWHERE, message=message)
        if ended is None:
            todo.append(plan_id)
        else:
            settled.append(ended)
    return Outstanding(todo=tuple(todo), settled=tuple(settled))


def _id(state: "State") -> str:
    return state.table.table_id


# Results of plans as plain values, from a report or from the log
def parsed(results: Sequence[Mapping[str, Any]]) -> "tuple[PlanResult, ...]":
    """Return results from plain values, with credentials in messages masked.

    Raises:
        InvalidInput: the values have another form, so another version wrote them.
    """
    from airflow_provider_segtable.services.compaction import Ended, PlanResult

    try:
        return tuple(
            PlanResult(
                **{
                    **each,
                    "plan_id": plan_id_of(each["plan_id"]),
                    "ended": Ended(each["ended"]),
                    "message": redacted(each["message"]),
                }
            )
            for each in results
        )
    except (KeyError, TypeError, ValueError) as error:
        raise InvalidInput(
            f"the application's report has an unknown form ({type(error).__name__}: {error}): "
            "install the same version of this package for the driver and for Airflow"
        ) from error


def plain(results: "Sequence[PlanResult]") -> list[dict[str, Any]]:
    """Return results as plain values; sizes in bytes."""
    return [{**asdict(result), "ended": str(result.ended)} for result in results]


def logged_results(
    ports: "TableContext", results: "Sequence[PlanResult]"
) -> "tuple[PlanResult, ...]":
    """Complete the results of a detached driver from the events that it committed."""
    from airflow_provider_segtable.core.log.families.plan_events import PlanCompleted
    from airflow_provider_segtable.services.compaction import Ended, PlanResult

    log = ports.log
    plans = log.load().plans
    told: list[PlanResult] = []
    for result in results:
        known = plans.get(result.plan_id)
        event = log.event(known.last_n) if known else None
        if known is None or event is None or not isinstance(event.action, PlanCompleted):
            told.append(result)
            continue
        made = event.action.segments
        told.append(
            PlanResult(
                plan_id=result.plan_id,
                ended=Ended.COMPLETED,
                message=f"event {event.n}: {known.plan.reason}",
                segments_in=len(known.inputs),
                segments_out=len(made),
                rows=sum(segment.rows for segment in made),
                size=sum(segment.size for segment in made),
            )
        )
    return tuple(told)


def summary(results: "Sequence[PlanResult]") -> dict[str, Any]:
    """Return results as plain values, for XCom; sizes in bytes."""
    from airflow_provider_segtable.services.compaction import Ended

    return {
        "completed": sum(result.ended is Ended.COMPLETED for result in results),
        "segments_in": sum(result.segments_in for result in results),
        "segments_out": sum(result.segments_out for result in results),
        "rows": sum(result.rows for result in results),
        "bytes": sum(result.size for result in results),
        "plans": plain(results),
    }


def sentence(results: "Sequence[PlanResult]") -> str:
    """Return a run of compactions in one line."""
    from airflow_provider_segtable.services.compaction import Ended

    done = [result for result in results if result.ended is Ended.COMPLETED]
    made = summary(done)
    size, rows = describe_size(made["bytes"]), counted(made["rows"], "row")
    inputs = counted(made["segments_in"], "segment")
    what = f"{inputs} -> {made['segments_out']:,} ({rows}, {size})"
    return f"plans: {outcomes(results, what)}"


def outcomes(results: "Sequence[PlanResult]", done: str = "") -> str:
    """Return how many plans ended how; ``done`` says what the completed ones did."""
    from airflow_provider_segtable.services.compaction import Ended

    counts = Counter(str(result.ended) for result in results)
    completed = counts.pop(Ended.COMPLETED, 0)
    parts = [f"{count} {ended}" for ended, count in counts.items()]
    if completed:
        parts.insert(0, f"{completed} completed: {done}" if done else f"{completed} completed")
    return "; ".join(parts) or "none"


# The operator
class SegtablePlansOperator(SegtableSparkOperator):
    """Carry out plans of one table, in the task itself or on Spark; a base class.

    Args:
        plans: plan ids, or their JSON text.
        planned_by: the planner's run that made the plans, ``DAG/RUN``, to which the task links.
        wait_s: how long to wait, in seconds, if other workers hold all the plans that are left.
        kwargs: see ``SegtableSparkOperator``.
    """

    app = "compact"
    work: ClassVar[str]
    """The work in one word, for asset events."""
    template_fields: Sequence[str] = (
        *("plans", "planned_by"),
        *SegtableSparkOperator.template_fields,
    )
    operator_extra_links: Collection[BaseOperatorLink] = (
        *SegtableSparkOperator.operator_extra_links,
        SegtablePlannerLink(),
    )

    def __init__(
        self,
        *,
        plans: Sequence[str] | str | None = None,
        planned_by: str = "",
        wait_s: float = 120.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.plans = plans
        self.planned_by = planned_by
        self.wait_s = wait_s
        self._at_work: tuple[Place, Sequence[str], str] | None = None
        self._cancelled: list[str] = []

    def on_kill(self) -> None:
        """End the application, and cancel the plans (``services.cancelling``).

        Airflow calls this in the main thread, wherever that is. So another thread cancels, with
        ports of its own: it meets no lock that is held here.
        """
        super().on_kill()
        if self._at_work is not None:
            thread = Thread(target=self._cancel, args=self._at_work, daemon=True)
            thread.start()
            thread.join(CANCEL_S)

    def _cancel(self, place: Place, plan_ids: Sequence[str], author: str) -> None:
        from airflow_provider_segtable.services.cancelling import cancel

        why = f"the task {task_of(author) or author} was ended"
        with place.table_ports(self.table, author=author) as ports:
            self._cancelled += cancel(ports, plan_ids, partial(same_task, author), why)
        self.log.warning("cancelled: %s", ", ".join(self._cancelled) or "no plan, all have ended")

    # ---- each operator's part ---------------------------------------------------------------

    def asked(self) -> Any:
        """Return the work that the rendered fields name, for ``plan_ids``.

        Raises:
            InvalidInput: a field is malformed, or fields exclude each other.
        """
        raise NotImplementedError

    def plan_ids(self, ports: "TableContext", asked: Any) -> Sequence[str] | None:
        """Return the ids of the plans to carry out; None means every pending plan."""
        raise NotImplementedError

    def timeout_s(self) -> float | None:
        """Return the time after which a plan that can pause does; None for the table's own."""
        return None

    def summary(self, results: "Sequence[PlanResult]") -> dict[str, Any]:
        """Return results as plain values, for XCom; sizes in bytes."""
        raise NotImplementedError

    def sentence(self, results: "Sequence[PlanResult]") -> str:
        """Return a run in one line."""
        raise NotImplementedError

    def counts(self, results: "Sequence[PlanResult]") -> Mapping[str, Any]:  # noqa: ARG002
        """Return more of the asset event's ``extra``."""
        return {}

    # ---- the way of every run ---------------------------------------------------------------

    def execute(self, context: Context) -> dict[str, Any]:
        """Carry out the plans that are still to do."""
        from airflow_provider_segtable.planning.engine import Engine

        with refused_at_once(f"{self.work} of {self.table}"):
            asked = self.asked()
            Engine.of(self.engine)
            seconds("wait_s", self.wait_s)
            place = self.place
            results = self._carried_out(place, asked, author_of(context))
            return self._ended(context, place, *results)

    def execute_complete(
        self,
        context: Context,
        event: Mapping[str, Any] | None = None,
        *,
        result: str,
        launched: Sequence[str],
        settled: Sequence[Mapping[str, Any]],
    ) -> dict[str, Any]:
        """Go on after the trigger's event."""
        place = self.place
        report = self.report_of(place, event, result)
        results = self._results(place, launched, report)
        return self._ended(context, place, parsed(settled), results)

    def _carried_out(
        self, place: Place, asked: Any, author: str
    ) -> "tuple[Sequence[PlanResult], Sequence[PlanResult]]":
        """Carry out plans on the chosen engine; return the settled results and its own."""
        from airflow_provider_segtable.planning.engine import input_size, only_spark

        with place.table_ports(self.table, author=author) as ports:
            plans = self.plan_ids(ports, asked)
            self._revive(ports, plans or ())
            found = outstanding(ports, plans, wait_s=self.wait_s, report=self.log.info)
            self._say(found.settled)
            if not found.todo:
                self.log.info("no plans are left to carry out")
                return found.settled, ()
            state = ports.log.load()
            size = input_size(state, found.todo)
            choice = self.chosen_engine(size=size, only_spark=only_spark(state))
            self.log.info("%s %s", counted(len(found.todo), "plan"), choice)
            self._at_work = place, found.todo, author
            if choice.local:
                return found.settled, self._here(ports, found.todo)
        return found.settled, self._launch(place, found, author)

    def _revive(self, ports: "TableContext", plan_ids: Sequence[str]) -> None:
        """Request plans again that an earlier try of this task cancelled."""
        from airflow_provider_segtable.services.cancelling import revive

        revived = revive(ports, plan_ids, partial(same_task, ports.author))
        if revived:
            self.log.info("requested again after they were cancelled: %s", ", ".join(revived))

    def _here(self, ports: "TableContext", plan_ids: Sequence[str]) -> "tuple[PlanResult, ...]":
        from airflow_provider_segtable.data.pandas_later import import_pandas_later
        from airflow_provider_segtable.services.attempt import in_process
        from airflow_provider_segtable.services.compact_table import carry_out

        import_pandas_later()
        return carry_out(
            ports,
            plan_ids,
            in_process(ports.files),
            timeout_s=self.timeout_s(),
            report=lambda result: self._say([result]),
        )

    def _launch(self, place: Place, found: Outstanding, author: str) -> "tuple[PlanResult, ...]":
        timeout_s = self.timeout_s()
        limit = () if timeout_s is None else (option("timeout-s", f"{timeout_s:g}"),)
        task = option("task", task_of(author))  # a later stretch or try knows the events by it
        report = self.launch(
            place,
            [task, *(option("plan", plan_id_of(plan_id)) for plan_id in found.todo), *limit],
            plans=found.todo,
            carried={"launched": list(found.todo), "settled": plain(found.settled)},
        )
        return self._results(place, found.todo, report)

    def _results(
        self, place: Place, plan_ids: Sequence[str], report: Report
    ) -> "tuple[PlanResult, ...]":
        """Return the results, and log those that the application has not logged here."""
        reported = parsed(report.facts.get("plans", ()))
        error = report.error or "the application ended without a result of this plan"
        with place.table_ports(self.table) as ports:
            results = complete_report(ports, plan_ids, reported, error)
            if report.detached:
                results = (*reported, *logged_results(ports, results[len(reported) :]))
        self._say(results if report.detached else results[len(reported) :])
        return results

    def _say(self, results: "Sequence[PlanResult]") -> None:
        for result in results:
            self.log.info("%s: %s: %s", result.plan_id, result.ended, result.message)

    def _ended(
        self,
        context: Context,
        place: Place,
        settled: "Sequence[PlanResult]",
        launched: "Sequence[PlanResult]",
    ) -> dict[str, Any]:
        """Return the summary of the run, and emit the plans that it completed."""
        from airflow_provider_segtable.services.compaction import Ended

        send_outcomes(self.table, self.work, launched)
        summary = self._summarized((*settled, *launched))
        with place.table_ports(self.table) as ports:
            state = ports.log.load()
            send_durations(self.table, state, launched)
            made = {each.plan_id for each in launched if each.ended is Ended.COMPLETED}
            found = {each.plan_id for each in launched if each.ended is Ended.DONE_ALREADY}
            if is_retry(context):
                found |= {each.plan_id for each in settled if each.ended is Ended.DONE_ALREADY}
                found |= completed_by(state, task_of(author_of(context)))
            self.emit(
                context,
                ports,
                self.work,
                made=completions(state, made),
                found=completions(state, found - made),
                counts=self.counts(launched),
            )
        return summary

    def _summarized(self, results: "Sequence[PlanResult]") -> dict[str, Any]:
        """Log the run in one line, and return the summary.

        Raises:
            AirflowException: some failed, or were cancelled because the task was ended: a worker
                that is shut down may come to an end before it is killed.
        """
        from airflow_provider_segtable.services.compaction import Ended

        self.log.info("%s", self.sentence(results))
        if self._cancelled:
            plans = ", ".join(self._cancelled)
            raise AirflowException(f"the task was ended; another try takes up its plans: {plans}")
        failed = [result for result in results if result.ended is Ended.FAILED]
        if failed:
            reasons = "\n".join(f"{result.plan_id}: {result.message}" for result in failed)
            raise AirflowException(
                f"{len(failed)} of {counted(len(results), 'plan')} over {self.table} failed; "
                f"a retry or the next planner run repeats them:\n{reasons}"
            )
        return self.summary(results)


def is_retry(context: Context) -> bool:
    """Return whether the task may have committed before: it was tried, or rescheduled."""
    ti = context.get("ti")
    return ti is not None and (ti.try_number > 1 or bool(context.get("task_reschedule_count")))


def completed_by(state: "State", task: str) -> set[str]:
    """Return the ids of the plans that tries of a task completed, or their applications did."""
    known = state.plans.items()
    return {plan_id for plan_id, plan in known if task and task_of(plan.author) == task}


def completions(state: "State", plan_ids: Collection[str]) -> list[int]:
    """Return the numbers of the events that completed plans."""
    from airflow_provider_segtable.core.log.plan import PlanStatus

    known = (state.plans.get(plan_id) for plan_id in plan_ids)
    return [plan.last_n for plan in known if plan and plan.status is PlanStatus.COMPLETED]
