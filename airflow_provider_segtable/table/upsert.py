"""Upserts and deletes of a primary-key table: log files, committed in one event.

1. Rows are split by time chunk and bucket. Each part is written as log files, sorted by key, with
   provisional ids; the event gives them their ids, in order of completion.
2. No lock is taken, no id is allocated, no coordinator is needed. Writers neither wait nor
   conflict: records of one key are merged by their order, whenever they complete. If a major
   compaction changed time chunks or buckets meanwhile, the records are split again by these.
3. The *instant* of the records is the start of this write, and later than all events that its
   author had read, however far clocks are apart. Of records with equal ordering values, the later
   instant wins. The event is not earlier than the instant.
4. With an index of records a key has one row in the whole table: the commit corrects records in
   other time chunks (``table.indexes.routing``), and of equal keys in one write one record is
   written.
5. Writes with the same commit id take effect once. The files of a writer that died are orphans.

Source of the idea: Apache Hudi RFC-66, "Writing Log Files Separately In Sequence".
"""

from collections.abc import Callable, Iterable

import numpy as np

from airflow_provider_segtable.core.errors import CommitConflict, CommitUnknown, InvalidInput
from airflow_provider_segtable.core.log.event import Conflict
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.state import LoadPart, State
from airflow_provider_segtable.core.log_store.manifest import LogRange
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.tables.merge_rules import MergeRules
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.data.indexes.kept_rows import MOST_COPIES
from airflow_provider_segtable.data.indexes.records import one_each
from airflow_provider_segtable.data.keyed.key_groups import Flags
from airflow_provider_segtable.data.keyed.log_files import LogWriter, Records, deletions
from airflow_provider_segtable.data.rows import Rows, arrow_table
from airflow_provider_segtable.table.append import (
    TRIES,
    AppendResult,
    Check,
    check_filled,
    made_before,
    nothing_appended,
)
from airflow_provider_segtable.table.committer import Change, Unknown, commit_files, way_out
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.definition import given_schema
from airflow_provider_segtable.table.new_files import NewFiles

WriteLogs = Callable[[State, Instant, NewFiles], Iterable[Segment]]
"""Writes log files by the layout of one version, as of an instant; returns the segments."""


def records_of(
    given: Rows, state: State, deleted: str | None = None, *, check: Check = check_filled
) -> Records:
    """Return rows as a user gives them as records.

    Args:
        given: the rows.
        state: the table.
        deleted: the name of a column that flags rows that delete their key, if any.
        check: compares the rows with the columns; by default nullable ones may be missing.

    Raises:
        SchemaMismatch, TimeOutOfRange: the rows do not fit.
        InvalidInput: the column ``deleted`` is missing, null, not boolean, or the table's own.
    """
    rows = arrow_table(given)
    check_deleted(state, deleted)
    flags: Flags = np.zeros(rows.num_rows, bool)
    if deleted is not None:
        flags = deletions(rows.column(deleted) if deleted in rows.column_names else None, deleted)
        rows = rows.drop_columns([deleted])
    checked = check(rows, given_schema(state.table), state.table.time_column)
    return Records(rows=checked, deleted=flags)


def check_deleted(state: State, deleted: str | None) -> None:
    """Refuse a column of the table as the flag of deleted rows.

    Raises:
        InvalidInput: the table has such a column.
    """
    if state.table.schema.find(deleted or "") is not None:
        raise InvalidInput(
            f"column {deleted!r} says which rows are deleted, so it is not stored, but the "
            "table has a column of this name: give it another one in the rows"
        )


def upsert(
    ports: TableContext,
    records: Records,
    *,
    commit_id: str,
    state: State | None = None,
    load: LoadPart | None = None,
) -> AppendResult:
    """Commit records in one event.

    Args:
        ports: the table's ports; a coordinator is not needed.
        records: the records.
        commit_id: equal ids commit once.
        state: the version with the columns of the records; the newest if left out. An alteration
            that lands meanwhile does not change them.
        load: the part of a load, if the records are one.

    Raises:
        InvalidInput: a key is null.
        CommitConflict: time was repartitioned ``TRIES`` times meanwhile.
        CommitUnknown: the last reply was lost; run again with the same commit id.
        StorageError: nothing was committed.
    """
    seen = state or ports.log.load()
    if not records.rows.num_rows:
        return nothing_appended(seen)
    merged = unique_records(records, seen, ports.uri)

    def write(state: State, instant: Instant, files: NewFiles) -> Iterable[Segment]:
        return log_writer(ports, seen, state, instant, files).written(merged)

    return commit_logs(ports, write, commit_id=commit_id, state=seen, load=load)


def unique_records(records: Records, seen: State, uri: str) -> Records:
    """Return one record of each key if the table has an index of records, else all."""
    if all(index.definition.kind.about_files for index in seen.indexes.values()):
        return records
    return one_each(records, merge_rules(seen, uri))


def log_writer(
    ports: TableContext, seen: State, state: State, instant: Instant, files: NewFiles
) -> LogWriter:
    """Return the writer of one write's log files.

    Args:
        ports: the table's ports.
        seen: the version with the columns of the records.
        state: the version with the layout that divides them.
        instant: the start of the write.
        files: the files of the write.
    """
    return LogWriter(
        files=ports.files,
        table=seen.table,
        rules=merge_rules(seen, ports.uri),
        layout=state.layout,
        base_version=state.base_version,
        instant=instant,
        token=ports.randomness.token,
        commit=files.commit,
        keep=files.kept.keep,
    )


def commit_logs(
    ports: TableContext,
    write: WriteLogs,
    *,
    commit_id: str,
    state: State,
    ranges: tuple[LogRange, ...] = (),
    load: LoadPart | None = None,
) -> AppendResult:
    """Write log files and commit them in one event; arguments and errors as for ``upsert``.

    ``ranges`` are the ranges of the records, in a checkpoint of the log store.
    """
    log = ports.log
    if commit_id in state.commits:
        return made_before(log, state, commit_id)
    instant = instant_after(ports, state)
    outcome = Conflict(reason="nothing was tried")
    for _ in range(TRIES):
        files = NewFiles.of(state, most_copies=MOST_COPIES)
        segments = tuple(write(state, instant, files))
        if not segments:
            raise InvalidInput(f"there are no rows to upsert to {ports.uri}")
        change = Change(
            action=Appended(segments=segments, log=ranges, load=load),
            commit_id=commit_id,
            ready=files.ready,
            kept=files.kept,
            begun=instant,
        )
        done = commit_files(ports, state, change, segments)
        if isinstance(done, Unknown):
            raise CommitUnknown(way_out(ports, change, done.n))
        if not isinstance(done, Conflict):
            rows = sum(segment.rows for segment in segments)
            return AppendResult(n=done.n, state=done.state, rows=rows, segments=len(segments))
        outcome, state = done, log.refresh(state)
    raise CommitConflict(f"upsert to {ports.uri} was refused {TRIES} times: {outcome.reason}")


def instant_after(ports: TableContext, state: State) -> Instant:
    """Return the instant of a writer that has read a version, which is later than the version.

    Raises:
        ClockSkew: the author's clock is off.
    """
    return max(ports.checked_now(), state.time + 1)


def merge_rules(state: State, uri: str) -> MergeRules:
    """Return how the records of a key become its row.

    Raises:
        InvalidInput: the table has no primary key.
    """
    rules = state.table.kind.rules
    if rules is None:
        raise InvalidInput(
            f"{uri} has no primary key, so rows cannot be upserted: append them, or merge them by "
            "columns (Table.merge)"
        )
    return rules


def upsert_rows(
    ports: TableContext,
    given: Rows,
    *,
    deleted: str | None = None,
    commit_id: str | None = None,
    check: Check = check_filled,
    load: LoadPart | None = None,
    state: State | None = None,
) -> AppendResult:
    """Upsert rows as a user gives them; arguments and errors as for ``Table.upsert``.

    ``state`` is a recent state of the table; saves reading the log again.
    """
    state = state or ports.log.for_writing()
    if commit_id and commit_id in state.commits:
        return made_before(ports.log, state, commit_id)
    merge_rules(state, ports.uri)
    records = records_of(given, state, deleted, check=check)
    name = commit_id or ports.randomness.token()
    return upsert(ports, records, commit_id=name, state=state, load=load)
