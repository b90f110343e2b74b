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

from collections.abc import Iterable
from typing import Annotated, Literal, TypeAlias

from fastapi import APIRouter
from pydantic import Field

from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.time import ALL_TIME, Instant, Interval, iso, parse_instant
from airflow_provider_segtable.core.timeline import GroupState
from airflow_provider_segtable.library.segment_map.overview import Overview
from airflow_provider_segtable.library.segment_map.shapes import LIMIT, Shape, shapes_of
from airflow_provider_segtable.page.answer import Answer, Limit, Shown
from airflow_provider_segtable.page.event_shelf import EventDigest, EventShelf
from airflow_provider_segtable.page.lake import Lake, Seen
from airflow_provider_segtable.page.recent import Recent
from airflow_provider_segtable.planning.properties import Policy

MapState: TypeAlias = Literal["visible", "hidden", "standby"]

MOST_CELLS = 5000


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
    found = shapes_of(state, window, limit=limit, overview=overview)
    written = [shape.newest for shape in found.shapes if shape.newest is not None]
    return SegmentMap(
        level=found.level,
        range=_span(found.window),
        whole=_span(found.whole),
        granularity=state.table.granularity.value,
        buckets=state.table.kind.buckets,
        lanes=[
            Lane(index=at, bucket=bucket, level=level, generation=generation)
            for at, (bucket, level, generation) in enumerate(found.lanes)
        ],
        versions=versions_of(state, newest or state),
        cells=[cell_of(shape) for shape in found.shapes],
        total=found.total,
        small_below=int(Policy.read(state.table.properties).small_size),
        newest=iso(max(written)) if written else None,
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


def cell_of(shape: Shape) -> Cell:
    """Return a shape as the page shows it."""
    based: Literal["base", "log"] = "base" if shape.in_base else "log"
    return Cell(
        id=shape.id,
        kind=shape.kind,
        start=iso(shape.interval.start),
        end=iso(shape.interval.end),
        left=round(shape.left, 6),
        right=round(shape.right, 6),
        lane=shape.lane,
        version=shape.version,
        bucket=shape.bucket,
        state=_STATES[shape.state],
        chunks=shape.chunks,
        segments=shape.segments,
        hidden=shape.hidden,
        rows=shape.rows,
        bytes=shape.bytes,
        generation=shape.generation,
        roots=shape.roots,
        base=None if shape.in_base is None else based,
        clustering=shape.clustering,
        sorted_share=round(shape.sorted_share, 4),
        deleted_share=round(shape.deleted_share, 4),
        small=shape.small,
        tombstone=shape.tombstone,
        created=_time(shape.newest),
        oldest=_time(shape.oldest),
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
KEPT_CELLS = 300


def window_of(start: str, end: str) -> Interval | None:
    """Return the window of a request; None without both ends.

    Raises:
        InvalidInput: an end is not a time, or the window is empty.
    """
    if not start and not end:
        return None
    low = parse_instant(start) if start else ALL_TIME.start
    return Interval(low, parse_instant(end) if end else ALL_TIME.end)


class Maps:
    """The maps of tables, with what was made for them before.

    The newest version's map is summed up from its overview. Maps of earlier versions never change,
    so they are kept themselves, if they have at most ``KEPT_CELLS``.
    """

    def __init__(self) -> None:
        """Know nothing yet."""
        self._shelf = EventShelf()
        self._overviews: Recent[tuple[str, int], Overview] = Recent(4)
        self._replayed: Recent[tuple[object, ...], SegmentMap] = Recent(128)

    def map_seen(
        self, seen: Seen, *, version: int | None, start: str, end: str, limit: int
    ) -> SegmentMap:
        """Return the map of a window of a version; errors as ``window_of`` and ``Seen.version``."""
        window, newest = window_of(start, end), seen.state
        table = newest.table.table_id
        if version is None or version == newest.n:
            overview = self._overviews.of((table, newest.n), lambda: Overview.of(newest))
            return segment_map(newest, window, limit=limit, overview=overview)
        key = (table, version, window, limit)
        found = self._replayed.get(key)
        if found is None:
            found = segment_map(seen.version(version), window, newest=newest, limit=limit)
            if len(found.cells) <= KEPT_CELLS:
                self._replayed.keep(key, found)
        kept = {"first": newest.retained_from, "last": newest.n}
        return found.model_copy(update={"versions": found.versions.model_copy(update=kept)})

    def changes_seen(
        self, seen: Seen, *, start: str, end: str, before: int | None, limit: int
    ) -> ChunkChanges:
        """Return the events that changed a window; errors as ``window_of`` and the shelf's."""
        state, log = seen.state, seen.ports.log
        oldest = max(log.first(), state.retained_from)
        high = state.n + 1 if before is None else min(before, state.n + 1)
        low = max(oldest, high - SCANNED)
        events = self._shelf.backwards(log, state.table.table_id, high, low, STEP)
        window = window_of(start, end) or ALL_TIME
        changes, looked = changes_of(state, events, window, oldest, limit)
        return ChunkChanges(
            changes=changes, scanned_from=looked, first=oldest, last=state.n, limit=limit
        )


def routes(lake: Lake) -> APIRouter:
    """Return the routes of the segment map."""
    router, maps = APIRouter(), Maps()

    @router.get("/api/map")
    async def map_(
        table: str,
        version: int | None = None,
        start: str = "",
        end: str = "",
        limit: Annotated[int, Field(ge=1, le=MOST_CELLS)] = LIMIT,
    ) -> Answer[SegmentMap]:
        return await lake.answer(
            table, maps.map_seen, version=version, start=start, end=end, limit=limit
        )

    @router.get("/api/map/changes")
    async def changes(
        table: str, start: str = "", end: str = "", before: int | None = None, limit: Limit = 200
    ) -> Answer[ChunkChanges]:
        return await lake.answer(
            table, maps.changes_seen, start=start, end=end, before=before, limit=limit
        )

    return router
