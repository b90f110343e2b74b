"""Wait until an index has caught up with the commits of a table.

The goal is one of these:

1. *Now*: the newest version at the sensor's first look. A sensor that comes back in the mode
   ``reschedule`` has forgotten the version, so it takes the time of that look, and a little more,
   because clocks differ.
2. An *event*, by its number: a version of the table.
3. A *time*: all events until then.
4. The *asset event* that triggered the DAG run: the newest event of the table's log that it names;
   *now* if no asset event of the table triggered the run.
"""

from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any

from airflow.providers.common.compat.sdk import Context

from airflow_provider_segtable.assets.table_asset import segtable_asset
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.time import SECOND_US, Instant, iso, parse_instant
from airflow_provider_segtable.sensors.index_available import SegtableIndexAvailableSensor
from airflow_provider_segtable.sensors.table_sensor import time_goal
from airflow_provider_segtable.triggers.index import CaughtUp

if TYPE_CHECKING:
    from airflow_provider_segtable.core.log.state import State
    from airflow_provider_segtable.table.context import TableContext

ASSET_EVENT = "asset event"
"""The goal: the newest event in the asset events of the table that triggered the DAG run."""


class SegtableIndexCatchupSensor(SegtableIndexAvailableSensor):
    """Wait until an index is available, and has the entries of all files up to a goal.

    Args:
        upto: the number of an event; a time, as ISO 8601 or datetime; ``asset event``: the newest
            event of the table that the asset events name that triggered the run; None or an empty
            text: the newest event at the first look.
        kwargs: see ``SegtableIndexAvailableSensor``.
    """

    template_fields: Sequence[str] = ("upto", *SegtableIndexAvailableSensor.template_fields)

    def __init__(self, *, upto: int | str | datetime | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.upto = upto

    def question(self, context: Context, ports: "TableContext", state: "State") -> CaughtUp:
        """Return the question, with *now* as the version or the time of the first look."""
        upto, by = self._goal(context, ports)
        if upto is None and by is None:
            looked = self.first_look(context)
            by = None if looked is None else looked + round(ports.most_skew_s * SECOND_US)
            upto = state.n if by is None else None
        goal = f"event {upto}" if by is None else iso(by)
        self.log.info("waiting until index %s has caught up with %s", self.index, goal)
        return CaughtUp(table=self.table, index=self.index, upto=upto, by=by)

    def _goal(self, context: Context, ports: "TableContext") -> tuple[int | None, Instant | None]:
        """Return the event or the time that the argument names; two Nones for *now*."""
        match self.upto:
            case None | "":
                return None, None
            case datetime():
                return None, time_goal(self.upto)
            case str() if self.upto == ASSET_EVENT:
                return max(named_events(context, ports), default=None), None
        text = str(self.upto)
        if text.isdecimal():
            return int(text), None
        try:
            return None, parse_instant(text)
        except InvalidInput as error:
            raise InvalidInput(
                f"upto = {text!r} is not an event number, a time or {ASSET_EVENT!r}: write e.g. 41 "
                "or 2026-01-31T12:00:00Z, or leave it out for the newest event"
            ) from error


def named_events(context: Context, ports: "TableContext") -> Iterator[int]:
    """Yield the events of the table that the asset events name that triggered the run."""
    asset = segtable_asset(ports.uri)
    for key, events in (context.get("triggering_asset_events") or {}).items():
        if getattr(key, "uri", None) == asset.uri:
            numbers = ((each.extra or {}).get("event") for each in events)
            yield from (n for n in numbers if isinstance(n, int))
