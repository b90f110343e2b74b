"""Read committed records of a bucket from the table's files, in the order of their offsets.

1. Waypoints of the state bound the events that are searched for ranges
   (``core.log_store.manifest``). Each event with a range names its files, which are kept as long as
   the event is within retention, whatever was compacted meanwhile.
2. In an append table each offset is one row. A reader that begins within a range gets the rest of
   it. Rows that were deleted since are returned, too: the records are those that were written.
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

import numpy as np
import pyarrow as pa

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import CorruptTable, NotFound
from airflow_provider_segtable.core.log.events import Event
from airflow_provider_segtable.core.log.families.append_events import Appended, published
from airflow_provider_segtable.core.log.families.log_store_events import bucket_of
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.log_store.manifest import BEGINNING, LogRange, Offset, Position
from airflow_provider_segtable.core.log_store.reading import Expired, Reset
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.tables.merge_rules import DELETE, OP
from airflow_provider_segtable.data.file_offsets import FileOffsets, decode_offsets
from airflow_provider_segtable.data.keyed.group_reader import GroupReader
from airflow_provider_segtable.data.keyed.key_groups import Flags
from airflow_provider_segtable.data.parquet.descriptor import SegmentFiles
from airflow_provider_segtable.data.parquet.footer import read_footer
from airflow_provider_segtable.data.row_filter import RowFilter
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.event_log import EventLog, event_path
from airflow_provider_segtable.table.parts import Part, PartReader


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
    action = event.action
    segments = published(state, action, event.time) if isinstance(action, Appended) else ()
    mine = tuple(files_of_bucket(ports, segments, found.bucket))
    after = Position(epoch=bucket_of(state, found.bucket).epoch, offset=found.end)
    if state.table.kind.rules is None:
        rows = _rows(ports, state, found, mine)
        left = rows.slice(at - found.start)
        return RangeRecords(n=event.n, first=at, after=after, rows=left)
    records = _merged_records(ports, state, [segment for segment, _ in mine])
    return RangeRecords(
        n=event.n,
        first=found.start,
        after=after,
        rows=records.select([column.name for column in state.table.schema.columns]),
        deleted=np.asarray(records.column(OP).to_numpy()) == DELETE,
    )


def files_of_bucket(
    ports: TableContext, segments: tuple[Segment, ...], bucket: int
) -> Iterator[tuple[Segment, tuple[FileOffsets, ...]]]:
    """Yield the segments with records of a bucket, each with the offsets in its file."""
    files = SegmentFiles(ports.files, segments)
    for segment in segments:
        with files.open(segment.path) as source:
            offsets = decode_offsets(read_footer(source).metadata)
        if any(each.bucket == bucket for each in offsets):
            yield segment, offsets


def _rows(
    ports: TableContext,
    state: State,
    found: LogRange,
    files: tuple[tuple[Segment, tuple[FileOffsets, ...]], ...],
) -> pa.Table:
    """Return the rows of a range, one for each offset, in order.

    Raises:
        CorruptTable: the files have other offsets than the range.
    """
    reader = PartReader(files=ports.files, table=state.table, checked=True)
    rows, offsets = [], [np.empty(0, np.int64)]
    for segment, some in files:
        part = Part(segment=segment, row_filter=RowFilter.idle(segment), clip=None)
        whole, first = pa.Table.from_batches(reader.reading(part, columns=None).batches()), 0
        for each in some:
            mine = np.empty(0, np.int64) if each.offsets is None else each.offsets
            if each.bucket == found.bucket:
                rows.append(whole.slice(first, len(mine)))
                offsets.append(mine)
            first += len(mine)
    every = np.concatenate(offsets)
    order = np.argsort(every, kind="stable")
    if not np.array_equal(every[order], np.arange(found.start, found.end)):
        raise CorruptTable(
            f"{ports.uri}: the files of {found} have {len(every)} records, or other offsets: "
            "read a version of the table instead (Table.scan), and verify the table"
        )
    return pa.concat_tables(rows).take(pa.array(order))


def _merged_records(ports: TableContext, state: State, segments: list[Segment]) -> pa.Table:
    """Return the records of log files, one file after another."""
    reader = GroupReader(ports.files, state.table)
    found = [reader.schema.empty_table()]
    with reader.opened(segments) as opened:
        for segment in segments:
            for run in opened.runs([segment]):
                found += run
    return pa.concat_tables(found)
