"""Wait for compaction in the triggerer.

Every mode of the sensor asks the same question, ``SmallSegments``; ``triggers.watch`` watches the
table.
"""

from dataclasses import dataclass

from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.planning.properties import Policy
from airflow_provider_segtable.planning.selection import Verdict, judge_small_segments
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.triggers.watch import Answer, TableTrigger


@dataclass(frozen=True, slots=True, kw_only=True)
class SmallSegments:
    """The question: has each chunk of ``interval`` at most ``at_most`` small segments?

    None is as many as the table's policy leaves uncompacted.
    """

    table: str
    interval: str | None
    at_most: int | None

    def judge(self, state: State) -> Verdict:
        """Return the verdict for one state of the table."""
        policy = Policy.read(state.table.properties)
        interval = Interval.parse(self.interval) if self.interval else None
        return judge_small_segments(state, policy, interval, self.at_most)

    def answer(self, ports: TableContext, state: State) -> Answer:  # noqa: ARG002  # a question's
        """Return the verdict as an answer."""
        verdict = self.judge(state)
        event = {"version": verdict.version} if verdict.satisfied else None
        return Answer(message=verdict.message, event=event)


class SmallSegmentsTrigger(TableTrigger):
    """Fire when a table's interval has few enough small segments.

    Args:
        table: path below the connection's root, or URI.
        segtable_conn_id: the connection.
        interval: ISO 8601 ``start/end``; the whole table by default.
        at_most: how many small segments a chunk may have; by default as many as the table's policy
            leaves uncompacted.
        poll_interval: seconds between looks, if ZooKeeper announces nothing.
    """

    def __init__(
        self,
        *,
        table: str,
        segtable_conn_id: str,
        interval: str | None = None,
        at_most: int | None = None,
        poll_interval: float = 30.0,
    ) -> None:
        question = SmallSegments(table=table, interval=interval, at_most=at_most)
        super().__init__(question, segtable_conn_id=segtable_conn_id, poll_interval=poll_interval)
