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

from typing import Literal

from pydantic import BaseModel, Field

State = Literal["visible", "hidden", "standby"]


class Span(BaseModel, frozen=True):
    """A half-open interval of event time, ISO-8601 UTC."""

    start: str
    end: str


class Lane(BaseModel, frozen=True):
    """A row of the map; lanes are listed from the bottom to the top."""

    index: int
    bucket: int | None = Field(description="the bucket, in a primary-key table shown by buckets")
    level: int = Field(description="rank of the version in its time chunk, 0 is the oldest")
    generation: int = Field(description="rank of the generation in its version, 0 is the lowest")


class Cell(BaseModel, frozen=True):
    """One rectangle: a segment, or the chunks of a lane and state in a run of time chunks."""

    id: str = Field(description="of the segment; of aggregated chunks, unique in the map")
    kind: Literal["segment", "chunks"]
    start: str = Field(description="first event time of its time chunks, ISO-8601 UTC")
    end: str = Field(description="first event time after them")
    left: float = Field(description="where it begins in its interval, 0 to 1")
    right: float = Field(description="where it ends in its interval, 0 to 1")
    lane: int = Field(description="index of its lane")
    version: int = Field(description="version of its chunk, microseconds; the newest of several")
    bucket: int | None
    state: State
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


class Versions(BaseModel, frozen=True):
    """The versions that the table keeps, and the shown one."""

    first: int
    last: int
    shown: int
    at: str = Field(description="time of the shown version, ISO-8601 UTC")


class SegmentMap(BaseModel, frozen=True):
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


class ChunkChange(BaseModel, frozen=True):
    """An event that changed segments of a range."""

    n: int
    at: str
    kind: str
    sentence: str
    author: str


class ChunkChanges(BaseModel, frozen=True):
    """The newest events that changed segments of a range, newest first, for the slider."""

    changes: list[ChunkChange]
    scanned_from: int = Field(description="oldest event that was looked at")
    first: int = Field(description="oldest version that can be shown")
    last: int
    limit: int


class ColumnRange(BaseModel, frozen=True):
    """The statistics of a column in a row group; values as text, None if unknown."""

    column: str
    least: str | None
    greatest: str | None
    nulls: int | None
    bytes: int


class RowGroup(BaseModel, frozen=True):
    """One row group of a segment's file."""

    number: int
    rows: int
    bytes: int
    columns: list[ColumnRange]


class SegmentInFull(BaseModel, frozen=True):
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
