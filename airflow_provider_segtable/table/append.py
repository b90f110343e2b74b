"""Append rows: lock new ids, write files, and commit them in one event.

1. Ids are allocated under a lease before any file is written, because each file's footer contains
   its descriptor. An append locks only its own new ids, so compactions do not block it (except
   rule 4).
2. Incoming rows are split by time chunk, and those of each chunk are written as one new segment.
   All segments of an append become visible together or not at all.
3. If the ids were voided meanwhile (the writer was presumed dead) or the chunk moved to another
   version, the commit gives the segments other ids; no file is written again. If the granularity
   changed and a segment now spans two chunks, the files are deleted and the rows are split again,
   a bounded number of times.
4. A major compaction to a finer granularity blocks appends; a more urgent append revokes its lock.
   The log is not read again under a lease that was granted at once: the commit reads newer events,
   or its put is refused.
5. Appends with the same ``commit_id`` take effect once.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import TypeAlias

import pyarrow as pa

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import (
    CommitConflict,
    CommitUnknown,
    InvalidInput,
)
from airflow_provider_segtable.core.locks import Allocation, Generation, LockRequest, Mode
from airflow_provider_segtable.core.log.event import Conflict
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.state import LoadPart, State
from airflow_provider_segtable.core.log_store.manifest import LogRange
from airflow_provider_segtable.core.segment import Segment, SegmentId
from airflow_provider_segtable.core.time import Instant, Interval
from airflow_provider_segtable.data.jobs.segment_writer import write_segment
from airflow_provider_segtable.data.parquet.descriptor import encode_definition
from airflow_provider_segtable.data.parquet.table_file import may_be_left_out
from airflow_provider_segtable.data.row_checks import check_rows
from airflow_provider_segtable.data.rows import split_by_chunk
from airflow_provider_segtable.ports.coordination import Lease
from airflow_provider_segtable.table.committer import Change, Unknown, commit_files, way_out
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.new_files import NewFiles

BATCH_PRIORITY = 50
TRIES = 5
PROMPT_S = 1.0
"""A lease that took no longer was not waited for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendTicket:
    """A writer's allocated ids by time chunk, the creation time, and its files."""

    ids: Mapping[Interval, tuple[SegmentId, ...]]
    created: Instant
    files: NewFiles = field(default_factory=NewFiles)


@dataclass(frozen=True, slots=True, kw_only=True)
class AppendResult:
    """The result of an append: its event, and the rows and segments in it.

    Without rows there is no event: ``n`` is the newest version, which stays, and both counts are 0.
    ``rows`` counts the stored rows: those of a rollup table are rolled up. ``rows`` and
    ``segments`` are None if the append was made before, and its event has been cleaned.
    """

    n: int
    state: State = field(repr=False)
    rows: int | None
    segments: int | None

    def __str__(self) -> str:
        """Return e.g. ``3 rows in 1 segment: event 7``."""
        if self.rows is None or self.segments is None:
            return f"appended before: event {self.n}"
        if not self.segments:
            return f"no rows: nothing was appended, event {self.n} is still the newest"
        rows, segments = counted(self.rows, "row"), counted(self.segments, "segment")
        return f"{rows} in {segments}: event {self.n}"


Write = Callable[[AppendTicket], Sequence[Segment]]
"""Writes files for a ticket and returns their descriptors; uses every id at most once."""

Prepare = Callable[[State], tuple[Mapping[Interval, int], Write]]
"""Splits rows by a table's layout; returns the segment count per time chunk and their writer."""


def append(
    ports: TableContext,
    prepare: Prepare,
    *,
    commit_id: str,
    wait_s: float = 60.0,
    priority: int = BATCH_PRIORITY,
    state: State | None = None,
    ranges: tuple[LogRange, ...] = (),
    load: LoadPart | None = None,
) -> AppendResult:
    """Append new segments.

    Args:
        ports: the table's ports.
        prepare: splits the rows by the table's layout; returns the segment count per time chunk
            and their writer. Called again if the granularity changed meanwhile.
        commit_id: equal ids append once.
        wait_s: how long to wait for the coordinator, and for a compaction to finer granularity.
        priority: lock priority: batch 50, streaming 75; compactions have 25.
        state: a recent state of the table; saves reading the log again.
        ranges: in a checkpoint of the log store, the ranges of the records.
        load: the part of a load, if the rows are one.

    Raises:
        LockLost: the session ended while writing; nothing was committed.
        CommitConflict: the log refused the append ``TRIES`` times.
        CommitUnknown: the last reply was lost; run again with the same commit id.
    """
    state = state or ports.log.for_writing()
    if commit_id in state.commits:
        return made_before(ports.log, state, commit_id)
    outcome = Conflict(reason="nothing was tried")
    for _ in range(TRIES):
        counts, write = prepare(state)
        request = append_request(ports, state, counts, commit_id, priority)
        asked_s = ports.clock.monotonic()
        lease = ports.coordinator.acquire_for_append(request, wait_s=wait_s)
        with ports.leased(lease, request.table):
            prompt = ports.clock.monotonic() - asked_s <= PROMPT_S
            fresh = state if prompt else ports.log.refresh(state)
            recut, state = fresh.layout != state.layout, fresh
            if recut:  # while we waited
                outcome = Conflict(reason="time was repartitioned")
                continue
            done = _write_and_commit(ports, state, lease, write, commit_id, ranges, load)
        if isinstance(done, AppendResult):
            return done
        outcome, state = done, ports.log.refresh(state)
    raise CommitConflict(f"append to {ports.uri} was refused {TRIES} times: {outcome.reason}")


def made_before(log: EventLog, state: State, commit_id: str) -> AppendResult:
    """Return the result of an append whose commit id is known."""
    return made_at(log, state, state.commits[commit_id])


def made_at(log: EventLog, state: State, n: int) -> AppendResult:
    """Return the result of the append of event ``n``."""
    event = log.event(n)
    found = event.action if event else None
    if not isinstance(found, Appended):
        return AppendResult(n=n, state=state, rows=None, segments=None)
    return _result(n, state, found.segments)


def nothing_appended(state: State) -> AppendResult:
    """Return the result of an append without rows: no event, the newest version stays."""
    return AppendResult(n=state.n, state=state, rows=0, segments=0)


def _result(n: int, state: State, segments: Sequence[Segment]) -> AppendResult:
    rows = sum(segment.rows for segment in segments)
    return AppendResult(n=n, state=state, rows=rows, segments=len(segments))


def append_request(
    ports: TableContext,
    state: State,
    counts: Mapping[Interval, int],
    commit_id: str,
    priority: int,
) -> LockRequest:
    """Return the lock request of an append: new ids in each time chunk."""
    chunks = {interval: state.append_chunk(interval) for interval in sorted(counts)}
    return LockRequest(
        table=state.table.table_id,
        group=f"append-{commit_id}-{ports.randomness.token()}",
        purpose=f"append {commit_id}",
        holder=ports.author,
        mode=Mode.APPEND,
        allocate=tuple(
            Allocation(
                chunk=chunk,
                generation=Generation.FIRST,
                count=counts[interval],
                at_least=state.id_space(chunk, Generation.FIRST).next,
            )
            for interval, chunk in chunks.items()
        ),
        priority=priority,
    )


def written(
    ports: TableContext, lease: Lease, write: Write, files: NewFiles
) -> tuple[Segment, ...]:
    """Write segments under the ids of a lease; return them in id order."""
    ids: dict[Interval, tuple[SegmentId, ...]] = {}
    for segment_id in lease.allocated:
        ids[segment_id.interval] = (*ids.get(segment_id.interval, ()), segment_id)
    segments = tuple(write(AppendTicket(ids=ids, created=ports.clock.now(), files=files)))
    if not segments or any(segment.rows == 0 for segment in segments):
        raise InvalidInput(f"there are no rows to append to {ports.uri}")
    return tuple(sorted(segments, key=lambda s: s.id))


def _write_and_commit(
    ports: TableContext,
    state: State,
    lease: Lease,
    write: Write,
    commit_id: str,
    ranges: tuple[LogRange, ...],
    load: LoadPart | None,
) -> AppendResult | Conflict:
    files = NewFiles.of(state)
    segments = written(ports, lease, write, files)
    action = Appended(segments=segments, log=ranges, load=load)
    change = Change(
        action=action,
        commit_id=commit_id,
        guard=lease.check,
        ready=files.ready,
        kept=files.kept,
    )
    outcome = commit_files(ports, state, change, segments)
    if isinstance(outcome, Unknown):
        raise CommitUnknown(way_out(ports, change, outcome.n))
    if isinstance(outcome, Conflict):
        return outcome
    return _result(outcome.n, outcome.state, segments)


Check: TypeAlias = Callable[[pa.Table, pa.Schema, str], pa.Table]
"""Returns rows in the types of a schema with an event time, or refuses them."""


def check_filled(rows: pa.Table, schema: pa.Schema, time_column: str) -> pa.Table:
    """Check rows as ``check_rows`` does, with nulls in missing nullable columns.

    The event time is never missing. Columns that were added later have their own default.
    """
    known = {*rows.column_names, time_column}
    missing = [
        each
        for each in schema
        if each.nullable and each.name not in known and not may_be_left_out(each)
    ]
    if missing:
        nulls = (pa.nulls(rows.num_rows, each.type) for each in missing)
        rows = pa.table([*rows.columns, *nulls], schema=pa.schema([*rows.schema, *missing]))
    return check_rows(rows, schema, time_column)


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The rows of one file, and entries of its footer besides the segment's and the table's."""

    rows: pa.Table
    entries: Mapping[bytes, bytes]


Parts: TypeAlias = Mapping[Interval, Part]
"""The rows of an append by time chunk."""


def incoming(ports: TableContext, rows: pa.Table, seen: State) -> Prepare:
    """Return the ``Prepare`` that splits rows by time chunk and writes one segment each.

    Args:
        ports: the table's ports.
        rows: checked rows in the table's stored form, in memory.
        seen: the version with the columns of the rows; a later alteration does not change them.
    """

    def prepare(state: State) -> tuple[Mapping[Interval, int], Write]:
        split = split_by_chunk(rows, state.table.time_column, state.layout)
        return parted(
            ports, {chunk: Part(rows=some, entries={}) for chunk, some in split.items()}, seen
        )

    return prepare


def parted(ports: TableContext, parts: Parts, seen: State) -> tuple[Mapping[Interval, int], Write]:
    """Return the segment count per time chunk, and the writer of their files.

    Args:
        ports: the table's ports.
        parts: the rows by time chunk.
        seen: the version with their columns.
    """
    return dict.fromkeys(parts, 1), partial(_written, ports, parts, seen)


def _written(ports: TableContext, parts: Parts, seen: State, ticket: AppendTicket) -> list[Segment]:
    definition = encode_definition(seen.table, seen.base_version)

    def one(interval: Interval, segment_id: SegmentId) -> Segment:
        part = parts[interval]
        return write_segment(
            ports.files,
            part.rows,
            segment_id=segment_id,
            time_column=seen.table.time_column,
            created=ticket.created,
            token=ports.randomness.token(),
            definition=definition,
            commit=ticket.files.commit,
            keep=ticket.files.kept.keep,
            describe=lambda segment: (segment, part.entries),
        )

    return [one(interval, ids[0]) for interval, ids in ticket.ids.items()]
