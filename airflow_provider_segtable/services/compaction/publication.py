"""Publication: the event that completes a plan.

1. The commit is rebased over the events that landed meanwhile (``core.log.families.plan_events``).
2. Writers of primary-key tables hold no locks. If log files came that the completion cannot carry
   over, because time chunks or buckets change, the plan divides them (``Plan.division``). That is
   done in this process, as they are few, and the commit is tried again, ``PASSES`` times. Records
   that lose against others of their keys are corrected then (``table.routing.parted``).
   Late files are read and written in the columns of the state that the commit met, not in those of
   ``PlanInflight``: one may have been written after an alteration, but none in later columns.
3. If the commit certainly failed, the files are deleted. The plan stays pending, to be run again.
"""

from dataclasses import replace

from airflow_provider_segtable.core.errors import CommitUnknown
from airflow_provider_segtable.core.log.event import Conflict
from airflow_provider_segtable.core.log.events import PlanCompleted
from airflow_provider_segtable.core.log.plan import Rewrite
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import Segment, SegmentId
from airflow_provider_segtable.data.sort.sorting import discard, run_stages
from airflow_provider_segtable.services.compaction.attempt import Attempt
from airflow_provider_segtable.services.compaction.stages import rewritten
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.indexes.routing import Target, parted_corrections
from airflow_provider_segtable.table.log.committer import Change, Outcome, commit

PASSES = 20


def complete(
    ports: TableContext, attempt: Attempt, outputs: tuple[Segment, ...]
) -> tuple[Outcome, tuple[Segment, ...]]:
    """Commit ``PlanCompleted``; return the outcome, and the segments that it names.

    Raises:
        CommitUnknown: the event may have landed; the files stay.
        SegtableError: nothing was committed; the files were deleted.
    """
    segments, late = outputs, tuple[SegmentId, ...]()
    try:
        outcome, state = _tried(ports, attempt, segments, late)
        for _ in range(PASSES):
            step = _division(attempt, late, state) if isinstance(outcome, Conflict) else None
            if step is None:
                break
            stages = rewritten(ports, replace(attempt, state=state), step, 1)
            segments = (*segments, *run_stages(stages, ports.files))
            target = Target(
                layout=attempt.plan.layout_after(state.layout),
                version=state.plans[attempt.plan.id].version or 0,
            )
            for segment in parted_corrections(ports, state, target, step.late):
                segments = (*segments, segment)
            late = (*late, *(segment.id for segment in step.late))
            outcome, state = _tried(ports, attempt, segments, late)
    except CommitUnknown:
        raise
    except Exception:
        discard(ports.files, [segments])
        raise
    if isinstance(outcome, Conflict):
        discard(ports.files, [segments])
    return outcome, segments


def _tried(
    ports: TableContext,
    attempt: Attempt,
    segments: tuple[Segment, ...],
    late: tuple[SegmentId, ...],
) -> tuple[Outcome, State]:
    """Return the outcome of a commit, and after a conflict the state that it met."""
    action = PlanCompleted(
        plan_id=attempt.plan.id, attempt=attempt.token, segments=segments, late=late
    )
    commit_id = f"completed-{attempt.token}"
    change = Change(action=action, commit_id=commit_id, guard=attempt.lease.check)
    outcome = commit(ports, attempt.state, change)
    met = isinstance(outcome, Conflict)
    return outcome, ports.log.refresh(attempt.state) if met else attempt.state


def _division(attempt: Attempt, late: tuple[SegmentId, ...], state: State) -> Rewrite | None:
    """Return how to divide what came since; None if that is not why the commit was refused."""
    found = state.plans.get(attempt.plan.id)
    if found is None or not found.status.pending or found.attempt != attempt.token:
        return None
    return attempt.plan.division(found.with_inputs(late), state)
