"""A toy kind that is no rewrite: it holds an interval for a moment, and publishes nothing."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from airflow_provider_segtable.core.locks import LockGranularity, LockRequest
from airflow_provider_segtable.core.log.plan import (
    Claim,
    Complete,
    Named,
    Plan,
    PlanState,
    Step,
    decoded_fields,
)
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import Place, Segment


@dataclass(frozen=True, slots=True, kw_only=True)
class RollCallPlan(Plan):
    """Finds out whether all segments of a chunk are there. It claims none of them."""

    kind: ClassVar[str] = "roll-call"
    planned_in: ClassVar[str] = "tests.unit.services.toys.roll_call"
    rank: ClassVar[int] = 5
    lock_granularity: ClassVar[LockGranularity] = LockGranularity.TIME_CHUNK

    @property
    def claim(self) -> Claim:
        return Claim(interval=self.interval, segments=frozenset())

    def imbalance(
        self, found: PlanState, segments: Sequence[Segment], state: State
    ) -> Iterable[str]:
        return (f"{segment.id} was made up" for segment in segments)

    def lock(self, asked: LockRequest, state: State) -> LockRequest:
        return replace(asked, intervals=(self.interval,))

    def name_outputs(
        self, found: PlanState, counts: Mapping[Place, int], state: State
    ) -> dict[Place, Named]:
        return {}

    def next_step(
        self, inputs: Sequence[Segment], done: Sequence[tuple[Segment, ...]], state: State
    ) -> Step:
        return Complete(segments=())

    @classmethod
    def decode(cls, body: Mapping[str, Any]) -> Self:
        return cls(**decoded_fields(body))
