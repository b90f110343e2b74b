"""The live tail of a table: what its log stores hold and the table has not committed.

1. One point in time: first the status of each store, of all its buckets at once; then the newest
   version of the table; then of each bucket the records from the version's committed end up to the
   end in the status. If the version is already beyond that, there are none. Several services have
   a point each, all before the version.
2. Only records of a bucket's newest epoch count. Those of an older one will never be committed.
3. If the records are not there any more, because they were committed meanwhile and evicted, or a
   new epoch discarded them, a newer version knows: begin again, a bounded number of times.
4. A bucket that no service holds has no tail. Nor has one whose service is published, but has
   certainly ended: its host answers, and nothing listens there (``LogStoreGone``). What it held is
   gone with it, or comes again from its writer. A note says so.
5. A service that is published and does not answer is an error: its records may be alive, and others
   may see them.
"""

import logging
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.errors import (
    Fenced,
    LogStoreGone,
    LogStoreUnavailable,
)
from airflow_provider_segtable.core.log.families.log_store_events import bucket_of
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.log_store.bucket import Batch, BucketCut
from airflow_provider_segtable.core.log_store.manifest import NO_EPOCHS, Offset, Position
from airflow_provider_segtable.core.log_store.reading import BucketStatus
from airflow_provider_segtable.ports.log_store import Cut, LogClient, RecordBatch, Records
from airflow_provider_segtable.table.context import SESSION_TIMEOUT_VARIABLE, TableContext

Finder: TypeAlias = Callable[[int], LogClient | None]
"""Returns access to the store that holds a bucket; None if no service holds it."""

_LOG = logging.getLogger(__name__)

TRIES = 5
WAIT_S = 10.0
"""Longest wait for records that the status has promised."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveTail:
    """A version, and the records after it; ``notes`` say of each bucket what was found."""

    state: State
    cut: Cut
    notes: tuple[str, ...]


def live_tail(ports: TableContext, find: Finder) -> LiveTail:
    """Return the newest version and the records that its log stores hold after it.

    Raises:
        LogStoreUnavailable: a published service does not answer, or the log stores changed
            ``TRIES`` times meanwhile.
    """
    reason = ""
    for _ in range(TRIES):
        try:
            found = _at_one_point(ports, find)
        except (LogStoreUnavailable, Fenced) as error:
            found = str(error)
        if isinstance(found, LiveTail):
            return found
        reason = found
    raise LogStoreUnavailable(
        f"the live tail of {ports.uri} was not read in {TRIES} attempts: {reason}; a service whose "
        f"host is gone is known until its ZooKeeper session ends ({SESSION_TIMEOUT_VARIABLE}, 30 s "
        "by default): read again after that, or read the table without include_log"
    )


def _at_one_point(ports: TableContext, find: Finder) -> LiveTail | str:
    """Return the tail, or why it has to be read again."""
    before = ports.log.load()
    clients = {bucket: find(bucket) for bucket in sorted(before.log_store)}
    each, gone = _statuses({n: client for n, client in clients.items() if client is not None})
    state = ports.log.refresh(before)
    if state.log_store.keys() != clients.keys():
        return "a bucket got its first writer meanwhile"
    cuts: dict[int, BucketCut[RecordBatch]] = {}
    notes = []
    for bucket, client in clients.items():
        found = gone.get(bucket) or _of_bucket(state, bucket, client, each.get(bucket))
        if isinstance(found, BucketCut):
            cuts[bucket] = found
            notes.append(f"bucket {bucket}: {counted(found.end - found.start, 'record')}")
        elif found is None:
            return f"bucket {bucket} was committed or discarded meanwhile"
        else:
            notes.append(f"bucket {bucket}: {found}")
    return LiveTail(state=state, cut=Cut(buckets=cuts), notes=tuple(notes))


def _statuses(
    clients: Mapping[int, LogClient],
) -> tuple[Mapping[int, BucketStatus], Mapping[int, str]]:
    """Return the status of the buckets of some stores, and a note for those of an ended store.

    Each store is asked once, and believed about the buckets that it has: it may not have heard yet
    that another one took a bucket.
    """
    found: dict[int, BucketStatus] = {}
    gone: dict[int, str] = {}
    for store in {id(client): client for client in clients.values()}.values():
        mine = [bucket for bucket, client in clients.items() if client is store]
        try:
            found |= own_statuses(store, mine)
        except LogStoreGone as error:
            note = f"its service has ended, so only what is committed is read ({error})"
            gone |= dict.fromkeys(mine, note)
            _LOG.warning("a read with the log: %s", note)
    return found, gone


def own_statuses(store: LogClient, mine: Collection[int]) -> dict[int, BucketStatus]:
    """Return the status of those buckets that a store was found for."""
    return {bucket: status for bucket, status in store.status().items() if bucket in mine}


def _of_bucket(
    state: State, bucket: int, client: LogClient | None, status: BucketStatus | None
) -> BucketCut[RecordBatch] | str | None:
    """Return a bucket's records after a version, or why there are none; None to begin again."""
    if client is None or status is None:
        return "no service holds it"
    known = bucket_of(state, bucket)
    if status.epoch < known.epoch:
        return f"its service is in epoch {status.epoch}, which epoch {known.epoch} has replaced"
    if status.end.offset <= known.end:
        return "all is committed"
    start = Position(epoch=status.epoch, offset=known.end)
    batches = _batches(client, bucket, start, status.end.offset)
    if batches is None:
        return None
    return BucketCut(
        bucket=bucket,
        epoch=status.epoch,
        start=known.end,
        end=status.end.offset,
        lineage=NO_EPOCHS,
        batches=batches,
    )


def _batches(
    client: LogClient, bucket: int, start: Position, end: Offset
) -> tuple[Batch[RecordBatch], ...] | None:
    """Return the records of an epoch in a range of offsets; None if they are not all there."""
    found: list[Batch[RecordBatch]] = []
    reader = client.reader(bucket, start=start)
    try:
        at = start.offset
        while at < end:
            come = reader.read(wait_s=WAIT_S)
            after = reader.position
            if not isinstance(come, Records) or after is None or after.epoch != start.epoch:
                return None
            found.append(_batch(come, end))
            at = after.offset
    finally:
        reader.close()
    return tuple(found)


def _batch(come: Records, end: Offset) -> Batch[RecordBatch]:
    """Return records as a batch, up to an offset."""
    rows = come.batch
    count = min(rows.num_rows, end - come.first)
    part = rows if count == rows.num_rows else rows.slice(0, count)
    return Batch(first=come.first, count=count, size=part.nbytes, content=part)
