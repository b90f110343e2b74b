"""Wait in the triggerer until a table is published.

1. Every mode of the sensor asks the same question, ``PublishedThrough``.
2. A format *lacks* the events after its own that change what is published, since the first of them.
   A version whose event the log no longer has lacks everything since its own time.
3. Publishing is no event of the log, so the trigger looks by itself. A commit wakes it, too.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.time import SECOND_US, Instant, iso
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.publishing.publisher import PublishedStatus, published_status
from airflow_provider_segtable.triggers.watch import OF_NO_USE, Answer, TableTrigger

POLL_S = 5.0
"""Seconds between looks at what is published."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedThrough:
    """The question: does what is published lack no more than is allowed?

    Attributes:
        table: path below the connection's root, or URI.
        formats: names of formats; empty for those that are switched on.
        at_most_seconds: the age of the oldest commit that is lacking.
        by: no commit of this time, or of an earlier one, is lacking.
    """

    table: str
    formats: tuple[str, ...] = ()
    at_most_seconds: float | None = None
    by: Instant | None = None

    def answer(self, ports: TableContext, state: State) -> Answer:
        """Return whether all formats are within the limits, as an answer."""
        del state
        known = published_status(ports)
        names = self.formats or [name for name, each in known.items() if each.enabled]
        if not names:
            message = "no format is switched on in its properties, and the sensor names none"
            return Answer(message=message, event={"status": OF_NO_USE})
        asked = {name: known.get(name, PublishedStatus(format=name)) for name in names}
        lacking = [self.lacks(each, ports.clock.now()) for each in asked.values()]
        message = "; ".join(filter(None, lacking))
        return Answer(
            message=message or f"published: {', '.join(map(_shown, asked.values()))}",
            event=None if message else _events(asked),
        )

    def lacks(self, status: PublishedStatus, now: Instant) -> str:
        """Return what a format lacks too much of; empty if it is within the limits."""
        if status.error or status.event is None:
            return f"{status.format}: {status.error or status.refusal or 'nothing is published'}"
        since = status.late_since
        if since is None:
            return ""
        age_s = max(0, now - since) / SECOND_US
        within = (self.at_most_seconds is None or age_s <= self.at_most_seconds) and (
            self.by is None or since > self.by
        )
        late = f"{_shown(status)} lacks commits since {iso(since)}"
        return "" if within else f"{late}; {status.refusal}" if status.refusal else late


def _shown(status: PublishedStatus) -> str:
    return f"{status.format} event {status.event}"


def _events(asked: Mapping[str, PublishedStatus]) -> dict[str, object]:
    return {"events": {name: each.event for name, each in asked.items()}}


class PublishedTrigger(TableTrigger):
    """Fire when what is published lacks no more than is allowed.

    Args:
        table: path below the connection's root, or URI.
        segtable_conn_id: the connection.
        formats: names of formats; empty for those that are switched on.
        at_most_seconds: the age of the oldest commit that is lacking.
        by: no commit of this time, in microseconds since the epoch, or earlier is lacking.
        poll_interval: seconds between looks.
    """

    def __init__(
        self,
        *,
        table: str,
        segtable_conn_id: str,
        formats: tuple[str, ...] = (),
        at_most_seconds: float | None = None,
        by: Instant | None = None,
        poll_interval: float = POLL_S,
    ) -> None:
        question = PublishedThrough(
            table=table, formats=(*formats,), at_most_seconds=at_most_seconds, by=by
        )
        super().__init__(question, segtable_conn_id=segtable_conn_id, poll_interval=poll_interval)
