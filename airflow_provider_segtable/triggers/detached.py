"""Wait for a detached application: its driver runs on a cluster.

1. The table decides whether it has ended, not the cluster manager: its commit is in the log, or
   its plans are no longer pending.
2. For outcomes that are not in the log (no row matched, a failure) the application leaves a result
   file (``table.remote_results``). The file is not announced: the next look finds it.
3. If the driver dies without a report, the wait ends at the deadline.
4. If a person ends the task, its plans are cancelled (``triggers.watch``). The driver goes on to
   its end, and the log refuses what it did.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.table.remote_results import fetch
from airflow_provider_segtable.triggers.watch import Answer, FormerTrigger, Question

if TYPE_CHECKING:
    from airflow_provider_segtable.core.log.state import State
    from airflow_provider_segtable.table.context import TableContext


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending(Question):
    """The question: has an application finished, or reported its outcome?

    Attributes:
        result: name of the result file that the application leaves in the table.
        commit_id: commit id of its change.
        plans: ids of the plans that it carries out.
    """

    result: str
    commit_id: str | None = None
    plans: tuple[str, ...] = ()

    def answer(self, ports: "TableContext", state: "State") -> Answer:
        """Answer from the log, else from the result file."""
        ended, _ = self.logged(state)
        return self.verdict(state, None if ended else fetch(ports.storage, self.result))

    @property
    def own_plans(self) -> tuple[str, ...]:
        """Return the ids of the plans that are carried out for the waiting task."""
        return self.plans

    def verdict(self, state: "State", facts: Mapping[str, Any] | None) -> Answer:
        """Return the answer for a state and a result; ``facts`` are None from the log."""
        ended, message = self.logged(state)
        if not ended and facts is None:
            return Answer(message=message)
        if not ended:
            message = "the application reported"
        return Answer(message=message, event={"version": state.n, "facts": facts})

    def logged(self, state: "State") -> tuple[bool, str]:
        """Return whether the log has the outcome, and a message."""
        if self.plans:
            pending = {known.plan.id for known in state.pending_plans()} & set(self.plans)
            return not pending, f"{len(pending)} of {len(self.plans)} plans are pending"
        n = state.commits.get(self.commit_id or "")
        if n is None:
            return False, f"change {self.commit_id} is not in the log"
        return True, f"change {self.commit_id} is event {n}"


class DetachedTrigger(FormerTrigger):
    """Trigger of ``Ending`` that an earlier version stored; now ``TableTrigger``."""

    asks = Ending
