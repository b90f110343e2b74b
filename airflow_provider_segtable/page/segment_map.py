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

from collections.abc import Iterable, Sequence
from typing import Literal, TypeAlias

from pydantic import Field

from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import NO_BUCKET
from airflow_provider_segtable.core.time import Instant, Interval, iso
from airflow_provider_segtable.core.timeline import GroupState
from airflow_provider_segtable.page.answer import Shown
from airflow_provider_segtable.page.map_chunks import Sum, sums_of
from airflow_provider_segtable.page.map_columns import columns_of
from airflow_provider_segtable.page.map_overview import Overview
from airflow_provider_segtable.page.map_segments import Drawn, drawn_of
from airflow_provider_segtable.planning.planner_context import Deleted, deleted_in
from airflow_provider_segtable.planning.properties import Policy

MapState: TypeAlias = Literal["visible", "hidden", "standby"]

LIMIT = 2000
"""Most cells of a map, unless a reader asks for another number."""


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
    known = overview or Overview.of(state)
    lines, columns = known.within(window)
    total = int(lines["present"].sum())
    apart = total <= limit or columns[0] == columns[-1]
    lanes, cells = (
        _segments(state, window, limit) if apart else _chunks(sums_of(known, lines, columns, limit))
    )
    whole = state.timeline.span
    return SegmentMap(
        level="segments" if apart else "chunks",
        range=_span(window or whole),
        whole=_span(whole),
        granularity=state.table.granularity.value,
        buckets=state.table.kind.buckets,
        lanes=lanes,
        versions=versions_of(state, newest or state),
        cells=cells,
        total=total,
        small_below=int(Policy.read(state.table.properties).small_size),
        newest=max((each.created for each in cells if each.created), default=None),
    )


def versions_of(state: State, newest: State) -> Versions:
    """Return the versions that a map can show, and the shown one."""
    return Versions(first=newest.retained_from, last=newest.n, shown=state.n, at=iso(state.time))


_Place: TypeAlias = tuple[int | None, int, int]


class _Lanes:
    """The lanes of a map, by bucket, level and generation."""

    def __init__(self, places: Iterable[_Place]) -> None:
        self._places: Sequence[_Place] = sorted(
            set(places), key=lambda place: (-1 if place[0] is None else place[0], *place[1:])
        )
        self._numbers = {place: at for at, place in enumerate(self._places)}

    def number(self, *place: int | None) -> int:
        """Return the index of a lane."""
        return self._numbers[place]  # type: ignore[index]  # of three numbers

    def listed(self) -> list[Lane]:
        """Return the lanes from the bottom to the top."""
        return [
            Lane(index=at, bucket=bucket, level=level, generation=generation)
            for at, (bucket, level, generation) in enumerate(self._places)
        ]


_STATES: dict[GroupState, MapState] = {
    GroupState.VISIBLE: "visible",
    GroupState.OVERSHADOWED: "hidden",
    GroupState.STANDBY: "standby",
}


def _span(interval: Interval | None) -> Span | None:
    return None if interval is None else Span(start=iso(interval.start), end=iso(interval.end))


def _time(at: Instant | None) -> str | None:
    return None if at is None else iso(at)


def _chunks(sums: Sequence[Sum]) -> tuple[list[Lane], list[Cell]]:
    lanes = _Lanes((each.bucket, each.level, 0) for each in sums)
    return lanes.listed(), [_chunks_cell(each, lanes) for each in sums]


def _segments(state: State, window: Interval | None, limit: int) -> tuple[list[Lane], list[Cell]]:
    columns = [*columns_of(state.timeline, window)]
    drawn = drawn_of(columns, state, limit) if columns else []
    lanes = _Lanes((each.bucket, each.level, each.generation) for each in drawn)
    policy, deleted = Policy.read(state.table.properties), deleted_in(state, window)
    return lanes.listed(), [_segment_cell(each, lanes, policy, deleted) for each in drawn]


def _chunks_cell(found: Sum, lanes: _Lanes) -> Cell:
    size = max(1, found.bytes)
    lane = lanes.number(found.bucket, found.level, 0)
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


def _segment_cell(drawn: Drawn, lanes: _Lanes, policy: Policy, deleted: Deleted) -> Cell:
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
        lane=lanes.number(drawn.bucket, drawn.level, drawn.generation),
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


class ColumnRange(Shown):
    """The statistics of a column in a row group; values as text, None if unknown."""

    column: str
    least: str | None
    greatest: str | None
    nulls: int | None
    bytes: int


class RowGroup(Shown):
    """One row group of a segment's file."""

    number: int
    rows: int
    bytes: int
    columns: list[ColumnRange]


class SegmentInFull(Shown):
    """A segment, its row groups, and its place among the others."""

    cell: Cell
    path: str = Field(description="below the table's folder; empty for a tombstone")
    events: int = Field(description="ingested rows that it stands for")
    time_min: str
    time_max: str
    version_name: str
    group: str = Field(description="roots, minor version and size of its atomic update group")
    origin: str | None = Field(description="the id in its file, if it was carried over")
    adopted: bool
    why: str = Field(description="why it is visible, hidden or on standby, one sentence")
    replaced_by: list[str] = Field(description="ids of the visible segments above it, at most 100")
    replaces: list[str] = Field(description="ids of present segments below it, at most 100")
    plan: str | None = Field(description="the plan that wrote it, if the log still has it")
    row_groups: list[RowGroup]
    trouble: str = Field(description="why its row groups are not known; empty if they are")
