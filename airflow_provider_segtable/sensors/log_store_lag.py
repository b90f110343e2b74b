"""Wait until a table has what was appended to its log store, or a consumer group has read it.

1. A table lacks what is not committed; a *group* lacks what is after the positions that it stored.
2. The goal is a *lag*: at most so many records, or seconds, that are lacking; or a *time*:
   everything appended before. Without any of them the time is that of the sensor's first look.
3. Times of records are those of the clocks of the stores' hosts. For a group, a committed record is
   as old as its commit.
4. ZooKeeper names the services, and the services say what waits. A bucket that nobody serves lacks
   nothing: its writer sends again what was not committed.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from airflow.providers.common.compat.sdk import Context

from airflow_provider_segtable.core.arguments import plain, seconds, shown
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.time import Instant, instant, parse_instant
from airflow_provider_segtable.sensors.table_sensor import SegtableTableSensor
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.triggers.log_store import POLL_S, LogLagTrigger, LogLagWithin


class LogStoreLagSensor(SegtableTableSensor):
    """Wait until a table has what was appended to its log store, or a consumer group has read it.

    Args:
        group: a consumer group, by the positions that it has stored; by default the table itself,
            by what is committed.
        at_most_records: wait until at most so many records are lacking.
        at_most_seconds: wait until the oldest record that is lacking is at most so old.
        upto: wait until nothing is lacking that was appended before a time, as ISO 8601 or
            datetime; the time of the first look if no goal is given.
        kwargs: see ``SegtableTableSensor``. In the triggerer ``poke_interval`` is at least 5 s:
            ZooKeeper wakes it at each checkpoint.
    """

    template_fields: Sequence[str] = (
        *("group", "at_most_records", "at_most_seconds", "upto"),
        *SegtableTableSensor.template_fields,
    )

    def __init__(
        self,
        *,
        group: str = "",
        at_most_records: int | str | None = None,
        at_most_seconds: float | str | None = None,
        upto: str | datetime | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.group = group
        self.at_most_records = at_most_records
        self.at_most_seconds = at_most_seconds
        self.upto = upto

    def question(self, context: Context, ports: TableContext, state: State) -> LogLagWithin:
        """Return the question, with *now* as the time of the first look."""
        del state
        if ports.optional_coordinator is None:
            raise InvalidInput(
                f"connection {self.segtable_conn_id} names no ZooKeeper, so no service of a log "
                "store is known: give it the extra field zookeeper"
            )
        records, age_s, by = self._records(), self._seconds(), self._time()
        if records is None and age_s is None and by is None:
            by = self._first_look(context, ports)
        question = LogLagWithin(
            table=self.table,
            group=plain("group", self.group),
            at_most_records=records,
            at_most_seconds=age_s,
            by=by,
        )
        who = f"group {self.group}" if self.group else self.table
        self.log.info("waiting until %s lacks %s of the log store", who, question.limits)
        return question

    def trigger(self, question: LogLagWithin) -> LogLagTrigger:
        """Return the trigger that asks the question in the triggerer."""
        return LogLagTrigger(
            table=question.table,
            segtable_conn_id=self.segtable_conn_id,
            group=question.group,
            at_most_records=question.at_most_records,
            at_most_seconds=question.at_most_seconds,
            by=question.by,
            poll_interval=max(POLL_S, self.poke_interval),
        )

    def _records(self) -> int | None:
        given = str(self.at_most_records or ("" if self.at_most_records is None else 0))
        if given and not given.isdecimal():
            raise InvalidInput(
                f"at_most_records = {shown(self.at_most_records)} is not a number of records: "
                "write e.g. 1000"
            )
        return int(given) if given else None

    def _seconds(self) -> float | None:
        given = self.at_most_seconds
        if given is None or given == "":
            return None
        try:
            return seconds("at_most_seconds", float(given))
        except ValueError:
            return seconds("at_most_seconds", given)  # type: ignore[arg-type]  # refuses it

    def _time(self) -> Instant | None:
        if isinstance(self.upto, datetime):
            return parse_instant(self.upto.isoformat())
        return parse_instant(self.upto) if self.upto else None

    def _first_look(self, context: Context, ports: TableContext) -> Instant:
        looked = context["ti"].get_first_reschedule_date(context) if self.reschedule else None
        return ports.clock.now() if looked is None else instant(looked)
