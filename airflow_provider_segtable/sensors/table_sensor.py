"""The base of sensors that ask a table one question, in every mode of waiting.

1. The question is fixed at the first look: ``now`` becomes a version. The mode ``poke`` keeps it,
   a trigger carries it, and the mode ``reschedule`` fixes it by the time of its first look.
2. All modes give the state of the table to the same question (``triggers.watch.Question``).
   ZooKeeper wakes a deferred wait early.
3. A question may find that waiting is of no use (``status`` other than ``success``): the task fails
   at once, without a retry.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Any

from airflow.providers.common.compat.sdk import (
    AirflowException,
    AirflowFailException,
    BaseSensorOperator,
    Context,
    conf,
)

from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.hooks.segtable import SegtableHook
from airflow_provider_segtable.operators.rendered import TableOperator, refused_at_once
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.triggers.watch import OF_NO_USE, Answer, Question, TableTrigger


class SegtableTableSensor(TableOperator, BaseSensorOperator):
    """Wait until a question about one table is answered; a base class.

    Args:
        table: below the connection's root, or a URI.
        segtable_conn_id: the connection.
        deferrable: wait in the triggerer, and take no worker slot.
        kwargs: of any sensor: ``timeout``, ``mode``, ``poke_interval``, ``soft_fail`` ...
    """

    template_fields: Sequence[str] = ("table", "segtable_conn_id")
    ui_color = "#d9ecdf"

    def __init__(
        self,
        *,
        table: str,
        segtable_conn_id: str = SegtableHook.default_conn_name,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.table = table
        self.segtable_conn_id = segtable_conn_id
        self.deferrable = deferrable
        self._question: Question | None = None

    # ---- what each sensor says --------------------------------------------------------------

    @abstractmethod
    def question(self, context: Context, ports: TableContext, state: State) -> Question:
        """Return the question, fixed for the table as it is at the first look.

        Raises:
            InvalidInput: the sensor's arguments are malformed.
        """

    @abstractmethod
    def trigger(self, question: Any) -> TableTrigger:
        """Return the trigger that asks the question in the triggerer."""

    # ---- the way of every wait --------------------------------------------------------------

    def poke(self, context: Context) -> bool:
        """Return whether the wait is over now.

        Raises:
            AirflowFailException: waiting is of no use.
        """
        return self._look(context).event is not None

    def execute(self, context: Context) -> Any:
        """Wait on this worker or in the triggerer."""
        if not self.deferrable:
            return super().execute(context)
        if self.poke(context):
            return None
        timeout = timedelta(seconds=self.timeout)
        trigger = self.trigger(self._question)
        return self.defer(trigger=trigger, method_name="execute_complete", timeout=timeout)

    def execute_complete(
        self,
        context: Context,  # noqa: ARG002  # Airflow's signature
        event: Mapping[str, Any] | None = None,
    ) -> None:
        """Go on after the trigger's event.

        Raises:
            AirflowFailException: waiting is of no use any more.
            AirflowException: the trigger met an error.
        """
        told = event or {"status": "error", "message": "the trigger ended without an event"}
        self._check(told)
        if told["status"] != "success":
            raise AirflowException(f"waiting for {self.table} failed: {told['message']}")
        self.log.info("%s: %s", self.table, told["message"])

    def _look(self, context: Context) -> Answer:
        with (
            refused_at_once(f"waiting for {self.table}"),
            SegtableHook(self.segtable_conn_id).table_ports(self.table) as ports,
        ):
            state = ports.log.load()
            self._question = self._question or self.question(context, ports, state)
            answer = self._question.answer(ports, state)
        self.log.info("%s at version %d: %s", self.table, state.n, answer.message)
        self._check({"message": answer.message, **(answer.event or {})})
        return answer

    def _check(self, told: Mapping[str, Any]) -> None:
        if told.get("status") == OF_NO_USE:
            raise AirflowFailException(f"waiting for {self.table} is of no use: {told['message']}")
