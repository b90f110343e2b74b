"""Wait for an index in the triggerer.

Every mode of the sensors asks the same question, ``CaughtUp``, whose answer is the verdict of
``core.catch_up``; ``triggers.watch`` watches the table.
"""

from dataclasses import dataclass

from airflow_provider_segtable.core.catch_up import Progress, catch_up
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.triggers.watch import OF_NO_USE, Answer, TableTrigger

LEAST_POLL_S = 30.0
"""Seconds between looks at the storage, unless ZooKeeper announces an event."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CaughtUp:
    """The question: is an index available, with the files of all events up to a goal?

    Attributes:
        table: path below the connection's root, or URI.
        index: the name of the index.
        upto: the event to catch up with; 0 asks only that it is available.
        by: the time to catch up with.
    """

    table: str
    index: str
    upto: int | None = None
    by: Instant | None = None

    def answer(self, ports: TableContext, state: State) -> Answer:
        """Return the verdict as an answer; an index that is gone ends the wait."""
        now = ports.clock.now()
        found = catch_up(state, self.index, self.upto, by=self.by, now=now)
        match found.progress:
            case Progress.DONE:
                return Answer(message=found.message, event={"version": found.version})
            case Progress.GONE:
                return Answer(message=found.message, event={"status": OF_NO_USE})
            case Progress.WAITING:
                return Answer(message=found.message)


class IndexTrigger(TableTrigger):
    """Fire when an index has caught up, or is gone.

    Args:
        table: path below the connection's root, or URI.
        segtable_conn_id: the connection.
        index: the name of the index.
        upto: the event to catch up with; 0 asks only that it is available.
        by: the time to catch up with, in microseconds since the epoch.
        poll_interval: seconds between looks, if ZooKeeper announces nothing.
    """

    def __init__(
        self,
        *,
        table: str,
        segtable_conn_id: str,
        index: str,
        upto: int | None = None,
        by: Instant | None = None,
        poll_interval: float = LEAST_POLL_S,
    ) -> None:
        question = CaughtUp(table=table, index=index, upto=upto, by=by)
        super().__init__(question, segtable_conn_id=segtable_conn_id, poll_interval=poll_interval)
