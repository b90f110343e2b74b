"""Rebase: may my change follow what others have committed since I read the log?

``admit(action, state)`` is asked by the committer with the newest state, before every attempt
to put the next event; since the event is put-if-absent at ``state.n + 1``, nothing can come in
between. The answer is the action to commit (possibly smaller) or a ``Conflict`` that says why
and which event won.

=====================  ==================================================================
mine                   over theirs
=====================  ==================================================================
append                 commutes with appends and compactions; refused if one of its ids is
                       settled (voided because its writer was thought dead) or its chunk has
                       moved to another version
compaction completed   commutes with appends and with compactions of other groups; refused if
                       the plan is finished, another attempt superseded mine, or an input is
                       no longer visible
plan requested         refused if an input is not visible or claimed by a pending plan, or if
                       the plan is pending or completed already (an aborted one may come back)
plan aborted           refused if an attempt began that its author did not know of
void                   drops ids that were settled meanwhile
=====================  ==================================================================

The books are checked here, at commit: outputs hold exactly the inputs' rows, by lineage.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import assert_never

from airflow_provider_segtable.core.adjacency import check_plan
from airflow_provider_segtable.core.errors import BooksDoNotBalance
from airflow_provider_segtable.core.events import (
    Action,
    Appended,
    PlanAborted,
    PlanCompleted,
    PlanInflight,
    PlanRequested,
    TableCreated,
    Voided,
)
from airflow_provider_segtable.core.plan import CompactionPlan
from airflow_provider_segtable.core.segment import Segment, SegmentId, concatenated
from airflow_provider_segtable.core.state import PlanState, PlanStatus, State, generation_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Conflict:
    """The change cannot be committed; ``winner`` is the event that forbids it, if one does."""

    reason: str
    winner: int | None = None


def admit(action: Action, state: State) -> Action | Conflict:
    """Return the action as it may be committed next, or why it may not.

    Raises:
        BooksDoNotBalance: if a compaction's outputs do not hold exactly its inputs' rows.
    """
    match action:
        case TableCreated():
            return Conflict(reason="the table exists already", winner=0)
        case Appended():
            return _append(action, state)
        case Voided():
            return _void(action, state)
        case PlanRequested(plan=plan):
            return _request(plan, state) or action
        case PlanInflight():
            return _start(action, state) or action
        case PlanCompleted():
            return _complete(action, state) or action
        case PlanAborted():
            return _abort(action, state) or action
        case _:
            assert_never(action)


def _append(action: Appended, state: State) -> Action | Conflict:
    for segment in action.segments:
        settled = _settled(segment.id, state)
        if settled:
            return settled
        target = state.append_chunk(segment.id.interval)
        if segment.id.chunk != target:
            reason = f"chunk {segment.id.chunk} has moved to version {target.version}"
            return Conflict(reason=reason)
    return action


def _settled(segment_id: SegmentId, state: State) -> Conflict | None:
    space = state.id_space(segment_id.chunk, generation_of(segment_id))
    if space.free(segment_id.partition):
        return None
    voided = segment_id.partition in state.voided.get(segment_id.chunk, ())
    how = "voided: its writer was thought dead" if voided else "used already"
    return Conflict(reason=f"segment id {segment_id} was {how}; allocate a new one and write again")


def _void(action: Voided, state: State) -> Action | Conflict:
    still = tuple(
        i for i in action.ids if state.id_space(i.chunk, generation_of(i)).free(i.partition)
    )
    if not still:
        return Conflict(reason="all these ids were settled meanwhile")
    return replace(action, ids=still)


def _request(plan: CompactionPlan, state: State) -> Conflict | None:
    known = state.plans.get(plan.id)
    if known and known.status is not PlanStatus.ABORTED:
        return Conflict(reason=f"plan {plan.id} is {known.status} already", winner=known.last_n)
    claimed = set(plan.inputs)
    for other in state.pending_plans():
        if claimed & set(other.plan.inputs):
            reason = f"inputs of {plan.id} are claimed by pending plan {other.plan.id}"
            return Conflict(reason=reason, winner=other.last_n)
    gone = _inputs_gone(plan, state)
    if gone:
        return gone
    groups = state.timeline.visible_groups(plan.chunk)
    check_plan(plan, groups, state.voided.get(plan.chunk, frozenset()))
    return None


def _start(action: PlanInflight, state: State) -> Conflict | None:
    found = _pending(action.plan_id, state)
    if isinstance(found, Conflict):
        return found
    if found.token and action.token.older_than(found.token):
        return _superseded(found)
    for output in action.outputs:
        settled = _settled(output, state)
        if settled:
            return settled
    return _inputs_gone(found.plan, state)


def _complete(action: PlanCompleted, state: State) -> Conflict | None:
    found = _pending(action.plan_id, state)
    if isinstance(found, Conflict):
        return found
    if found.attempt != action.attempt:
        return _superseded(found)
    gone = _inputs_gone(found.plan, state)
    if gone:
        return gone
    _check_books(found, action.segments, state)
    return None


def _abort(action: PlanAborted, state: State) -> Conflict | None:
    found = _pending(action.plan_id, state)
    if isinstance(found, Conflict):
        return found
    return None if found.attempt == action.attempt else _superseded(found)


def _pending(plan_id: str, state: State) -> PlanState | Conflict:
    found = state.plans.get(plan_id)
    if found is None:
        return Conflict(reason=f"plan {plan_id} is not in the log")
    if not found.status.pending:
        done = "completed" if found.status is PlanStatus.COMPLETED else "aborted"
        reason = f"plan {plan_id} was {done} by {found.author}"
        return Conflict(reason=reason, winner=found.last_n)
    return found


def _superseded(found: PlanState) -> Conflict:
    reason = f"plan {found.plan.id} was taken over by {found.author} (attempt {found.attempt})"
    return Conflict(reason=reason, winner=found.last_n)


def _inputs_gone(plan: CompactionPlan, state: State) -> Conflict | None:
    visible = {
        segment.id
        for group in state.timeline.visible_groups(plan.chunk)
        for segment in group.segments
    }
    gone = next((i for i in plan.inputs if i not in visible), None)
    if gone is None:
        return None
    winner = _who_replaced(gone, state)
    by = f"by plan {winner.plan.id}" if winner else "meanwhile"
    return Conflict(
        reason=f"input {gone} of plan {plan.id} was replaced {by}",
        winner=winner.last_n if winner else None,
    )


def _who_replaced(segment_id: SegmentId, state: State) -> PlanState | None:
    completed = (p for p in state.plans.values() if p.status is PlanStatus.COMPLETED)
    replacing = [p for p in completed if segment_id in p.plan.inputs]
    return max(replacing, key=lambda p: p.last_n, default=None)


def _check_books(found: PlanState, segments: tuple[Segment, ...], state: State) -> None:
    plan = found.plan
    inputs = [state.timeline.get(segment_id) for segment_id in plan.inputs]
    runs_in = concatenated(segment for segment in inputs if segment)
    runs_out = concatenated(sorted(segments, key=lambda s: s.shard.partition))
    minor = state.timeline.max_minor(plan.chunk, plan.root_start, plan.root_end)
    problems = [
        *_unequal("output ids", {s.id for s in segments}, set(found.outputs)),
        *_unequal("lineage", runs_out, runs_in),
        *_wrong_shards(plan, segments, minor),
    ]
    if problems:
        raise BooksDoNotBalance(f"plan {plan.id} is refused: {'; '.join(problems)}")


def _wrong_shards(plan: CompactionPlan, segments: tuple[Segment, ...], minor: int) -> Iterable[str]:
    for segment in segments:
        shard = segment.shard
        yield from _unequal(
            f"root range of {segment.id}",
            (shard.root_start, shard.root_end),
            (plan.root_start, plan.root_end),
        )
        yield from _unequal(f"group size of {segment.id}", shard.group_size, len(segments))
        if shard.minor_version <= minor:
            yield f"minor version of {segment.id} is {shard.minor_version}, must be over {minor}"


def _unequal(what: str, found: object, expected: object) -> Iterable[str]:
    if found != expected:
        yield f"{what}: expected {expected}, found {found}"
