"""The segment map: time across, versions and generations up, one rectangle a segment.

1. The *level* of a map is ``segments`` if its range has at most ``limit`` present segments, else
   ``chunks``. Such a cell sums up the chunks of one lane and state in a run of neighbouring
   time chunks, from their summaries alone: no segment is decoded.
2. *Lanes* stack. For each bucket (one, if the table has none), the versions of a time chunk lie
   above each other, the newest on top. At ``segments`` each version has a lane for each generation.
3. A cell spans its interval across. Inside a time chunk the roots lie side by side: ``left`` and
   ``right`` are shares of the interval, so a compacted segment lies above all that it replaced.
   Widths are by bytes, so area is by bytes.
4. *Hidden* segments are overshadowed; *standby* ones wait for others of their group or version.
5. Deleted rows are estimated from the log. At ``chunks`` the estimate is an upper bound.
"""

from collections.abc import Iterable, Mapping
from typing import Annotated, Literal, TypeAlias

from fastapi import APIRouter
from pydantic import Field

from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import NO_BUCKET
from airflow_provider_segtable.core.time import ALL_TIME, Instant, Interval, iso, parse_instant
from airflow_provider_segtable.core.timeline import GroupState
from airflow_provider_segtable.library.segment_map.chunks import Sum
from airflow_provider_segtable.library.segment_map.drawing import LIMIT, LanePlace, map_cells
from airflow_provider_segtable.library.segment_map.overview import Overview
from airflow_provider_segtable.library.segment_map.segments import Drawn
from airflow_provider_segtable.page.answer import Answer, Limit, Shown
from airflow_provider_segtable.page.event_shelf import EventDigest, EventShelf
from airflow_provider_segtable.page.lake import Lake, Seen
from airflow_provider_segtable.page.recent import Recent
from airflow_provider_segtable.planning.planner_context import Deleted, deleted_in
from airflow_provider_segtable.planning.properties import Policy

MapState: TypeAlias = Literal["visible", "hidden", "standby"]

MOST_CELLS = 5000

Numbers: TypeAlias = Mapping[LanePlace, int]
"""The indexes of lanes."""


class Span(Shown):
    """A half-open interval of event time, ISO-8601 UTC."""

    start: str
    end: str


class Lane(Shown):
    """A row of the map; lanes are listed from the bottom to the top."""

    index: int
    bucket: int | None = Field(description="the bucket, in a primary-key table shown by buckets")
    level: int = Field(description="rank of the version in its time chunk, 0 is the oldest")
    generation: int = Field(description="rank of the generation in its version, 0 is the lowest")


class Cell(Shown):
    """One rectangle: a segment, or the chunks of a lane and state in a run of time chunks."""

    id: str = Field(description="of the segment; of aggregated chunks, unique in the map")
    kind: Literal["segment", "run", "chunks"] = Field(
        description="one segment, a run of segments of one time chunk, or chunks"
    )
    start: str = Field(description="first event time of its time chunks, ISO-8601 UTC")
    end: str = Field(description="first event time after them")
    left: float = Field(description="where it begins in its interval, 0 to 1")
    right: float = Field(description="where it ends in its interval, 0 to 1")
    lane: int = Field(description="index of its lane")
    version: int = Field(description="version of its chunk, microseconds; the newest of several")
    bucket: int | None
    state: MapState
    chunks: int = Field(description="number of time chunks (or their buckets) that it sums up")
    segments: int = Field(description="number of segments with the cell's state")
    hidden: int = Field(description="number of further segments of the same chunks that are hidden")
    rows: int
    bytes: int
    generation: int = Field(description="highest minor version; 0: as appended")
    roots: tuple[int, int] | None = Field(description="appended partitions that a segment covers")
    base: Literal["base", "log"] | None = Field(description="in a primary-key table")
    clustering: str = Field(description="the order of rows; empty if none or several")
    sorted_share: float = Field(description="bytes that have a clustering, 0 to 1")
    deleted_share: float = Field(description="estimated deleted rows, 0 to 1")
    small: int = Field(description="number of files below the policy's small size")
    tombstone: bool = Field(description="whether it has no rows and hides lower versions")
    created: str | None = Field(description="when the newest segment was written, ISO-8601 UTC")
    oldest: str | None = Field(description="when the oldest segment was written, ISO-8601 UTC")


class Versions(Shown):
    """The versions that the table keeps, and the shown one."""

    first: int
    last: int
    shown: int
    at: str = Field(description="time of the shown version, ISO-8601 UTC")


class SegmentMap(Shown):
    """A segment map of a range of event time at one version."""

    level: Literal["chunks", "segments"]
    range: Span | None = Field(description="the shown range; None for an empty table")
    whole: Span | None = Field(description="the range of all chunks; None for an empty table")
    granularity: str
    buckets: int = Field(description="buckets of a time chunk; 0 without a primary key")
    lanes: list[Lane]
    versions: Versions
    cells: list[Cell]
    total: int = Field(description="number of present segments in the range")
    small_below: int = Field(description="bytes below which a segment is small")
    newest: str | None = Field(description="when the newest segment was written, ISO-8601 UTC")


def segment_map(
    state: State,
    window: Interval | None = None,
    *,
    newest: State | None = None,
    limit: int = LIMIT,
    overview: Overview | None = None,
) -> SegmentMap:
    """Return the map of a version.

    Args:
        state: the version.
        window: the event times to show; chunks that overlap them are shown. None shows all.
        newest: the newest version, if that is another one.
        limit: most cells.
        overview: that of the version, if it was made before.
    """
    found = map_cells(state, window, limit=limit, overview=overview)
    numbers = {place: at for at, place in enumerate(found.lanes)}
    policy = Policy.read(state.table.properties)
    if found.sums is None:
        deleted = deleted_in(state, window)
        cells = [segment_cell(each, numbers, policy, deleted) for each in found.drawn]
    else:
        cells = [_chunks_cell(each, numbers) for each in found.sums]
    return SegmentMap(
        level="segments" if found.sums is None else "chunks",
        range=_span(found.window),
        whole=_span(found.whole),
        granularity=state.table.granularity.value,
        buckets=state.table.kind.buckets,
        lanes=[
            Lane(index=at, bucket=bucket, level=level, generation=generation)
            for at, (bucket, level, generation) in enumerate(found.lanes)
        ],
        versions=versions_of(state, newest or state),
        cells=cells,
        total=found.total,
        small_below=int(policy.small_size),
        newest=max((each.created for each in cells if each.created), default=None),
    )


def versions_of(state: State, newest: State) -> Versions:
    """Return the versions that a map can show, and the shown one."""
    return Versions(first=newest.retained_from, last=newest.n, shown=state.n, at=iso(state.time))


_STATES: dict[GroupState, MapState] = {
    GroupState.VISIBLE: "visible",
    GroupState.OVERSHADOWED: "hidden",
    GroupState.STANDBY: "standby",
}


def _span(interval: Interval | None) -> Span | None:
    return None if interval is None else Span(start=iso(interval.start), end=iso(interval.end))


def _time(at: Instant | None) -> str | None:
    return None if at is None else iso(at)


def _chunks_cell(found: Sum, lanes: Numbers) -> Cell:
    size = max(1, found.bytes)
    lane = lanes[found.bucket, found.level, 0]
    return Cell(
        id=f"{lane}.{found.state}.{found.start}",
        kind="chunks",
        start=iso(found.start),
        end=iso(found.end),
        left=0.0,
        right=1.0,
        lane=lane,
        version=found.version,
        bucket=found.bucket,
        state=_STATES[found.state],
        chunks=found.chunks,
        segments=found.segments,
        hidden=found.hidden,
        rows=found.rows,
        bytes=found.bytes,
        generation=found.generation,
        roots=None,
        base=None,
        clustering=found.clustering,
        sorted_share=round(found.sorted_bytes / size, 4),
        deleted_share=round(found.deleted_rows / max(1, found.rows), 4),
        small=found.small,
        tombstone=not found.rows and bool(found.segments),
        created=_time(found.newest),
        oldest=_time(found.oldest),
    )


def segment_cell(drawn: Drawn, lanes: Numbers, policy: Policy, deleted: Deleted) -> Cell:
    """Return the cell of segments at their place."""
    some = drawn.segments
    first, size = some[0], sum(segment.size for segment in some)
    files = [segment for segment in some if segment.path]
    orders = {segment.clustering for segment in files}
    wanted = {policy.clustering} if policy.clustering else orders - {""}
    sorted_bytes = sum(segment.size for segment in files if segment.clustering in wanted)
    return Cell(
        id=str(first.id),
        kind="segment" if len(some) == 1 else "run",
        start=iso(drawn.interval.start),
        end=iso(drawn.interval.end),
        left=round(drawn.left, 6),
        right=round(drawn.right, 6),
        lane=lanes[drawn.bucket, drawn.level, drawn.generation],
        version=first.id.version,
        bucket=drawn.bucket,
        state=_STATES[drawn.state],
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
        base=None if first.id.bucket == NO_BUCKET else "base" if drawn.in_base else "log",
        clustering=orders.pop() if len(orders) == 1 else "",
        sorted_share=round(sorted_bytes / max(1, size), 4),
        deleted_share=round(min(1.0, deleted.share(some)), 4),
        small=sum(segment.size < policy.small_size for segment in files),
        tombstone=not any(segment.rows for segment in some),
        created=iso(max(segment.created for segment in some)),
        oldest=iso(min(segment.created for segment in some)),
    )


# Changes of a range, for the slider
class ChunkChange(Shown):
    """An event that changed segments of a range."""

    n: int
    at: str
    kind: str
    sentence: str
    author: str


class ChunkChanges(Shown):
    """The newest events that changed segments of a range, newest first, for the slider."""

    changes: list[ChunkChange]
    scanned_from: int = Field(description="oldest event that was looked at")
    first: int = Field(description="oldest version that can be shown")
    last: int
    limit: int


def changes_of(
    state: State, events: Iterable[EventDigest], window: Interval, oldest: int, limit: int
) -> tuple[list[ChunkChange], int]:
    """Return the newest events that changed segments of a window, and the oldest looked at.

    Args:
        state: the newest version.
        events: the events, newest first; no more are taken than are needed.
        window: the event times.
        oldest: returned if there is no event.
        limit: most events.
    """
    changes: list[ChunkChange] = []
    looked = oldest
    for event in events:
        if len(changes) == limit or not state.keeps(event.n):
            break
        looked = event.n
        if event.touches_any(window):
            changes.append(
                ChunkChange(
                    n=event.n,
                    at=iso(event.time),
                    kind=event.kind,
                    sentence=event.sentence,
                    author=event.author,
                )
            )
    return changes, looked


# The lake's answers
SCANNED = 2000
"""Most events that are looked at for the changes of a range."""
STEP = 250


def window_of(start: str, end: str) -> Interval | None:
    """Return the window of a request; None without both ends.

    Raises:
        InvalidInput: an end is not a time, or the window is empty.
    """
    if not start and not end:
        return None
    low = parse_instant(start) if start else ALL_TIME.start
    return Interval(low, parse_instant(end) if end else ALL_TIME.end)


def routes(lake: Lake) -> APIRouter:
    """Return the routes of the segment map."""
    router, shelf = APIRouter(), EventShelf()
    overviews: Recent[tuple[str, int], Overview] = Recent(4)
    replayed: Recent[tuple[object, ...], SegmentMap] = Recent(32)

    def newest_map(seen: Seen, window: Interval | None, limit: int) -> SegmentMap:
        state = seen.state
        key = (state.table.table_id, state.n)
        overview = overviews.of(key, lambda: Overview.of(state))
        return segment_map(state, window, limit=limit, overview=overview)

    def map_seen(
        seen: Seen, *, version: int | None, start: str, end: str, limit: int
    ) -> SegmentMap:
        window, newest = window_of(start, end), seen.state
        if version is None or version == newest.n:
            return newest_map(seen, window, limit)
        key = (newest.table.table_id, version, window, limit)
        found = replayed.of(
            key, lambda: segment_map(seen.version(version), window, newest=newest, limit=limit)
        )
        versions = found.versions.model_copy(
            update={"first": newest.retained_from, "last": newest.n}
        )
        return found.model_copy(update={"versions": versions})

    def changes_seen(
        seen: Seen, *, start: str, end: str, before: int | None, limit: int
    ) -> ChunkChanges:
        state, log = seen.state, seen.ports.log
        oldest = max(log.first(), state.retained_from)
        high = state.n + 1 if before is None else min(before, state.n + 1)
        events = shelf.backwards(log, state.table.table_id, high, max(oldest, high - SCANNED), STEP)
        window = window_of(start, end) or ALL_TIME
        changes, looked = changes_of(state, events, window, oldest, limit)
        return ChunkChanges(
            changes=changes, scanned_from=looked, first=oldest, last=state.n, limit=limit
        )

    @router.get("/api/map")
    async def map_(
        table: str,
        version: int | None = None,
        start: str = "",
        end: str = "",
        limit: Annotated[int, Field(ge=1, le=MOST_CELLS)] = LIMIT,
    ) -> Answer[SegmentMap]:
        return await lake.answer(
            table, map_seen, version=version, start=start, end=end, limit=limit
        )

    @router.get("/api/map/changes")
    async def changes(
        table: str, start: str = "", end: str = "", before: int | None = None, limit: Limit = 200
    ) -> Answer[ChunkChanges]:
        return await lake.answer(
            table, changes_seen, start=start, end=end, before=before, limit=limit
        )

    return router
