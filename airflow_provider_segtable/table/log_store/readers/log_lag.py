"""How far readers of the log store are behind: a consumer group, or positions.

1. Each service is asked once for the status of its buckets; one that does not answer counts as
   none. The version is read after that, so it has all that the services took for committed.
2. A bucket in which a group has stored no position counts from its first record on.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress

from airflow_provider_segtable.core.consumer import LogMark
from airflow_provider_segtable.core.errors import CoordinationError, InvalidInput, LogStoreError
from airflow_provider_segtable.core.log.families.log_store_events import bucket_of
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.log_store.manifest import Position
from airflow_provider_segtable.core.log_store.reading import (
    NOTHING_READ,
    BucketStatus,
    LogEnd,
    LogLag,
    lag_of,
)
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.ports.log_store import LogClient
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log_store.file_reader import first_available, ranges
from airflow_provider_segtable.table.log_store.live_tail import Finder, own_statuses
from airflow_provider_segtable.table.log_store.readers.starts import buckets_of
from airflow_provider_segtable.table.log_store.readers.stored_positions import stored_marks


def log_lag(ports: TableContext, find: Finder, reader: str | Mapping[int, Position]) -> LogLag:
    """Return how far a reader of a table's log store is behind.

    Args:
        ports: the table's ports.
        find: finds the service of a bucket.
        reader: the name of a consumer group, or positions by bucket.

    Raises:
        InvalidInput: the group has not stored any position, or a bucket is not one of the table's.
    """
    before: State | None = None
    if isinstance(reader, str):
        before = ports.log.load()
        marks = stored_marks(before, reader)
        if not marks:
            raise InvalidInput(
                f"consumer group {reader!r} has stored no position: its readers do (TableLogReader"
                ".store); or look for its name in `segtable consumers list`"
            )
        unread = [bucket for bucket in buckets_of(before) if bucket not in marks]
        at = {**marks, **{bucket: _unread(ports, bucket) for bucket in unread}}
    else:
        at = {b: LogMark(position=each, through=NOTHING_READ) for b, each in reader.items()}
    statuses = _statuses(find, at)
    state = ports.log.refresh(before) if before else ports.log.load()
    buckets_of(state, at)
    now = ports.clock.now()
    lags = {}
    for bucket, mark in sorted(at.items()):
        end = LogEnd(known=bucket_of(state, bucket), status=statuses.get(bucket))
        since = _committed_at(ports, state, bucket, end.first_unread(mark.position), mark)
        lags[bucket] = lag_of(bucket, mark.position, end, committed_at=since, now=now)
    return LogLag(buckets=lags)


def _unread(ports: TableContext, bucket: int) -> LogMark:
    return LogMark(position=first_available(ports, bucket), through=NOTHING_READ)


def _statuses(find: Finder, buckets: Collection[int]) -> dict[int, BucketStatus]:
    """Return the status of all buckets whose services answer."""
    stores: dict[int, tuple[LogClient, list[int]]] = {}
    found: dict[int, BucketStatus] = {}
    for bucket in buckets:
        with suppress(LogStoreError, CoordinationError):
            if (client := find(bucket)) is not None:
                stores.setdefault(id(client), (client, []))[1].append(bucket)
    for client, mine in stores.values():
        with suppress(LogStoreError, CoordinationError):
            found |= own_statuses(client, mine)
    return found


def _committed_at(
    ports: TableContext, state: State, bucket: int, offset: int, mark: LogMark
) -> Instant | None:
    """Return when the record at an offset was committed; None if it is not."""
    is_ahead = offset >= mark.position.offset
    through = mark.through_in(bucket_of(state, bucket).epoch) if is_ahead else NOTHING_READ
    found = ranges(ports.log, state, bucket, offset, through)
    return next((event.time for event, _ in found), None)
