"""A segment in full: its facts, its row groups, and its place among the others.

1. A segment is asked for by its id, at the newest version or an earlier one.
2. Row groups and their statistics are those of the file's footer; no row is read. A file that
   cannot be read is said to be so, and the rest is shown.
"""

from collections.abc import Sequence

from fastapi import APIRouter
from pydantic import Field

from airflow_provider_segtable.core.errors import (
    CorruptTable,
    InvalidInput,
    SegtableError,
    VersionExpired,
)
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import Segment, SegmentId
from airflow_provider_segtable.core.time import iso
from airflow_provider_segtable.data.parquet.row_groups import RowGroupStatistics, read_row_groups
from airflow_provider_segtable.library.segment_map.columns import columns_of
from airflow_provider_segtable.library.segment_map.relations import related
from airflow_provider_segtable.library.segment_map.segments import drawn_of
from airflow_provider_segtable.library.segment_map.shapes import shape_of
from airflow_provider_segtable.page.answer import Answer, Shown
from airflow_provider_segtable.page.lake import Lake, Seen
from airflow_provider_segtable.page.recent import Recent
from airflow_provider_segtable.page.segment_map import Cell, cell_of
from airflow_provider_segtable.planning.planner_context import deleted_in
from airflow_provider_segtable.planning.properties import Policy

MOST_ROW_GROUPS = 200
NEIGHBOURS = 100
"""Most segments above and below that are named."""


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


def segment_in_full(
    state: State, segment: Segment, row_groups: Sequence[RowGroupStatistics], trouble: str = ""
) -> SegmentInFull:
    """Return a segment of a version, with its neighbours above and below.

    Args:
        state: the version.
        segment: a present segment of it.
        row_groups: of its file, as far as they are shown.
        trouble: why they are not known.
    """
    around, shard = related(state, segment), segment.shard
    plans = (p for p in state.plans.values() if p.completed and segment.id in p.outputs)
    plan = next(plans, None)
    return SegmentInFull(
        cell=_cell(state, segment),
        path=segment.path,
        events=segment.events,
        time_min=iso(segment.time_min),
        time_max=iso(segment.time_max),
        version_name=iso(segment.id.version),
        group=f"partitions [{shard.root_start}, {shard.root_end}), generation "
        f"{shard.minor_version}, {shard.group_size} in its group",
        origin=None if segment.origin is None else str(segment.origin),
        adopted=segment.adopted,
        why=around.why,
        replaced_by=[str(each.id) for each in around.above[:NEIGHBOURS]],
        replaces=[str(each.id) for each in around.below[:NEIGHBOURS]],
        plan=None if plan is None else plan.plan.id,
        row_groups=[_row_group(each) for each in row_groups],
        trouble=trouble,
    )


def _cell(state: State, segment: Segment) -> Cell:
    """Return the segment's cell, in the lanes of its own chunk."""
    chunk, interval = segment.id.chunk, segment.id.interval
    column = [
        placed
        for found in columns_of(state.timeline, interval)
        for placed in found
        if placed.chunk.key == chunk
    ]
    drawn = next(each for each in drawn_of([column], state) if segment in each.segments)
    lanes = {(drawn.bucket, drawn.level, drawn.generation): drawn.generation}
    policy = Policy.read(state.table.properties)
    return cell_of(shape_of(drawn, lanes, policy, deleted_in(state, interval)))


def _row_group(found: RowGroupStatistics) -> RowGroup:
    return RowGroup(
        number=found.number,
        rows=found.rows,
        bytes=found.size,
        columns=[
            ColumnRange(
                column=each.name,
                least=each.least,
                greatest=each.greatest,
                nulls=each.nulls,
                bytes=each.size,
            )
            for each in found.columns
        ],
    )


def _parsed(text: str) -> SegmentId:
    try:
        return SegmentId.parse(text)
    except (CorruptTable, InvalidInput):
        raise InvalidInput(f"{text[:200]!r} is not a segment id: choose one in the map") from None


# The lake's answers
def routes(lake: Lake) -> APIRouter:
    """Return the route of a segment."""
    router = APIRouter()
    footers: Recent[tuple[str, str], Sequence[RowGroupStatistics]] = Recent(32)

    def read(seen: Seen, segment: Segment) -> tuple[Sequence[RowGroupStatistics], str]:
        if not segment.path:
            return (), ""
        key = (seen.state.table.table_id, segment.path)
        try:
            return footers.of(
                key, lambda: read_row_groups(seen.ports.files, segment.path, MOST_ROW_GROUPS)
            ), ""
        except (SegtableError, OSError) as error:
            return (), seen.safe(str(error))

    def segment_seen(seen: Seen, *, segment_id: str, version: int | None) -> SegmentInFull:
        state = seen.version(version)
        segment = state.timeline.get(_parsed(segment_id))
        if segment is None:
            raise VersionExpired(
                f"version {state.n} has no segment {segment_id}: it may have been cleaned; "
                "choose one in the map"
            )
        return segment_in_full(state, segment, *read(seen, segment))

    @router.get("/api/segment")
    async def segment(table: str, id: str, version: int | None = None) -> Answer[SegmentInFull]:  # noqa: A002 - the query's name
        return await lake.answer(table, segment_seen, segment_id=id, version=version)

    return router
