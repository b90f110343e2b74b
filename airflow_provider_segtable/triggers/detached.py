"""Waiting for an application that nobody here is attached to: its driver runs on a cluster.

1. The table tells how it ended, not the cluster manager: its commit is in the log, or its plans
   are no longer pending. That is the truth, whoever did it.
2. What the log cannot tell (nothing matched, a failure) the application leaves beside it
   (``table.remote_results``). Nothing announces that: it is found at the next look.
3. A driver that ends without a word leaves nothing; the deadline is for that.
"""

from dataclasses import dataclass
from typing import Any

from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.time.interval import Instant
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.remote_results import fetch
from airflow_provider_segtable.triggers.watch import Answer, TableTrigger


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The question: has an application done what it was to do, or said why not?

    Attributes:
        table: as the hook takes it.
        result: the name under which it leaves what the log does not tell.
        commit_id: of the change that it makes.
        plans: that it carries out.
    """

    table: str
    result: str
    commit_id: str | None = None
    plans: tuple[str, ...] = ()

    def answer(self, ports: TableContext, state: State) -> Answer:
        """Answer by the log, else by what was left; ``facts`` are None if the log tells."""
        done, message = self._logged(state)
        if done:
            return Answer(message=message, event={"version": state.n, "facts": None})
        facts = fetch(ports.storage, self.result)
        if facts is None:
            return Answer(message=message)
        return Answer(
            message="the application reported", event={"version": state.n, "facts": facts}
        )

    def _logged(self, state: State) -> tuple[bool, str]:
        if self.plans:
            pending = {known.plan.id for known in state.pending_plans()} & set(self.plans)
            return not pending, f"{len(pending)} of {len(self.plans)} plans are pending"
        n = state.commits.get(self.commit_id or "")
        if n is None:
            return False, f"change {self.commit_id} is not in the log"
        return True, f"change {self.commit_id} is event {n}"


class DetachedTrigger(TableTrigger):
    """Fires when an application on a cluster has ended, by its table.

    Args:
        table: as the hook takes it.
        segtable_conn_id: the connection.
        result: the name under which the application leaves what the log does not tell.
        commit_id: of the change that it makes.
        plans: that it carries out.
        poll_interval: how often to look, in seconds, if nothing is announced.
        deadline: when to give up, in microseconds since the epoch.
    """

    def __init__(
        self,
        *,
        table: str,
        segtable_conn_id: str,
        result: str,
        commit_id: str | None = None,
        plans: list[str] | tuple[str, ...] = (),
        poll_interval: float = 30.0,
        deadline: Instant | None = None,
    ) -> None:
        self.question = Ending(table=table, result=result, commit_id=commit_id, plans=tuple(plans))
        super().__init__(
            self.question,
            segtable_conn_id=segtable_conn_id,
            poll_interval=poll_interval,
            deadline=deadline,
        )

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return what the triggerer makes this trigger from."""
        return (
            f"{type(self).__module__}.{type(self).__qualname__}",
            {
                "table": self.question.table,
                "segtable_conn_id": self.segtable_conn_id,
                "result": self.question.result,
                "commit_id": self.question.commit_id,
                "plans": list(self.question.plans),
                "poll_interval": self.poll_interval,
                "deadline": self.deadline,
            },
        )
