"""The base of sensors that ask a table one question, in every mode of waiting.

1. The question is fixed at the first look: ``now`` becomes a version. The mode ``poke`` keeps it,
   a trigger carries it, and the mode ``reschedule`` fixes it by the time of its first look.
2. All modes give the state of the table to the same question (``triggers.watch.Question``).
   ZooKeeper wakes a deferred wait early.
3. A question may find that waiting is of no use (``status`` other than ``success``): the task fails
   at once, without a retry.
4. Limits and times are rendered fields, so ``age_limit`` and ``time_goal`` check them when the task
   runs.
"""

from abc import abstractmethod
from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import (
    AirflowException,
    AirflowFailException,
    BaseSensorOperator,
    Context,
    conf,
)

from airflow_provider_segtable.core.arguments import seconds
from airflow_provider_segtable.core.time import Instant, instant, parse_instant
from airflow_provider_segtable.operators.rendered import TableOperator, refused_at_once
from airflow_provider_segtable.triggers.watch import OF_NO_USE, Answer, Question, TableTrigger

if TYPE_CHECKING:
    from airflow_provider_segtable.core.log.state import State
    from airflow_provider_segtable.table.context import TableContext


class SegtableTableSensor(TableOperator, BaseSensorOperator):
    """Wait until a question about one table is answered; a base class.

    Args:
        deferrable: wait in the triggerer, and take no worker slot.
        kwargs: see ``TableOperator``, and those of any sensor: ``timeout``, ``mode``,
            ``poke_interval``, ``soft_fail`` ...
    """

    ui_color = "#d9ecdf"

    def __init__(
        self,
        *,
        deferrable: bool = conf.getboolean("operators", "default_deferrable", fallback=False),
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.deferrable = deferrable
        self._question: Question | None = None

    # ---- each sensor's part -----------------------------------------------------------------

    @abstractmethod
    def question(self, context: Context, ports: "TableContext", state: "State") -> Question:
        """Return the question, fixed for the table as it is at the first look.

        Raises:
            InvalidInput: the sensor's arguments are malformed.
        """

    def first_look(self, context: Context) -> Instant | None:
        """Return when a rescheduled task looked first; None at its first look."""
        looked = context["ti"].get_first_reschedule_date(context) if self.reschedule else None
        return None if looked is None else instant(looked)

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
        assert self._question is not None  # noqa: S101  # fixed by ``poke``
        trigger = TableTrigger(
            self._question,
            segtable_conn_id=self.segtable_conn_id,
            poll_interval=max(self._question.least_poll_s, self.poke_interval),
        )
        timeout = timedelta(seconds=self.timeout)
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
        ended = event or {"status": "error", "message": "the trigger ended without an event"}
        self._check(ended)
        if ended["status"] != "success":
            raise AirflowException(f"waiting for {self.table} failed: {ended['message']}")
        self.log.info("%s: %s", self.table, ended["message"])

    def _look(self, context: Context) -> Answer:
        with (
            refused_at_once(f"waiting for {self.table}"),
            self.place.table_ports(self.table) as ports,
        ):
            state = ports.log.load()
            self._question = self._question or self.question(context, ports, state)
            answer = self._question.answer(ports, state)
        self.log.info("%s at version %d: %s", self.table, state.n, answer.message)
        self._check({"message": answer.message, **(answer.event or {})})
        return answer

    def _check(self, event: Mapping[str, Any]) -> None:
        if event.get("status") == OF_NO_USE:
            raise AirflowFailException(f"waiting for {self.table} is of no use: {event['message']}")


def age_limit(name: str, given: float | str | None) -> float | None:
    """Return a limit in seconds from a rendered field; None without one.

    Raises:
        InvalidInput: it is not a number of seconds.
    """
    if given is None or given == "":
        return None
    try:
        return seconds(name, float(given))
    except ValueError:
        return seconds(name, given)  # type: ignore[arg-type]  # refuses it


def time_goal(given: str | datetime | None) -> Instant | None:
    """Return a time from a rendered field; None without one.

    Raises:
        InvalidInput: it is not a time in ISO 8601.
    """
    if isinstance(given, datetime):
        return parse_instant(given.isoformat())
    return parse_instant(given) if given else None
