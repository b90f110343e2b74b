"""Minor compaction: small adjacent groups of a chunk become one, and rows keep their order.

Rows are copied undecoded where possible. In a rollup table they are rolled up within the inputs.
"""

from dataclasses import dataclass
from typing import ClassVar

from airflow_provider_segtable.core.plans.group_plan import GroupPlan


@dataclass(frozen=True, slots=True, kw_only=True)
class MinorPlan(GroupPlan):
    """A minor compaction. Its rules are those of every plan over groups."""

    kind: ClassVar[str] = "minor"
    planned_in: ClassVar[str] = "airflow_provider_segtable.planning.finders.minor"
    rank: ClassVar[int] = 10
