"""Plans: work on a table that is decided first, written into the log, then carried out in steps.

1. A plan is a value of a *kind*. A kind is one type in ``core.log``, listed in
   ``core.log.plan_kinds``. The log, the locks, the services and the commands know only ``Plan``:
   everything in which kinds differ is a class attribute or a method here.
2. A plan's id is a function of table, kind, purpose and inputs. A plan made twice has the same id,
   and a worker that runs it again finds that it is completed.
3. A pending plan *claims* segments, or an interval with everything in it. A new plan over segments
   is refused if a pending plan claims any of them. A new plan over an interval is refused only by
   another such plan: its lock waits for the workers of plans over segments.
4. A worker acquires the plan's lock, commits ``PlanInflight``, takes the plan's steps, and commits
   ``PlanCompleted``. The log fences attempts and settles ids for every kind alike (``core.log``); a
   kind adds conditions, and lifts none.
5. A *step* is pure data: the next work of the plan's worker. The worker asks its plan for the next
   step until the plan publishes (``Plan.next_step``). A plan may take several steps over data, each
   decided from the results of those before it.
6. The jobs of a step depend on the table's kind; ``services.compaction`` makes them.
7. ``PlanState`` has the status of a plan; its methods are the transitions. A completed plan keeps
   the measures of its work (``core.log.work``).

Source of the idea: Druid's minor compaction; its major compaction, and the semi-major one that
it names, are future work there. Hudi's table services (requested, inflight, completed).
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, ClassVar, Self, TypeAlias

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import RowsOutOfBalance
from airflow_provider_segtable.core.locks import FencingToken, LockGranularity, LockRequest
from airflow_provider_segtable.core.log.event import Conflict, Stamp
from airflow_provider_segtable.core.log.work import Work
from airflow_provider_segtable.core.segment import (
    NO_BUCKET,
    ChunkKey,
    Place,
    Segment,
    SegmentId,
    Shard,
)
from airflow_provider_segtable.core.segment_codec import Json
from airflow_provider_segtable.core.time import Instant, Interval, Layout

if TYPE_CHECKING:
    from airflow_provider_segtable.core.log.state import State


# Steps of a plan's execution
@dataclass(frozen=True, slots=True, kw_only=True)
class Rewrite:
    """Rewrite the live rows of the inputs into new segments.

    Attributes:
        late: rewrite these log files instead of the inputs, into log files of other places.
        intervals: the time chunks that may receive rows; without those of ``sparse`` inputs.
        sparse: inputs with fewer rows than time chunks between their first and last event. Their
            event times are read, to find the chunks of their rows (``with_chunks``).
        layout: the layout of these chunks; None if no input is sparse.
        clustering: the order of output rows (``core.schema``), by event time if empty;
            None keeps the order of the inputs.
        most: the maximum number of outputs; 0 means any number.
        buckets: the number of buckets of each of these chunks; empty without a primary key, and if
            the rows stay in the bucket of the inputs.
        one_group: the outputs are one atomic update group in the version of the inputs. Such a
            group has at least one segment, if need be without rows.
    """

    late: tuple[Segment, ...] = ()
    intervals: tuple[Interval, ...]
    clustering: str | None
    most: int = 0
    buckets: tuple[int, ...] = ()
    one_group: bool
    sparse: tuple[Segment, ...] = ()
    layout: Layout | None = None

    def with_chunks(self, found: Iterable[Interval]) -> "Rewrite":
        """Return the rewrite with the time chunks that rows of sparse inputs were found in."""
        layout, intervals = self.layout, tuple(sorted({*self.intervals, *found}))
        if layout is None:
            return self
        buckets = tuple(layout.buckets_at(each.start) for each in intervals if layout.buckets)
        return replace(self, intervals=intervals, buckets=buckets, sparse=(), layout=None)


@dataclass(frozen=True, slots=True, kw_only=True)
class Complete:
    """Commit the plan's completion with these segments."""

    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class BuildIndex:
    """Build what an index lacks, in pieces that are committed one by one.

    Attributes:
        index: the id of the index.
        apart: the time to leave for later.
    """

    index: str
    apart: tuple[Interval, ...] = ()


Step: TypeAlias = Rewrite | BuildIndex | Complete


# Plans, their claims and their ids
COMPACTION_PRIORITY = 25

Named = tuple[tuple[SegmentId, Shard], ...]
"""Ids and shards of outputs, in their order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Claim:
    """A pending plan's claim: ``segments`` of ``interval``, or everything in it if None."""

    interval: Interval
    segments: frozenset[SegmentId] | None = None

    def excludes(self, later: "Claim") -> bool:
        """Return whether a plan with a later claim is refused (rule 3)."""
        if self.segments is None:
            return self.interval.overlaps(later.interval)
        return later.segments is not None and not self.segments.isdisjoint(later.segments)


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan(ABC):
    """Work on a table; each kind is a subclass.

    Attributes:
        kind: the kind's name in the log, in commands and in DAG ids.
        planned_in: the module of ``planning`` whose ``FINDER`` finds plans of the kind.
        rank: the place in the order of execution and in lists, smallest first.
        wait_s: how long a worker waits for the locks, unless it is told otherwise.
        priority: of the lock.
        lock_granularity: the unit of the lock.
        options: the settings that a request for the kind may choose: ``clustering``,
            ``granularity``.
        starts_version: whether the outputs are a new version, with ids from 0.
        id: see ``plan_id``.
        chunk: the chunk of the first input.
        inputs: the input segments, as of planning time.
        outputs: the maximum number of output segments, or about that number.
        rows: the number of input rows.
        size: the size of the inputs in bytes.
        reason: the reason for the plan, for people.
    """

    kind: ClassVar[str]
    planned_in: ClassVar[str]
    rank: ClassVar[int]
    wait_s: ClassVar[float] = 0.0
    priority: ClassVar[int] = COMPACTION_PRIORITY
    lock_granularity: ClassVar[LockGranularity] = LockGranularity.SEGMENT
    options: ClassVar[frozenset[str]] = frozenset()
    starts_version: ClassVar[bool] = False

    id: str
    chunk: ChunkKey
    inputs: tuple[SegmentId, ...]
    outputs: int
    rows: int
    size: int
    reason: str

    @property
    def interval(self) -> Interval:
        """Return the interval that the plan works on."""
        return self.chunk.interval

    @property
    def position(self) -> tuple[Interval, int]:
        """Return the plan's place in lists: by interval, then by root."""
        return self.interval, 0

    @property
    def line(self) -> str:
        """Return the plan in one line."""
        return f"{self.id}: {self.reason}"

    def done(self, files: int) -> str:
        """Return what a run did that completed the plan, for people.

        Args:
            files: the number of files that the run read.
        """
        del files
        return self.reason

    @property
    @abstractmethod
    def claim(self) -> Claim:
        """Return the plan's claim while it is pending."""

    def excluded_by(self, pending: "Plan") -> bool:
        """Return whether a pending plan excludes this one."""
        return pending.claim.excludes(self.claim)

    def facts(self) -> Json:
        """Return the kind's own facts, for people; every kind has the same keys."""
        own = {"clustering": "", "granularity": None, "buckets": 0, "index": ""}
        return {"root": [0, 0], **own}

    def layout_after(self, layout: Layout) -> Layout:
        """Return the layout of time once the plan is completed."""
        return layout

    # -- admission -------------------------------------------------------------------------------

    def admit_request(self, state: "State") -> Conflict | None:
        """Return the conflict that forbids the request in this state, or None.

        Raises:
            InvalidInput: the plan is malformed.
        """
        return self.replaced(self.inputs, state)

    def hopeless(self, state: "State") -> Conflict | None:
        """Return why the plan can never complete, so that it is aborted; None if it may.

        A plan that claims an interval finds its inputs under its lock.
        """
        return None if self.claim.segments is None else self.replaced(self.inputs, state)

    def admit_start(self, inputs: Sequence[SegmentId], state: "State") -> Conflict | None:
        """Return the conflict that forbids an attempt, or None; ``inputs`` as found under lock."""
        return self.replaced(inputs or self.inputs, state)

    def admit_completion(
        self, found: "PlanState", segments: tuple[Segment, ...], state: "State"
    ) -> tuple[Segment, ...] | Conflict:
        """Return all segments that the completion publishes, or the conflict that forbids it.

        Args:
            found: the plan and its newest attempt.
            segments: the outputs of that attempt.
            state: the table before the commit.

        Raises:
            RowsOutOfBalance: the outputs do not account for the inputs.
        """
        gone = self.replaced(found.inputs, state)
        if gone:
            return gone
        self.check_balance(found, segments, state)
        return self.published(found, segments, state)

    def published(
        self, found: "PlanState", segments: tuple[Segment, ...], state: "State"
    ) -> tuple[Segment, ...] | Conflict:
        """Return all segments that a completion publishes for its outputs, or the conflict.

        Args:
            found: the plan and its newest attempt.
            segments: the outputs of that attempt.
            state: the table before the commit.
        """
        return self.with_base(found, segments, state)

    def with_base(
        self, found: "PlanState", segments: tuple[Segment, ...], state: "State"
    ) -> tuple[Segment, ...]:
        """Return outputs in the base that they are in (``core.segment``).

        The event records it. An older segtable did not, so the fold asks, too.

        Args:
            found: the plan and its newest attempt.
            segments: the outputs, or all that the event publishes.
            state: the table before the event.
        """
        del found, state
        return segments

    def check_balance(
        self, found: "PlanState", segments: Sequence[Segment], state: "State"
    ) -> None:
        """Refuse outputs that do not account for the inputs.

        Raises:
            RowsOutOfBalance: with the plan and every difference.
        """
        problems = [*self.imbalance(found, segments, state)]
        if problems:
            raise RowsOutOfBalance(f"plan {self.id} is refused: {'; '.join(problems)}")

    @abstractmethod
    def imbalance(
        self, found: "PlanState", segments: Sequence[Segment], state: "State"
    ) -> Iterable[str]:
        """Return every difference between the outputs and what the inputs require."""

    def replaced(self, inputs: Iterable[SegmentId], state: "State") -> Conflict | None:
        """Return the conflict if an input is no longer visible, or None."""
        visible = {segment.id for segment in state.timeline.visible_segments(self.interval)}
        gone = next((i for i in inputs if i not in visible), None)
        if gone is None:
            return None
        winner = _replaced_by(gone, state)
        by = f"by plan {winner.plan.id}" if winner else "meanwhile"
        return Conflict(
            reason=f"input {gone} of plan {self.id} was replaced {by}",
            winner=winner.last_n if winner else None,
        )

    # -- execution -------------------------------------------------------------------------------

    @abstractmethod
    def lock(self, asked: LockRequest, state: "State") -> LockRequest:
        """Return the request for the plan's lock, new ids and version.

        Args:
            asked: a request that names the worker, and nothing to lock.
            state: the table.
        """

    def inputs_under_lock(self, state: "State") -> tuple[SegmentId, ...]:
        """Return the inputs that an attempt finds under its lock; empty: those of the plan.

        For a plan that claims an interval, these are the visible segments in it.
        """
        if self.claim.segments is not None:
            return ()
        visible = state.timeline.visible_segments(self.interval)
        return tuple(segment.id for segment in visible if not segment.tombstone)

    @abstractmethod
    def name_outputs(
        self, found: "PlanState", counts: Mapping[Place, int], state: "State"
    ) -> dict[Place, Named]:
        """Return ids and shards for the given number of outputs in each place.

        Args:
            found: the plan and its attempt.
            counts: the number of outputs, by time chunk, or by bucket of a time chunk.
            state: the table right after the attempt started.
        """

    @abstractmethod
    def next_step(
        self, inputs: Sequence[Segment], done: Sequence[tuple[Segment, ...]], state: "State"
    ) -> Step:
        """Return what an attempt does next.

        Args:
            inputs: the attempt's inputs.
            done: the segments that each earlier step wrote.
            state: the table right after the attempt started.
        """

    def division(self, found: "PlanState", state: "State") -> Rewrite | None:
        """Return the rewrite of late log files that completion cannot carry over as they are.

        Args:
            found: the plan and its attempt; its inputs are not late.
            state: the newest state of the table.

        Returns:
            None if completion can carry over everything.
        """
        del found, state
        return None

    # -- JSON ------------------------------------------------------------------------------------

    def encode(self) -> Json:
        """Return the plan as JSON; a kind adds its own fields. Absent ones are omitted."""
        bucket = self.chunk.bucket
        return {
            "id": self.id,
            "kind": self.kind,
            "interval": self.chunk.interval.name,
            "version": self.chunk.version,
            **({} if bucket == NO_BUCKET else {"bucket": bucket}),
            "inputs": [segment_id.partition for segment_id in self.inputs],
            "root": [0, 0],
            "outputs": self.outputs,
            "rows": self.rows,
            "size": self.size,
            "reason": self.reason,
        }

    @classmethod
    @abstractmethod
    def decode(cls, body: Mapping[str, Any]) -> Self:
        """Parse the output of ``encode``."""


def decoded_fields(body: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that every kind has, from a plan's JSON."""
    chunk = ChunkKey(
        Interval.from_name(body["interval"]), body["version"], body.get("bucket", NO_BUCKET)
    )
    same = {name: body[name] for name in ("id", "outputs", "rows", "size", "reason")}
    return {**same, "chunk": chunk, "inputs": tuple(map(chunk.segment, body["inputs"]))}


def plan_id(table: str, kind: str, inputs: tuple[SegmentId, ...], purpose: str = "") -> str:
    """Return the id of a plan, usable as a DAG run id: ``minor-20130101-1a2b3c4d5e6f``.

    ``purpose`` distinguishes plans over equal inputs: the requested clustering and granularity.
    """
    text = "\n".join((table, kind, *map(str, inputs), *((purpose,) if purpose else ())))
    digest = hashlib.sha256(text.encode()).hexdigest()[:12]
    return f"{kind}-{inputs[0].interval.name[:8]}-{digest}"


def _replaced_by(segment_id: SegmentId, state: "State") -> "PlanState | None":
    """Return the newest completed plan that had the segment as an input."""
    replacing = [p for p in state.plans.values() if p.completed and segment_id in p.inputs]
    return max(replacing, key=lambda p: p.last_n, default=None)


# The status of a plan, and its transitions
class PlanStatus(StrEnum):
    """The status of a plan."""

    REQUESTED = "requested"
    INFLIGHT = "inflight"
    COMPLETED = "completed"
    ABORTED = "aborted"

    @property
    def pending(self) -> bool:
        """Return whether the plan still claims its inputs."""
        return self in (PlanStatus.REQUESTED, PlanStatus.INFLIGHT)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanState:
    """A plan and its progress; ``last_n`` and ``author`` are those of its newest event.

    ``yields`` counts the attempts that lost their locks to a higher priority. ``version`` is the
    new version of the latest attempt, if it asked for one, and ``found`` the inputs that it found
    under its lock, if it looked for them there. ``started_at`` is when the latest attempt began,
    ``work`` the measures of the one that completed the plan. These two take no part in comparisons:
    an older segtable does not keep them.
    """

    plan: Plan
    status: PlanStatus
    requested_at: Instant
    changed_at: Instant
    last_n: int
    author: str
    attempts: int = 0
    attempt: str | None = None
    token: FencingToken | None = None
    outputs: tuple[SegmentId, ...] = ()
    note: str = ""
    yields: int = 0
    version: Instant | None = None
    found: tuple[SegmentId, ...] = ()
    started_at: Instant = field(default=0, compare=False)
    work: Work | None = field(default=None, compare=False)

    @property
    def inputs(self) -> tuple[SegmentId, ...]:
        """Return the inputs: as found under the lock, else as planned."""
        return self.found or self.plan.inputs

    def with_inputs(self, late: tuple[SegmentId, ...]) -> "PlanState":
        """Return the state with further inputs, which the attempt found after it had started."""
        return replace(self, found=(*self.inputs, *late)) if late else self

    @property
    def completed(self) -> bool:
        """Return whether the plan is completed."""
        return self.status is PlanStatus.COMPLETED

    @staticmethod
    def requested(plan: Plan, at: Stamp) -> "PlanState":
        """Return the state of a new plan."""
        return PlanState(
            plan=plan,
            status=PlanStatus.REQUESTED,
            requested_at=at.time,
            changed_at=at.time,
            last_n=at.n,
            author=at.author,
        )

    def started(
        self,
        at: Stamp,
        *,
        attempt: str,
        token: FencingToken,
        outputs: tuple[SegmentId, ...],
        version: Instant | None,
        found: tuple[SegmentId, ...],
    ) -> "PlanState":
        """Return the state with one more attempt."""
        return replace(
            self._at(at, PlanStatus.INFLIGHT, self.note),
            attempts=self.attempts + 1,
            attempt=attempt,
            token=token,
            outputs=outputs,
            version=version,
            found=found,
            started_at=at.time,
        )

    def yielded(self, reason: str, at: Stamp) -> "PlanState":
        """Return the state after an attempt yielded its locks."""
        waiting = self._at(at, PlanStatus.REQUESTED, reason)
        return replace(waiting, yields=self.yields + 1)

    def finished(self, status: PlanStatus, note: str, at: Stamp) -> "PlanState":
        """Return the state of a completed or aborted plan."""
        return self._at(at, status, note)

    @property
    def worked(self) -> int:
        """Return the time from the start of the last attempt to the end, in microseconds."""
        return self.changed_at - self.started_at if self.work and self.started_at else 0

    @property
    def waited(self) -> int:
        """Return the time from the request to the start of the last attempt, in microseconds."""
        return max(self.started_at - self.requested_at, 0)

    def _at(self, at: Stamp, status: PlanStatus, note: str) -> "PlanState":
        return replace(
            self,
            status=status,
            changed_at=at.time,
            last_n=at.n,
            author=at.author,
            note=note,
        )
