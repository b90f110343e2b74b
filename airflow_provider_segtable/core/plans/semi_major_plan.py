"""Semi-major compaction: all groups of a chunk, as of the plan, become one sorted group.

1. Its segments are well sized. Appends go on beside it; later segments stay beside its outputs.
2. In a rollup table rows are rolled up within the inputs.
3. In a primary-key table the group is a *base file*, so it begins at the first root of its bucket:
   a slice has one base file, and everything older is in it.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from airflow_provider_segtable.core.log.conflict import Conflict
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.plans.group_plan import GroupPlan
from airflow_provider_segtable.core.plans.plan import decoded_fields
from airflow_provider_segtable.core.segments.numbering import NO_BUCKET
from airflow_provider_segtable.core.segments.segment import ChunkKey
from airflow_provider_segtable.core.segments.segment_codec import Json


@dataclass(frozen=True, slots=True, kw_only=True)
class SemiMajorPlan(GroupPlan):
    """A semi-major compaction; ``clustering`` is the order of output rows, event time if empty."""

    kind: ClassVar[str] = "semi-major"
    planned_in: ClassVar[str] = "airflow_provider_segtable.planning.finders.semi_major"
    rank: ClassVar[int] = 20
    options: ClassVar[frozenset[str]] = frozenset({"clustering"})

    clustering: str = ""

    @property
    def order(self) -> str | None:
        """Return the clustering of the outputs."""
        return self.clustering

    def admit_request(self, state: State) -> Conflict | None:
        """Refuse also a base file that would not begin at the first root."""
        if not may_begin(self.chunk, self.root_start):
            where = f"{self.id} at root {self.root_start}"
            return Conflict(reason=f"a base file begins at the first root, and {where}")
        return GroupPlan.admit_request(self, state)

    def encode(self) -> Json:
        """Return the plan as JSON."""
        own = {"clustering": self.clustering} if self.clustering else {}
        return GroupPlan.encode(self) | own

    @classmethod
    def decode(cls, body: Mapping[str, Any]) -> Self:
        """Parse the output of ``encode``."""
        start, end = body["root"]
        clustering = body.get("clustering", "")
        return cls(**decoded_fields(body), root_start=start, root_end=end, clustering=clustering)


def may_begin(chunk: ChunkKey, root: int) -> bool:
    """Return whether a sorted group of a chunk may begin at a root (rule 3)."""
    return chunk.bucket == NO_BUCKET or root == chunk.numbering.first.start
