"""Services of a table: indexes, a condition explained, log store, publications, locks.

1. An index *lacks* the intervals whose files it has no entries of. Its lag over time is that of its
   events: the page shows when it was behind, and by how much.
2. A condition is explained by the library's own read plan, once without indexes, with each, and
   with all. The map of chunks has the files that are opened and left out, and the step that did it.
3. The log store is shown as the log knows it; a service that answers adds its own numbers.
4. Locks are the coordinator's view: hints. The log decides what is committed.
"""

from pydantic import Field

from airflow_provider_segtable.page.answer import Shown


class Gap(Shown):
    """An interval that an index lacks."""

    interval: str
    event: int = Field(description="the event whose files it lacks")
    since: str = Field(description="time of that event, ISO-8601 UTC")


class LagPoint(Shown):
    """The lag of an index at a version."""

    at: str
    version: int
    lag_seconds: float
    gaps: int = Field(description="number of lacked commits")


class IndexLine(Shown):
    """An index with its progress."""

    name: str
    id: str
    kind: str
    columns: list[str]
    settings: dict[str, str]
    status: str
    sentence: str
    current: bool = Field(description="whether reads use it for all files")
    lag_commits: int
    lag_seconds: float
    lacking: list[Gap] = Field(description="at most 1000")
    lacking_total: int
    waiting_feeds: int
    plan: str | None
    plan_status: str | None
    plan_age_seconds: float | None
    files: int | None = Field(description="files that reads see; None: not known")
    indexed: int | None = Field(description="of these, files with entries")
    entries: int | None
    own_files: int | None
    own_bytes: int | None
    history: list[LagPoint]
    trouble: str


class Indexes(Shown):
    """The indexes of a table."""

    indexes: list[IndexLine]
    planner_builds: bool = Field(description="whether the planner builds what is lacking")


class BucketLine(Shown):
    """A bucket of the log store."""

    bucket: int
    epoch: int
    owner: str | None
    committed: int = Field(description="offset of the first record that is not committed")
    end: int | None = Field(description="offset after the last record of the service")
    uncommitted: int | None
    lag_seconds: float | None = Field(description="age of the oldest uncommitted record")
    address: str
    trouble: str
    epochs: list[tuple[int, int]] = Field(description="(epoch, first offset), oldest first")


class ConsumerLine(Shown):
    """A reader that keeps its position."""

    name: str
    position: str
    version: int | None
    behind_events: int | None
    behind_seconds: float | None
    records_behind: int | None
    sentence: str


class LogStore(Shown):
    """The log store of a table."""

    has: bool = Field(description="whether the table ever had one")
    buckets: list[BucketLine]
    consumers: list[ConsumerLine]
    uncommitted: int | None
    trouble: str


class PublishedLine(Shown):
    """A format in which versions are published."""

    format: str
    enabled: bool
    event: int | None
    at: str | None
    address: str
    lag_events: int | None
    lag_seconds: float | None
    sentence: str
    refusal: str
    error: str


class Publications(Shown):
    """The publications of a table."""

    formats: list[PublishedLine]


class LockLine(Shown):
    """A lock, or a place in the queue for one."""

    group: str
    purpose: str
    holder: str
    state: str = Field(description="held, publishing, revoked, waiting")
    mode: str
    granularity: str
    priority: int
    yields: int
    since: str
    age_seconds: float
    intervals: list[str]
    segments: int
    places: list[str] = Field(description="locked places in words, at most 100")
    revoked_by: str | None
    progress: dict[str, str]
    waits_for: list[str] = Field(description="groups whose locks are in the way of a waiter")


class Locks(Shown):
    """The locks of a table, and the queue for them."""

    coordinator: str = Field(description="address without credentials; empty without one")
    held: list[LockLine]
    waiting: list[LockLine]
    unreadable: list[str]
    trouble: str


class Step(Shown):
    """A step that leaves files or row groups out."""

    by: str
    index: str
    files_before: int
    files_after: int
    row_groups_before: int | None
    row_groups_after: int | None
    bytes_before: int
    bytes_after: int


class ExplainedFile(Shown):
    """A file of the table in a read."""

    path: str
    bytes: int
    rows: int
    opened: bool
    left_out_by: str = Field(description="the step that left it out; empty if it is opened")
    index: str
    row_groups: int
    row_groups_read: int | None
    bytes_read: int


class ExplainedChunk(Shown):
    """A time chunk in a read."""

    interval: str
    files: int
    opened: int
    bytes: int
    bytes_read: int
    left_out_by: dict[str, int] = Field(description="number of files by step")


class Savings(Shown):
    """The read with some indexes."""

    indexes: list[str]
    files_opened: int
    row_groups_read: int | None
    bytes_read: int
    notes: list[str]


class Explained(Shown):
    """A condition explained."""

    where: str
    files: int
    files_opened: int
    bytes: int
    bytes_read: int
    steps: list[Step]
    chunks: list[ExplainedChunk]
    chunks_total: int
    opened: list[ExplainedFile]
    left_out: list[ExplainedFile]
    opened_total: int
    left_out_total: int
    savings: list[Savings]
    notes: list[str]
