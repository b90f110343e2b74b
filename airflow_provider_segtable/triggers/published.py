"""Wait until a table is published.

1. Every mode of the sensor asks the same question, ``PublishedThrough``.
2. A format is *late* by the events after its own that change published rows or columns, since the
   first of them. If the log no longer has the event of its version, it is late since its own time.
3. Publishing is no event of the log, so the trigger looks by itself. A commit wakes it, too.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.time import SECOND_US, Instant, iso
from airflow_provider_segtable.triggers.watch import (
    OF_NO_USE,
    Answer,
    FormerTrigger,
    Question,
)

if TYPE_CHECKING:
    from airflow_provider_segtable.core.log.state import State
    from airflow_provider_segtable.table.context import TableContext
    from airflow_provider_segtable.table.publishing.status import PublishedStatus

POLL_S = 5.0
"""Seconds between looks at published versions."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedThrough(Question):
    """The question: does each format show the table's commits, but for an allowed lag?

    Attributes:
        formats: names of formats; empty for those that are switched on.
        at_most_seconds: the age of the oldest missing commit.
        by: no commit of this time, or of an earlier one, is missing.
    """

    formats: tuple[str, ...] = ()
    at_most_seconds: float | None = None
    by: Instant | None = None

    def answer(self, ports: "TableContext", state: "State") -> Answer:
        """Answer from the published versions."""
        from airflow_provider_segtable.table.publishing.status import published_status

        del state
        return self.verdict(published_status(ports), ports.clock.now())

    def verdict(self, known: "Mapping[str, PublishedStatus]", now: Instant) -> Answer:
        """Return whether all formats are within the limits, as an answer."""
        from airflow_provider_segtable.table.publishing.status import PublishedStatus

        names = self.formats or [name for name, each in known.items() if each.enabled]
        if not names:
            message = "no format is switched on in its properties, and the sensor names none"
            return Answer(message=message, event={"status": OF_NO_USE})
        asked = {name: known.get(name, PublishedStatus(format=name)) for name in names}
        message = "; ".join(filter(None, (self.lateness(each, now) for each in asked.values())))
        return Answer(
            message=message or f"published: {', '.join(map(_shown, asked.values()))}",
            event=None if message else _events(asked),
        )

    def lateness(self, status: "PublishedStatus", now: Instant) -> str:
        """Return how late a format is; empty if it is within the limits."""
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


def _shown(status: "PublishedStatus") -> str:
    return f"{status.format} event {status.event}"


def _events(asked: "Mapping[str, PublishedStatus]") -> dict[str, object]:
    return {"events": {name: each.event for name, each in asked.items()}}


class PublishedTrigger(FormerTrigger):
    """Trigger of ``PublishedThrough`` that an earlier version stored; now ``TableTrigger``."""

    asks = PublishedThrough
    poll_s = POLL_S
