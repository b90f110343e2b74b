"""Find the committed records of a bucket in the table's files, in the order of their offsets.

1. Waypoints of the state bound the events that are searched for ranges
   (``core.log_store.manifest``). Each event with a range names its files, which are kept as long as
   the event is within retention, whatever was compacted meanwhile.
2. In an append table each offset is one row. A reader that begins within a range gets the rest of
   it. Rows that were deleted since are returned, too: the records are those that were written
   (``data.log_ranges``).
3. In a primary-key table a range is one step: for each key the merge of the range's records, sorted
   by key. A reader that begins within a range gets all of it, and so may read records again, in
   their last form. As upserts they change nothing.
4. ``Reset`` comes before anything else if the reader's position is of an epoch whose records were
   discarded after it. ``Expired`` names the first position that is still readable. After either of
   them nothing follows: the reader begins again from there.
5. The position after a range is of the bucket's newest epoch, to which its records belong. The
   writer's epoch would not do: a restore may go forward again, to records of an epoch that an
   earlier restore has cut short. Each reader of these would be reset, again and again.
6. One range is in memory at a time; it was in the memory of its writer, too.
"""

from collections.abc import Iterator
from dataclasses import replace

import pyarrow as pa

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import NotFound
from airflow_provider_segtable.core.log.events import Event
from airflow_provider_segtable.core.log.families.append_events import Appended, published
from airflow_provider_segtable.core.log.families.log_store_events import bucket_of
from airflow_provider_segtable.core.log.log_paths import event_path
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.log_store.manifest import BEGINNING, LogRange, Offset, Position
from airflow_provider_segtable.core.log_store.reading import Expired, Reset
from airflow_provider_segtable.data.keyed.key_groups import Flags
from airflow_provider_segtable.data.log_ranges import RangeReader
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.event_log import EventLog


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeRecords:
    """Records of a bucket that event ``n`` committed.

    Attributes:
        n: the event, a version of the table; a consumer may record it after the read.
        first: the offset of the first record.
        after: the position after the last one.
        rows: an append table's rows, one for each offset; a primary-key table's records, one for
            each key.
        deleted: in a primary-key table, the flags of records that delete their key; else None.
    """

    n: int
    first: Offset
    after: Position
    rows: pa.Table
    deleted: Flags | None = None


def read_committed(
    ports: TableContext,
    bucket: int,
    start: Position = BEGINNING,
    *,
    state: State | None = None,
    through: int = -1,
) -> Iterator[RangeRecords | Reset | Expired]:
    """Yield the committed records of a bucket from a position on, up to the committed end.

    Args:
        ports: the table's ports.
        bucket: the number of the bucket.
        start: the position of the reader; the first record by default.
        state: the version up to which is read; the newest if left out.
        through: an event up to which all ranges end at or before ``start``; saves reading them.

    Raises:
        CorruptTable: a file does not have the records that the log names.
        NotFound: an event or a file is missing, although it is within retention.
    """
    seen = state or ports.log.load()
    known = bucket_of(seen, bucket)
    left_at = known.lineage.left_at(start)
    if left_at is not None:
        yield Reset(epoch=known.epoch, offset=left_at)
        return
    yield from _read_from(ports, seen, bucket, start.offset, through)


def _read_from(
    ports: TableContext, seen: State, bucket: int, at: Offset, through: int
) -> Iterator[RangeRecords | Reset | Expired]:
    """Yield the records from an offset on; skip the events that expire meanwhile."""
    known = bucket_of(seen, bucket)
    while at < known.end:
        try:
            for event, found in ranges(ports.log, seen, bucket, at, through):
                if found.start > at:
                    yield Expired(position=Position(epoch=known.epoch, offset=found.start))
                    return
                yield _read(ports, seen, event, found, at)
                at = found.end
        except NotFound:
            newest = ports.log.load()
            gone = _discarded_or_expired(
                ports, newest, bucket, Position(epoch=known.epoch, offset=at)
            )
            if gone is not None:
                yield gone
                return
            if newest.retained_from <= seen.retained_from:
                raise
            seen = replace(seen, retained_from=newest.retained_from)
            continue
        if at < known.end:
            yield Expired(position=Position(epoch=known.epoch, offset=known.end))
        return


def _discarded_or_expired(
    ports: TableContext, newest: State, bucket: int, at: Position
) -> Reset | Expired | None:
    """Return the reason if the records at a position were removed during the read, else None.

    A restore undoes records, which then expire. A reader of the version before it has not read
    them, but has to go on with other ones: it is reset to its own position.
    """
    known = bucket_of(newest, bucket)
    left_at = known.lineage.left_at(at)
    if left_at is not None:
        return Reset(epoch=known.epoch, offset=left_at)
    first = first_available(ports, bucket)
    if first.offset > at.offset:
        return Expired(position=first)
    return Reset(epoch=known.epoch, offset=at.offset) if known.epoch > at.epoch else None


def first_available(ports: TableContext, bucket: int) -> Position:
    """Return the first position that the newest version keeps."""
    newest = ports.log.load()
    known = bucket_of(newest, bucket)
    starts = (found.start for _, found in ranges(ports.log, newest, bucket, 0))
    return Position(epoch=known.epoch, offset=next(starts, known.end))


def ranges(
    log: EventLog, state: State, bucket: int, offset: Offset, through: int = -1
) -> Iterator[tuple[Event, LogRange]]:
    """Yield the ranges of retained events that have an offset or a later one, in order."""
    begin = max(state.retained_from, through + 1)
    for span in bucket_of(state, bucket).spans(offset, state.n):
        for n in range(max(span.first, begin), span.last + 1):
            event = log.event(n)
            if event is None:
                raise NotFound(f"{log.storage.uri}/{event_path(n)} is missing")
            for found in event.action.log if isinstance(event.action, Appended) else ():
                if found.bucket == bucket and found.end > offset:
                    yield event, found


def _read(
    ports: TableContext, state: State, event: Event, found: LogRange, at: Offset
) -> RangeRecords:
    """Return the records of a range from an offset on."""
    action, kind = event.action, state.table.kind
    segments = published(kind, action, event.time) if isinstance(action, Appended) else ()
    reader = RangeReader(files=ports.files, table=state.table, place=ports.uri)
    rows, deleted = reader.records(found, segments)
    after = Position(epoch=bucket_of(state, found.bucket).epoch, offset=found.end)
    if deleted is None:
        return RangeRecords(n=event.n, first=at, after=after, rows=rows.slice(at - found.start))
    return RangeRecords(n=event.n, first=found.start, after=after, rows=rows, deleted=deleted)
