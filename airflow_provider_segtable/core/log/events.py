"""Events: everything that can happen to a table, and nothing else.

1. An event is ``(n, time, commit, author, action)``. ``n`` counts from 0 without gaps; ``time``
   increases strictly along the log; ``commit`` is the author's own id for this change, by which
   it recognises an event whose reply was lost.
2. Event 0 is ``TableCreated``.
3. A compaction is ``PlanRequested -> PlanInflight -> PlanCompleted`` (or ``PlanAborted``, or back
   to another ``PlanInflight`` when its worker died, by way of ``PlanYielded`` if it gave its locks
   up for somebody more urgent). Its instant is the time of the first event, its completion time
   the time of ``PlanCompleted``.
4. An append is one event: its instant and completion time coincide.
5. Ids are settled once: published by an append or completion, *voided* when their writer gave
   up, or burnt when an attempt that named them came to nothing.
6. Cleaning is ``Cleaned`` (the names go, the files are doomed), then the files are deleted, then
   ``Swept`` (they are gone). ``Tagged`` keeps a version beyond that.
7. A repair is one event, ``TableRepaired``: what files tell and the log had lost.
8. A delete, an update and a merge are one event, ``RowsChanged``: rows go and others come, at once.

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
    """The table begins; its definition. ``schema`` is what readers see, also of a rollup."""

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
        segments: what is appended: first-generation segments.
        vectors: which rows are deleted, by root address; disjoint from all vectors up to ``seen``.
        seen: the event up to which the author knew the table.
        predicate: which rows are deleted, in a rollup table.
        matched: how many rows were found.
        reason: what was asked for, for people.
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
        """Return how many rows the vectors delete."""
        return sum(sum(file.rows.values()) for file in self.vectors)


@dataclass(frozen=True, slots=True, kw_only=True)
class Voided:
    """Allocated ids whose writer gave up: nothing will ever be published under them."""

    ids: tuple[SegmentId, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequested:
    """A compaction is wanted."""

    plan: CompactionPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanInflight:
    """An attempt has its locks and starts to write; it supersedes every earlier attempt.

    ``outputs`` are the ids it may use. A major compaction names its new ``version`` instead,
    whose ids are its own, and the ``inputs`` it found under its lock.
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

    For a major compaction they include what was appended meanwhile, carried over to the new
    version, and tombstones where the region has no rows.
    """

    plan_id: str
    attempt: str
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanYielded:
    """An attempt lost its locks to somebody of higher priority; the plan waits to be run again."""

    plan_id: str
    attempt: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanAborted:
    """The plan is given up; its inputs stay. ``attempt`` is the newest one its author knew of."""

    plan_id: str
    attempt: str | None
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """Segments that nobody can need any more leave the timeline; their files are doomed.

    Versions below ``retained_from`` can no longer be read, but for those tagged. ``tags`` are all
    that the cleaner took into account, versions by name.
    """

    retained_from: int
    ids: tuple[SegmentId, ...]
    tags: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """Doomed files that are deleted."""

    paths: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tagged:
    """Version ``n`` has a name, and is kept while it has one."""

    name: str
    n: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Untagged:
    """The name of a version is taken away."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRepaired:
    """A repair: the table is what its files tell, as far as the log could not.

    Attributes:
        segments: that the log did not know, or that get another id.
        lost: ids that leave the timeline: their files are gone, or were never whole.
        voided: ids that nothing will ever be published under.
        overrides: how time is cut from now on; None if as before.
        vectors: deletions that the log did not know.
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
"""Actions whose name in the log is another than here."""


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
