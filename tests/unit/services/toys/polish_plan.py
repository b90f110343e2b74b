"""A toy kind over one group: its rows are written again, ordered by a column, with a shine."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from airflow_provider_segtable.core.log.event import Conflict
from airflow_provider_segtable.core.log.group_plans import GroupPlan
from airflow_provider_segtable.core.log.plan import PlanState, decoded_fields
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.segment_codec import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class PolishPlan(GroupPlan):
    """Orders the rows of one group by ``shine``, at most once."""

    kind: ClassVar[str] = "polish"
    planned_in: ClassVar[str] = "tests.unit.services.toys.polish"
    rank: ClassVar[int] = 25
    wait_s: ClassVar[float] = 7.0
    priority: ClassVar[int] = 26

    shine: str

    @property
    def order(self) -> str | None:
        return self.shine

    @property
    def line(self) -> str:
        return f"{self.id}: {self.shine} will shine"

    def admit_request(self, state: State) -> Conflict | None:
        segments = (state.timeline.get(i) for i in self.inputs)
        if any(segment and segment.clustering == self.shine for segment in segments):
            return Conflict(reason=f"{self.id} is polished already")
        return GroupPlan.admit_request(self, state)

    def imbalance(
        self, found: PlanState, segments: Sequence[Segment], state: State
    ) -> Iterable[str]:
        yield from GroupPlan.imbalance(self, found, segments, state)
        yield from (f"{s.id} does not shine" for s in segments if s.clustering != self.shine)

    def encode(self) -> Json:
        return GroupPlan.encode(self) | {"shine": self.shine}

    @classmethod
    def decode(cls, body: Mapping[str, Any]) -> Self:
        start, end = body["root"]
        return cls(**decoded_fields(body), root_start=start, root_end=end, shine=body["shine"])
