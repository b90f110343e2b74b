"""Run an index: build the time that it lacks, in this call.

1. The pending plan of the index is taken; without one, a plan is requested. It is carried out like
   any other plan (``services.compact_table``). If it left time apart that is still lacking after
   it, another plan follows.
2. The run ends as its last plan did. After a pause the plan is pending: the next run, or the
   planner's, goes on.
3. If the index lacks nothing, but its last plan was aborted, its keys are corrected: the plan may
   have ended before its corrections.
"""

from collections.abc import Callable, Collection, Iterable

from airflow_provider_segtable.core.catch_up import chunks_lacking
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.log.events import Event, segments_of
from airflow_provider_segtable.core.log.families.index_events import IndexBuilt
from airflow_provider_segtable.core.log.index_plan import newest_plan
from airflow_provider_segtable.core.log.plan import PlanStatus
from airflow_provider_segtable.services.attempt import Execute
from airflow_provider_segtable.services.compact_table import carry_out
from airflow_provider_segtable.services.compaction import Ended, PlanResult
from airflow_provider_segtable.services.indexing import COMMIT, correct_keys, requested_plan
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.index_lifecycle import index_named

MOST_PLANS = 8
"""Most plans of one run."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRun:
    """The result of a run of an index.

    Attributes:
        ended: how the last plan ended; ``done already`` if the index lacked nothing.
        message: its message.
        pieces: the number of pieces of time that the run built.
        files: the number of files that it indexed.
        left: the number of time chunks in which the index lacks files.
        plans: the ids of the plans that were carried out.
        settled: the number of records that were corrected, because their keys had several rows.
    """

    ended: Ended
    message: str
    pieces: int = 0
    files: int = 0
    left: int = 0
    plans: tuple[str, ...] = ()
    settled: int = 0

    def facts(self) -> Facts:
        """Return the result as plain JSON values."""
        return {
            "ended": self.ended.value,
            "message": self.message,
            "pieces": self.pieces,
            "files": self.files,
            "left": self.left,
            "settled": self.settled,
            "plans": list(self.plans),
        }


def run_index(
    ports: TableContext,
    name: str,
    execute: Execute,
    *,
    timeout_s: float | None = None,
    report: Callable[[PlanResult], None] = lambda _: None,
) -> IndexRun:
    """Build the time that an index lacks; leave a running build to its process.

    Args:
        ports: the table's ports, with a coordinator.
        name: the index.
        execute: runs the jobs.
        timeout_s: after this time no further piece is begun; the table's
            ``index.timeout_minutes`` if None.
        report: called with the result of each plan, for progress.

    Raises:
        InvalidInput: there is no index of this name.
        CommitConflict: the plan was refused, repeatedly.
        CommitUnknown: a reply was lost; run it again, nothing is built twice.
    """
    state = ports.log.load()
    begun = index_named(state, name, ports.uri)
    first = state.n + 1
    results: list[PlanResult] = []
    while len(results) < MOST_PLANS:
        known = requested_plan(ports, name)
        if known is None:
            break
        ids = [known.plan.id]
        results += carry_out(ports, ids, execute, timeout_s=timeout_s, report=report)
        if results[-1].ended is not Ended.COMPLETED:
            break
    newest = newest_plan(begun.definition.id, state.plans.values())
    if not results and newest is not None and newest.status is PlanStatus.ABORTED:
        correct_keys(ports, begun.definition.id, ports.randomness.token())
    state = ports.log.load()
    index = state.indexes.get(name)
    message = f"index {begun.definition.name} lacks nothing"
    mine = [each for each in ports.log.events(first) if each.author == ports.author]
    return IndexRun(
        ended=results[-1].ended if results else Ended.DONE_ALREADY,
        message=results[-1].message if results else message,
        pieces=_pieces(mine, {result.plan_id for result in results}),
        files=sum(result.segments_in for result in results),
        left=chunks_lacking(index, state) if index else 0,
        plans=tuple(result.plan_id for result in results),
        settled=_records_corrected(mine),
    )


def _pieces(mine: Iterable[Event], plan_ids: Collection[str]) -> int:
    """Return the number of pieces that this process has committed for some plans."""
    actions = (event.action for event in mine)
    return sum(1 for a in actions if isinstance(a, IndexBuilt) and a.plan_id in plan_ids)


def _records_corrected(mine: Iterable[Event]) -> int:
    """Return the number of records that this process has corrected."""
    found = (event.action for event in mine if event.commit.startswith(COMMIT))
    return sum(segment.rows for action in found for segment in segments_of(action))
