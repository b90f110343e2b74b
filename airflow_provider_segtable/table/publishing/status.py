"""How what is published stands to the newest version, format by format.

1. A published version *lags* by the events after its own that change what is published. Events that
   change nothing of it, such as tags and plans, are no lag.
2. The lag in seconds is the age of the first of them.
3. If the log has the published event no more, their number is unknown, and the lag in seconds
   counts from the published version on.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import takewhile

from airflow_provider_segtable.core.errors import CorruptTable, SegtableError, VersionExpired
from airflow_provider_segtable.core.log.fold import apply
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.publishing import changed_files
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.formats.format import Format, Published
from airflow_provider_segtable.planning.properties.publish_settings import PublishSettings
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.publishing.outcomes import PublishedStatus
from airflow_provider_segtable.table.publishing.refusing import refusal
from airflow_provider_segtable.table.publishing.revising import follows, shows


def published_status(ports: TableContext) -> Mapping[str, PublishedStatus]:
    """Return the status of each format that is switched on, or has a target, by name.

    Raises:
        TableGone, StorageError: the table's log cannot be read.
    """
    state = ports.log.load()
    enabled = PublishSettings.read(state.table.properties).formats
    found = {
        name: _status(ports, form, state, PublishedStatus(format=name, enabled=name in enabled))
        for name, form in ports.formats.items()
    }
    return {name: each for name, each in found.items() if each != PublishedStatus(format=name)}


def _status(
    ports: TableContext, form: Format, state: State, status: PublishedStatus
) -> PublishedStatus:
    """Return a status with what the target and the log add to it."""
    if status.enabled:
        status = replace(status, refusal=refusal(form, state))
    try:
        published = form.target(ports.storage).load()
    except (SegtableError, OSError) as error:
        return replace(status, error=f"{type(error).__name__}: {error}")
    if published is None:
        return status
    times = _late(ports, state, published)
    first = published.time if times is None else next(iter(times), None)
    lag_s = 0.0 if first is None else max(0.0, (ports.clock.now() - first) / 1e6)
    return replace(
        status,
        event=published.event,
        address=published.address,
        lag_events=None if times is None else len(times),
        late_since=first,
        lag_seconds=lag_s,
    )


def _late(ports: TableContext, state: State, published: Published) -> list[Instant] | None:
    """Return the times of the events that make a published version lag; None if unknown."""
    if not follows(ports.log, state, published):
        return None
    try:
        before = ports.log.version(published.event, state)
    except (VersionExpired, CorruptTable):
        return [] if shows(published, state) else None
    return [*_changing(ports, state, before)]


def _changing(ports: TableContext, state: State, before: State) -> Iterator[Instant]:
    """Yield the times of the events after a version that change what is published."""
    events = ports.log.events(before.n + 1)
    for event in takewhile(lambda each: each.n <= state.n, events):
        after = apply(before, event)
        altered = len(after.table.earlier) != len(before.table.earlier)
        if altered or changed_files(before, after):
            yield event.time
        before = after
