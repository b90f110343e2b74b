"""Deletions: the rows that events deleted, and the segments that may still have them.

1. A *deletion vector* is the set of row numbers, in one root, that one event deleted. Root
   addresses never change, so a vector applies to its rows after any chain of compactions, begun
   before or after the delete, sorted or not: no delete is executed again.
2. The vectors of one root are disjoint: a row is deleted once.
3. A deletion of event n applies to a segment iff n is higher than the segment's
   ``deletes_applied_through``. So a compaction applies the deletions that it has read, records the
   last of them, and leaves later ones to readers.
4. Rows of a rollup table have no address. There a deletion is a predicate over dimensions and time
   that applies to every row present at event n. An append's ``deletes_applied_through`` is the
   event before its own.
5. A vector is needed while any present segment may hold rows of its root and has not applied it.
   Hidden segments count, too: readers may read an older version, or fall back to it.

Source of the idea: deletion vectors (Delta, Iceberg v3), keyed by root address instead of by file;
CarbonData's parallel compaction and update, whose rule (execute the delete again on the compacted
segment) loses rows wherever that saw rows which the delete never did.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.predicate import Predicate
from airflow_provider_segtable.core.segment import Segment, SegmentId, named_roots


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorFile:
    """A file of deletion vectors; ``rows`` counts deleted rows by root, ``size`` is in bytes.

    ``checksum`` is that of its bytes, empty if an older segtable wrote it.
    """

    path: str
    size: int
    rows: Mapping[SegmentId, int]
    checksum: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """The deletion of ``rows`` rows of a root by event ``n``; the file at ``path`` names them.

    ``checksum`` is that of the file (``VectorFile``).
    """

    n: int
    path: str
    rows: int
    checksum: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PredicateDelete:
    """Deletes the rollup rows that match ``predicate`` as of event ``n``."""

    n: int
    predicate: Predicate


Vectors = Mapping[SegmentId, tuple[Deletion, ...]]


def with_file(vectors: Vectors, n: int, file: VectorFile) -> Vectors:
    """Return the vectors with the vectors of event ``n`` added."""
    added = {
        root: (*vectors.get(root, ()), _deletion(n, file, rows)) for root, rows in file.rows.items()
    }
    return {**vectors, **added}


def _deletion(n: int, file: VectorFile, rows: int) -> Deletion:
    return Deletion(n=n, path=file.path, rows=rows, checksum=file.checksum)


def roots_among(segment: Segment, roots: Collection[SegmentId]) -> Iterator[SegmentId]:
    """Yield the given roots that a segment may hold rows of (``Segment.may_hold``), each once.

    It iterates over the roots that the segment names, because ``roots`` may be very many.
    """
    if not roots:
        return
    named = (run.root for run in segment.runs) if segment.traced else named_roots(segment)
    yield from (root for root in dict.fromkeys(named) if root in roots)


def holds_any(segment: Segment, roots: Collection[SegmentId]) -> bool:
    """Return whether a segment may hold rows of any of the roots."""
    return next(roots_among(segment, roots), None) is not None


def applying(segment: Segment, vectors: Vectors) -> dict[SegmentId, tuple[Deletion, ...]]:
    """Return the deletions that a reader of the segment has to apply, by root."""
    found = {
        root: tuple(each for each in vectors[root] if each.n > segment.deletes_applied_through)
        for root in roots_among(segment, vectors)
    }
    return {root: some for root, some in found.items() if some}


def needed(vectors: Vectors, present: Iterable[Segment]) -> Vectors:
    """Return the vectors that a present segment needs (rule 5)."""
    least = _least_purged(vectors, present)
    kept = {
        root: tuple(each for each in some if each.n > least[root])
        for root, some in vectors.items()
        if root in least
    }
    return {root: some for root, some in kept.items() if some}


def _least_purged(vectors: Vectors, present: Iterable[Segment]) -> dict[SegmentId, int]:
    """Return, by root, the lowest ``deletes_applied_through`` of segments that may hold rows."""
    least: dict[SegmentId, int] = {}
    for segment in present:
        for root in roots_among(segment, vectors):
            least[root] = min(
                least.get(root, segment.deletes_applied_through), segment.deletes_applied_through
            )
    return least


def paths(vectors: Vectors) -> frozenset[str]:
    """Return the files of the vectors."""
    return frozenset(each.path for some in vectors.values() for each in some)


def checksums(vectors: Vectors) -> dict[str, str]:
    """Return the checksums of the vectors' files, by path; empty if none was recorded."""
    return {each.path: each.checksum for some in vectors.values() for each in some}


def newest(vectors: Vectors) -> int:
    """Return the newest event of the vectors; 0 if there are none."""
    return max((each.n for some in vectors.values() for each in some), default=0)
