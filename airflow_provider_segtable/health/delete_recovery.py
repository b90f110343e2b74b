"""Recover deletions after a loss of the log.

1. A vector file names rows by root address, which no compaction changes. So the rows that it
   deletes are known exactly. Only a remaining event proves that the file was committed. Without
   one, the user decides, if the file names present rows.
2. Deletions are applied again to *present* rows: the deleted rows in visible segments, found by
   lineage or hidden columns. They are written to one new file, so that no row counts twice and the
   balance check is exact again.
3. Skip hidden segments whose deletes cannot be recovered: they have deleted rows that are in no
   visible segment.
4. The ``deletes_applied_through`` of an adopted segment is at most the last remaining event:
   higher numbers referred to lost events.
5. Predicate deletes of rollup tables are recorded only in the log. If they are lost, rows that no
   compaction removed become visible again.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field, replace
from enum import StrEnum

import numpy as np
from pyroaring import BitMap

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.deletion import VectorFile, holds_any, paths
from airflow_provider_segtable.core.errors import AlreadyExists, CorruptTable
from airflow_provider_segtable.core.log.families.change_events import RowsChanged
from airflow_provider_segtable.core.log.families.repair_events import TableRepaired
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.recovery.claims import Deletes, Doubt, Reason, Recovered
from airflow_provider_segtable.core.segment import ROOT, ROW, Run, Segment, SegmentId
from airflow_provider_segtable.core.tables.table_kind import DeletionForm, TableKind
from airflow_provider_segtable.core.time import MAX_INSTANT, MIN_INSTANT, Interval
from airflow_provider_segtable.data.keyed.settled_file import is_settled_path
from airflow_provider_segtable.data.open_files import MemoryFiles
from airflow_provider_segtable.data.parquet.descriptor import SegmentFiles
from airflow_provider_segtable.data.parquet.source_file import SourceFile, parquet_file
from airflow_provider_segtable.data.row_filter import hidden_of
from airflow_provider_segtable.data.vector_file import (
    FOLDER,
    Rows,
    deleted_rows,
    read_vectors,
    united,
    write_vectors,
)
from airflow_provider_segtable.health.evidence import LogLeft
from airflow_provider_segtable.table.context import TableContext

BATCH = 65_536


class Verdict(StrEnum):
    """The user's decision on deletions that may never have been committed."""

    APPLY = "apply"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletesLeft:
    """Vector files that the log does not name; torn events name those in ``proven``."""

    files: Mapping[str, Rows] = field(default_factory=dict)
    unreadable: Mapping[str, str] = field(default_factory=dict)
    proven: frozenset[str] = frozenset()

    def but(self, without: Collection[str]) -> "DeletesLeft":
        """Return a copy without some files."""
        kept = {path: rows for path, rows in self.files.items() if path not in without}
        return replace(self, files=kept)

    def counted(self, state: State | None) -> Mapping[SegmentId, int]:
        """Return an upper bound of deleted rows by root, from these files and the log."""
        found = {root: len(rows) for root, rows in united(self.files.values()).items()}
        for root, some in (state.vectors if state else {}).items():
            found[root] = found.get(root, 0) + sum(each.rows for each in some)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class DeleteRecovery:
    """The result of delete recovery.

    Attributes:
        there: number of present rows that each file names.
        rows: the rows to delete again.
        past: roots with deleted rows that are in no visible segment.
        doubts: doubts to decide or to report.
    """

    there: Mapping[str, int] = field(default_factory=dict)
    rows: Rows = field(default_factory=dict)
    past: frozenset[SegmentId] = frozenset()
    doubts: tuple[Doubt, ...] = ()

    @property
    def file(self) -> tuple[VectorFile, ...]:
        """Return the vector file that ``keep`` writes; equal rows have equal files."""
        return (write_vectors(MemoryFiles(), self.rows, _token(self.rows)),) if self.rows else ()

    def keep(self, ports: TableContext) -> None:
        """Write the file if it does not exist."""
        if self.rows:
            try:
                write_vectors(ports.files, self.rows, _token(self.rows))
            except AlreadyExists:
                read_vectors(ports.files, self.file[0].path)


def read_deletes(ports: TableContext, log: LogLeft) -> DeletesLeft:
    """Load the vector files that the remaining log does not name."""
    known = paths(log.state.vectors) | log.state.pending_delete if log.state else frozenset()
    files: dict[str, Rows] = {}
    unreadable: dict[str, str] = {}
    named = {
        file.path: file.checksum
        for event in log.events
        if isinstance(event.action, RowsChanged | TableRepaired)
        for file in event.action.vectors
    }
    for entry in ports.storage.list(FOLDER):
        if entry.path in known or is_settled_path(entry.path):  # a rebuilt log has no settlement
            continue
        try:
            files[entry.path] = read_vectors(ports.files, entry.path, named.get(entry.path, ""))
        except CorruptTable as error:
            unreadable[entry.path] = str(error)
    return DeletesLeft(files=files, unreadable=unreadable, proven=frozenset(named))


def deletes_of(left: DeletesLeft, log: LogLeft, kind: TableKind) -> Deletes:
    """Return the deletions as input for ``core.recovery.replay``."""
    return Deletes(left.counted(log.state), unknown=not kind.deletion.counted)


def recover_deletes(
    ports: TableContext,
    left: DeletesLeft,
    state: State | None,
    shown: Iterable[Segment],
    verdict: Verdict | None,
) -> DeleteRecovery:
    """Recover deletions, and return the rows to delete again with all doubts.

    Args:
        ports: the table's ports; the hidden columns of visible files are read.
        left: the vector files, without the ones that the user excluded.
        state: the remaining state of the log.
        shown: the segments that readers will see.
        verdict: the user's decision on unproven files.
    """
    if not left.files and not left.unreadable:
        return DeleteRecovery()
    roots = {root for rows in left.files.values() for root in rows}
    vectors = state.vectors if state else {}
    known = deleted_rows(ports.files, {r: vectors[r] for r in roots if r in vectors})
    held = present(ports, shown, roots)
    here = {r: held[r] - known.get(r, BitMap()) for r in held}
    there = {
        path: sum(len(rows[r] & here[r]) for r in rows if r in here)
        for path, rows in left.files.items()
    }
    counted = {
        path: rows
        for path, rows in left.files.items()
        if path in left.proven or verdict is not Verdict.IGNORE
    }
    every = united(counted.values())
    again = {r: rows & here[r] for r, rows in every.items() if r in here}
    rows = {r: found for r, found in again.items() if found}
    past = {
        root
        for root, each in united(left.files.values()).items()
        if each - held.get(root, BitMap()) - known.get(root, BitMap())
    }
    open_ones = [p for p in sorted(there) if there[p] and p not in left.proven]
    doubts = [_undecided(path, there[path], left.files[path]) for path in open_ones]
    doubts += [_unreadable(path, why) for path, why in left.unreadable.items()]
    return DeleteRecovery(
        there=there,
        rows=rows,
        past=frozenset(past),
        doubts=tuple(_decided(each, verdict) for each in doubts),
    )


def _decided(doubt: Doubt, verdict: Verdict | None) -> Doubt:
    """Return a doubt with the decision about it."""
    if verdict is not None:
        return replace(doubt, blocking=False, note=f"{doubt.note}: --deletes {verdict}")
    return replace(doubt, note=f"{doubt.note}: choose --deletes apply or --deletes ignore")


def _undecided(path: str, there: int, rows: Rows) -> Doubt:
    whole = sum(map(len, rows.values()))
    return Doubt(
        reason=Reason.DELETES,
        interval=min(rows).interval,
        note=f"deletes {counted(whole, 'row')}, {there} of them still present; no event confirms "
        "its commit",
        paths=(path,),
        rows=there,
    )


def _unreadable(path: str, why: str) -> Doubt:
    return Doubt(
        reason=Reason.DELETES,
        interval=Interval(MIN_INSTANT, MAX_INSTANT),
        note=f"cannot be read, so its deleted rows reappear ({why}): restore it, or go on",
        paths=(path,),
    )


def lost_predicates(log: LogLeft, kind: TableKind) -> Iterator[Doubt]:
    """Yield the lost predicate deletes of a table, as far as torn events record them."""
    if kind.deletion is not DeletionForm.PREDICATE:
        return
    for event in log.events:
        if isinstance(event.action, RowsChanged) and event.action.predicate is not None:
            yield _predicate_lost(f"event {event.n} deleted {event.action.reason or 'rows'}")
    if log.state is None:
        yield _predicate_lost(f"deletions of a {kind.name} table are recorded only in the log")


def _predicate_lost(what: str) -> Doubt:
    return Doubt(
        reason=Reason.DELETES,
        interval=Interval(MIN_INSTANT, MAX_INSTANT),
        note=f"{what}: rows that no compaction has removed reappear; delete them again",
        paths=(),
        blocking=False,
    )


def present(
    ports: TableContext, shown: Iterable[Segment], roots: Iterable[SegmentId]
) -> dict[SegmentId, BitMap]:
    """Return the rows of some roots in the given segments."""
    wanted = set(roots)
    found: dict[SegmentId, BitMap] = {}
    for segment in shown:
        for root, rows in _held(ports, segment, wanted):
            found[root] = found.get(root, BitMap()) | rows
    return found


def _held(
    ports: TableContext, segment: Segment, wanted: set[SegmentId]
) -> Iterator[tuple[SegmentId, BitMap]]:
    if segment.traced:
        for run in segment.runs:
            if run.root in wanted:
                yield run.root, BitMap(range(run.start, run.start + run.rows))
        return
    if not segment.path or not holds_any(segment, wanted):
        return
    with SegmentFiles(ports.files, [segment]).open(segment.path) as source:
        file = parquet_file(SourceFile(source), words=[ROOT])
        for batch in file.iter_batches(BATCH, columns=[ROOT, ROW]):
            names, codes, numbers = hidden_of(batch)
            for code, name in enumerate(names):
                root = SegmentId.parse(name)
                if root in wanted:
                    yield root, BitMap(numbers[codes == code].astype(np.uint32))


def adopted(segment: Segment, state: State | None, fresh: Iterable[str]) -> Segment:
    """Return a segment with ``deletes_applied_through`` limited to the remaining log.

    Args:
        segment: the segment from its footer or from the log.
        state: the remaining state of the log.
        fresh: paths of the files that the log does not name.
    """
    n = state.n if state else 0
    appended = not segment.shard.minor_version and segment.id.partition >= segment.shard.core
    if state is not None and appended and segment.path in fresh:
        segment = state.table.kind.placed(segment, n, renamed=False)
    return replace(segment, deletes_applied_through=min(segment.deletes_applied_through, n))


def addressed(segments: Iterable[Segment]) -> Iterator[Segment]:
    """Yield segments with unique row addresses: a renamed segment gets addresses of its own.

    Its earlier deletes by address are lost, because its file does not contain the new id.
    """
    some = tuple(segments)
    files: dict[SegmentId, set[str]] = {}
    for segment in some:
        files.setdefault(segment.file_id, set()).add(segment.path)
    for segment in some:
        doubled = segment.origin and len(files[segment.file_id] - {""}) > 1
        if doubled and segment.path and segment.traced and not segment.lineage:
            yield replace(segment, lineage=(Run(segment.id, 0, segment.rows),))
        else:
            yield segment


def left_out(found: Recovered, past: frozenset[SegmentId]) -> frozenset[SegmentId]:
    """Return the hidden segments whose deletes cannot be recovered."""
    shown = {segment.id for segment in found.shown}
    hidden = [segment for segment in found.kept if segment.id not in shown and segment.rows]
    unsafe = (s for s in hidden if holds_any(s, past))
    torn = {(s.id.chunk, s.shard.group) for s in unsafe}
    return frozenset(s.id for s in hidden if (s.id.chunk, s.shard.group) in torn)


def _token(rows: Rows) -> str:
    digest = hashlib.sha256()
    for root in sorted(rows):
        digest.update(f"{root}\n".encode())
        digest.update(np.asarray(rows[root].to_array(), dtype="<u4").tobytes())
    return f"restored-{digest.hexdigest()[:24]}"
