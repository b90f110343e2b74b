"""Admission: whether a change may follow the events committed since its author read the log.

The committer calls ``admit(action, state)`` with the newest state before every attempt to put the
next event. The event is put-if-absent at ``state.n + 1``, so no other event can come in between.
The result is the action to commit, amended if that resolves the conflict, or a ``Conflict`` with
the reason and the winning event.

=====================  ==================================================================
mine                   over theirs
=====================  ==================================================================
append                 never waits: if its chunk has moved to another version or its ids were
                       settled, it gets other ids, by metadata alone. Refused only if granularity
                       changed and one of its segments lies in two chunks
change                 its appends likewise; its deletions commute with every compaction, because
                       root addresses never change. Refused if one of its roots has a deletion
                       that its author had not read: it has to check for equal rows
compaction completed   commutes with appends, changes and compactions of other groups; a new
                       version carries over segments appended meanwhile
                       (``core.segments.replacement``). Refused if the plan is finished, another
                       attempt superseded mine, or an input is no longer visible
plan requested         refused if an input is not visible or claimed by a pending plan, or if
                       the plan is pending or completed already (an aborted one may come back)
plan yielded, aborted  refused if an attempt began that its author had not read
void                   drops ids that were settled meanwhile
repair                 refused if an id to remove is absent or one to add is present, or if segments
                       of a chunk would disagree about its core set: plan the repair again
cleaned                drops ids that are needed now, or gone; refused if a version was tagged
                       that its author had not read
swept                  drops paths that another writer swept
tagged                 refused if the version is no longer kept, or the name is taken
=====================  ==================================================================

The balance check runs here, at commit (``core.segments.balance``).
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import assert_never

from airflow_provider_segtable.core.locks.lockbox import Generation
from airflow_provider_segtable.core.log.cleanable import still_cleanable
from airflow_provider_segtable.core.log.conflict import Conflict
from airflow_provider_segtable.core.log.events import (
    Action,
    Appended,
    Cleaned,
    PlanAborted,
    PlanCompleted,
    PlanInflight,
    PlanRequested,
    PlanYielded,
    RowsChanged,
    Swept,
    TableCreated,
    TableRepaired,
    Tagged,
    Untagged,
    Voided,
)
from airflow_provider_segtable.core.log.state import State, forgettable
from airflow_provider_segtable.core.plans.compaction_plan import CompactionPlan, PlanKind
from airflow_provider_segtable.core.plans.plan_state import PlanState, PlanStatus
from airflow_provider_segtable.core.segments.adjacency import check_plan
from airflow_provider_segtable.core.segments.balance import check_balance
from airflow_provider_segtable.core.segments.id_space import IdSpace
from airflow_provider_segtable.core.segments.replacement import moved, taken_over
from airflow_provider_segtable.core.segments.segment import ChunkKey, Run, Segment, SegmentId

__all__ = ["Conflict", "admit", "inputs_gone"]


def admit(action: Action, state: State) -> Action | Conflict:  # noqa: C901, PLR0912 - one case a kind
    """Return the action to commit next, or the conflict that forbids it.

    Raises:
        RowsOutOfBalance: if a compaction's outputs do not account for the rows of its inputs.
    """
    match action:
        case TableCreated():
            return Conflict(reason="the table exists already", winner=0)
        case Appended(segments=segments):
            placed = _placed(segments, state)
            return placed if isinstance(placed, Conflict) else replace(action, segments=placed)
        case RowsChanged():
            return _change(action, state)
        case Voided():
            return _void(action, state)
        case PlanRequested(plan=plan):
            return _request(plan, state) or action
        case PlanInflight():
            return _start(action, state) or action
        case PlanCompleted():
            return _complete(action, state)
        case PlanYielded() | PlanAborted():
            return _give_up(action, state) or action
        case Cleaned():
            return _clean(action, state)
        case Swept(paths=paths):
            left = tuple(path for path in paths if path in state.pending_delete)
            return Swept(paths=left) if left else Conflict(reason="others swept these files")
        case Tagged() | Untagged():
            return _name(action, state) or action
        case TableRepaired():
            return _restore(action, state) or action
        case _:
            assert_never(action)


def _restore(action: TableRepaired, state: State) -> Conflict | None:
    """Refuse a repair if later events changed the state that it was planned for."""
    for lost in action.lost:
        if state.timeline.get(lost) is None:
            return Conflict(reason=f"{lost} is not in the table any more; repair again")
    for segment in action.segments:  # an attempt whose end was lost may have settled ids
        dead = segment.id.partition in state.voided.get(segment.id.chunk, ())
        if dead or state.timeline.get(segment.id):
            return Conflict(reason=f"{segment.id} was published or voided meanwhile; repair again")
        if segment.path in state.pending_delete:
            return Conflict(reason=f"{segment.path} was cleaned meanwhile; repair again")
    return _core_sets_differ(action, state)


def _core_sets_differ(action: TableRepaired, state: State) -> Conflict | None:
    """Refuse a repair if segments of a chunk would disagree about its core set."""
    left = state.timeline.with_changes(remove=action.lost)
    sizes: dict[ChunkKey, int] = {}
    for segment in action.segments:
        chunk, found = segment.id.chunk, segment.shard.core
        known = left.core(chunk) if chunk in left.chunk_keys(chunk.interval) else found
        expected = sizes.setdefault(chunk, known)
        if found != expected:
            reason = f"{segment.id} says that the core set of its chunk has {found} segments"
            return Conflict(reason=f"{reason}, others say {expected}; repair again")
    return None


def _clean(action: Cleaned, state: State) -> Action | Conflict:
    unknown = sorted(state.tags.items() - action.tags.items())
    if unknown:
        name, n = unknown[0]
        return Conflict(reason=f"version {n} was tagged {name!r} meanwhile; look again")
    ids = still_cleanable(action.ids, state)
    older = action.retained_from <= state.retained_from
    if not ids and older and not forgettable(state):
        return Conflict(reason="others cleaned all of this meanwhile")
    return replace(action, ids=ids)


def _name(action: Tagged | Untagged, state: State) -> Conflict | None:
    known = state.tags.get(action.name)
    if isinstance(action, Untagged):
        return Conflict(reason=f"there is no tag {action.name!r}") if known is None else None
    if known is not None:
        return Conflict(reason=f"tag {action.name!r} is version {known} already; delete it first")
    if not state.keeps(action.n):
        kept = f"kept are {state.retained_from} to {state.n}"
        return Conflict(reason=f"version {action.n} cannot be tagged: {kept}")
    return None


def _change(action: RowsChanged, state: State) -> Action | Conflict:
    if action.vectors and action.seen < state.vectors_pruned_through:
        pruned = state.vectors_pruned_through
        reason = f"deletions up to event {pruned} were cleaned since event {action.seen}"
        return Conflict(reason=f"{reason}; look again", winner=pruned)
    for root in (root for file in action.vectors for root in file.rows):
        winner = max((each.n for each in state.vectors.get(root, ())), default=0)
        if winner > action.seen:
            return Conflict(reason=f"event {winner} deleted rows of {root}, too", winner=winner)
    placed = _placed(action.segments, state)
    return placed if isinstance(placed, Conflict) else replace(action, segments=placed)


def _placed(segments: Iterable[Segment], state: State) -> tuple[Segment, ...] | Conflict:
    """Return new segments under their final ids; in a rollup table, after all deletions so far.

    Several files may have been written under one id. The first one published keeps the id as its
    root; rows of the others get root addresses by the id under which they are published.
    """
    spaces: dict[ChunkKey, IdSpace] = {}

    def space_of(chunk: ChunkKey) -> IdSpace:
        return spaces.get(chunk) or state.id_space(chunk, Generation.FIRST)

    placed: list[Segment] = []
    for segment in segments:
        target, written = moved(segment, state), segment.id
        if isinstance(target, Conflict):
            return target
        unsettled = space_of(written.chunk).free(written.partition)
        stays = written.chunk == target and unsettled
        partition = written.partition if stays else space_of(target).next
        for chunk, taken in ((target, partition), (written.chunk, written.partition)):
            spaces[chunk] = space_of(chunk).settle([taken])
        carried = segment.carried(target.segment(partition), state.timeline.core(target))
        if state.table.rollup:
            carried = replace(carried, deletes_applied_through=state.n)
        elif not unsettled:
            carried = replace(carried, lineage=(Run(carried.id, 0, carried.rows),))
        placed.append(carried)
    return tuple(placed)


def _void(action: Voided, state: State) -> Action | Conflict:
    still = tuple(
        i for i in action.ids if state.id_space(i.chunk, Generation.of(i)).free(i.partition)
    )
    if not still:
        return Conflict(reason="all these ids were settled meanwhile")
    return replace(action, ids=still)


def _request(plan: CompactionPlan, state: State) -> Conflict | None:
    known = state.plans.get(plan.id)
    if known and known.status is not PlanStatus.ABORTED:
        return Conflict(reason=f"plan {plan.id} is {known.status} already", winner=known.last_n)
    for other in state.pending_plans():
        if _rivals(plan, other):
            reason = f"inputs of {plan.id} are claimed by pending plan {other.plan.id}"
            return Conflict(reason=reason, winner=other.last_n)
    gone = inputs_gone(plan, plan.inputs, state)
    if gone or plan.kind is PlanKind.MAJOR:
        return gone
    groups = state.timeline.visible_groups(plan.chunk)
    check_plan(plan, groups, state.voided.get(plan.chunk, frozenset()))
    return None


def _rivals(plan: CompactionPlan, other: PlanState) -> bool:
    """Return whether two plans contest their inputs.

    A major plan contests only other major plans here; it waits for the rest by lock.
    """
    if other.plan.kind is PlanKind.MAJOR:
        return plan.interval.overlaps(other.plan.interval)
    return plan.kind is not PlanKind.MAJOR and not set(plan.inputs).isdisjoint(other.inputs)


def _start(action: PlanInflight, state: State) -> Conflict | None:
    found = _pending(action.plan_id, state)
    if isinstance(found, Conflict):
        return found
    if found.token and action.token.older_than(found.token):
        return _superseded(found)
    for output in action.outputs:
        if not state.id_space(output.chunk, Generation.of(output)).free(output.partition):
            return Conflict(reason=f"segment id {output} was used already; ask for new ones")
    least = state.version_above(found.plan.interval)
    if action.version is not None and action.version <= least:
        reason = f"version {action.version} is not above {least}; ask for a higher one"
        return Conflict(reason=reason)
    return inputs_gone(found.plan, action.inputs or found.plan.inputs, state)


def _complete(action: PlanCompleted, state: State) -> Action | Conflict:
    found = _pending(action.plan_id, state)
    if isinstance(found, Conflict):
        return found
    if not _newest(found, action.attempt):
        return _superseded(found)
    gone = inputs_gone(found.plan, found.inputs, state)
    if gone:
        return gone
    check_balance(found, action.segments, state)
    if found.plan.kind is not PlanKind.MAJOR:
        return action
    late = taken_over(found, action.segments, state)
    if isinstance(late, Conflict):
        return late
    return replace(action, segments=(*action.segments, *late))


def _give_up(action: PlanYielded | PlanAborted, state: State) -> Conflict | None:
    found = _pending(action.plan_id, state)
    if isinstance(found, Conflict):
        return found
    return None if _newest(found, action.attempt) else _superseded(found)


def _pending(plan_id: str, state: State) -> PlanState | Conflict:
    found = state.plans.get(plan_id)
    if found is None:
        return Conflict(reason=f"plan {plan_id} is not in the log")
    if not found.status.pending:
        done = "completed" if found.status is PlanStatus.COMPLETED else "aborted"
        reason = f"plan {plan_id} was {done} by {found.author}"
        return Conflict(reason=reason, winner=found.last_n)
    return found


def _newest(found: PlanState, attempt: str | None) -> bool:
    """Return whether the attempt is the newest in the log: only that one may end its plan."""
    return found.attempt == attempt


def _superseded(found: PlanState) -> Conflict:
    reason = f"plan {found.plan.id} was taken over by {found.author} (attempt {found.attempt})"
    return Conflict(reason=reason, winner=found.last_n)


def inputs_gone(plan: CompactionPlan, inputs: Iterable[SegmentId], state: State) -> Conflict | None:
    """Return the conflict if an input of a plan is no longer visible, or None."""
    visible = {segment.id for segment in state.timeline.visible_segments(plan.interval)}
    gone = next((i for i in inputs if i not in visible), None)
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
    replacing = [p for p in completed if segment_id in p.inputs]
    return max(replacing, key=lambda p: p.last_n, default=None)
