"""The status of a plan, and its transitions."""

from dataclasses import dataclass, replace
from enum import StrEnum

from airflow_provider_segtable.core.locks.lockbox import FencingToken
from airflow_provider_segtable.core.log.stamp import Stamp
from airflow_provider_segtable.core.plans.plan import Plan
from airflow_provider_segtable.core.segments.segment import SegmentId
from airflow_provider_segtable.core.time.interval import Instant


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
    under its lock, if it looked for them there.
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
        )

    def yielded(self, reason: str, at: Stamp) -> "PlanState":
        """Return the state after an attempt yielded its locks."""
        waiting = self._at(at, PlanStatus.REQUESTED, reason)
        return replace(waiting, yields=self.yields + 1)

    def finished(self, status: PlanStatus, note: str, at: Stamp) -> "PlanState":
        """Return the state of a completed or aborted plan."""
        return self._at(at, status, note)

    def _at(self, at: Stamp, status: PlanStatus, note: str) -> "PlanState":
        return replace(
            self,
            status=status,
            changed_at=at.time,
            last_n=at.n,
            author=at.author,
            note=note,
        )
