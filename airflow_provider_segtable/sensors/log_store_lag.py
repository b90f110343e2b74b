"""Wait until a table has the records of its log store, or a consumer group has read them.

1. A table lags by uncommitted records; a *group* lags by the records after its stored positions.
2. The goal is a *lag*: at most so many missing records, or seconds of age; or a *time*:
   all records that were appended before. Without a goal the time is that of the sensor's first
   look.
3. Times of records are those of the clocks of the stores' hosts. For a group, a committed record is
   as old as its commit.
4. ZooKeeper names the services, and the services report waiting records. A bucket without a service
   has no lag: its writer sends uncommitted records again.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import Context

from airflow_provider_segtable.core.arguments import plain, shown
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.sensors.table_sensor import (
    SegtableTableSensor,
    age_limit,
    time_goal,
)
from airflow_provider_segtable.triggers.log_store import LogLagWithin

if TYPE_CHECKING:
    from airflow_provider_segtable.core.log.state import State
    from airflow_provider_segtable.table.context import TableContext


class LogStoreLagSensor(SegtableTableSensor):
    """Wait until a table has the records of its log store, or a consumer group has read them.

    Args:
        group: a consumer group, by its stored positions; by default the table itself, by its
            commits.
        at_most_records: wait until at most so many records are missing.
        at_most_seconds: wait until the oldest missing record is at most so old.
        upto: wait until no record is missing that was appended before a time, as ISO 8601 or
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

    def question(self, context: Context, ports: "TableContext", state: "State") -> LogLagWithin:
        """Return the question, with *now* as the time of the first look."""
        del state
        if ports.optional_coordinator is None:
            raise InvalidInput(
                f"connection {self.segtable_conn_id} names no ZooKeeper, so no service of a log "
                "store is known: give it the extra field zookeeper"
            )
        age_s = age_limit("at_most_seconds", self.at_most_seconds)
        records, by = self._records(), time_goal(self.upto)
        if records is None and age_s is None and by is None:
            by = self.first_look(context) or ports.clock.now()
        question = LogLagWithin(
            table=self.table,
            group=plain("group", self.group),
            at_most_records=records,
            at_most_seconds=age_s,
            by=by,
        )
        reader = f"group {self.group}" if self.group else self.table
        self.log.info("waiting until %s lacks %s of the log store", reader, question.limits)
        return question

    def _records(self) -> int | None:
        given = str(self.at_most_records or ("" if self.at_most_records is None else 0))
        if given and not given.isdecimal():
            raise InvalidInput(
                f"at_most_records = {shown(self.at_most_records)} is not a number of records: "
                "write e.g. 1000"
            )
        return int(given) if given else None
