"""Send metrics of tables through Airflow's own facade: StatsD, Datadog or OpenTelemetry.

1. ``METRICS`` has each metric once; the reference page is made of it. Airflow's settings in
   ``[metrics]`` decide where they go, their prefix, and which are left out.
2. Labels are tags where the receiver has tags (``otel_on``, ``statsd_datadog_enabled``,
   ``statsd_influxdb_enabled``). Plain StatsD has none, and two tables must not share a gauge: there
   the labels are the end of the name, in the order of ``METRICS``.
3. The planner sends gauges, because each of its runs reads the whole state. Counters are sent where
   asset events are, so a retry counts no commit again that an earlier try has emitted.
4. A metric never fails a task: an error is logged, and the work goes on.
5. Airflow sets up the facade in the process of a task. Elsewhere nothing is sent.
"""

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from airflow.providers.common.compat.sdk import conf

from airflow_provider_segtable.core.log.events import Event, published
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.secret import redacted
from airflow_provider_segtable.core.time import SECOND_US
from airflow_provider_segtable.planning.gauges import Gauge, gauges
from airflow_provider_segtable.planning.properties import Policy, PublishSettings
from airflow_provider_segtable.services.compaction import Ended, PlanResult
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.publishing.publisher import published_status

_LOG = logging.getLogger(__name__)
_TAGGED = ("otel_on", "statsd_datadog_enabled", "statsd_influxdb_enabled")
_NO_LABEL = re.compile(r"[^A-Za-z0-9_-]+")
MOST_LABEL = 80
"""Airflow drops names of more than 250 characters; the end of a label tells tables apart."""


class MetricType(StrEnum):
    """How a receiver adds values up."""

    COUNTER = "counter"
    GAUGE = "gauge"
    TIMER = "timer"


@dataclass(frozen=True, slots=True, kw_only=True)
class Metric:
    """A metric below ``segtable.``: its type, its labels after ``table``, and its meaning."""

    name: str
    type: MetricType
    meaning: str
    labels: tuple[str, ...] = ()


def _gauge(name: str, meaning: str, *labels: str) -> Metric:
    return Metric(name=name, type=MetricType.GAUGE, meaning=meaning, labels=labels)


def _counter(name: str, meaning: str, *labels: str) -> Metric:
    return Metric(name=name, type=MetricType.COUNTER, meaning=meaning, labels=labels)


METRICS = {
    metric.name: metric
    for metric in (
        _gauge("table.segments", "visible data files, which a full scan opens"),
        _gauge("table.bytes", "their bytes"),
        _gauge("backlog.small_segments", "visible segments that the policy calls small"),
        _gauge("backlog.hidden_segments", "replaced segments that wait for cleaning"),
        _gauge("plans.pending", "plans that are requested or being carried out"),
        _gauge("plans.oldest_seconds", "seconds since the request of the oldest pending plan"),
        _gauge("index.lag_commits", "commits whose entries an index lacks", "index"),
        _gauge("index.lag_seconds", "seconds since the oldest of them", "index"),
        _gauge("publication.lag_events", "events that a published table lags behind", "format"),
        _gauge("publication.lag_seconds", "seconds since the oldest of them", "format"),
        _counter("commits.events", "events that tasks committed", "work"),
        _counter("commits.rows", "rows in the segments that these events published", "work"),
        _counter("commits.bytes", "bytes of these segments", "work"),
        _counter("commits.segments", "number of these segments", "work"),
        _counter("plans.ended", "plans that a task was given, by how they ended", "work", "ended"),
        Metric(
            name="plan.duration",
            type=MetricType.TIMER,
            meaning="time from a plan's request to its completion, the wait for a worker included",
            labels=("kind",),
        ),
    )
}


def send_gauges(table: str, ports: TableContext, policy: Policy) -> None:
    """Send the table's numbers as they are now."""
    with _harmless("gauges", table):
        state = ports.log.load()
        for gauge in (*gauges(state, policy, ports.clock.now()), *_publications(ports, state)):
            send(gauge.name, table, gauge.value, *filter(None, [gauge.part]))


def send_commits(table: str, work: str, events: Sequence[Event]) -> None:
    """Count commits, and the rows, bytes and segments that they published."""
    with _harmless("commits", table):
        facts = published(events)
        send("commits.events", table, len(events), work)
        send("commits.rows", table, facts.rows, work)
        send("commits.bytes", table, facts.bytes, work)
        send("commits.segments", table, facts.segments, work)


def send_outcomes(table: str, work: str, results: Iterable[PlanResult]) -> None:
    """Count plans by how they ended."""
    with _harmless("plans", table):
        for result in results:
            send("plans.ended", table, 1, work, str(result.ended))


def send_durations(table: str, state: State, results: Iterable[PlanResult]) -> None:
    """Send the duration of each plan that was completed."""
    with _harmless("durations", table):
        for result in results:
            known = state.plans.get(result.plan_id)
            if known is not None and result.ended is Ended.COMPLETED:
                took = known.changed_at - known.requested_at
                send("plan.duration", table, took / SECOND_US, str(known.plan.kind))


def send(name: str, table: str, value: float, *labels: str) -> None:
    """Send one value; of a timer it is in seconds.

    Args:
        name: a name of ``METRICS``.
        table: the table, as its operator names it.
        value: the value.
        labels: the values of the metric's own labels, in their order.
    """
    from airflow.providers.common.compat.sdk import Stats  # each version has it elsewhere

    metric = METRICS[name]
    given = (redacted(table), *labels)
    tags = {key: _label(text) for key, text in zip(("table", *metric.labels), given, strict=True)}
    full = f"segtable.{name}"
    shown = full if _has_tags() else ".".join((full, *tags.values()))
    match metric.type:
        case MetricType.GAUGE:
            Stats.gauge(shown, value, tags=tags)
        case MetricType.COUNTER:
            Stats.incr(shown, int(value), tags=tags)
        case MetricType.TIMER:
            Stats.timing(shown, timedelta(seconds=value), tags=tags)


def _publications(ports: TableContext, state: State) -> Iterator[Gauge]:
    """Yield the lags of the formats that are switched on, of which metadata is read for it."""
    if not PublishSettings.read(state.table.properties).formats:
        return
    for name, status in published_status(ports).items():
        if status.enabled and status.lag_seconds is not None:
            yield Gauge(name="publication.lag_seconds", value=status.lag_seconds, part=name)
        if status.enabled and status.lag_events is not None:
            yield Gauge(name="publication.lag_events", value=status.lag_events, part=name)


def _label(text: str) -> str:
    """Return text as a part of a name: other characters than these end a part, or are refused."""
    return _NO_LABEL.sub("_", text).strip("_")[-MOST_LABEL:] or "_"


def _has_tags() -> bool:
    return any(conf.getboolean("metrics", name, fallback=False) for name in _TAGGED)


@contextmanager
def _harmless(what: str, table: str) -> Iterator[None]:
    """Log an error instead of raising it."""
    try:
        yield
    except Exception:  # noqa: BLE001 - a receiver may fail in any way, and the work is done
        _LOG.warning("metrics of %s not sent (%s)", redacted(table), what, exc_info=True)
