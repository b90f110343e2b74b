"""What to build next of an index: a piece of time that it lacks, with few enough files.

A build takes the earliest time that is lacking, chunk by chunk, until it has enough files. A chunk
is never divided, so a piece has at least one.
"""

from dataclasses import dataclass

from airflow_provider_segtable.core.indexes.index_state import IndexState
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segments.segment import Segment
from airflow_provider_segtable.core.time.interval import Interval

MOST_FILES = 256
"""Number of files from which on a piece takes no further chunk."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A time to build, and the files in it that readers see."""

    interval: Interval
    segments: tuple[Segment, ...]


def next_piece(index: IndexState, state: State, most: int = MOST_FILES) -> Piece | None:
    """Return what to build next; None if the index lacks nothing."""
    if not index.lacks:
        return None
    lack = index.lacks[0].interval
    found: list[Segment] = []
    end = lack.start
    for chunk in sorted({each.interval for each in state.timeline.visible_chunks(lack)}):
        if len(found) >= most:
            return Piece(interval=Interval(lack.start, end), segments=tuple(dict.fromkeys(found)))
        found += files_in(state, chunk)
        end = max(end, min(chunk.end, lack.end))
    return Piece(interval=lack, segments=tuple(dict.fromkeys(found)))


def files_in(state: State, interval: Interval) -> tuple[Segment, ...]:
    """Return the files of a time that readers see."""
    return tuple(each for each in state.timeline.visible_segments(interval) if each.path)


def chunks_lacking(index: IndexState, state: State) -> int:
    """Return the number of time chunks in which an index lacks files."""
    times = (each.interval for each in index.lacks)
    return len({c.interval for time in times for c in state.timeline.visible_chunks(time)})
