"""Which rows were added since a version: an incremental read.

1. A row is added by the event that publishes its *root*, the file in which it was first written. A
   root's id is settled by that event (``core.segments.id_space``) and never again free. So a row
   was added after version ``start`` iff its root's id was free then.
2. So neither the events in between nor the original files are needed: rows that were compacted
   since are found in the outputs, by their roots.
3. A segment that was present at ``start`` has no such rows.
4. The rows are those visible at the end of the window. Rows that were added and deleted in it are
   not among them, nor are old rows that a restore showed again: a change feed has both
   (``core.reads.effects``).

Source of the idea: Hudi's incremental query (RFC-66), start exclusive, end inclusive, by completion
time; it needs the commits of the window, and every row's commit time.
"""

from dataclasses import dataclass

from airflow_provider_segtable.core.locks.lockbox import Generation
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segments.roots import named_roots
from airflow_provider_segtable.core.segments.segment import Segment, SegmentId


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
