"""Wait until the published versions of a table show its commits.

1. The goal is a *lag*, at most so many seconds since the oldest missing commit; or a *time* or a
   *version*: all commits until then. Without a goal the time is that of the sensor's first look.
2. Commits that change no published rows or columns, such as tags and plans, are never missing.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import Context

from airflow_provider_segtable.core.arguments import shown
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.sensors.table_sensor import (
    SegtableTableSensor,
    age_limit,
    time_goal,
)
from airflow_provider_segtable.triggers.published import PublishedThrough

if TYPE_CHECKING:
    from airflow_provider_segtable.core.log.state import State
    from airflow_provider_segtable.table.context import TableContext


class SegtablePublishedSensor(SegtableTableSensor):
    """Wait until a table is published as Delta Lake or Apache Iceberg, as of some time.

    Args:
        formats: ``delta``, ``iceberg``, or both; by default those that the table's properties
            switch on.
        at_most_seconds: wait until the oldest missing commit is at most so old.
        upto: wait until no commit until this time is missing, as ISO 8601 or datetime; the time of
            the first look if no goal is given.
        version: likewise, until this event; e.g. the ``version`` that a task returned.
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

    def question(self, context: Context, ports: "TableContext", state: "State") -> PublishedThrough:
        """Return the question, with *now* as the time of the first look."""
        age_s = age_limit("at_most_seconds", self.at_most_seconds)
        by = self._time(ports, state)
        if age_s is None and by is None:
            by = self.first_look(context) or ports.clock.now()
        names = [self.formats] if isinstance(self.formats, str) else self.formats or ()
        for name in names:
            if name not in ports.formats:
                known = ", ".join(ports.formats)
                raise InvalidInput(f"formats = {shown(name)} is not a format: choose among {known}")
        return PublishedThrough(
            table=self.table, formats=tuple(names), at_most_seconds=age_s, by=by
        )

    def _time(self, ports: "TableContext", state: "State") -> Instant | None:
        if self.version not in (None, "", "None"):
            return self._time_of_version(ports, state)
        return time_goal(self.upto)

    def _time_of_version(self, ports: "TableContext", state: "State") -> Instant:
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
