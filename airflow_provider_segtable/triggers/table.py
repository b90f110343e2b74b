"""Wait for compaction.

Every mode of the sensor asks the same question, ``SmallSegments``; ``triggers.watch`` watches the
table.
"""

from typing import TYPE_CHECKING

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.triggers.watch import Answer, FormerTrigger, Question

if TYPE_CHECKING:
    from airflow_provider_segtable.core.log.state import State
    from airflow_provider_segtable.planning.selection import Verdict
    from airflow_provider_segtable.table.context import TableContext


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallSegments(Question):
    """The question: has each chunk of an interval few enough small segments?

    Attributes:
        interval: ISO 8601 ``start/end``; None for the whole table.
        at_most: how many small segments a chunk may have; None for as many as the table's policy
            leaves uncompacted.
    """

    interval: str | None = None
    at_most: int | None = None

    def answer(self, ports: "TableContext", state: "State") -> Answer:
        """Return the verdict as an answer."""
        del ports
        verdict = self.judge(state)
        event = {"version": verdict.version} if verdict.satisfied else None
        return Answer(message=verdict.message, event=event)

    def judge(self, state: "State") -> "Verdict":
        """Return the verdict for one state of the table."""
        from airflow_provider_segtable.planning.properties import Policy
        from airflow_provider_segtable.planning.selection import judge_small_segments

        policy = Policy.read(state.table.properties)
        interval = Interval.parse(self.interval) if self.interval else None
        return judge_small_segments(state, policy, interval, self.at_most)


class SmallSegmentsTrigger(FormerTrigger):
    """Trigger of ``SmallSegments`` that an earlier version stored; now ``TableTrigger``."""

    asks = SmallSegments
