"""The shapes of a segment map: what the page, the report and the terminal draw.

1. ``shapes_of`` decides between chunks and segments (``library.segment_map``, rule 1). A time chunk
   of more than ``MOST_DECODED`` segments, in many buckets, stays a sum.
2. A shape spans its interval across, from ``left`` to ``right`` (shares of it), on its lane.
3. *Sorted* are the bytes with the policy's clustering; without one, those with any.
4. Deleted rows are estimated from the log; of chunks, the estimate is an upper bound.
"""

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple, TypeAlias

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import NO_BUCKET
from airflow_provider_segtable.core.time import Instant, Interval
from airflow_provider_segtable.core.timeline import GroupState
from airflow_provider_segtable.library.segment_map.chunks import Sum, sums_of
from airflow_provider_segtable.library.segment_map.columns import columns_of
from airflow_provider_segtable.library.segment_map.overview import Overview
from airflow_provider_segtable.library.segment_map.segments import Drawn, drawn_of
from airflow_provider_segtable.planning.planner_context import Deleted, deleted_in
from airflow_provider_segtable.planning.properties import Policy

LIMIT = 2000
"""Most shapes of a map, unless a reader asks for another number."""

MOST_DECODED = 50_000
"""Most segments of one time chunk that are decoded, to be drawn in runs."""

LanePlace: TypeAlias = tuple[int | None, int, int]
"""Bucket, level and generation of a lane."""

Lanes: TypeAlias = Mapping[LanePlace, int]
"""The indexes of lanes."""


class Shape(NamedTuple):
    """One rectangle.

    Attributes:
        id: the segment's id; of chunks, unique in the map.
        kind: one segment, a ``run`` of segments of one time chunk, or ``chunks``.
        interval: of its time chunks.
        left, right: where it begins and ends in the interval, 0 to 1.
        lane: the index of its lane.
        version: of its chunk; the newest of several.
        bucket: None in a table without buckets, and if buckets are shown as one.
        state: of its segments.
        chunks: number of chunks.
        segments: number of segments with the state.
        hidden: number of further, hidden segments of its chunks.
        rows, bytes: of its segments.
        generation: the highest minor version.
        roots: the appended partitions that it covers; None for chunks.
        in_base: whether it is in a base; None in a table without buckets, and for chunks.
        clustering: the order of its rows; empty if there is none, or several.
        sorted_share, deleted_share: 0 to 1.
        small: number of files below the policy's small size.
        tombstone: whether it has no rows.
        newest, oldest: when its segments were written.
    """

    id: str
    kind: Literal["segment", "run", "chunks"]
    interval: Interval
    left: float
    right: float
    lane: int
    version: Instant
    bucket: int | None
    state: GroupState
    chunks: int
    segments: int
    hidden: int
    rows: int
    bytes: int
    generation: int
    roots: tuple[int, int] | None
    in_base: bool | None
    clustering: str
    sorted_share: float
    deleted_share: float
    small: int
    tombstone: bool
    newest: Instant | None
    oldest: Instant | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Shapes:
    """The shapes of a window.

    Attributes:
        level: ``chunks`` or ``segments``.
        window: the shown time; None for an empty table.
        whole: the time of all chunks; None for an empty table.
        total: the number of present segments of the chunks that overlap the window.
        lanes: from the bottom to the top.
        shapes: by time.
    """

    level: Literal["chunks", "segments"]
    window: Interval | None
    whole: Interval | None
    total: int
    lanes: tuple[LanePlace, ...]
    shapes: tuple[Shape, ...]


def shapes_of(
    state: State,
    window: Interval | None = None,
    *,
    limit: int = LIMIT,
    overview: Overview | None = None,
) -> Shapes:
    """Return the shapes of a window of a version.

    Args:
        state: the version.
        window: the event times to show; chunks that overlap them are shown. None shows all.
        limit: most shapes.
        overview: that of the version, if it was made before.
    """
    known = overview or Overview.of(state)
    lines, columns = known.within(window)
    whole, total = state.timeline.span, int(lines["present"].sum())
    shapes: tuple[Shape, ...]
    if total > limit and (columns[0] != columns[-1] or total > MOST_DECODED):
        sums = sums_of(known, lines, columns, limit)
        lanes = _lanes((each.bucket, each.level, 0) for each in sums)
        shapes = tuple(_of_chunks(each, lanes) for each in sums)
    else:
        found = [*columns_of(state.timeline, window)]
        drawn = drawn_of(found, state, limit) if found else []
        lanes = _lanes((each.bucket, each.level, each.generation) for each in drawn)
        policy, deleted = Policy.read(state.table.properties), deleted_in(state, window)
        shapes = tuple(shape_of(each, lanes, policy, deleted) for each in drawn)
    return Shapes(
        level="chunks" if shapes and shapes[0].kind == "chunks" else "segments",
        window=window or whole,
        whole=whole,
        total=total,
        lanes=tuple(lanes),
        shapes=shapes,
    )


def shape_of(drawn: Drawn, lanes: Lanes, policy: Policy, deleted: Deleted) -> Shape:
    """Return the shape of segments at their place."""
    some = drawn.segments
    first, size = some[0], sum(segment.size for segment in some)
    files = [segment for segment in some if segment.path]
    orders = {segment.clustering for segment in files}
    wanted = {policy.clustering} if policy.clustering else orders - {""}
    sorted_bytes = sum(segment.size for segment in files if segment.clustering in wanted)
    return Shape(
        id=str(first.id),
        kind="segment" if len(some) == 1 else "run",
        interval=drawn.interval,
        left=drawn.left,
        right=drawn.right,
        lane=lanes[drawn.bucket, drawn.level, drawn.generation],
        version=first.id.version,
        bucket=drawn.bucket,
        state=drawn.state,
        chunks=1,
        segments=len(some),
        hidden=0,
        rows=sum(segment.rows for segment in some),
        bytes=size,
        generation=first.shard.minor_version,
        roots=(
            min(segment.shard.root_start for segment in some),
            max(segment.shard.root_end for segment in some),
        ),
        in_base=None if first.id.bucket == NO_BUCKET else drawn.in_base,
        clustering=orders.pop() if len(orders) == 1 else "",
        sorted_share=sorted_bytes / max(1, size),
        deleted_share=min(1.0, deleted.share(some)),
        small=sum(segment.size < policy.small_size for segment in files),
        tombstone=not any(segment.rows for segment in some),
        newest=max(segment.created for segment in some),
        oldest=min(segment.created for segment in some),
    )


def _of_chunks(found: Sum, lanes: Lanes) -> Shape:
    lane = lanes[found.bucket, found.level, 0]
    return Shape(
        id=f"{lane}.{found.state}.{found.start}",
        kind="chunks",
        interval=Interval(found.start, found.end),
        left=0.0,
        right=1.0,
        lane=lane,
        version=found.version,
        bucket=found.bucket,
        state=found.state,
        chunks=found.chunks,
        segments=found.segments,
        hidden=found.hidden,
        rows=found.rows,
        bytes=found.bytes,
        generation=found.generation,
        roots=None,
        in_base=None,
        clustering=found.clustering,
        sorted_share=found.sorted_bytes / max(1, found.bytes),
        deleted_share=found.deleted_rows / max(1, found.rows),
        small=found.small,
        tombstone=not found.rows and bool(found.segments),
        newest=found.newest,
        oldest=found.oldest,
    )


def lane_words(place: LanePlace, lanes: Iterable[LanePlace], version: str) -> list[str]:
    """Return what distinguishes a lane from the other ones of a picture, in words.

    Args:
        place: of the lane.
        lanes: all lanes of the picture.
        version: stands before the number of a version.
    """
    bucket, level, generation = place
    some = [*lanes]
    words = [f"bucket {bucket}"] if bucket is not None else []
    if any(each[1] for each in some):
        words.append(f"{version}{level + 1}")
    if any(each[2] for each in some):
        words += [f"gen {generation}"] if generation else [] if level else ["appended"]
    return words


def _lanes(places: Iterable[LanePlace]) -> Lanes:
    """Return the indexes of lanes, from the bottom to the top."""
    return {place: at for at, place in enumerate(sorted(set(places), key=_from_below))}


def _from_below(place: LanePlace) -> tuple[int, int, int]:
    bucket, level, generation = place
    return -1 if bucket is None else bucket, level, generation
