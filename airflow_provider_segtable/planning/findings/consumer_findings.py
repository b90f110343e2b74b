"""Findings about consumers: positions that cleaning took, or will take soon.

1. A consumer whose position is no longer kept cannot go on from there: it has to read a whole
   version. It loses it where nothing advanced it for ``retention.consumer_hours``.
2. A consumer that used up most of this time holds old files, and is about to lose its position.
"""

from collections.abc import Iterator, Mapping

from airflow_provider_segtable.core.consumer import Consumer
from airflow_provider_segtable.core.log.families.consumer_events import needed_from
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.recovery.diagnosis import Finding, Severity
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.planning.properties.retention import HOUR_US

MOST = 0.5
"""Part of ``retention.consumer_hours`` from which a consumer lags."""


def lagging_consumers(
    state: State, unread: Mapping[str, Instant | None], *, now: Instant, hours: float
) -> Iterator[Finding]:
    """Yield the consumers that lag.

    Args:
        state: the newest state.
        unread: the time of the first change of rows after a consumer's position, by consumer; None
            if it has read everything.
        now: this machine's clock.
        hours: for how long cleaning keeps what consumers have yet to read.
    """
    for name, consumer in sorted(state.consumers.items()):
        if needed_from(state, consumer) < state.retained_from:
            yield _lost(name, consumer, state)
        elif (since := unread[name]) is not None and now - since > MOST * hours * HOUR_US:
            yield _lagging(name, consumer, (now - since) / HOUR_US, hours)


def _lost(name: str, consumer: Consumer, state: State) -> Finding:
    return Finding(
        code="lost-consumer",
        severity=Severity.WARNING,
        where=name,
        what=f"its position, version {consumer.version}, was cleaned: versions are kept from "
        f"{state.retained_from} on",
        why="it cannot read what was committed since its position",
        do=f"let it read a whole version N, then: segtable consumers advance TABLE {name} "
        f"--version N; or drop it: segtable consumers drop TABLE {name}",
    )


def _lagging(name: str, consumer: Consumer, lag: float, hours: float) -> Finding:
    return Finding(
        code="lagging-consumer",
        severity=Severity.WARNING,
        where=name,
        what=f"it has not read on from version {consumer.version} for {lag:.0f} hours",
        why=f"cleaning keeps old files for it, and takes its position after {hours:g} hours "
        "(retention.consumer_hours)",
        do=f"look why it does not read, or drop it: segtable consumers drop TABLE {name}",
    )
