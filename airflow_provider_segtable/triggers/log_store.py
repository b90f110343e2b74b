"""Wait in the triggerer until a table, or a consumer group, has what was appended to a log store.

Every mode of the sensor asks the same question, ``LogLagWithin``, whose answer is the verdict of
``planning.log_lag``; ``triggers.watch`` watches the table, so each checkpoint wakes it.
"""

from dataclasses import dataclass

from airflow_provider_segtable.core.errors import CoordinationError
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.log_store import reading
from airflow_provider_segtable.core.time import SECOND_US, Instant
from airflow_provider_segtable.library.log_stores import LogBucket, log_buckets, log_finder
from airflow_provider_segtable.planning.log_lag import LagLimits, NotArrived, judge_log_lag
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log_store.positions import log_lag
from airflow_provider_segtable.triggers.watch import Answer, TableTrigger

POLL_S = 5.0
"""Seconds between looks at the services, unless ZooKeeper announces a commit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LogLagWithin:
    """The question: is what a table, or a group, lacks of a log store within these limits?

    Attributes:
        table: path below the connection's root, or URI.
        group: a consumer group, which lacks what it has not read; empty for the table, which lacks
            what is not committed.
        at_most_records: the number of records that are lacking.
        at_most_seconds: the age of the oldest of them.
        by: nothing that was appended before this time is lacking.
    """

    table: str
    group: str = ""
    at_most_records: int | None = None
    at_most_seconds: float | None = None
    by: Instant | None = None

    @property
    def limits(self) -> LagLimits:
        """Return the limits."""
        return LagLimits(records=self.at_most_records, seconds=self.at_most_seconds, by=self.by)

    def answer(self, ports: TableContext, state: State) -> Answer:
        """Return the verdict as an answer."""
        try:
            found = self._found(ports, state)
        except CoordinationError as error:
            return Answer(message=f"it is not known which services have the log store: {error}")
        verdict = judge_log_lag(found, self.limits, ports.clock.now())
        version = ports.log.refresh(state).n  # after the services said what is committed
        event = {"version": version, "records": verdict.records, "seconds": verdict.seconds}
        return Answer(message=verdict.message, event=event if verdict.satisfied else None)

    def _found(self, ports: TableContext, state: State) -> list[NotArrived]:
        if not self.group:
            return [lag_of(each) for each in log_buckets(ports, state)]
        behind = log_lag(ports, log_finder(ports), self.group).buckets.values()
        return [lag_of_reader(each, ports.clock.now()) for each in behind]


def lag_of_reader(found: reading.BucketLag, now: Instant) -> NotArrived:
    """Return what a reader lacks of a bucket: committed records are as old as their commit."""
    since = now - round(found.seconds * SECOND_US) if found.records else None
    return NotArrived(bucket=found.bucket, records=found.records, since=since)


def lag_of(found: LogBucket) -> NotArrived:
    """Return what the table lacks of a bucket."""
    if found.status is None:
        return NotArrived(bucket=found.bucket, trouble=found.trouble)
    return NotArrived(
        bucket=found.bucket,
        records=found.waiting,
        since=found.waiting_since,
    )


class LogLagTrigger(TableTrigger):
    """Fire when a table, or a group, has what was appended to a log store, but for what is allowed.

    Args:
        table: path below the connection's root, or URI.
        segtable_conn_id: the connection.
        group: a consumer group; empty for the table.
        at_most_records: the number of records that are lacking.
        at_most_seconds: the age of the oldest of them.
        by: nothing that was appended before this time, in microseconds since the epoch, is lacking.
        poll_interval: seconds between looks, if ZooKeeper announces nothing.
    """

    def __init__(
        self,
        *,
        table: str,
        segtable_conn_id: str,
        group: str = "",
        at_most_records: int | None = None,
        at_most_seconds: float | None = None,
        by: Instant | None = None,
        poll_interval: float = POLL_S,
    ) -> None:
        question = LogLagWithin(
            table=table,
            group=group,
            at_most_records=at_most_records,
            at_most_seconds=at_most_seconds,
            by=by,
        )
        super().__init__(question, segtable_conn_id=segtable_conn_id, poll_interval=poll_interval)
