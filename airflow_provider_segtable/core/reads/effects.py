"""Effects of events on rows: changes for a feed, origins, rows added in a window, and batches.

1. An append adds the rows of its segments. An event of ``RowsChanged`` deletes the rows that its
   vectors name, then adds the rows of its segments.
2. An update deletes and adds the same number of rows: ``update_before`` and ``update_after``. The
   log records no pairs, so the rows of one event are not matched with each other: all old rows
   precede the new ones. Nor does a merge record which of its rows are new, so its rows, like an
   overwrite's, are deletes and inserts.
3. A restore or repair changes which segments are visible. The rows before and after it are compared
   by root address, in the intervals that the event names.
4. No other event changes rows: compactions move them, cleanings remove files of hidden ones, and
   alterations change columns.
5. The *origin* of a row names the write that made it. It is that of the row's *root*, the file in
   which it was first written: the *instant*, when the writer began, and the *completion time*, that
   of the event which published the root. Compactions keep it, because rows keep their root.
6. A read has the hidden columns of origins (``ORIGIN_COLUMNS``) if its request names them. A
   table's own column of such a name hides the hidden one.
7. In an append table the log has the origin, in the descriptors of roots. When no kept version
   needs the file of a root any more, cleaning removes its descriptor, and the origin of compacted
   rows is unknown: null. Rows that were not compacted always have one.
8. In a primary-key table files describe the roots of their records (``data.keyed.key_groups``), so
   the origin is always known. A row of several records has that of the record that completed last.
9. So a row was added in the window after a time if its completion time is later (rule 10), and an
   unknown one is earlier than the oldest kept version.
10. An incremental read has the rows that were added since a version. A row is added by the event
    that publishes its root. A root's id is settled by that event (``core.log.state``) and never
    again free. So a row was added after version ``start`` iff its root's id was free then.
11. So neither the events in between nor the original files are needed: rows that were compacted
    since are found in the outputs, by their roots.
12. A segment that was present at ``start`` has no such rows.
13. The rows are those visible at the end of the window. Rows that were added and deleted in it are
    not among them, nor are old rows that a restore showed again: a change feed has both
    (rules 1 to 3).
14. A stream that follows a table reads one window of versions after another. Only versions with
    rows for it, its *steps*, make a batch: compactions, cleanings and consumers' positions make no
    empty ones.
15. Limits bound the content of a batch: versions that changed rows, and files and bytes that these
    added. A version is never divided, so a batch has at least one, whatever its size.
16. A batch ends right before the first step that it has no room for. So rows that were deleted by
    then are not in it.

Source of the idea: Hudi's incremental query (RFC-66), start exclusive, end inclusive, by completion
time; it needs the commits of the window, and every row's commit time.
"""

from collections.abc import Iterable, Iterator
from dataclasses import field, fields

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.locks import Generation
from airflow_provider_segtable.core.log.event_kind import RowEffect, RowsDiffer, RowsInserted
from airflow_provider_segtable.core.log.events import Event, effects
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.requests.read_request import COMPLETION_TIME
from airflow_provider_segtable.core.segment import Segment, SegmentId, named_roots
from airflow_provider_segtable.core.time import Instant, Interval
from airflow_provider_segtable.core.timeline import Timeline

# Changes of rows, as a change feed shows them
CHANGE = "_segtable_change"
"""The column of a change feed with the row's ``RowEffect``."""
VERSION = "_segtable_version"
"""The column with the number of the event, which is a version of the table."""
CHANGE_COLUMNS = (CHANGE, VERSION, COMPLETION_TIME)


@dataclass(frozen=True, slots=True)
class RowChange:
    """A row's effect, by event ``n`` at its completion time."""

    effect: RowEffect
    n: int
    time: Instant


# Origins of rows
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


# Rows added since a version
@dataclass(frozen=True, slots=True)
class Added:
    """The roots of a segment that were published after a version; ``whole`` if all of them were."""

    roots: tuple[SegmentId, ...]
    whole: bool


def added(segment: Segment, start: State) -> Added:
    """Return the roots of a segment whose rows were added after ``start``."""
    if start.timeline.get(segment.id) is not None:
        return Added((), whole=False)
    named = (run.root for run in segment.runs) if segment.traced else named_roots(segment)
    roots = tuple(dict.fromkeys(named))
    found = tuple(root for root in roots if _free(root, start))
    return Added(found, whole=len(found) == len(roots))


def _free(root: SegmentId, state: State) -> bool:
    return state.id_space(root.chunk, Generation.of(root)).free(root.partition)


# Batches of a stream
@dataclass(frozen=True, slots=True, kw_only=True)
class BatchLimits:
    """How many versions, files and bytes a batch has at most; None: any number."""

    versions: int | None = None
    files: int | None = None
    size: int | None = None

    def __post_init__(self) -> None:
        """Refuse limits below 1."""
        for each in fields(self):
            value = getattr(self, each.name)
            if value is not None and value < 1:
                raise InvalidInput(f"a batch of at most {value} {each.name}: give at least 1")

    def allow(self, versions: int, files: int, size: int) -> bool:
        """Return whether a batch may have as much."""
        given = ((versions, self.versions), (files, self.files), (size, self.size))
        return all(most is None or value <= most for value, most in given)


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A version that may have rows for a stream, and the files and bytes that it added."""

    n: int
    files: int = 0
    size: int = 0

    @staticmethod
    def of(event: Event, *, changes: bool) -> "Step | None":
        """Return the step that an event adds to a stream; None if there is none.

        Args:
            event: the event.
            changes: the stream reads every change of a row, not rows added alone.
        """
        found = effects(event.action)
        inserted = [s for each in found if isinstance(each, RowsInserted) for s in each.segments]
        if not inserted and (not found or not (changes or _differs(event))):
            return None
        return Step(n=event.n, files=len(inserted), size=sum(segment.size for segment in inserted))


def _differs(event: Event) -> bool:
    """Return whether an event may bring rows back under roots of its own."""
    return any(isinstance(each, RowsDiffer) for each in effects(event.action))


def batch_end(steps: Iterable[Step], limits: BatchLimits, last: int) -> int | None:
    """Return the version with which the batch of the first steps ends; None if there are none.

    Args:
        steps: the steps after the batch before, up to ``last``, in order.
        limits: how much the batch has at most.
        last: the version with which it ends if they allow all steps.
    """
    versions, files, size = 0, 0, 0
    for step in steps:
        versions, files, size = versions + 1, files + step.files, size + step.size
        if versions > 1 and not limits.allow(versions, files, size):
            return step.n - 1
    return last if versions else None
