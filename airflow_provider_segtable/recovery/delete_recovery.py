"""Deletions whose log was lost: what is left of them, and what a repair makes of it.

1. A file of vectors names rows by root address, which no compaction changes. So what it deletes is
   known exactly. Whether it was ever committed no file tells; only an event that is left proves it.
   A person has to say, if rows are there that it names.
2. What is applied again is what *is there*: the deleted rows that visible segments hold, told by
   their lineage or by their hidden columns. They are put into one new file, so that no row counts
   twice, and the books are exact again.
3. A hidden segment that has deleted rows which visible ones have no more is not taken over:
   nothing could tell later that they are deleted.
4. What is adopted is purged up to the last event that is left, at most: later numbers meant others.
5. Deletions of rollup tables are told by the log alone. What they hid shows again.
"""

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum

import numpy as np
import pyarrow.parquet as pq
from pyroaring import BitMap

from airflow_provider_segtable.core.deletes.deletion import VectorFile, holds_any, paths
from airflow_provider_segtable.core.errors import AlreadyExists, CorruptTable
from airflow_provider_segtable.core.log.events import RowsChanged, TableRepaired
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.recovery.recovered import Doubt, Reason, Recovered
from airflow_provider_segtable.core.recovery.version_claims import Deletes
from airflow_provider_segtable.core.segments.segment import ROOT, ROW, Run, Segment, SegmentId
from airflow_provider_segtable.core.time.interval import MAX_INSTANT, MIN_INSTANT, Interval
from airflow_provider_segtable.data.deletes.row_filter import hidden_of
from airflow_provider_segtable.data.deletes.segment_filters import deleted_rows
from airflow_provider_segtable.data.deletes.vector_file import (
    FOLDER,
    Rows,
    read_vectors,
    united,
    write_vectors,
)
from airflow_provider_segtable.data.files.open_files import MemoryFiles
from airflow_provider_segtable.data.files.segment_files import SegmentFiles
from airflow_provider_segtable.data.parquet.segment_scan import SourceFile
from airflow_provider_segtable.recovery.evidence import LogLeft
from airflow_provider_segtable.table.context import TableContext

BATCH = 65_536


class Verdict(StrEnum):
    """What becomes of deletions that may never have been committed."""

    APPLY = "apply"
    IGNORE = "ignore"


@dataclass(frozen=True, slots=True, kw_only=True)
class DeletesLeft:
    """Files of vectors that the log does not name; ``proven`` are named by an event of the torn."""

    files: Mapping[str, Rows] = field(default_factory=dict)
    unreadable: Mapping[str, str] = field(default_factory=dict)
    proven: frozenset[str] = frozenset()

    def but(self, without: Collection[str]) -> "DeletesLeft":
        """Return the same without some files."""
        kept = {path: rows for path, rows in self.files.items() if path not in without}
        return replace(self, files=kept)

    def counted(self, state: State | None) -> Mapping[SegmentId, int]:
        """Return how many rows of each root are deleted, at most, by these and by the log."""
        found = {root: len(rows) for root, rows in united(self.files.values()).items()}
        for root, some in (state.vectors if state else {}).items():
            found[root] = found.get(root, 0) + sum(each.rows for each in some)
        return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Undeleted:
    """What a repair makes of deletions.

    Attributes:
        there: how many rows, that are there, each file names.
        rows: that are deleted again.
        past: roots of which other rows are deleted that visible segments hold no more.
        doubts: what is to be decided, or known.
    """

    there: Mapping[str, int] = field(default_factory=dict)
    rows: Rows = field(default_factory=dict)
    past: frozenset[SegmentId] = frozenset()
    doubts: tuple[Doubt, ...] = ()

    @property
    def file(self) -> tuple[VectorFile, ...]:
        """Return the file that names the rows, as ``keep`` writes it; equal rows, equal file."""
        return (write_vectors(MemoryFiles(), self.rows, _token(self.rows)),) if self.rows else ()

    def keep(self, ports: TableContext) -> None:
        """Write the file, unless it is there."""
        if self.rows:
            try:
                write_vectors(ports.files, self.rows, _token(self.rows))
            except AlreadyExists:
                read_vectors(ports.files, self.file[0].path)


def read_deletes(ports: TableContext, log: LogLeft) -> DeletesLeft:
    """Load the files of vectors that the log, as far as it is left, does not name."""
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
        if entry.path in known:
            continue
        try:
            files[entry.path] = read_vectors(ports.files, entry.path, named.get(entry.path, ""))
        except CorruptTable as error:
            unreadable[entry.path] = str(error)
    return DeletesLeft(files=files, unreadable=unreadable, proven=frozenset(named))


def deletes_of(left: DeletesLeft, log: LogLeft, *, rollup: bool) -> Deletes:
    """Return what recovery has to know of deletions."""
    return Deletes(left.counted(log.state), unknown=rollup)


def undeleted(
    ports: TableContext,
    left: DeletesLeft,
    state: State | None,
    shown: Iterable[Segment],
    verdict: Verdict | None,
) -> Undeleted:
    """Return what becomes of the deletions, and what is in doubt.

    Args:
        ports: the table's ports; the hidden columns of visible files are read.
        left: the files, without those that a person took away.
        state: what is left of the log.
        shown: what readers will see.
        verdict: what a person said of files that nothing proves.
    """
    if not left.files and not left.unreadable:
        return Undeleted()
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
    return Undeleted(
        there=there,
        rows=rows,
        past=frozenset(past),
        doubts=tuple(replace(each, blocking=verdict is None) for each in doubts),
    )


def _undecided(path: str, there: int, rows: Rows) -> Doubt:
    whole = sum(map(len, rows.values()))
    return Doubt(
        reason=Reason.DELETES,
        interval=min(rows).interval,
        note=f"deletes {whole} rows, {there} of them are there; whether it was ever committed "
        "nothing tells: --deletes apply, or ignore",
        paths=(path,),
        rows=there,
    )


def _unreadable(path: str, why: str) -> Doubt:
    return Doubt(
        reason=Reason.DELETES,
        interval=Interval(MIN_INSTANT, MAX_INSTANT),
        note="cannot be read, so what it deleted shows again: restore it, or say --deletes apply "
        f"({why})",
        paths=(path,),
    )


def forgotten_predicates(log: LogLeft, *, rollup: bool) -> Iterator[Doubt]:
    """Yield what deletions of a rollup table are lost, as far as torn events tell."""
    if not rollup:
        return
    for event in log.events:
        if isinstance(event.action, RowsChanged) and event.action.predicate is not None:
            yield _predicate_lost(f"event {event.n} deleted {event.action.reason or 'rows'}")
    if log.state is None:
        yield _predicate_lost("deletions of a rollup table are told by the log alone")


def _predicate_lost(what: str) -> Doubt:
    return Doubt(
        reason=Reason.DELETES,
        interval=Interval(MIN_INSTANT, MAX_INSTANT),
        note=f"{what}: what no compaction has left out since shows again; delete it once more",
        paths=(),
        blocking=False,
    )


def present(
    ports: TableContext, shown: Iterable[Segment], roots: Iterable[SegmentId]
) -> dict[SegmentId, BitMap]:
    """Return which rows of some roots segments hold."""
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
        file = pq.ParquetFile(SourceFile(source), read_dictionary=[ROOT])
        for batch in file.iter_batches(BATCH, columns=[ROOT, ROW]):
            names, codes, numbers = hidden_of(batch)
            for code, name in enumerate(names):
                root = SegmentId.parse(name)
                if root in wanted:
                    yield root, BitMap(numbers[codes == code].astype(np.uint32))


def adopted(segment: Segment, state: State | None, fresh: Iterable[str]) -> Segment:
    """Return a segment that is purged of what the log, as far as it is left, says at most.

    Args:
        segment: as its footer has it, or the log.
        state: what is left of the log.
        fresh: paths of the files that the log does not know.
    """
    n = state.n if state else 0
    rollup = state is not None and state.table.rollup is not None
    appended = not segment.shard.minor_version and segment.id.partition >= segment.shard.core
    if rollup and appended and segment.path in fresh:
        return replace(segment, deletes_applied_through=n)
    return replace(segment, deletes_applied_through=min(segment.deletes_applied_through, n))


def addressed(segments: Iterable[Segment]) -> Iterator[Segment]:
    """Yield segments so that rows of two files never have one address: a renamed one gets its own.

    What was deleted from it by address is not known any more: files do not tell that name.
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
    """Return the hidden segments of whose rows nothing could tell that they are deleted."""
    shown = {segment.id for segment in found.shown}
    hidden = [segment for segment in found.kept if segment.id not in shown and segment.rows]
    unsafe = (s for s in hidden if holds_any(s, past))
    torn = {(s.id.chunk, s.shard.group) for s in unsafe}
    return frozenset(s.id for s in hidden if (s.id.chunk, s.shard.group) in torn)


def _token(rows: Rows) -> str:
    told = hashlib.sha256()
    for root in sorted(rows):
        told.update(f"{root}\n".encode())
        told.update(np.asarray(rows[root].to_array(), dtype="<u4").tobytes())
    return f"restored-{told.hexdigest()[:24]}"
