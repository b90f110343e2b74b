"""Collect the numbers of a table for metrics: those of its log, and of what is published of it.

Published metadata is read for a format that is switched on, and for no other.
"""

from collections.abc import Iterable, Iterator

from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.planning.gauges import Gauge, gauges
from airflow_provider_segtable.planning.properties import Policy
from airflow_provider_segtable.table.publishing.status import PublishedStatus


def table_gauges(
    state: State, policy: Policy, published: Iterable[PublishedStatus], now: Instant
) -> Iterator[Gauge]:
    """Yield the numbers of a table at one version."""
    yield from gauges(state, policy, now)
    for status in published:
        if status.enabled and status.lag_seconds is not None:
            since = status.late_since
            yield Gauge(name="publication.lag_seconds", since=since, part=status.format)
        if status.enabled and status.lag_events is not None:
            yield Gauge(name="publication.lag_events", value=status.lag_events, part=status.format)
