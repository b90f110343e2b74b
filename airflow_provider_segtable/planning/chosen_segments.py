"""Segments that a user chose to compact: which they are, and why some cannot be.

1. Ids are written as ``table segments`` prints them. Each must be visible at the newest version.
2. Each kind has its own rule for what it compacts then (``Finder.chosen``): a minor compaction
   joins exactly these segments, the others take the whole chunks that they lie in.
3. A segment that no plan takes is refused, with the planner's reason.
4. A choice that was made before has its plans already: pending ones, or completed ones that hid
   the segments. So the same request again, as by a task's retry, compacts nothing twice.
"""

from collections.abc import Collection, Iterable, Sequence

from airflow_provider_segtable.core.errors import CorruptTable, SegmentsRefused
from airflow_provider_segtable.core.log.plan import Plan, PlanState
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import SegmentId
from airflow_provider_segtable.planning.reasons import Skipped

Chosen = frozenset[SegmentId]


def chosen_ids(texts: Sequence[SegmentId | str]) -> Chosen:
    """Return the chosen segments' ids.

    Raises:
        SegmentsRefused: nothing is chosen, or a text is not an id.
    """
    if not texts:
        raise SegmentsRefused("no segment is chosen: name some, as `segtable table segments` does")
    return frozenset(_parsed(text) for text in texts)


def check_visible(ids: Chosen, state: State) -> None:
    """Refuse segments that are unknown, hidden or without rows.

    Raises:
        SegmentsRefused: with the first of them, and the way out.
    """
    for chunk in sorted({each.chunk for each in ids}):
        visible = {
            segment.id: segment for segment in state.timeline.visible_segments(chunk.interval)
        }
        for each in sorted(each for each in ids if each.chunk == chunk):
            if each not in visible:
                raise SegmentsRefused(_absent(each, state))
            if visible[each].tombstone:
                raise SegmentsRefused(f"segment {each} has no rows: there is nothing to compact")


def made_before(known: PlanState, ids: Chosen, state: State) -> bool:
    """Return whether a plan compacts, or has compacted, the chosen segments of its interval."""
    if known.status.pending:
        return taken_by(known.plan, ids)
    return known.completed and taken_by(known.plan, ids) and not _visible(known.plan, ids, state)


def _visible(plan: Plan, ids: Chosen, state: State) -> bool:
    """Return whether a chosen input of a plan is visible, e.g. because it was restored."""
    visible = {each.id for each in state.timeline.visible_segments(plan.interval)}
    return not visible.isdisjoint(ids.intersection(plan.inputs))


def _parsed(text: SegmentId | str) -> SegmentId:
    if isinstance(text, SegmentId):
        return text
    try:
        return SegmentId.parse(text)
    except CorruptTable:
        raise SegmentsRefused(
            f"{text!r} is not a segment id: copy one from `segtable table segments`, e.g. "
            "20130101T000000_20130102T000000_1767225600000000_0"
        ) from None


def _absent(segment: SegmentId, state: State) -> str:
    if segment in state.timeline:
        return (
            f"segment {segment} is hidden: others have replaced it; choose from what "
            "`segtable table segments` lists"
        )
    return (
        f"{state.table.name} has no segment {segment}: it may have been replaced and cleaned; "
        "choose from what `segtable table segments` lists"
    )


def taken_by(plan: Plan, ids: Collection[SegmentId]) -> bool:
    """Return whether a plan compacts all chosen segments of its interval, and at least one."""
    inside = {each for each in ids if plan.interval.encloses(each.interval)}
    return bool(inside) and inside.issubset(plan.inputs)


def check_taken(ids: Chosen, plans: Iterable[Plan], skipped: Iterable[Skipped]) -> None:
    """Refuse chosen segments that no plan compacts.

    Raises:
        SegmentsRefused: with the planner's reason for the first of them.
    """
    left = sorted(ids.difference(*(plan.inputs for plan in plans)))
    if left:
        first = left[0]
        reasons = (
            each.reason
            for each in skipped
            if each.chunk.interval.overlaps(first.interval)
            and (not each.partitions or first.partition in each.partitions)
        )
        more = f" (and {len(left) - 1} more)" if len(left) > 1 else ""
        why = next(reasons, "the plan for its chunk leaves it out")
        raise SegmentsRefused(f"segment {first}{more} cannot be compacted so: {why}")
