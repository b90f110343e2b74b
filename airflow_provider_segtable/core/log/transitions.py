"""Changes of a state that several event families share. Only their folds call them.

1. ``publish``: segments enter the timeline; their ids and those of their origins are settled.
2. ``settle``: ids are used up, whether or not a segment was published under them.
3. ``void``: no segment will ever be published under these ids.
4. ``delete_rows``: event ``n`` deletes the rows of these vectors.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace

from airflow_provider_segtable.core.deletes.deletion import VectorFile, with_file
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segments.segment import Segment, SegmentId


def publish(state: State, segments: Sequence[Segment]) -> State:
    """Return the state with segments in the timeline."""
    ids = (segment.id for segment in segments)
    # An origin may be a root. A provisional one is no number of the chunk.
    origins = (s.origin for s in segments if s.origin and not s.origin.provisional)
    settled = state.ids.settle((*ids, *origins))
    return replace(state, ids=settled, timeline=state.timeline.with_changes(add=segments))


def settle(state: State, ids: Iterable[SegmentId]) -> State:
    """Return the state with ids settled."""
    return replace(state, ids=state.ids.settle(ids))


def void(state: State, ids: tuple[SegmentId, ...]) -> State:
    """Return the state with ids voided."""
    voided = dict(state.voided)
    for segment_id in ids:
        chunk = segment_id.chunk
        voided[chunk] = voided.get(chunk, frozenset()) | {segment_id.partition}
    return replace(state, voided=voided)


def delete_rows(state: State, files: Iterable[VectorFile], n: int) -> State:
    """Return the state with the deletions of event ``n``."""
    vectors = state.vectors
    for file in files:
        vectors = with_file(vectors, n, file)
    return replace(state, vectors=vectors)
