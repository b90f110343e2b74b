"""Commit the records of a log store in checkpoints, and take its buckets in new epochs.

A checkpoint commits the records of a cut as files of the table, in one ordinary commit:

1. An append table gets one file for each time chunk, with the records of all buckets, each bucket's
   in the order of their offsets. The footer has the offsets (``data.file_offsets``).
2. A primary-key table gets log files, as from an upsert, for each bucket of the log store its own:
   of each key the merge of the cut's records. If one key is in two buckets, the record of the
   higher bucket counts as the later one. A writer that chooses the bucket by the key's hash never
   writes one key to two buckets.
3. The event has the range of each bucket; the log admits it only in the newest epoch, and right
   after the committed records (``core.log.families.log_store_events``).
4. The commit id is made from the ranges, unless it is given. So a checkpoint that is repeated, in
   this process or another, is committed once. A given id that stands for other ranges is refused.
5. Records have the columns of the table's rows, in a primary-key table also a mark of deletes, as
   of the version at which their store was opened. They are written so, and read in the columns of
   each version, as all files are. So a checkpoint never waits for an alteration, nor conflicts with
   one.
6. A crash before the commit leaves files that no event names: orphans, which cleaning deletes.

A new epoch takes buckets of the log store, by one event (``begin_epoch``):

7. The epoch is above all epochs of the buckets. If another service takes one of them first, the log
   is read again, and a higher epoch tried.
8. The committed ends are those right after the event. No service of an older epoch can commit any
   more, so the new writer goes on from them.
9. Writers that take buckets from each other in turn leave each other time for a commit
   (``core.log_store.tenure``): an opening writer waits first (``leave_alone``).
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import (
    CommitConflict,
    CommitUnknown,
    Fenced,
    InvalidInput,
    OffsetGap,
)
from airflow_provider_segtable.core.log.event import Conflict
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.families.log_store_events import LogEpochBegun, bucket_of
from airflow_provider_segtable.core.log.families.restore_events import VersionRestored
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.log_store.bucket import BucketCut
from airflow_provider_segtable.core.log_store.manifest import CommittedEnd, Epoch, LogRange
from airflow_provider_segtable.core.log_store.tenure import AT_ONCE, MOST_S, WINDOW_US, left_alone_s
from airflow_provider_segtable.core.paths import digest
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.time import SECOND_US, Instant, Interval
from airflow_provider_segtable.data.file_offsets import FileOffsets
from airflow_provider_segtable.data.row_checks import check_rows
from airflow_provider_segtable.data.rows import Places, places_by_chunk
from airflow_provider_segtable.data.written_offsets import encode_offsets
from airflow_provider_segtable.ports.log_store import Cut
from airflow_provider_segtable.table.append import (
    AppendResult,
    NewFiles,
    Part,
    Prepare,
    Write,
    append,
    made_before,
    parted,
)
from airflow_provider_segtable.table.committer import Change, Committed, Unknown, commit, way_out
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.definition import given_schema
from airflow_provider_segtable.table.load import check_for
from airflow_provider_segtable.table.upsert import (
    check_deleted,
    commit_logs,
    log_writer,
    records_of,
    unique_records,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketRecords:
    """A range and its records, one row for each offset."""

    range: LogRange
    rows: pa.Table


def commit_cut(
    ports: TableContext,
    cut: Cut,
    *,
    deleted: str | None = None,
    columns: State | None = None,
    commit_id: str | None = None,
) -> AppendResult | None:
    """Commit the records of a cut; return None if it has none.

    Args:
        ports: the table's ports; a primary-key table needs no coordinator.
        cut: the cut of a log store.
        deleted: the column that flags records that delete their key.
        columns: the version with the columns of the records; the newest if left out.
        commit_id: equal ids commit once; by default one made from the ranges.

    Raises:
        Fenced: another service has taken a bucket, or the table was restored.
        OffsetGap: the cut does not begin at the committed end.
        SchemaMismatch, TimeOutOfRange, InvalidInput: the records do not fit, or the commit id
            stands for other records; nothing was written.
        LockLost, CommitConflict, StorageError: as an append; nothing was committed.
        CommitUnknown: the last reply was lost. Commit the same cut again: it commits once.
    """
    records = [_records(cut, bucket) for bucket in sorted(cut.buckets)]
    if not records:
        return None
    newest = ports.log.load()
    seen = columns or newest
    ranges = tuple(each.range for each in records)
    name = commit_id or checkpoint_id(ranges)
    if name in newest.commits:
        return _committed_before(ports, newest, name, ranges)
    if seen.table.kind.rules is None:
        prepare = _prepared(ports, records, seen)
        return append(ports, prepare, commit_id=name, state=newest, ranges=ranges)
    write = partial(_written_logs, ports, records, seen, deleted)
    return commit_logs(ports, write, commit_id=name, state=newest, ranges=ranges)


def refused(state: State, cut: Cut) -> dict[int, Fenced | OffsetGap]:
    """Return the buckets of a cut that the log refuses, each with the reason."""
    found: dict[int, Fenced | OffsetGap] = {}
    for bucket, taken in cut.buckets.items():
        try:
            bucket_of(state, bucket).check(_range(taken))
        except (Fenced, OffsetGap) as why:
            found[bucket] = why
    return found


def _committed_before(
    ports: TableContext, state: State, commit_id: str, ranges: tuple[LogRange, ...]
) -> AppendResult:
    """Return the result of an earlier checkpoint of these ranges."""
    event = ports.log.event(state.commits[commit_id])
    action = None if event is None else event.action
    if isinstance(action, Appended) and action.log != ranges:
        raise InvalidInput(
            f"commit id {commit_id!r} stands for event {state.commits[commit_id]} with other "
            "records: ask whether an id was committed before its records are appended"
        )
    return made_before(ports.log, state, commit_id)


def _range(taken: BucketCut[Any]) -> LogRange:
    return LogRange(bucket=taken.bucket, epoch=taken.epoch, start=taken.start, end=taken.end)


def checkpoint_id(ranges: Sequence[LogRange]) -> str:
    """Return the commit id of a checkpoint: equal ranges have equal ids."""
    named = ";".join(f"{each} of {each.epoch}" for each in ranges)
    return f"log-{digest(named.encode())}"


def _records(cut: Cut, bucket: int) -> BucketRecords:
    """Return the records of a bucket; raise if they are not one for each offset."""
    taken = cut.buckets[bucket]
    batches: list[Any] = [batch.content for batch in taken.batches]
    given = _range(taken)
    rows = pa.Table.from_batches(batches)
    if rows.num_rows != given.end - given.start:
        raise InvalidInput(
            f"{given} has {counted(rows.num_rows, 'record')}: an offset stands for one record"
        )
    return BucketRecords(range=given, rows=rows)


def _prepared(ports: TableContext, records: Sequence[BucketRecords], seen: State) -> Prepare:
    """Return the ``Prepare`` of an append table."""
    time_column = seen.table.time_column
    rows = pa.concat_tables([each.rows for each in records])
    checked = check_rows(rows, given_schema(seen.table), time_column)

    def prepare(state: State) -> tuple[Mapping[Interval, int], Write]:
        split = places_by_chunk(checked, time_column, state.layout)
        parts = {chunk: _part(checked, places, records) for chunk, places in split.items()}
        return parted(ports, parts, seen)

    return prepare


def _part(rows: pa.Table, places: Places, records: Sequence[BucketRecords]) -> Part:
    """Return the rows of a time chunk in the order of the cut, and the footer's entry."""
    found, first = [], 0
    for each in records:
        start, count = each.range.start, each.rows.num_rows
        begin, end = np.searchsorted(places, [first, first + count])
        if begin < end:
            offsets = places[begin:end] - first + start
            found.append(FileOffsets(bucket=each.range.bucket, offsets=offsets))
        first += count
    starts = {each.range.bucket: each.range.start for each in records}
    some = rows if len(places) == rows.num_rows else rows.take(pa.array(places))
    return Part(rows=some.combine_chunks(), entries=encode_offsets(found, starts))


def _written_logs(
    ports: TableContext,
    records: Sequence[BucketRecords],
    seen: State,
    deleted: str | None,
    state: State,
    instant: Instant,
    files: NewFiles,
) -> Iterator[Segment]:
    writer = log_writer(ports, seen, state, instant, files)
    for each in records:
        bucket = each.range.bucket
        entries = encode_offsets([FileOffsets(bucket=bucket)], {})
        check = check_for(seen, deleted, check_rows)
        given = records_of(_with_filled_marks(each.rows, deleted), seen, deleted, check=check)
        merged = unique_records(given, replace(seen, indexes=state.indexes), ports.uri)
        yield from replace(writer, entries=entries).written(merged)


def _with_filled_marks(rows: pa.Table, deleted: str | None) -> pa.Table:
    """Return records with false in place of null marks of deletes."""
    if deleted not in rows.column_names:
        return rows
    at = rows.column_names.index(deleted)
    return rows.set_column(at, deleted, rows.column(deleted).fill_null(False))


DELETED = "_segtable_deleted"
"""In records of a primary-key table: whether a record deletes its key. Null means no."""


def log_schema(state: State, uri: str = "") -> pa.Schema:
    """Return the columns of the records of a table's log store.

    Raises:
        InvalidInput: the table's rows do not record their events, as in a rollup table; or it has
            a column with the name of the mark.
    """
    name = uri or state.table.name
    try:
        state.table.kind.check_window(name)
    except InvalidInput as error:
        raise InvalidInput(f"{name} cannot have a log store: {error}") from None
    check_deleted(state, DELETED)
    schema = given_schema(state.table)
    if state.table.kind.rules is None:
        return schema
    return schema.append(pa.field(DELETED, pa.bool_()))


def deleted_column(state: State) -> str | None:
    """Return the column that flags records that delete their key, if there is one."""
    return None if state.table.kind.rules is None else DELETED


TRIES = 5
LOOK_S = 0.5
"""Pause of a waiting writer between two looks for a commit of the newest writer."""
READ_BACK = 100
"""Most events that are searched for takeovers: each is a request to the storage."""

_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class EpochBegun:
    """The epoch that event ``n`` began, and the committed end of each bucket, as of ``state``."""

    n: int
    epoch: Epoch
    ends: Mapping[int, CommittedEnd]
    state: State = field(repr=False)


def begin_epoch(
    ports: TableContext, buckets: Sequence[int], *, owner: str, after: Epoch | None = None
) -> EpochBegun:
    """Take buckets of the log store.

    Args:
        ports: the table's ports; a coordinator is not needed.
        buckets: the numbers of the buckets.
        owner: the service's name, for messages.
        after: the writer's own epoch, if it goes on after a failure: it then fences no other
            writer. The owner is then a name that no other writer has.

    Raises:
        Fenced: a bucket is no longer in the epoch ``after``.
        InvalidInput: there are no buckets, or the table's rows do not record their events.
        CommitConflict: other services were first ``TRIES`` times.
        CommitUnknown: the last reply was lost. Begin again; an epoch that is not used does no harm.
    """
    state = ports.log.load()
    state.table.kind.check_window(ports.uri)
    outcome = Conflict(reason="nothing was tried")
    for _ in range(TRIES):
        _check_epoch(ports, state, buckets, after, owner)
        epoch = 1 + max((bucket_of(state, bucket).epoch for bucket in buckets), default=0)
        action = LogEpochBegun(buckets=tuple(buckets), epoch=epoch, owner=owner)
        change = Change(action=action, commit_id=ports.randomness.token())
        match commit(ports, state, change):
            case Committed(n=n, state=newest):
                ends = {bucket: bucket_of(newest, bucket).committed_end for bucket in buckets}
                return EpochBegun(n=n, epoch=epoch, ends=ends, state=newest)
            case Unknown(n=n):
                raise CommitUnknown(way_out(ports, change, n))
            case Conflict() as outcome:
                state = ports.log.refresh(state)
    raise CommitConflict(f"{ports.uri}: no epoch begun in {TRIES} attempts: {outcome.reason}")


def leave_alone(ports: TableContext, buckets: Sequence[int]) -> None:
    """Wait as long as the newest writer of some of the buckets needs time for a commit.

    Raises:
        StorageError: the table's log cannot be read.
    """
    deadline = ports.clock.monotonic() + MOST_S
    warned, seen, fruitless = False, -1, list[Instant]()
    while True:
        state, now = ports.log.load(), ports.clock.now()
        if state.n != seen:  # each event that is read is a request to the storage
            seen, fruitless = (
                state.n,
                [*_fruitless_takeovers(ports, state, frozenset(buckets), now)],
            )
        left_s = min(left_alone_s(fruitless, now), deadline - ports.clock.monotonic())
        if left_s <= 0:
            return
        if not warned:
            warned = True
            owners = {bucket_of(state, bucket).owner for bucket in buckets}
            _LOG.warning(
                "%s: writers take buckets %s of the log store from each other without a commit in "
                "between; %s has them now, and is left alone for %.0f s. Is one job running twice?",
                *(ports.uri, sorted(buckets), " and ".join(sorted(owners)), left_s),
            )
        ports.clock.sleep(min(left_s, LOOK_S))


def _fruitless_takeovers(
    ports: TableContext, state: State, buckets: frozenset[int], now: Instant
) -> Iterator[Instant]:
    """Yield the times of takeovers of some of the buckets, newest first, since the last commit.

    One commit, of records of any of the buckets, is enough: other buckets may have no rows.
    """
    known = [bucket_of(state, bucket) for bucket in buckets]
    if min(each.epoch - each.committed.epoch for each in known) <= AT_ONCE:
        return
    owner, since = None, now - int(MOST_S * SECOND_US)
    for n in range(state.n, max(state.n - READ_BACK, -1), -1):
        event = ports.log.event(n)
        if event is None or event.time < since:
            return
        match event.action:
            case LogEpochBegun() as begun if not buckets.isdisjoint(begun.buckets):
                if owner is None:
                    since = event.time - WINDOW_US
                if begun.owner != owner:  # a failover of one owner takes over nothing
                    yield event.time
                owner = begun.owner
            case Appended(log=ranges) if any(each.bucket in buckets for each in ranges):
                return
            case VersionRestored():
                return


def _check_epoch(
    ports: TableContext, state: State, buckets: Sequence[int], after: Epoch | None, owner: str
) -> None:
    """Raise ``Fenced`` if a bucket has left a writer's epoch for another writer's epoch."""
    for bucket in buckets if after is not None else ():
        known = bucket_of(state, bucket)
        if (
            known.epoch != after and known.owner != owner
        ):  # an epoch of the same owner may be its own, after a lost reply
            by, end = " since the table was restored or repaired", "open another writer"
            if known.owner:
                by = f", begun by {known.owner}"
                end = "that writer has replaced it, so stop, or open another one to replace that"
            raise Fenced(
                f"{ports.uri}: bucket {bucket} of the log store is in epoch {known.epoch}{by}; "
                f"this writer's was {after}, and is over: {end}"
            )
