"""Wait for an index.

Every mode of the sensors asks the same question, ``CaughtUp``, with the verdict of
``core.catch_up``; ``triggers.watch`` watches the table.
"""

from typing import TYPE_CHECKING, ClassVar

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.triggers.watch import OF_NO_USE, Answer, FormerTrigger, Question

if TYPE_CHECKING:
    from airflow_provider_segtable.core.log.state import State
    from airflow_provider_segtable.table.context import TableContext


@dataclass(frozen=True, slots=True, kw_only=True)
class CaughtUp(Question):
    """The question: is an index available, with the files of all events up to a goal?

    Attributes:
        index: the name of the index.
        upto: the event to catch up with; 0 asks only that it is available.
        by: the time to catch up with.
    """

    least_poll_s: ClassVar[float] = 30.0
    index: str
    upto: int | None = None
    by: Instant | None = None

    def answer(self, ports: "TableContext", state: "State") -> Answer:
        """Return the verdict as an answer; an index that is gone ends the wait."""
        from airflow_provider_segtable.core.catch_up import Progress, catch_up

        now = ports.clock.now()
        found = catch_up(state, self.index, self.upto, by=self.by, now=now)
        match found.progress:
            case Progress.DONE:
                return Answer(message=found.message, event={"version": found.version})
            case Progress.GONE:
                return Answer(message=found.message, event={"status": OF_NO_USE})
            case Progress.WAITING:
                return Answer(message=found.message)


class IndexTrigger(FormerTrigger):
    """Trigger of ``CaughtUp`` that an earlier version stored; now ``TableTrigger``."""

    asks = CaughtUp
