"""Check deletion vector files against the log that names them.

1. Each file that a deletion names exists, is readable, and has the number of rows of each root
   that the log records.
2. No row of a root is deleted by two events. But a restore may undo a deletion, so of those up to
   ``State.vectors_pruned_through`` only the ones that a visible segment still has to apply count.
   No row number exceeds the root's rows, if a segment that contains only this root is present.
3. A missing file is lost only if the newest log still names it.
"""

from collections.abc import Iterable, Iterator, Mapping

from pyroaring import BitMap

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.deletion import Vectors, checksums, paths
from airflow_provider_segtable.core.errors import (
    CorruptTable,
    NotFound,
    SegtableError,
    StorageError,
)
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.recovery.diagnosis import (
    Finding,
    damaged_vectors,
    unread_vectors,
)
from airflow_provider_segtable.core.segment import Segment, SegmentId
from airflow_provider_segtable.data.vector_file import Rows, read_vectors
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.event_log import EventLog


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
    found = root_sizes(state.timeline.segments()) if state.vectors else ()
    sizes = {root: rows for root, rows in found if root in state.vectors}
    for root, some in state.vectors.items():
        given = {each.path: read[each.path] for each in some if each.path in read}
        for each in some:
            if each.path in given:
                for what in _wrong(root, each.rows, given[each.path], sizes):
                    yield damaged_vectors(each.path, "wrong-vectors", what, each.rows)
        yield from _overlapping(root, {p: r for p, r in given.items() if (root, p) in due})


def _due(state: State) -> Iterator[tuple[SegmentId, str]]:
    """Yield the deletions that no restore can have undone: root and path."""
    for root, some in state.vectors.items():
        later = (each for each in some if each.n > state.vectors_pruned_through)
        yield from ((root, each.path) for each in later)
    for segment in state.timeline.each_visible() if state.vectors else ():
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


def _wrong(root: SegmentId, rows: int, given: Rows, sizes: Mapping[SegmentId, int]) -> list[str]:
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
