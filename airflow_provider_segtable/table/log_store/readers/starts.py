"""Where a reader of the log store begins, as users say it.

1. ``earliest``: the first record that is still there. ``latest``: behind the last one that its
   service has, or the table, if a bucket is not served.
2. A version of the table, by its number, or a time: behind what was committed by then.
3. Positions by bucket, such as those of another reader. Buckets that are left out begin at their
   earliest record. Whether an offset beyond the committed records was ever written, only the
   service knows, and says at the first read.
"""

from collections.abc import Collection, Mapping
from typing import TypeAlias

from airflow_provider_segtable.core.errors import InvalidInput, LogStoreUnavailable
from airflow_provider_segtable.core.log.families.log_store_events import bucket_of
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.log_store.manifest import Position
from airflow_provider_segtable.core.log_store.reading import Whence
from airflow_provider_segtable.core.time import Time, as_instant
from airflow_provider_segtable.planning.properties.log_store_settings import LogStoreSettings
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log_store.file_reader import first_available
from airflow_provider_segtable.table.log_store.live_tail import Finder

Start: TypeAlias = Time | Mapping[int, Position]
"""``earliest``, ``latest``, the number of a version, a time, or positions by bucket."""


def buckets_of(state: State, wanted: Collection[int] | None = None) -> tuple[int, ...]:
    """Return the buckets to read: those wanted, or all that the table has.

    Raises:
        InvalidInput: a bucket is not one of the table's.
    """
    count = LogStoreSettings.read(state.table.properties).buckets
    known = {*range(count), *state.log_store}
    chosen = known if wanted is None else set(wanted)
    if not chosen or chosen - known:
        raise InvalidInput(
            f"buckets {sorted(chosen)} are to be read, but the log store has {sorted(known)}: give "
            "some of these"
        )
    return tuple(sorted(chosen))


def start_positions(
    ports: TableContext, find: Finder, start: Start, buckets: Collection[int]
) -> dict[int, Position]:
    """Return the position of each bucket at which a reader begins.

    Raises:
        InvalidInput: the start is none of these, or is no position of this table.
        VersionExpired, NotATable: there is no such version, or it was cleaned.
    """
    if start == Whence.EARLIEST.value:
        return {bucket: first_available(ports, bucket) for bucket in buckets}
    if start == Whence.LATEST.value:
        return {bucket: _latest(ports, find, bucket) for bucket in buckets}
    if isinstance(start, Mapping):
        state = ports.log.load()
        given = {bucket: _checked(state, bucket, at) for bucket, at in start.items()}
        left = set(buckets) - given.keys()
        return {**given, **{bucket: first_available(ports, bucket) for bucket in left}}
    old = _version(ports, start)
    return {bucket: _committed(old, bucket) for bucket in buckets}


def _version(ports: TableContext, start: Time) -> State:
    if isinstance(start, int) and not isinstance(start, bool):
        return ports.log.at(start)
    return ports.log.as_of(as_instant(start))


def _committed(state: State, bucket: int) -> Position:
    """Return the position behind a version's records, as they were in its newest epoch."""
    known = bucket_of(state, bucket)
    return Position(epoch=known.epoch, offset=known.end)


def _latest(ports: TableContext, find: Finder, bucket: int) -> Position:
    committed = _committed(ports.log.load(), bucket)
    try:
        client = find(bucket)
        served = client.status().get(bucket) if client else None
    except LogStoreUnavailable:
        served = None
    if served is None or served.end.epoch < committed.epoch:
        return committed
    return served.end


def _checked(state: State, bucket: int, at: Position) -> Position:
    known = bucket_of(state, bucket)
    if at.epoch > known.epoch or at.epoch < 0 or at.offset < 0:
        raise InvalidInput(
            f"{at} is not a position of bucket {bucket}: its newest epoch is {known.epoch}; "
            "begin at a position that a reader returned, or at 'earliest' or 'latest'"
        )
    return at
