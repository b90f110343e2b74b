"""The status of a format: which version of a table is published in it, and how far that lags.

1. A published version *lags* by the later events that change published files or columns. Other
   events, such as tags and plans, are no lag.
2. The lag in seconds is the age of the first of them.
3. If the log no longer has the published event, the number of events is unknown, and the lag in
   seconds counts from the published version on.
4. A format that is switched on, and of which nothing is published, lags since the table's first
   commit; the number of events is unknown.
5. A format that is switched off and has no target has no status, and is not imported.
"""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from itertools import takewhile

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import CorruptTable, SegtableError, VersionExpired
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.log.fold import apply
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.publishing import changed_files
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.formats.format import Format, Published
from airflow_provider_segtable.formats.formats import in_use
from airflow_provider_segtable.planning.properties import PublishSettings
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.publishing.refusing import refusal


@dataclass(frozen=True, slots=True, kw_only=True)
class PublishedStatus:
    """The status of the newest published version of a format (rules 1 to 4).

    Attributes:
        format: the name of the format.
        enabled: whether the property is on.
        event: the event that the newest published version shows; None if there is none.
        lag_events: number of events that it lags behind; None if it is unknown.
        late_since: time of the first of them; of the published version if it is unknown, and of the
            table's first commit if there is none.
        lag_seconds: time since then.
        address: the URI that readers open.
        refusal: the reason if the newest version cannot be published, else empty.
        error: the reason if the target cannot be read or is another tool's, else empty.
    """

    format: str
    enabled: bool = False
    event: int | None = None
    lag_events: int | None = None
    late_since: Instant | None = None
    lag_seconds: float | None = None
    address: str = ""
    refusal: str = ""
    error: str = ""

    def facts(self) -> Facts:
        """Return the status as plain JSON values."""
        return {
            "format": self.format,
            "enabled": self.enabled,
            "event": self.event,
            "lag_events": self.lag_events,
            "lag_s": self.lag_seconds,
            "address": self.address or None,
            "refusal": self.refusal or None,
            "error": self.error or None,
        }


def published_status(ports: TableContext) -> Mapping[str, PublishedStatus]:
    """Return the status of each format that is switched on, or has a target, by name.

    Raises:
        TableGone, StorageError: the table's log cannot be read.
    """
    state = ports.log.load()
    return status_of_formats(ports, state, PublishSettings.read(state.table.properties).formats)


def status_of_formats(
    ports: TableContext, state: State, enabled: Collection[str]
) -> Mapping[str, PublishedStatus]:
    """Return the status at one version of each format that is enabled, or has a target, by name."""
    found = {
        name: _status(ports, form, state, PublishedStatus(format=name, enabled=name in enabled))
        for name, form in in_use(ports.formats, ports.storage, enabled)
    }
    return {name: each for name, each in found.items() if each != PublishedStatus(format=name)}


def _status(
    ports: TableContext, form: Format, state: State, status: PublishedStatus
) -> PublishedStatus:
    """Return a status completed from the target and the log."""
    if status.enabled:
        status = replace(status, refusal=refusal(form, state))
    try:
        published = form.target(ports.storage).load()
    except (SegtableError, OSError) as error:
        return replace(status, error=f"{type(error).__name__}: {error}")
    if published is None:
        first = state.base_version if status.enabled else None
        lag_s = None if first is None else _age_s(ports, first)
        return replace(status, late_since=first, lag_seconds=lag_s)
    times = _lag_times(ports, state, published)
    first = published.time if times is None else next(iter(times), None)
    return replace(
        status,
        event=published.event,
        address=published.address,
        lag_events=None if times is None else len(times),
        late_since=first,
        lag_seconds=0.0 if first is None else _age_s(ports, first),
    )


def _age_s(ports: TableContext, since: Instant) -> float:
    return max(0.0, (ports.clock.now() - since) / 1e6)


def _lag_times(ports: TableContext, state: State, published: Published) -> list[Instant] | None:
    """Return the times of the events that make a published version lag; None if unknown."""
    from airflow_provider_segtable.table.publishing.revising import follows, shows

    if not follows(ports.log, state, published):
        return None
    try:
        before = ports.log.version(published.event, state)
    except (VersionExpired, CorruptTable):
        return [] if shows(published, state) else None
    return [*_changing_times(ports, state, before)]


def _changing_times(ports: TableContext, state: State, before: State) -> Iterator[Instant]:
    """Yield the times of the events after a version that change published files or columns."""
    events = ports.log.events(before.n + 1)
    for event in takewhile(lambda each: each.n <= state.n, events):
        after = apply(before, event)
        altered = len(after.table.earlier) != len(before.table.earlier)
        if altered or changed_files(before, after):
            yield event.time
        before = after
