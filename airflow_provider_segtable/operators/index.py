"""Build missing entries of indexes, while writers go on: in the task itself, or on Spark.

1. The plans are named by the planner, or made first: for one index, or for every incomplete index
   of the table. A pending plan is taken.
2. After ``timeout`` no further piece of time is begun. That is a pause and no failure: built
   entries stay, and the task is rescheduled. It takes a worker slot again after ``resume_after``,
   and goes on with the same plan. A pause is not a try. It must not be too short: a task that runs
   again before the scheduler has heard of the end of its process counts as failed there.
3. ``operators.plans_operator`` has the rest of the way: engines, retries, asset events. If all
   indexes are complete, the run commits nothing, so it emits nothing.
"""

from collections.abc import Collection, Sequence
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import Context

from airflow_provider_segtable.core.arguments import plain, shown
from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.hooks.segtable import Place
from airflow_provider_segtable.operators.fields import asked_plans
from airflow_provider_segtable.operators.plans_operator import SegtablePlansOperator, outcomes
from airflow_provider_segtable.operators.plans_operator import plain as plain_results

if TYPE_CHECKING:
    from airflow_provider_segtable.services.compaction import PlanResult
    from airflow_provider_segtable.table.context import TableContext

try:
    from airflow.sdk.exceptions import AirflowRescheduleException
except ImportError:  # Airflow 3.1 has it elsewhere, and common-compat does not know it
    from airflow.exceptions import AirflowRescheduleException


class SegtableIndexOperator(SegtablePlansOperator):
    """Build missing entries of the indexes of one table, in the task itself or on Spark.

    Returns ``{"completed", "files", "plans": [...]}``, where files are those of its last stretch.

    Args:
        index: the name of an index; every index of the table if neither it nor ``plans`` is given.
        plans: ids of index plans, or their JSON text.
        timeout: after this time the task pauses, and is rescheduled; by default the table's
            ``index.timeout_minutes``.
        resume_after: how long a pause lasts.
        kwargs: see ``SegtablePlansOperator``.
    """

    work = "index"
    template_fields: Sequence[str] = ("index", *SegtablePlansOperator.template_fields)
    ui_color = "#e3dff5"

    def __init__(
        self,
        *,
        index: str = "",
        timeout: timedelta | None = None,
        resume_after: timedelta = timedelta(seconds=30),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.index = index
        self.timeout = timeout
        self.resume_after = resume_after

    def asked(self) -> Sequence[str] | str:
        """Return the ids of plans, or the name of an index, which is empty for all."""
        plans = asked_plans(self.plans)
        if plans and self.index:
            raise InvalidInput(
                f"index = {shown(self.index)} and plans = {shown(self.plans)} exclude each other: "
                "leave out one"
            )
        return plans or plain("index", self.index or "")

    def plan_ids(self, ports: "TableContext", asked: Sequence[str] | str) -> Sequence[str]:
        """Return the ids of the plans to carry out, requested now unless they are pending."""
        from airflow_provider_segtable.services.indexing import requested_plan

        if not isinstance(asked, str):
            return asked
        names = [asked] if asked else [*ports.log.load().indexes]
        found = (requested_plan(ports, name) for name in names)
        return [known.plan.id for known in found if known is not None]

    def timeout_s(self) -> float | None:
        """Return the time after which the task pauses; None for the table's own."""
        return None if self.timeout is None else self.timeout.total_seconds()

    def summary(self, results: "Sequence[PlanResult]") -> dict[str, Any]:
        """Return results as plain values, for XCom."""
        from airflow_provider_segtable.services.compaction import Ended

        done = sum(result.ended is Ended.COMPLETED for result in results)
        return {"completed": done, **self.counts(results), "plans": plain_results(results)}

    def sentence(self, results: "Sequence[PlanResult]") -> str:
        """Return a run in one line."""
        files = counted(sum(result.segments_in for result in results), "file")
        return f"index plans: {outcomes(results)}; {files} indexed"

    def counts(self, results: "Sequence[PlanResult]") -> dict[str, Any]:
        """Return the number of files that were indexed."""
        return {"files": sum(result.segments_in for result in results)}

    def _ended(
        self,
        context: Context,
        place: Place,
        settled: "Sequence[PlanResult]",
        launched: "Sequence[PlanResult]",
    ) -> dict[str, Any]:
        """Return the summary of the run, or come back for the plans that paused.

        Raises:
            AirflowRescheduleException: a plan has paused.
        """
        summary = super()._ended(context, place, settled, launched)
        paused = _paused(launched)
        if paused:
            plans = counted(len(paused), "paused plan")
            self.log.info("%s to go on with after %s", plans, self.resume_after)
            then = datetime.now(UTC) + self.resume_after
            raise AirflowRescheduleException(then)  # type: ignore[no-untyped-call]
        return summary


def _paused(results: "Collection[PlanResult]") -> list[str]:
    from airflow_provider_segtable.services.compaction import Ended

    return [result.plan_id for result in results if result.ended is Ended.YIELDED]
