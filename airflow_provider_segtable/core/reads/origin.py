"""The origin of rows: which write made them, as hidden columns show it on request.

1. The origin of a row is that of its *root*, the file in which it was first written: the *instant*,
   when the writer began, and the *completion time*, that of the event which published the root.
   Compactions keep it, because rows keep their root.
2. A read has the hidden columns (``ORIGIN_COLUMNS``) if its request names them. A table's own
   column of such a name hides the hidden one.
3. In an append table the log tells the origin, by the descriptors of roots. When no kept version
   needs the file of a root any more, cleaning removes its descriptor, and the origin of compacted
   rows is unknown: null. Rows that were not compacted always have one.
4. In a primary-key table files describe the roots of their records (``data.merge.root_orders``), so
   the origin is always known. A row of several records has that of the record that completed last.
5. So a row was added in the window after a time if its completion time is later
   (``core.reads.added``), and an unknown one is earlier than the oldest kept version.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from airflow_provider_segtable.core.reads.effects import COMPLETION_TIME
from airflow_provider_segtable.core.segments.roots import named_roots
from airflow_provider_segtable.core.segments.segment import Segment, SegmentId
from airflow_provider_segtable.core.segments.timeline import Timeline
from airflow_provider_segtable.core.time.interval import Instant, Interval

INSTANT = "_segtable_instant"
"""The column with the time at which the write of the row began, UTC."""
ORIGIN_COLUMNS = (INSTANT, COMPLETION_TIME)


@dataclass(frozen=True, slots=True)
class Origin:
    """When the write of a row began, and when it was published; 0 if that is unknown."""

    instant: Instant
    completed: Instant


Origins = dict[str, Origin]
"""Origins by root, as text."""


@dataclass(frozen=True, slots=True)
class KnownOrigins:
    """The origins of all roots whose descriptors a version of an append table has."""

    timeline: Timeline
    _by_interval: dict[Interval, dict[SegmentId, Origin]] = field(default_factory=dict, repr=False)

    def of(self, segment: Segment) -> Origins:
        """Return the known origins of the rows of a segment."""
        roots = {run.root for run in segment.runs} or named_roots(segment)
        found = ((root, self._near(root.interval).get(root)) for root in roots)
        return {str(root): origin for root, origin in found if origin}

    def _near(self, interval: Interval) -> dict[SegmentId, Origin]:
        if interval not in self._by_interval:
            self._by_interval[interval] = dict(_described(self.timeline.segments(interval)))
        return self._by_interval[interval]


def _described(segments: Iterable[Segment]) -> Iterator[tuple[SegmentId, Origin]]:
    """Yield the roots among segments, by the ids that rows know them by."""
    for segment in segments:
        for run in segment.runs:
            if segment.completed or run.root in (segment.id, segment.file_id):
                yield run.root, Origin(segment.created, segment.completed)
