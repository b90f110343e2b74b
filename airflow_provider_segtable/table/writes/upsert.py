"""Upserts and deletes of a primary-key table: log files, committed in one event.

1. Rows are split by time chunk and bucket. Each part is written as log files, sorted by key, with
   provisional ids; the event gives them their ids, in order of completion.
2. No lock is taken, no id is allocated, no coordinator is needed. Nobody waits, and nobody can
   conflict: records that meet are merged by their order, whenever they complete.
3. The *instant* of the records is when this write began. Of records with equal ordering values, the
   later instant wins.
4. Writes with the same commit id take effect once. The files of a writer that died are orphans.

Source of the idea: Apache Hudi RFC-66, "Writing Log Files Separately In Sequence".
"""

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_provider_segtable.core.errors import CommitConflict, CommitUnknown, InvalidInput
from airflow_provider_segtable.core.log.conflict import Conflict
from airflow_provider_segtable.core.log.events import Appended
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segments.segment import ChunkKey, Segment
from airflow_provider_segtable.core.tables.keyed.merge_rules import MergeRules
from airflow_provider_segtable.core.time.interval import Instant
from airflow_provider_segtable.data.arrow.given_rows import Rows, arrow_table
from airflow_provider_segtable.data.jobs.segment_writer import write_segment
from airflow_provider_segtable.data.keyed.keyed_files import log_path
from airflow_provider_segtable.data.merge.bucketing import buckets_of
from airflow_provider_segtable.data.merge.keyed_rows import log_rows
from airflow_provider_segtable.data.parquet.metadata.descriptor import encode_definition
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.lifetime.definition import given_schema
from airflow_provider_segtable.table.log.committer import Change, Unknown, commit_files, way_out
from airflow_provider_segtable.table.writes.append import (
    TRIES,
    AppendResult,
    NewFiles,
    made_before,
)
from airflow_provider_segtable.table.writes.incoming import (
    Check,
    check_filled,
    split_by_chunk,
)

Flags = npt.NDArray[np.bool_]
LOG_BYTES = 128 * 1024 * 1024
"""Decoded bytes of rows from which on a write rolls over to another log file of the bucket."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Records:
    """Upserts, and deletes of keys, in order: of one key the later row wins.

    ``rows`` are in the table's columns; ``deleted`` says which rows delete their key.
    """

    rows: pa.Table
    deleted: Flags

    @staticmethod
    def of(
        given: Rows, state: State, deleted: str | None = None, *, check: Check = check_filled
    ) -> "Records":
        """Check rows as a user gives them.

        Args:
            given: the rows.
            state: the table.
            deleted: the name of a column that says which rows delete their key, if any.
            check: compares the rows with the columns; by default nullable ones may be left out.

        Raises:
            SchemaMismatch, TimeOutOfRange: the rows do not fit.
            InvalidInput: the column ``deleted`` is missing, null, not boolean, or the table's own.
        """
        rows = arrow_table(given)
        if state.table.schema.find(deleted or "") is not None:
            raise InvalidInput(
                f"column {deleted!r} says which rows are deleted, so it is not stored, but the "
                "table has a column of this name: give it another one in the rows"
            )
        flags: Flags = np.zeros(rows.num_rows, bool)
        if deleted is not None:
            flags = _flags(rows, deleted)
            rows = rows.drop_columns([deleted])
        checked = check(rows, given_schema(state.table), state.table.time_column)
        return Records(rows=checked, deleted=flags)


def _flags(rows: pa.Table, name: str) -> Flags:
    column = rows.column(name) if name in rows.column_names else None
    if column is None or not pa.types.is_boolean(column.type) or column.null_count:
        found = "missing" if column is None else f"{column.type}, {column.null_count} null"
        raise InvalidInput(
            f"column {name!r} says which rows are deleted, so it is boolean and never null: it is "
            f"{found}"
        )
    return np.asarray(column.to_numpy())


def upsert(
    ports: TableContext, records: Records, *, commit_id: str, state: State | None = None
) -> AppendResult:
    """Commit records in one event.

    Args:
        ports: the table's ports; a coordinator is not needed.
        records: the records.
        commit_id: equal ids commit once.
        state: a recent state of the table; saves reading the log again.

    Raises:
        InvalidInput: a key is null, or there are no rows.
        CommitConflict: time was repartitioned ``TRIES`` times meanwhile.
        CommitUnknown: the last reply was lost; run again with the same commit id.
        StorageError: nothing was committed.
    """
    log = ports.log
    state = state or log.load()
    if commit_id in state.commits:
        return made_before(log, state, commit_id)
    instant = ports.checked_now()
    outcome = Conflict(reason="nothing was tried")
    for _ in range(TRIES):
        files = NewFiles()
        writer = _Writer(ports=ports, state=state, instant=instant, files=files)
        segments = tuple(writer.written(records))
        change = Change(action=Appended(segments=segments), commit_id=commit_id, ready=files.ready)
        done = commit_files(ports, state, change, segments)
        if isinstance(done, Unknown):
            raise CommitUnknown(way_out(ports, change, done.n))
        if not isinstance(done, Conflict):
            rows = sum(segment.rows for segment in segments)
            return AppendResult(n=done.n, state=done.state, rows=rows, segments=len(segments))
        outcome, state = done, log.refresh(state)
    raise CommitConflict(f"upsert to {ports.uri} was refused {TRIES} times: {outcome.reason}")


@dataclass(frozen=True, slots=True, kw_only=True)
class _Writer:
    """Writes log files by the layout of one version."""

    ports: TableContext
    state: State
    instant: Instant
    files: NewFiles
    versions: dict[ChunkKey, int] = field(default_factory=dict)

    def written(self, records: Records) -> Iterator[Segment]:
        """Write records by time chunk and bucket; yield the segments."""
        rules = merge_rules(self.state, self.ports.uri)
        for chunk, part in _by_bucket(records, self.state, rules):
            rows = log_rows(part.rows, rules, part.deleted)
            step = max(1, LOG_BYTES // max(1, rows.nbytes // rows.num_rows))
            for start in range(0, rows.num_rows, step):
                yield self._file(chunk, rows.slice(start, step))

    def _file(self, chunk: ChunkKey, rows: pa.Table) -> Segment:
        version = self.versions[chunk] = self.versions.get(chunk, -1) + 1
        token = self.ports.randomness.token()
        ids = chunk.numbering.provisional
        segment_id = chunk.segment(ids.start + int(token, 16) % len(ids))
        return write_segment(
            self.ports.files,
            rows,
            segment_id=segment_id,
            time_column=self.state.table.time_column,
            created=self.instant,
            token=token,
            definition=encode_definition(self.state.table, self.state.base_version),
            commit=self.files.commit,
            path=log_path(segment_id, self.instant, version, token),
        )


def _by_bucket(
    records: Records, state: State, rules: MergeRules
) -> Iterator[tuple[ChunkKey, Records]]:
    """Yield the records of each file group, in their order."""
    flag = "\0deleted"  # no column has this name
    place = "\0place"
    rows = records.rows.append_column(flag, pa.array(records.deleted))
    rows = rows.append_column(place, pa.array(np.arange(rows.num_rows)))
    for interval, part in split_by_chunk(rows, state.table.time_column, state.layout).items():
        ordered = part.sort_by(place)
        buckets = buckets_of(ordered, rules.key, state.table.kind.buckets)
        for bucket in np.unique(buckets).tolist():
            some = ordered.filter(pa.array(buckets == bucket))
            flags: Flags = np.asarray(some.column(flag).to_numpy())
            chunk = state.append_chunk(interval, bucket)
            yield chunk, Records(rows=some.drop_columns([flag, place]), deleted=flags)


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
) -> AppendResult:
    """Upsert rows as a user gives them; arguments and errors as for ``Table.upsert``."""
    state = ports.log.load()
    if commit_id and commit_id in state.commits:
        return made_before(ports.log, state, commit_id)
    merge_rules(state, ports.uri)
    records = Records.of(given, state, deleted, check=check)
    return upsert(ports, records, commit_id=commit_id or ports.randomness.token(), state=state)
