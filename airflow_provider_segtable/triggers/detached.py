"""Wait for a detached application, one whose driver runs on a cluster.

1. The table decides whether it has ended, not the cluster manager: its commit is in the log, or
   its plans are no longer pending.
2. For outcomes that are not in the log (no row matched, a failure) the application leaves a result
   file (``table.remote_results``). Nothing announces the file: the next look finds it.
3. If the driver dies without a report, the wait ends at the deadline.
"""

from dataclasses import dataclass
from typing import Any

from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.remote_results import fetch
from airflow_provider_segtable.triggers.watch import Answer, TableTrigger


@dataclass(frozen=True, slots=True, kw_only=True)
class Ending:
    """The question: has an application finished, or reported its outcome?

    Attributes:
        table: path below the connection's root, or URI.
        result: name of the result file that the application leaves in the table.
        commit_id: commit id of its change.
        plans: ids of the plans that it carries out.
    """

    table: str
    result: str
    commit_id: str | None = None
    plans: tuple[str, ...] = ()

    def answer(self, ports: TableContext, state: State) -> Answer:
        """Answer from the log, else from the result file; ``facts`` are None from the log."""
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
    """Fire when the table shows that an application on a cluster has ended.

    Args:
        table: path below the connection's root, or URI.
        segtable_conn_id: the connection.
        result: name of the result file that the application leaves in the table.
        commit_id: commit id of its change.
        plans: ids of the plans that it carries out.
        poll_interval: seconds between looks, if ZooKeeper announces nothing.
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
        super().__init__(
            Ending(table=table, result=result, commit_id=commit_id, plans=tuple(plans)),
            segtable_conn_id=segtable_conn_id,
            poll_interval=poll_interval,
            deadline=deadline,
        )

    def serialize(self) -> tuple[str, dict[str, Any]]:
        """Return the class path and the arguments to rebuild this trigger."""
        path, arguments = super().serialize()
        plans = [*arguments["plans"]]  # as JSON keeps them
        return path, {**arguments, "plans": plans, "deadline": self.deadline}
