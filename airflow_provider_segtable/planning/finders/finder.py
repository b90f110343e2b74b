"""The planning side of a kind of plan: how its candidates are found.

1. Each kind has one module here, named by ``Plan.planned_in``, with a ``FINDER``. The planner and
   manual requests go over the kinds and ask their finders; neither names a kind.
2. A finder reports candidates that are worth their cost, and a reason for everything it skips. It
   finds them in a whole interval, or in one chunk that no pending plan over an interval claims. Or
   it finds plans over the whole table, once the others are chosen (``in_table``).
3. A ``Draining`` instead of a candidate keeps smaller kinds from making new plans there.
4. Candidates of one kind contest nothing among themselves. A candidate of a larger kind replaces
   the smaller ones whose segments or interval it claims (``planning.table_plan``).
5. ``may_be_due`` and the bound of an area (``planning.ranking.areas``) are upper bounds: a
   candidate of k segments gains at most the k - 1 that it removes, and tidies each copied byte at
   most twice: if rows in it are deleted, and for another cause (``may_tidy``).
"""

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from functools import cache
from importlib import import_module
from typing import ClassVar

from airflow_provider_segtable.core.chunk import ChunkSummary
from airflow_provider_segtable.core.log.plan import Plan
from airflow_provider_segtable.core.log.plan_kinds import kinds
from airflow_provider_segtable.core.segment import ChunkKey
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.planning.chosen_segments import Chosen
from airflow_provider_segtable.planning.planner_context import PlannerContext
from airflow_provider_segtable.planning.ranking.selection import Candidate, Draining
from airflow_provider_segtable.planning.reasons import Skipped


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
        """Return whether a plan may be due in an area, beside those for deleted rows."""

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
    """Yield those of the chunks that may be compacted; add reasons for all others."""
    touched = set(chunks)
    return (chunk for chunk in found.open_chunks(skipped) if chunk in touched)
