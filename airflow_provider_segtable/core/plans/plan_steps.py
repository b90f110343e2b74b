"""Steps of a plan's execution: what its worker does next, as pure data.

A worker asks its plan for the next step until the plan publishes (``Plan.next_step``). A plan may
take several steps over data, each decided from the results of those before it. The jobs of a step
depend on what the table keeps; ``services.compaction.stages`` makes them.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import TypeAlias

from airflow_provider_segtable.core.segments.segment import Segment
from airflow_provider_segtable.core.time.interval import Interval
from airflow_provider_segtable.core.time.layout import Layout


@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """Rewrite the live rows of the inputs into new segments.

    Attributes:
        late: rewrite these log files instead of the inputs, into log files of other places.
        intervals: the time chunks that may receive rows; without those of ``sparse`` inputs.
        sparse: inputs with fewer rows than time chunks between their first and last event. Their
            event times are read, to find the chunks of their rows (``with_chunks``).
        layout: the layout of these chunks; None if no input is sparse.
        clustering: the order of output rows (``core.tables.clustering``), by event time if empty;
            None keeps the order of the inputs.
        most: the maximum number of outputs; 0 means any number.
        buckets: the number of buckets of each of these chunks; empty without a primary key, and if
            the rows stay in the bucket of the inputs.
        one_group: the outputs are one atomic update group in the version of the inputs. Such a
            group has at least one segment, if need be without rows.
    """

    late: tuple[Segment, ...] = ()
    intervals: tuple[Interval, ...]
    clustering: str | None
    most: int = 0
    buckets: tuple[int, ...] = ()
    one_group: bool
    sparse: tuple[Segment, ...] = ()
    layout: Layout | None = None

    def with_chunks(self, found: Iterable[Interval]) -> "Rewrite":
        """Return the rewrite with the time chunks that rows of sparse inputs were found in."""
        layout, intervals = self.layout, tuple(sorted({*self.intervals, *found}))
        if layout is None:
            return self
        buckets = tuple(layout.buckets_at(each.start) for each in intervals if layout.buckets)
        return replace(self, intervals=intervals, buckets=buckets, sparse=(), layout=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Publish:
    """Commit the plan's completion with these segments."""

    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildIndex:
    """Build what an index lacks, in pieces that are committed one by one.

    Attributes:
        index: the id of the index.
        apart: the time to leave for later.
    """

    index: str
    apart: tuple[Interval, ...] = ()


Step: TypeAlias = Rewrite | BuildIndex | Publish
