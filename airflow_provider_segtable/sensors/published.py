"""Wait until what is published of a table shows its commits.

1. The goal is a *lag*, at most so many seconds since the oldest commit that is lacking; or a *time*
   or a *version*: everything that was committed until then. Without any of them the time is that of
   the sensor's first look.
2. Commits that change nothing of what is published, such as tags and plans, are never lacking.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from airflow.providers.common.compat.sdk import Context

from airflow_provider_segtable.core.arguments import seconds, shown
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.time import Instant, instant, parse_instant
from airflow_provider_segtable.sensors.table_sensor import SegtableTableSensor
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.triggers.published import PublishedThrough, PublishedTrigger


class SegtablePublishedSensor(SegtableTableSensor):
    """Wait until a table is published as Delta Lake or Apache Iceberg, as of some time.

    Args:
        formats: ``delta``, ``iceberg``, or both; by default those that the table's properties
            switch on.
        at_most_seconds: wait until the oldest commit that is lacking is at most so old.
        upto: wait until nothing is lacking that was committed until this time, as ISO 8601 or
            datetime; the time of the first look if no goal is given.
        version: likewise, until this event; e.g. what a task returned as ``version``.
        kwargs: see ``SegtableTableSensor``. In the triggerer it looks every ``poke_interval``.
    """

    template_fields: Sequence[str] = (
        *("formats", "at_most_seconds", "upto", "version"),
        *SegtableTableSensor.template_fields,
    )

    def __init__(
        self,
        *,
        formats: Sequence[str] | str | None = None,
        at_most_seconds: float | str | None = None,
        upto: str | datetime | None = None,
        version: int | str | None = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(**kwargs)
        self.formats = formats
        self.at_most_seconds = at_most_seconds
        self.upto = upto
        self.version = version

    def question(self, context: Context, ports: TableContext, state: State) -> PublishedThrough:
        """Return the question, with *now* as the time of the first look."""
        age_s, by = self._seconds(), self._time(ports, state)
        if age_s is None and by is None:
            by = self._first_look(context, ports)
        names = [self.formats] if isinstance(self.formats, str) else self.formats or ()
        for name in names:
            if name not in ports.formats:
                known = ", ".join(ports.formats)
                raise InvalidInput(f"formats = {shown(name)} is none: choose among {known}")
        return PublishedThrough(
            table=self.table, formats=tuple(names), at_most_seconds=age_s, by=by
        )

    def trigger(self, question: PublishedThrough) -> PublishedTrigger:
        """Return the trigger that asks the question in the triggerer."""
        return PublishedTrigger(
            table=question.table,
            segtable_conn_id=self.segtable_conn_id,
            formats=question.formats,
            at_most_seconds=question.at_most_seconds,
            by=question.by,
            poll_interval=self.poke_interval,
        )

    def _seconds(self) -> float | None:
        given = self.at_most_seconds
        if given is None or given == "":
            return None
        try:
            return seconds("at_most_seconds", float(given))
        except ValueError:
            return seconds("at_most_seconds", given)  # type: ignore[arg-type]  # refuses it

    def _time(self, ports: TableContext, state: State) -> Instant | None:
        if self.version not in (None, "", "None"):
            return self._time_of_version(ports, state)
        if isinstance(self.upto, datetime):
            return parse_instant(self.upto.isoformat())
        return parse_instant(self.upto) if self.upto else None

    def _time_of_version(self, ports: TableContext, state: State) -> Instant:
        given = str(self.version)
        if self.upto:
            raise InvalidInput("upto and version name a time each: give one of them")
        if not given.isdecimal() or int(given) > state.n:
            raise InvalidInput(
                f"version = {shown(self.version)} is not a version of the table, whose newest "
                f"one is {state.n}: give the number of an event"
            )
        event = ports.log.event(int(given))
        return ports.clock.now() if event is None else event.time

    def _first_look(self, context: Context, ports: TableContext) -> Instant:
        looked = context["ti"].get_first_reschedule_date(context) if self.reschedule else None
        return ports.clock.now() if looked is None else instant(looked)
