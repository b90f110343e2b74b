"""Send metrics of tables through Airflow's own facade: StatsD, Datadog or OpenTelemetry.

1. ``METRICS`` has each metric once; the reference page is made of it. Airflow's settings in
   ``[metrics]`` decide where they go, their prefix, and which are left out.
2. Labels are tags where the receiver has tags (``otel_on``, ``statsd_datadog_enabled``,
   ``statsd_influxdb_enabled``). Plain StatsD has none, and two tables must not share a gauge: there
   the labels are the end of the name, in the order of ``METRICS``.
3. A planner sends gauges, because each of its runs knows the whole state. The planner of a fleet
   sends the same of each table, from what its looks keep, and numbers of the fleet as a whole.
   Counters are sent where asset events are, so a retry counts no commit again that an earlier try
   has emitted.
4. A metric never fails a task: an error is logged, and the work goes on.
5. Airflow sets up the facade in the process of a task. Elsewhere nothing is sent.
"""

import logging
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from enum import StrEnum
from typing import TYPE_CHECKING

from airflow.providers.common.compat.sdk import conf

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.secret import redacted
from airflow_provider_segtable.core.time import SECOND_US, Instant
from airflow_provider_segtable.planning.fleet.fleet import Fleet, objective_of

if TYPE_CHECKING:
    from airflow_provider_segtable.core.log.events import Event
    from airflow_provider_segtable.core.log.state import State
    from airflow_provider_segtable.planning.gauges import Gauge
    from airflow_provider_segtable.planning.properties import Policy
    from airflow_provider_segtable.services.compaction import PlanResult
    from airflow_provider_segtable.services.fleet_run import FleetRun, TableReport
    from airflow_provider_segtable.table.context import TableContext

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
    """A metric below ``segtable.``: its type, its meaning and its labels.

    ``of`` is the first label, ``table`` or ``fleet``; ``labels`` are those after it.
    """

    name: str
    type: MetricType
    meaning: str
    labels: tuple[str, ...] = ()
    of: str = "table"


def _gauge(name: str, meaning: str, *labels: str) -> Metric:
    return Metric(name=name, type=MetricType.GAUGE, meaning=meaning, labels=labels)


def _of_fleet(name: str, meaning: str, *labels: str) -> Metric:
    return replace(_gauge(name, meaning, *labels), of="fleet")


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
        _gauge("log_store.lag_records", "records that services have and the table lacks"),
        _gauge("log_store.lag_seconds", "seconds since the oldest of them was appended"),
        _gauge("log_store.silent_buckets", "buckets whose service does not answer"),
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
        Metric(
            name="plan.waited",
            type=MetricType.TIMER,
            meaning="time from the write of its newest file to a plan's request by a fleet",
            labels=("kind",),
        ),
        _gauge("objective.found", "what a table of a fleet has, of an aim", "aim"),
        _gauge("objective.aim", "what it should have at most; ages in seconds", "aim"),
        _gauge("objective.missed", "number of aims that it misses"),
        _of_fleet("fleet.tables", "tables of the fleet"),
        _of_fleet("fleet.unreadable", "tables that could not be read or planned"),
        _of_fleet("fleet.missing", "tables that miss their objective"),
        _of_fleet("fleet.left", "worthwhile plans that do not begin, by code", "code"),
        _of_fleet("fleet.begun", "plans that began in this run", "kind"),
        _of_fleet("fleet.bytes_begun", "bytes of the plans that began within the hour"),
        _of_fleet("fleet.bytes_budget", "bytes that may begin within an hour, if there is a limit"),
        _of_fleet("fleet.oldest_seconds", "seconds that the oldest worthwhile plan has waited"),
    )
}


def send_gauges(table: str, ports: "TableContext", policy: "Policy") -> None:
    """Send the table's numbers as they are now."""
    from airflow_provider_segtable.library.log_stores import log_store_lag
    from airflow_provider_segtable.planning.properties import PublishSettings
    from airflow_provider_segtable.services.fleet_run import has_log_store
    from airflow_provider_segtable.services.table_gauges import table_gauges
    from airflow_provider_segtable.table.publishing.status import status_of_formats

    with _harmless("gauges", table):
        state, now = ports.log.load(), ports.clock.now()
        formats = PublishSettings.read(state.table.properties).formats
        published = status_of_formats(ports, state, formats).values() if formats else ()
        _send_all(table, table_gauges(state, policy, published, now), now)
    with _harmless("log store", table):
        if has_log_store(ports, state):
            _send_all(table, log_store_lag(ports, state.table.table_id).gauges(), now)


def send_fleet(fleet: Fleet, run: "FleetRun", now: Instant) -> None:
    """Send the numbers of a fleet, and those of each of its tables."""
    for each in run.tables:
        with _harmless("gauges", each.name):
            _send_table(fleet, each, now)
    with _harmless("gauges", fleet.name):
        for name, value, *labels in _numbers(fleet, run):
            send(name, fleet.name, value, *labels)
    if not run.dry_run:
        for one in run.plan.chosen:
            with _harmless("waiting", one.table):
                waited_s = max(0, now - one.offer.since) / SECOND_US
                send("plan.waited", one.table, waited_s, one.offer.kind)


def _send_table(fleet: Fleet, report: "TableReport", now: Instant) -> None:
    from airflow_provider_segtable.planning.fleet.objectives import compared

    if report.error:
        return
    _send_all(report.name, report.gauges, now)
    for each in compared(objective_of(fleet, report.name), report.measure):
        facts = each.facts()
        send("objective.found", report.name, facts["found"], each.name)
        send("objective.aim", report.name, facts["aim"], each.name)
    send("objective.missed", report.name, len(report.misses))


def _numbers(fleet: Fleet, run: "FleetRun") -> Iterator[tuple[str, float, *tuple[str, ...]]]:
    """Yield the numbers of a fleet with their labels; those of codes and kinds also if they are 0.

    A gauge keeps its last value, so one that is not sent again would stay.
    """
    from airflow_provider_segtable.core.log.plan_kinds import kinds
    from airflow_provider_segtable.planning.fleet.fleet_plan import Code

    left = Counter(each.code for each in run.plan.left)
    begun = Counter(each.offer.kind for each in run.plan.chosen)
    yield "fleet.tables", len(run.tables)
    yield "fleet.unreadable", sum(bool(each.error) for each in run.tables)
    yield "fleet.missing", sum(bool(each.misses) for each in run.tables)
    for code in Code:
        yield "fleet.left", left[code], code.value
    for kind in kinds():
        yield "fleet.begun", begun[kind.kind], kind.kind
    yield "fleet.bytes_begun", run.plan.bytes
    if fleet.budget.bytes_per_hour is not None:
        yield "fleet.bytes_budget", fleet.budget.bytes_per_hour
    yield "fleet.oldest_seconds", max((each.waiting for each in run.tables), default=0.0)


def _send_all(table: str, numbers: "Iterable[Gauge]", now: Instant) -> None:
    for gauge in numbers:
        send(gauge.name, table, gauge.at(now), *filter(None, [gauge.part]))


def send_commits(table: str, work: str, events: "Sequence[Event]") -> None:
    """Count commits, and the rows, bytes and segments that they published."""
    from airflow_provider_segtable.core.log.events import published

    with _harmless("commits", table):
        facts = published(events)
        send("commits.events", table, len(events), work)
        send("commits.rows", table, facts.rows, work)
        send("commits.bytes", table, facts.bytes, work)
        send("commits.segments", table, facts.segments, work)


def send_outcomes(table: str, work: str, results: "Iterable[PlanResult]") -> None:
    """Count plans by how they ended."""
    with _harmless("plans", table):
        for result in results:
            send("plans.ended", table, 1, work, str(result.ended))


def send_durations(table: str, state: "State", results: "Iterable[PlanResult]") -> None:
    """Send the duration of each plan that was completed."""
    from airflow_provider_segtable.services.compaction import Ended

    with _harmless("durations", table):
        for result in results:
            known = state.plans.get(result.plan_id)
            if known is not None and result.ended is Ended.COMPLETED:
                took = known.changed_at - known.requested_at
                send("plan.duration", table, took / SECOND_US, str(known.plan.kind))


def send(name: str, of: str, value: float, *labels: str) -> None:
    """Send one value; of a timer it is in seconds.

    Args:
        name: a name of ``METRICS``.
        of: the table, as its operator names it; or the fleet.
        value: the value.
        labels: the values of the metric's own labels, in their order.
    """
    from airflow.providers.common.compat.sdk import Stats  # each version has it elsewhere

    metric = METRICS[name]
    given = (redacted(of), *labels)
    names = (metric.of, *metric.labels)
    tags = {key: _label(text) for key, text in zip(names, given, strict=True)}
    full = f"segtable.{name}"
    shown = full if _has_tags() else ".".join((full, *tags.values()))
    match metric.type:
        case MetricType.GAUGE:
            Stats.gauge(shown, value, tags=tags)
        case MetricType.COUNTER:
            Stats.incr(shown, int(value), tags=tags)
        case MetricType.TIMER:
            Stats.timing(shown, timedelta(seconds=value), tags=tags)


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
