"""Wait until a table, or a consumer group, has the records of a log store.

Every mode of the sensor asks the same question, ``LogLagWithin``, with the verdict of
``planning.log_lag``; ``triggers.watch`` watches the table, so each checkpoint wakes it.
"""

from typing import TYPE_CHECKING, ClassVar

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import CoordinationError
from airflow_provider_segtable.core.log_store import reading
from airflow_provider_segtable.core.time import SECOND_US, Instant
from airflow_provider_segtable.planning.log_lag import LagLimits, NotArrived, judge_log_lag
from airflow_provider_segtable.triggers.watch import Answer, FormerTrigger, Question

if TYPE_CHECKING:
    from airflow_provider_segtable.core.log.state import State
    from airflow_provider_segtable.library.log_stores import LogBucket
    from airflow_provider_segtable.table.context import TableContext

POLL_S = 5.0
"""Seconds between looks at the services, unless ZooKeeper announces a commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLagWithin(Question):
    """The question: is the lag behind a log store, of a table or a group, within these limits?

    Attributes:
        group: a consumer group, which lags by unread records; empty for the table, which lags by
            uncommitted records.
        at_most_records: the number of missing records.
        at_most_seconds: the age of the oldest of them.
        by: no record that was appended before this time is missing.
    """

    least_poll_s: ClassVar[float] = POLL_S
    group: str = ""
    at_most_records: int | None = None
    at_most_seconds: float | None = None
    by: Instant | None = None

    @property
    def limits(self) -> LagLimits:
        """Return the limits."""
        return LagLimits(records=self.at_most_records, seconds=self.at_most_seconds, by=self.by)

    def answer(self, ports: "TableContext", state: "State") -> Answer:
        """Return the verdict as an answer."""
        try:
            found = self._found(ports, state)
        except CoordinationError as error:
            return Answer(message=f"the services of the log store are unknown: {error}")
        verdict = judge_log_lag(found, self.limits, ports.clock.now())
        version = ports.log.refresh(state).n  # read after the services, so it has their commits
        event = {"version": version, "records": verdict.records, "seconds": verdict.seconds}
        return Answer(message=verdict.message, event=event if verdict.satisfied else None)

    def _found(self, ports: "TableContext", state: "State") -> list[NotArrived]:
        from airflow_provider_segtable.library.log_stores import log_buckets, log_finder
        from airflow_provider_segtable.table.log_store.positions import log_lag

        if not self.group:
            return [lag_of(each) for each in log_buckets(ports, state)]
        behind = log_lag(ports, log_finder(ports), self.group).buckets.values()
        return [lag_of_reader(each, ports.clock.now()) for each in behind]


def lag_of_reader(found: reading.BucketLag, now: Instant) -> NotArrived:
    """Return a reader's lag in a bucket; a committed record is as old as its commit."""
    since = now - round(found.seconds * SECOND_US) if found.records else None
    return NotArrived(bucket=found.bucket, records=found.records, since=since)


def lag_of(found: "LogBucket") -> NotArrived:
    """Return the table's lag in a bucket."""
    if found.status is None:
        return NotArrived(bucket=found.bucket, trouble=found.trouble)
    return NotArrived(
        bucket=found.bucket,
        records=found.waiting,
        since=found.waiting_since,
    )


class LogLagTrigger(FormerTrigger):
    """Trigger of ``LogLagWithin`` that an earlier version stored; now ``TableTrigger``."""

    asks = LogLagWithin
    poll_s = POLL_S
