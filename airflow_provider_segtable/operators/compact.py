"""Carry out compaction plans: small ones in the task itself, larger ones on Spark.

1. The plans are named, or made first: by the policy, or for segments that a user chose
   (``services.compaction.request``), whose plans a retry finds again.
2. Read the log and the locks for the plans that are still to do. A retry may meet the driver of
   its earlier try, alive or dead: ``outstanding`` waits for a live driver and launches none of
   the plans it holds.
3. Choose the engine (``planning.engine``): for a few megabytes Spark takes longer to start than
   the work takes.
4. Carry out the rest in this process, or launch the application ``compact``: one start of Spark
   for all plans of a run. Both lock, mark each plan inflight and commit by the log's rules: an
   orphan and its successor can never both commit a plan.
5. The triggerer may wait for a driver on a cluster (``operators.base.spark_operator``).
6. Judge by the application's report; without one, by the log. Only failed plans fail the task.
   Plans that are done already, running elsewhere, overtaken or yielded are logged as success:
   the next planner run launches a yielded plan again.
7. Completed plans are emitted as one asset event of the table (``operators.base.asset_events``). A
   plan that is done already another task may be about to emit. So it counts only if this try
   launched it, or if this is a retry, and the plan is one of those named or of an earlier try.
8. The task's log has one line for each plan, from the process that carried it out, and at the end
   one line for the run.
"""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from airflow.providers.common.compat.sdk import AirflowException, BaseOperatorLink, Context

from airflow_provider_segtable.core.arguments import option, plan_id_of, seconds
from airflow_provider_segtable.core.counted import counted, describe_size
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log.events import PlanCompleted
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.plans.plan_state import PlanStatus
from airflow_provider_segtable.core.secret import redacted
from airflow_provider_segtable.hooks.segtable import Place, SegtableHook
from airflow_provider_segtable.operators.base.author import author_of, task_of
from airflow_provider_segtable.operators.base.rendered import refused_at_once
from airflow_provider_segtable.operators.base.spark_operator import Report, SegtableSparkOperator
from airflow_provider_segtable.operators.plan import overridden
from airflow_provider_segtable.operators.runs.asked import Asked, asked_work
from airflow_provider_segtable.operators.runs.links import SegtablePlannerLink
from airflow_provider_segtable.operators.runs.outstanding import Outstanding, outstanding, settle
from airflow_provider_segtable.planning.engine import (
    LOCAL_BYTES,
    Choice,
    Engine,
    chosen_engine,
    input_size,
    only_spark,
)
from airflow_provider_segtable.services.compaction.carry_out import carry_out
from airflow_provider_segtable.services.compaction.compaction import Ended, PlanResult
from airflow_provider_segtable.services.compaction.execution import in_process
from airflow_provider_segtable.services.compaction.request import request
from airflow_provider_segtable.services.planner import plan_table
from airflow_provider_segtable.table.context import TableContext


class SegtableCompactOperator(SegtableSparkOperator):
    """Carry out plans of one table, in the task itself or on Spark.

    Returns ``{"completed", "segments_in", "segments_out", "rows", "bytes", "plans": [...]}``.

    Args:
        table: below the connection's root, or a URI.
        plans: plan ids, or their JSON text; every pending plan of the table if empty.
        kind: compact chosen ``segments`` by this kind (``minor``, ``semi-major``, ``major``),
            whatever the policy says of when; empty: none are chosen.
        segments: their ids as ``segtable table segments`` prints them, or their JSON text. Minor
            joins exactly these; other kinds take the chunks that they lie in.
        policy: if given, plan the table first, with these values instead of its own policy's:
            ``{}``, or e.g. ``{"deleted_share": 0}``. With ``kind``, they say how it is compacted.
        engine: ``local``: in the task itself. ``spark``: by a Spark application. ``auto``: local up
            to ``local_bytes``, else Spark; Spark for what only Spark can do.
        local_bytes: most bytes of input that ``auto`` compacts in the task itself.
        planned_by: the run whose planner made the plans, ``DAG/RUN``, to which the task links.
        wait_s: how long to wait, in seconds, if other workers hold all the plans that are left.
        kwargs: see ``SegtableSparkOperator``.
    """

    app = "compact"
    template_fields: Sequence[str] = (
        *("plans", "kind", "segments", "policy", "engine", "planned_by"),
        *SegtableSparkOperator.template_fields,
    )
    operator_extra_links: Collection[BaseOperatorLink] = (
        *SegtableSparkOperator.operator_extra_links,
        SegtablePlannerLink(),
    )
    ui_color = "#f5e8df"

    def __init__(
        self,
        *,
        plans: Sequence[str] | str | None = None,
        kind: str = "",
        segments: Sequence[str] | str | None = None,
        policy: Mapping[str, Any] | None = None,
        engine: str = Engine.AUTO,
        local_bytes: int = LOCAL_BYTES,
        planned_by: str = "",
        wait_s: float = 120.0,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.plans = plans
        self.kind = kind
        self.segments = segments
        self.policy = policy
        self.engine = str(engine)
        self.local_bytes = local_bytes
        self.planned_by = planned_by
        self.wait_s = wait_s

    def execute(self, context: Context) -> dict[str, Any]:
        """Carry out the plans that are still to do."""
        with refused_at_once(f"compaction of {self.table}"):
            asked, wish = asked_work(self.plans, self.kind, self.segments), Engine.of(self.engine)
            seconds("wait_s", self.wait_s)
            place = SegtableHook(self.segtable_conn_id).place
            results = self._carried_out(place, asked, wish, author_of(context))
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
        place = SegtableHook(self.segtable_conn_id).place
        report = self.report_of(place, event, result)
        results = self._settled(place, launched, report)
        return self._ended(context, place, parsed(settled), results)

    def _carried_out(
        self, place: Place, asked: Asked, wish: Engine, author: str
    ) -> tuple[Sequence[PlanResult], Sequence[PlanResult]]:
        """Carry out plans on the chosen engine; return the settled results and its own."""
        with place.table_ports(self.table, author=author) as ports:
            plans = self._planned(ports, asked)
            found = outstanding(ports, plans, wait_s=self.wait_s, tell=self.log.info)
            self._say(found.settled)
            if not found.todo:
                self.log.info("no plans are left to carry out")
                return found.settled, ()
            choice = self._choice(ports, wish, found.todo, place)
            self.log.info("%s %s", counted(len(found.todo), "plan"), choice)
            if choice.local:
                return found.settled, self._here(ports, found.todo)
        return found.settled, self._launch(place, found)

    def _planned(self, ports: TableContext, asked: Asked) -> Sequence[str] | None:
        """Return the ids of the plans to carry out; None means every pending plan."""
        if asked.kind:
            policy = overridden(ports, self.policy or {})
            made = request(ports, asked.kind, segments=asked.segments, policy=policy)
            return [known.plan.id for known in made]
        if self.policy is not None:
            plan_table(ports, policy=overridden(ports, self.policy))
        return asked.plans

    def _choice(
        self, ports: TableContext, wish: Engine, plan_ids: Sequence[str], place: Place
    ) -> Choice:
        state = ports.log.load()
        return chosen_engine(
            wish,
            size=input_size(state, plan_ids),
            only_spark=only_spark(state),
            spark_here=lambda: self.can_launch(place),
            local_bytes=self.local_bytes,
        )

    def _here(self, ports: TableContext, plan_ids: Sequence[str]) -> tuple[PlanResult, ...]:
        return carry_out(ports, plan_ids, in_process(), report=lambda result: self._say([result]))

    def _launch(self, place: Place, found: Outstanding) -> tuple[PlanResult, ...]:
        report = self.launch(
            place,
            [option("plan", plan_id_of(plan_id)) for plan_id in found.todo],
            plans=found.todo,
            carried={"launched": list(found.todo), "settled": plain(found.settled)},
        )
        return self._settled(place, found.todo, report)

    def _settled(
        self, place: Place, plan_ids: Sequence[str], report: Report
    ) -> tuple[PlanResult, ...]:
        """Return the results, and log those that the application has not said in this log."""
        told = parsed(report.facts.get("plans", ()))
        error = report.error or "the application ended without a result of this plan"
        with place.table_ports(self.table) as ports:
            results = settle(ports, plan_ids, told, error)
            if report.detached:
                results = (*told, *_logged(ports, results[len(told) :]))
        self._say(results if report.detached else results[len(told) :])
        return results

    def _say(self, results: Sequence[PlanResult]) -> None:
        for result in results:
            self.log.info("%s: %s: %s", result.plan_id, result.ended, result.message)

    def _ended(
        self,
        context: Context,
        place: Place,
        settled: Sequence[PlanResult],
        launched: Sequence[PlanResult],
    ) -> dict[str, Any]:
        """Return the summary of the run, and emit the plans that it completed."""
        told = self._summarized((*settled, *launched))
        with place.table_ports(self.table) as ports:
            state = ports.log.load()
            made = {each.plan_id for each in launched if each.ended is Ended.COMPLETED}
            found = {each.plan_id for each in launched if each.ended is Ended.DONE_ALREADY}
            if is_retry(context):
                found |= {each.plan_id for each in settled if each.ended is Ended.DONE_ALREADY}
                found |= completed_by(state, task_of(author_of(context)))
            made_events, found_events = completions(state, made), completions(state, found - made)
            self.emit(context, ports, "compact", made=made_events, found=found_events)
        return told

    def _summarized(self, results: Sequence[PlanResult]) -> dict[str, Any]:
        """Log the run in one line, and return the summary.

        Raises:
            AirflowException: some failed.
        """
        self.log.info("%s", sentence(results))
        failed = [result for result in results if result.ended is Ended.FAILED]
        if failed:
            what = "\n".join(f"{result.plan_id}: {result.message}" for result in failed)
            raise AirflowException(
                f"{len(failed)} of {counted(len(results), 'plan')} over {self.table} failed; "
                f"a retry or the next planner run repeats them:\n{what}"
            )
        return summary(results)


def is_retry(context: Context) -> bool:
    """Return whether earlier tries of the task may have committed."""
    ti = context.get("ti")
    return ti is not None and ti.try_number > 1


def completed_by(state: State, task: str) -> set[str]:
    """Return the ids of the plans that tries of a task completed in their own process."""
    known = state.plans.items()
    return {plan_id for plan_id, plan in known if task and task_of(plan.author) == task}


def completions(state: State, plan_ids: Collection[str]) -> list[int]:
    """Return the numbers of the events that completed plans."""
    known = (state.plans.get(plan_id) for plan_id in plan_ids)
    return [plan.last_n for plan in known if plan and plan.status is PlanStatus.COMPLETED]


def parsed(results: Sequence[Mapping[str, Any]]) -> tuple[PlanResult, ...]:
    """Return results from plain values, with credentials in messages masked.

    Raises:
        InvalidInput: the values have another form, so another version wrote them.
    """
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


def plain(results: Sequence[PlanResult]) -> list[dict[str, Any]]:
    """Return results as plain values; sizes in bytes."""
    return [{**asdict(result), "ended": str(result.ended)} for result in results]


def _logged(ports: TableContext, results: Sequence[PlanResult]) -> tuple[PlanResult, ...]:
    """Complete the results of a detached driver from the events that it committed."""
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


def summary(results: Sequence[PlanResult]) -> dict[str, Any]:
    """Return results as plain values, for XCom; sizes in bytes."""
    return {
        "completed": sum(result.ended is Ended.COMPLETED for result in results),
        "segments_in": sum(result.segments_in for result in results),
        "segments_out": sum(result.segments_out for result in results),
        "rows": sum(result.rows for result in results),
        "bytes": sum(result.size for result in results),
        "plans": plain(results),
    }


def sentence(results: Sequence[PlanResult]) -> str:
    """Return a run in one line."""
    done = [result for result in results if result.ended is Ended.COMPLETED]
    others = Counter(str(result.ended) for result in results if result.ended is not Ended.COMPLETED)
    parts = [f"{count} {ended}" for ended, count in others.items()]
    if done or not parts:
        made = summary(done)
        size, rows = describe_size(made["bytes"]), counted(made["rows"], "row")
        inputs = counted(made["segments_in"], "segment")
        what = f"{inputs} -> {made['segments_out']:,} ({rows}, {size})"
        parts.insert(0, f"{len(done)} completed: {what}" if done else "none")
    return f"plans: {'; '.join(parts)}"
