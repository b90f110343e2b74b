"""The planning side of a kind of plan: how its candidates are found, and the choices of users.

1. Each kind has one module here, named by ``Plan.planned_in``, with a ``FINDER``. The planner and
   manual requests go over the kinds and ask their finders; neither names a kind.
2. A finder reports candidates that are worth their cost, and a reason for everything it skips. It
   finds them in a whole interval, or in one chunk that no pending plan over an interval claims. Or
   it finds plans over the whole table, once the others are chosen (``in_table``).
3. A ``Draining`` instead of a candidate keeps smaller kinds from making new plans there.
4. Candidates of one kind contest nothing among themselves. A candidate of a larger kind replaces
   the smaller ones whose segments or interval it claims (``planning.table_plan``).
5. ``may_be_due`` and the bound of an area (``planning.table_plan``) are upper bounds: a
   candidate of k segments gains at most the k - 1 that it removes, and tidies each copied byte at
   most twice: if rows in it are deleted, and for another cause (``may_tidy``).

A user may choose the segments to compact:

6. Ids are written as ``table segments`` prints them. Each must be visible at the newest version.
7. Each kind has its own rule for the inputs of a choice (``Finder.chosen``): a minor compaction
   joins exactly these segments, the others take the whole chunks that they lie in.
8. A segment that no plan takes is refused, with the planner's reason.
9. A choice that was made before has its plans already: pending ones, or completed ones that hid
   the segments. So the same request again, as by a task's retry, compacts nothing twice.
"""

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import ClassVar

from airflow_provider_segtable.core.chunk import ChunkSummary
from airflow_provider_segtable.core.errors import CorruptTable, SegmentsRefused
from airflow_provider_segtable.core.log.plan import Plan, PlanState
from airflow_provider_segtable.core.log.plan_kinds import kinds
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import ChunkKey, SegmentId
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.planning.planner_context import PlannerContext
from airflow_provider_segtable.planning.selection import Candidate, Draining, Skipped

# Segments that a user chose
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
            f"segment {segment} is hidden: others have replaced it; choose from the list "
            "of `segtable table segments`"
        )
    return (
        f"{state.table.name} has no segment {segment}: it may have been replaced and cleaned; "
        "choose from the list of `segtable table segments`"
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


# Finders of all kinds
class Finder(ABC):
    """Finds plans of one kind.

    Attributes:
        plan: the kind.
        switch: the field of ``Policy`` that turns the kind off; empty if it is always on.
    """

    plan: ClassVar[type[Plan]]
    switch: ClassVar[str] = ""

    @abstractmethod
    def may_be_due(
        self, found: PlannerContext, interval: Interval, summaries: Sequence[ChunkSummary]
    ) -> bool:
        """Return whether a plan may be due in an area, beside those for deleted rows.

        It is asked before any segment is decoded. False has to hold at any time, until the next
        event of the log: nothing asks again when a file is older.
        """

    def may_tidy(
        self, found: PlannerContext, chunks: Sequence[tuple[ChunkKey, ChunkSummary]]
    ) -> bool:
        """Return whether a plan in an area may gain by tidying, deleted rows aside."""
        del found, chunks
        return True

    def in_interval(
        self, found: PlannerContext, skipped: list[Skipped]
    ) -> tuple[Candidate | Draining, ...]:
        """Return the plans over intervals that are due in the whole context, disjoint in time."""
        del found, skipped
        return ()

    def in_chunk(
        self, found: PlannerContext, chunk: ChunkKey, skipped: list[Skipped]
    ) -> tuple[Candidate | Draining, ...]:
        """Return the plans over segments that are due in a chunk."""
        del found, chunk, skipped
        return ()

    def in_table(
        self, found: PlannerContext, others: Sequence[Plan], skipped: list[Skipped]
    ) -> tuple[Plan, ...]:
        """Return the plans over the whole table that are due, outside of the run's budget.

        Args:
            found: the table, without limits.
            others: the plans over chunks and intervals that the run has chosen.
            skipped: receives a reason for everything left out.
        """
        del found, others, skipped
        return ()

    @abstractmethod
    def asked(
        self, found: PlannerContext, chunks: Sequence[ChunkKey], why: str, skipped: list[Skipped]
    ) -> list[Plan]:
        """Return the plans that a user asks for, whether or not they are due.

        Args:
            found: the table; its policy has the requested settings.
            chunks: the chunks to cover.
            why: the reason to give.
            skipped: receives a reason for everything left out.
        """

    def chosen(
        self, found: PlannerContext, ids: Chosen, why: str, skipped: list[Skipped]
    ) -> list[Plan]:
        """Return the plans for chosen segments: by default, for the chunks that they lie in.

        Raises:
            SegmentsRefused: the segments cannot be compacted together.
        """
        chunks = {each.chunk for each in ids}
        return self.asked(found, [c for c in found.chunks() if c in chunks], why, skipped)


@cache
def finder_of(kind: type[Plan]) -> Finder:
    """Return the finder of a kind."""
    finder: Finder = import_module(kind.planned_in).FINDER
    return finder


def finders() -> tuple[Finder, ...]:
    """Return the finders of all kinds, smallest kind first."""
    return tuple(map(finder_of, kinds()))


def open_among(
    found: PlannerContext, chunks: Sequence[ChunkKey], skipped: list[Skipped]
) -> Iterator[ChunkKey]:
    """Yield the chunks that may be compacted; add reasons for all others."""
    touched = set(chunks)
    return (chunk for chunk in found.open_chunks(skipped) if chunk in touched)
