"""Check a table's data files, deletion vectors, indexes and log store against its log. Reads only.

Indexes:

1. The table of an index is verified like any table. Damage there is a warning, because reads open
   the files instead.
2. An entry is *stale* if its checksum is not that of the file's footer: readers do not use it.
   With ``deep``, an entry is *wrong* if it differs from the one that is computed of the file now:
   readers may leave out rows.
3. Entries about files that the table does not have are *superfluous*: the next cleaning that
   deletes files deletes them. They are compared with the newest state, read after the entries.
4. A visible file of a time that the index does not lack should have an entry. Without one it is
   *left out*: reads open it.
5. With ``deep``, the entries of an index of records are compared with the records themselves. This
   happens only while the index lacks nothing, because only then both of these hold: a live record
   on top of its time chunk has an entry, else a writer may leave two rows of its key; and no key
   has two rows. A key with entries of several time chunks is looked up in the table.

Log store:

6. The ranges of a bucket that are within retention follow each other, up to the committed end; and
   each waypoint names the event with the range that begins there.
7. With ``files``, the footers of an event's own files have exactly the offsets of its ranges, each
   once. A primary-key table merges its records, so there some file has the bucket.
8. Whether a checkpoint of the log has the same ranges as its events is checked with the log itself
   (``health.verify``).

Deletion vectors:

9. Each file that a deletion names exists, is readable, and has the number of rows of each root
   that the log records.
10. No row of a root is deleted by two events. But a restore may undo a deletion, so of those up to
    ``State.vectors_pruned_through`` only the ones that a visible segment still has to apply count.
    No row number exceeds the root's rows, if a segment that contains only this root is present.
11. A missing deletion vector is lost only if the newest log still names it.

Data files against the log's descriptors:

12. A missing data file is lost only if the newest version still has its segment.
13. A storage failure does not prove damage: a file that could not be read is UNCHECKED.
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from airflow_provider_segtable.core.catch_up import files_in
from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.deletion import Vectors, checksums, paths
from airflow_provider_segtable.core.errors import (
    CorruptTable,
    NotFound,
    SegtableError,
    StorageError,
    UnsupportedFormat,
)
from airflow_provider_segtable.core.indexes.index_kind import CHECKSUM, FILE
from airflow_provider_segtable.core.indexes.index_state import IndexState
from airflow_provider_segtable.core.indexes.record_index import DELETED
from airflow_provider_segtable.core.log.events import Event
from airflow_provider_segtable.core.log.families.append_events import Appended, published
from airflow_provider_segtable.core.log.log_paths import event_path
from airflow_provider_segtable.core.log.state import State, index_of
from airflow_provider_segtable.core.log_store.manifest import BucketManifest, LogRange
from airflow_provider_segtable.core.recovery.diagnosis import (
    Finding,
    Severity,
    broken_log_range,
    damaged_file,
    damaged_vectors,
    unread,
    unread_file,
    unread_vectors,
)
from airflow_provider_segtable.core.segment import Segment, SegmentId
from airflow_provider_segtable.core.time import united
from airflow_provider_segtable.data.indexes.entries import entries, footer_checksum
from airflow_provider_segtable.data.indexes.records import decided, places_of
from airflow_provider_segtable.data.inspection import inspect_bytes, inspect_footer, inspect_rows
from airflow_provider_segtable.data.log_ranges import files_of_bucket
from airflow_provider_segtable.data.rows import Keys
from airflow_provider_segtable.data.vector_file import Rows, read_vectors
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.index_lifecycle import inner_tables
from airflow_provider_segtable.table.indexes.index_entries import entries_in
from airflow_provider_segtable.table.indexes.key_entries import records_of
from airflow_provider_segtable.table.log.event_log import EventLog, path_of


# Entries of an index of records, compared with the records
def check_records(
    ports: TableContext, state: State, index: IndexState, found: pa.Table
) -> Iterator[Finding]:
    """Yield problems of the entries of an index; reads the keys of all visible files.

    Args:
        ports: the table's ports.
        state: the version to verify.
        index: the index of records.
        found: its entries.
    """
    if not index.current:
        return
    command = f"TABLE {index.definition.name}"
    again = f"segtable index rebuild {command}, and segtable index run {command}"
    unknown = _unknown(ports, state, index, found)
    if unknown:
        yield Finding(
            code="unknown-records",
            severity=Severity.WARNING,
            where=f"index {index.definition.name}",
            what=f"it does not know {counted(unknown, 'row')} of the table",
            why="their keys may get second rows in other time chunks",
            do=again,
        )
    doubled = _doubled(ports, state, index, found)
    if doubled:
        yield Finding(
            code="doubled-keys",
            severity=Severity.WARNING,
            where=f"index {index.definition.name}",
            what=f"{counted(doubled, 'row')} of keys that have another one in another time chunk",
            why="no run of the index has corrected them",
            do=again,
        )


def _unknown(ports: TableContext, state: State, index: IndexState, found: pa.Table) -> int:
    """Return the number of live records that have no entry."""
    kind = index.definition.kind
    known = Keys.of(found, kind.key, nulls=False)
    count = 0
    for chunk in sorted({each.interval for each in state.timeline.visible_chunks()}):
        try:
            listed = entries(index.definition, state.table, files_in(state, chunk), ports.files)
        except NotFound:
            continue  # the check of the files says so
        numbers, chunks = places_of(listed, state.layout)
        inside = np.asarray([each == chunk for each in chunks], bool)
        listed = listed.filter(pa.array(inside[numbers]))
        same = np.zeros(listed.num_rows, np.int64)
        tops = listed.take(pa.array(np.unique(decided(listed, same, kind.divided_by).winner_of)))
        live = tops.filter(pc.invert(tops.column(DELETED)))
        count += int((known.find(live.combine_chunks()) < 0).sum())
    return count


def _doubled(ports: TableContext, state: State, index: IndexState, found: pa.Table) -> int:
    """Return the number of rows whose keys have other, later ones."""
    key = index.definition.kind.divided_by
    unsure = np.zeros(found.num_rows, bool)
    losers = decided(found, places_of(found, state.layout)[0], key, unsure).losers
    if not len(losers):
        return 0
    of_keys = Keys.of(found.take(pa.array(losers)), key, nulls=False)
    listed = found.filter(pa.array(of_keys.find(found.combine_chunks()) >= 0))
    there = records_of(ports, state, index, listed)
    return len(decided(there, places_of(there, state.layout)[0], key).losers)


FILES = 256
"""Number of files whose entries are computed at once."""
SHOWN = 3

Verify = Callable[[TableContext], Iterable[Finding]]
"""Verifies the table of an index."""


# Entries of indexes, compared with the files that they describe
def check_indexes(
    ports: TableContext, state: State, verify: Verify, *, deep: bool
) -> Iterator[Finding]:
    """Yield problems of the indexes of a table.

    Args:
        ports: the table's ports.
        state: the version to verify.
        verify: verifies the table of an index.
        deep: compute the entries of all visible files again.
    """
    for index, own in inner_tables(ports, state):
        try:
            for each in verify(own):
                yield _of_index(index, own.uri, each)
            found = entries_in(ports, index)
        except (SegtableError, OSError) as error:
            if index_of(index.definition.id, ports.log.refresh(state)) is None:
                continue  # dropped or rebuilt meanwhile
            yield _warn("unread-index", index, f"its entries cannot be read: {error}")
            continue
        if not index.definition.kind.about_files:
            yield from _of_records(ports, state, index, found) if deep else ()
            continue
        by_file = _by_file(found)
        visible = [s for s in state.timeline.each_visible() if s.path]
        stale = {*_other_files(by_file, visible)}
        if stale:
            what = f"entries of other files by the names of {counted(len(stale), 'file')}: "
            yield _warn("stale-entries", index, f"{what}{_some(stale)}")
        if deep:
            trusted = [s for s in visible if s.path in by_file and s.path not in stale]
            yield from _wrong(index, {*_differing(ports, state, index, found, trusted)})
        yield from _superfluous(ports, state, index, by_file)
        yield from _left_out(index, by_file, visible)


def _of_records(
    ports: TableContext, state: State, index: IndexState, found: pa.Table
) -> Iterator[Finding]:
    """Yield problems of entries about records; they may be newer than the version."""
    wrong = [*check_records(ports, state, index, found)]
    newest = ports.log.refresh(state) if wrong else state
    if newest.n == state.n:
        yield from wrong
    elif later := index_of(index.definition.id, newest):
        yield from check_records(ports, newest, later, entries_in(ports, later))


def _of_index(index: IndexState, uri: str, finding: Finding) -> Finding:
    """Return a finding about the table of an index; its damage changes no result of a read."""
    where = f"index {index.definition.name}: {finding.where}"
    if finding.severity is not Severity.CRITICAL:
        return replace(finding, where=where, do=f"in {uri}: {finding.do}")
    return replace(
        finding,
        severity=Severity.WARNING,
        where=where,
        why="entries that cannot be read are not used: reads open the files",
        do=_rebuild(index),
    )


def _by_file(found: pa.Table) -> dict[str, set[str | None]]:
    by_file: dict[str, set[str | None]] = {}
    names, sums = found.column(FILE).to_pylist(), found.column(CHECKSUM).to_pylist()
    for name, checksum in zip(names, sums, strict=True):
        by_file.setdefault(name, set()).add(checksum)
    return by_file


def _other_files(
    by_file: Mapping[str, set[str | None]], visible: Iterable[Segment]
) -> Iterator[str]:
    """Yield the files with entries that were made from another file."""
    for segment in visible:
        if by_file.get(segment.path, {footer_checksum(segment)}) != {footer_checksum(segment)}:
            yield segment.path


def _differing(
    ports: TableContext,
    state: State,
    index: IndexState,
    found: pa.Table,
    segments: Sequence[Segment],
) -> Iterator[str]:
    """Yield the files with entries that differ from those computed now."""
    definition = index.definition
    there = _rows(index, found)
    for start in range(0, len(segments), FILES):
        some = segments[start : start + FILES]
        try:
            now = _rows(index, entries(definition, state.table, some, ports.files))
        except (SegtableError, OSError):
            continue  # the check of the files says so
        yield from (s.path for s in some if there.get(s.path) != now.get(s.path))


def _rows(index: IndexState, found: pa.Table) -> dict[str, list[dict[str, object]]]:
    """Return entries by file, in the order of their keys."""
    by_file: dict[str, list[dict[str, object]]] = {}
    order = [(name, "ascending") for name in index.definition.kind.key]
    for row in found.sort_by(order).to_pylist():
        by_file.setdefault(row[FILE], []).append(row)
    return by_file


def _wrong(index: IndexState, wrong: Collection[str]) -> Iterator[Finding]:
    if wrong:
        yield Finding(
            code="wrong-entries",
            severity=Severity.CRITICAL,
            where=f"index {index.definition.name}",
            what=f"the entries about {counted(len(wrong), 'file')} differ from what is in the "
            f"files: {_some(wrong)}",
            why="reads with a condition may leave out rows",
            do=f"{_rebuild(index)}, and report this as a bug of segtable",
        )


def _superfluous(
    ports: TableContext, state: State, index: IndexState, by_file: Mapping[str, object]
) -> Iterator[Finding]:
    newest = ports.log.refresh(state)
    gone = {*by_file}.difference(state.timeline.paths(), newest.timeline.paths())
    if gone:
        yield Finding(
            code="superfluous-entries",
            severity=Severity.INFO,
            where=f"index {index.definition.name}",
            what=f"entries about {counted(len(gone), 'file')} that the table does not have: "
            f"{_some(gone)}",
            why="they use space, and are never read",
            do="segtable clean TABLE deletes them with the next files that it deletes",
        )


def _left_out(
    index: IndexState, by_file: Mapping[str, object], visible: Iterable[Segment]
) -> Iterator[Finding]:
    lacks = [each.interval for each in index.lacks]
    missing = {
        segment.path
        for segment in visible
        if segment.path not in by_file
        and not any(lack.overlaps(segment.id.interval) for lack in lacks)
    }
    if missing:
        yield Finding(
            code="missing-entries",
            severity=Severity.INFO,
            where=f"index {index.definition.name}",
            what=f"no entries about {counted(len(missing), 'visible file')}: {_some(missing)}",
            why="reads open these files",
            do=_rebuild(index),
        )


def _warn(code: str, index: IndexState, what: str) -> Finding:
    return Finding(
        code=code,
        severity=Severity.WARNING,
        where=f"index {index.definition.name}",
        what=what,
        why="these entries are not used: reads open the files",
        do=_rebuild(index),
    )


def _rebuild(index: IndexState) -> str:
    return f"segtable index rebuild TABLE {index.definition.name}"


def _some(paths: Iterable[str]) -> str:
    found = sorted(paths)
    return ", ".join(found[:SHOWN]) + (" ..." if len(found) > SHOWN else "")


MISPLACED = "misplaced-log-range"
WRONG_OFFSETS = "wrong-log-offsets"


# Committed ranges of the log store
def check_log_store(
    ports: TableContext, state: State, events: Mapping[int, Event], *, files: bool, begin: int = 0
) -> Iterator[Finding]:
    """Yield findings about the committed records of the log store.

    Args:
        ports: the table's ports.
        state: the version to verify.
        events: the retained events with ranges, by number.
        files: read the footers of their files, too.
        begin: the first of the events.
    """
    for bucket, known in sorted(state.log_store.items()):
        ranges = [*_ranges(events, state, bucket, known)]
        yield from _misplaced(state, bucket, known, ranges, begin)
        for event, found in ranges if files else ():
            yield from _wrong_files(ports, state, event, found)


def _ranges(
    events: Mapping[int, Event], state: State, bucket: int, known: BucketManifest
) -> Iterator[tuple[Event, LogRange]]:
    """Yield the ranges of a bucket that count, in order."""
    numbers = (n for span in known.spans(0, state.n) for n in range(span.first, span.last + 1))
    for event in (events[n] for n in numbers if n in events and n >= state.retained_from):
        action = event.action
        for each in action.log if isinstance(action, Appended) else ():
            if each.bucket == bucket:
                yield event, each


def _misplaced(
    state: State,
    bucket: int,
    known: BucketManifest,
    ranges: list[tuple[Event, LogRange]],
    begin: int,
) -> Iterator[Finding]:
    at = ranges[0][1].start if ranges else known.end
    for event, found in ranges:
        if found.start != at:
            what = f"{found} follows {at}: its records are not where they should be"
            yield broken_log_range(path_of(event), MISPLACED, what)
        at = found.end
    if at != known.end:
        what = f"bucket {bucket} is committed up to {known.end}, its ranges up to {at}"
        yield broken_log_range(f"version {state.n}", MISPLACED, what)
    begins = {(event.n, found.start) for event, found in ranges}
    oldest = max(state.retained_from, begin)
    kept = (w for w in known.waypoints if w.undone_after is None and w.n >= oldest)
    for each in kept:
        if (each.n, each.start) not in begins:
            what = f"bucket {bucket}: event {each.n} has no range that begins at {each.start}"
            yield broken_log_range(event_path(each.n), MISPLACED, what)


def _wrong_files(
    ports: TableContext, state: State, event: Event, found: LogRange
) -> Iterator[Finding]:
    """Yield differences between a range and the footers of its files."""
    action = event.action
    kind = state.table.kind
    segments = published(kind, action, event.time) if isinstance(action, Appended) else ()
    where = path_of(event)
    try:
        files = [*files_of_bucket(ports.files, segments, found.bucket)]
    except (NotFound, CorruptTable) as error:
        yield broken_log_range(where, WRONG_OFFSETS, f"the records of {found}: {error}")
        return
    except StorageError as error:
        yield unread(where, f"the files of {found} could not be read: {error}", code="unread")
        return
    mine = [each for _, some in files for each in some if each.bucket == found.bucket]
    if state.table.kind.rules is not None:
        if not mine:
            yield broken_log_range(where, WRONG_OFFSETS, f"no file has records of {found}")
        return
    offsets = np.concatenate(
        [np.empty(0, np.int64), *(each.offsets for each in mine if each.offsets is not None)]
    )
    if not np.array_equal(np.sort(offsets), np.arange(found.start, found.end)):
        what = f"the files of {found} have {len(offsets)} offsets, or other ones"
        yield broken_log_range(where, WRONG_OFFSETS, what)


# Deletion vector files
def check_vectors(ports: TableContext, state: State) -> Iterator[Finding]:
    """Yield findings about the vector files that a state names."""
    read: dict[str, Rows] = {}
    missing: list[str] = []
    for path, checksum in sorted(checksums(state.vectors).items()):
        try:
            read[path] = read_vectors(ports.files, path, checksum)
        except NotFound:
            missing.append(path)
        except CorruptTable as error:
            yield damaged_vectors(path, "bad-vectors", str(error), named(state.vectors, path))
        except StorageError as error:
            yield unread_vectors(path, error)
    yield from _lost(ports, state, missing)
    due = set(_due(state))
    around = united({root.interval for root in state.vectors})
    present = (s for each in around for s in state.timeline.segments(each))
    sizes = {root: rows for root, rows in root_sizes(present) if root in state.vectors}
    for root, some in state.vectors.items():
        given = {each.path: read[each.path] for each in some if each.path in read}
        for each in some:
            if each.path in given:
                for what in _differences(root, each.rows, given[each.path], sizes):
                    yield damaged_vectors(each.path, "wrong-vectors", what, each.rows)
        yield from _overlapping(root, {p: r for p, r in given.items() if (root, p) in due})


def _due(state: State) -> Iterator[tuple[SegmentId, str]]:
    """Yield the deletions that no restore can have undone: root and path."""
    for root, some in state.vectors.items():
        later = (each for each in some if each.n > state.vectors_pruned_through)
        yield from ((root, each.path) for each in later)
    for segment in state.timeline.visible_near({root.interval for root in state.vectors}):
        for root, some in state.deletions(segment).items():
            yield from ((root, each.path) for each in some)


def _lost(ports: TableContext, state: State, missing: list[str]) -> Iterator[Finding]:
    if not missing:
        return
    try:
        newest = EventLog(ports.storage).refresh(state)
    except SegtableError:
        newest = state  # the check of the log reports this error
    for path in missing:
        if path in paths(newest.vectors):
            count = named(state.vectors, path)
            yield damaged_vectors(path, "missing-vectors", "the file is missing", count)


def named(vectors: Vectors, path: str) -> int:
    """Return the number of rows that a file deletes, according to the log."""
    return sum(each.rows for some in vectors.values() for each in some if each.path == path)


def root_sizes(segments: Iterable[Segment]) -> Iterator[tuple[SegmentId, int]]:
    """Yield the number of rows of each root that is alone in a segment."""
    for segment in segments:
        run = segment.runs[0] if len(segment.runs) == 1 else None
        if run and not segment.shard.minor_version and not run.start:
            yield run.root, run.rows


def _differences(
    root: SegmentId, rows: int, given: Rows, sizes: Mapping[SegmentId, int]
) -> list[str]:
    bitmap = given.get(root, BitMap())
    wrong = []
    if len(bitmap) != rows:
        wrong.append(f"it has {counted(len(bitmap), 'row')} of {root}, the log has {rows}")
    if bitmap and bitmap.max() >= sizes.get(root, bitmap.max() + 1):
        wrong.append(
            f"it has row {bitmap.max()} of {root}, which has {counted(sizes[root], 'row')}"
        )
    return wrong


def _overlapping(root: SegmentId, given: Mapping[str, Rows]) -> Iterator[Finding]:
    seen: BitMap = BitMap()
    for path, rows in given.items():
        bitmap = rows.get(root, BitMap())
        both = len(seen & bitmap)
        if both:
            what = f"{both} of its rows of {root} were deleted before"
            yield damaged_vectors(path, "overlapping-vectors", what, both)
        seen |= bitmap


_HOPELESS = frozenset({"bad-footer", "foreign-file"})


# Data files, compared with their descriptors
@dataclass(slots=True, kw_only=True)
class FileCheck:
    """Checks of data files; thread-safe, because threads only append to ``missing``."""

    ports: TableContext
    state: State
    deep: bool
    checked: int = 0
    rows: int = 0
    missing: list[Segment] = field(default_factory=list)

    def check(self, segment: Segment) -> list[Finding]:
        """Check one segment's file."""
        try:
            problems = inspect_footer(self.ports.files, segment, self.state.table)
            codes = {each.code for each in problems}
            if self.deep and "wrong-checksum" not in codes:
                problems += inspect_bytes(self.ports.files, segment)
            if self.deep and not codes & _HOPELESS:
                problems += inspect_rows(self.ports.files, segment, self.state.table)
        except NotFound:
            self.missing.append(segment)
            return []
        except (StorageError, UnsupportedFormat) as error:
            return [unread_file(segment, error)]
        return [damaged_file(segment, each.code, each.what) for each in problems]

    def still_lost(self, log: EventLog) -> Iterator[Finding]:
        """Yield the missing files that the newest log still names."""
        if not self.missing:
            return
        try:
            newest = log.refresh(self.state)
        except SegtableError:
            newest = self.state  # the check of the log reports this error
        for segment in sorted(self.missing, key=lambda each: each.id):
            if segment.id in newest.timeline and segment.path not in newest.pending_delete:
                yield damaged_file(segment, "missing-file", "the file is missing")
