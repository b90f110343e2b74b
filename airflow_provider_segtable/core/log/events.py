"""Events: all changes of a table.

1. An event is ``(n, time, commit, author, action)``. ``n`` counts from 0 without gaps; ``time``
   increases strictly along the log; ``commit`` is the author's own id for this change, by which
   the author recognises its event if the reply was lost.
2. Event 0 is ``TableCreated``.
3. A compaction is ``PlanRequested -> PlanInflight -> PlanCompleted``, or it ends in
   ``PlanAborted``. If its worker dies, another ``PlanInflight`` follows; if it loses its locks to
   a request of higher priority, ``PlanYielded`` comes first. The instant of a compaction is the
   time of its first event, its completion time that of ``PlanCompleted``.
4. An append is one event: its instant and completion time coincide.
5. Ids are settled once: published by an append or completion, *voided* when their writer gave
   up, or burnt when the attempt that named them failed.
6. Cleaning is ``Cleaned`` (segments leave the timeline, their files are pending delete), then the
   files are deleted, then ``Swept`` records that. A version that is ``Tagged`` is kept.
7. A repair is one event, ``TableRepaired``: it restores to the log what the files prove.
8. A delete, an update or a merge is one event, ``RowsChanged``: it deletes and appends atomically.

Source of the idea: Hudi's timeline (RFC-66), as one log with put-if-absent.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from airflow_provider_segtable.core.deletes.deletion import VectorFile
from airflow_provider_segtable.core.deletes.predicate import Predicate
from airflow_provider_segtable.core.locks.lockbox import FencingToken
from airflow_provider_segtable.core.plans.compaction_plan import CompactionPlan
from airflow_provider_segtable.core.segments.segment import Segment, SegmentId
from airflow_provider_segtable.core.tables.rollup_spec import Rollup
from airflow_provider_segtable.core.tables.schema import Schema
from airflow_provider_segtable.core.time.interval import Granularity, Instant
from airflow_provider_segtable.core.time.layout import GranularityOverride


@dataclass(frozen=True, slots=True, kw_only=True)
class TableCreated:
    """The table is created. ``schema`` is the one that readers see, also of a rollup table."""

    table_id: str
    name: str
    schema: Schema
    time_column: str
    granularity: Granularity
    properties: Mapping[str, str] = field(default_factory=dict)
    rollup: Rollup | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """New first-generation segments, visible together."""

    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsChanged:
    """Rows are deleted and others appended, visible together.

    Attributes:
        kind: ``delete``, ``update`` or ``merge``.
        segments: the appended first-generation segments.
        vectors: the deleted rows, by root address; disjoint from all vectors up to ``seen``.
        seen: the newest event that the author had read.
        predicate: the deleted rows of a rollup table.
        matched: the number of matching rows.
        reason: the request, for people.
    """

    kind: str
    segments: tuple[Segment, ...] = ()
    vectors: tuple[VectorFile, ...] = ()
    seen: int = 0
    predicate: Predicate | None = None
    matched: int = 0
    reason: str = ""

    @property
    def deleted(self) -> int:
        """Return the number of rows that the vectors delete."""
        return sum(sum(file.rows.values()) for file in self.vectors)


@dataclass(frozen=True, slots=True, kw_only=True)
class Voided:
    """Allocated ids of a writer that gave up: no segment will ever be published under them."""

    ids: tuple[SegmentId, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequested:
    """A compaction is requested."""

    plan: CompactionPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanInflight:
    """An attempt has its locks and starts to write; it supersedes every earlier attempt.

    ``outputs`` are the ids it may use. A major compaction instead names its new ``version``, in
    which it numbers segments itself, and the ``inputs`` found under its lock.
    """

    plan_id: str
    attempt: str
    token: FencingToken
    outputs: tuple[SegmentId, ...]
    inputs: tuple[SegmentId, ...] = ()
    version: Instant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCompleted:
    """The outputs replace the inputs, atomically.

    For a major compaction the outputs include segments appended meanwhile, carried over to the new
    version, and tombstones where the region has no rows.
    """

    plan_id: str
    attempt: str
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanYielded:
    """An attempt lost its locks to a request of higher priority; the plan waits for a new one."""

    plan_id: str
    attempt: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanAborted:
    """The plan is given up; its inputs stay. ``attempt`` is the newest that its author had read."""

    plan_id: str
    attempt: str | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """Segments that no kept version shows leave the timeline; their files are pending delete.

    Versions below ``retained_from`` can no longer be read, unless tagged. ``tags`` are the tags
    that the cleaner had read: versions by name.
    """

    retained_from: int
    ids: tuple[SegmentId, ...]
    tags: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """Files that were pending delete are deleted."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tagged:
    """Version ``n`` gets a name, and is kept until the tag is removed."""

    name: str
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Untagged:
    """The name of a version is removed."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRepaired:
    """A repair: facts from the table's files that the log lacks.

    Attributes:
        segments: segments that are missing in the log, or that get another id.
        lost: ids that leave the timeline: their files are missing or incomplete.
        voided: ids under which no segment will ever be published.
        overrides: the granularity overrides from now on; None if unchanged.
        vectors: deletions that are missing in the log.
        reason: what was repaired, for people.
    """

    segments: tuple[Segment, ...]
    lost: tuple[SegmentId, ...] = ()
    vectors: tuple[VectorFile, ...] = ()
    voided: tuple[SegmentId, ...] = ()
    overrides: tuple[GranularityOverride, ...] | None = None
    reason: str


Action: TypeAlias = (
    TableCreated
    | Appended
    | RowsChanged
    | Voided
    | PlanRequested
    | PlanInflight
    | PlanCompleted
    | PlanYielded
    | PlanAborted
    | Cleaned
    | Swept
    | Tagged
    | Untagged
    | TableRepaired
)


LOGGED_AS: Mapping[type, str] = {RowsChanged: "Changed", TableRepaired: "Restored"}
"""Actions whose name in the log differs from the class name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """One entry of the log."""

    n: int
    time: Instant
    commit: str
    author: str
    action: Action

    @property
    def kind(self) -> str:
        """Return the action's name in the log, which never changes."""
        return LOGGED_AS.get(type(self.action), type(self.action).__name__)
