"""Deletions: which rows an event took away, and where that still matters.

1. A *deletion vector* is the set of row numbers, in one root, that one event deleted. It is named
   by root address, which never changes, so it follows its rows through any chain of compactions,
   begun before it or after, sorted or not: nothing is executed again.
2. The vectors of one root are disjoint: a row is deleted once.
3. A deletion of event n applies to a segment iff n is over the segment's
   ``deletes_applied_through``. So whoever rewrites rows applies what it knows, says up to which
   event, and leaves the rest to readers.
4. Rows of a rollup table have no address. There a deletion is a predicate over dimensions and
   time, true of every row that was there at event n; an append is ``deletes_applied_through`` up to
   the event before its own.
5. A vector is needed as long as any segment is present (a hidden one too: somebody may read an
   older version, or fall back to it) that may hold rows of its root and is not purged of it.

Source of the idea: deletion vectors (Delta, Iceberg v3), keyed by root address instead of by file;
CarbonData's parallel compaction and update, whose rule (execute the delete again on the compacted
segment) loses rows wherever that saw rows which the delete never did.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass

from airflow_provider_segtable.core.deletes.predicate import Predicate
from airflow_provider_segtable.core.segments.segment import Segment, SegmentId, named_roots


@dataclass(frozen=True, slots=True, kw_only=True)
class VectorFile:
    """A file of deletion vectors: how many rows of each root it names; ``size`` in bytes.

    ``checksum`` is that of its bytes, empty if an older version wrote it.
    """

    path: str
    size: int
    rows: Mapping[SegmentId, int]
    checksum: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Deletion:
    """Event ``n`` deleted so many ``rows`` of a root; the file at ``path`` names them.

    ``checksum`` is that of the file (``VectorFile``).
    """

    n: int
    path: str
    rows: int
    checksum: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class PredicateDelete:
    """Event ``n`` deleted what the predicate holds for, of all that was in a rollup table."""

    n: int
    predicate: Predicate


Vectors = Mapping[SegmentId, tuple[Deletion, ...]]


def with_file(vectors: Vectors, n: int, file: VectorFile) -> Vectors:
    """Return the vectors and those that event ``n`` brought."""
    added = {
        root: (*vectors.get(root, ()), _deletion(n, file, rows)) for root, rows in file.rows.items()
    }
    return {**vectors, **added}


def _deletion(n: int, file: VectorFile, rows: int) -> Deletion:
    return Deletion(n=n, path=file.path, rows=rows, checksum=file.checksum)


def roots_among(segment: Segment, roots: Collection[SegmentId]) -> Iterator[SegmentId]:
    """Yield those of some roots that a segment may hold rows of (``Segment.may_hold``), each once.

    It looks at what the segment names, not at all the roots: these may be very many.
    """
    if not roots:
        return
    named = (run.root for run in segment.runs) if segment.traced else named_roots(segment)
    yield from (root for root in dict.fromkeys(named) if root in roots)


def holds_any(segment: Segment, roots: Collection[SegmentId]) -> bool:
    """Tell whether a segment may hold rows of any of some roots."""
    return next(roots_among(segment, roots), None) is not None


def applying(segment: Segment, vectors: Vectors) -> dict[SegmentId, tuple[Deletion, ...]]:
    """Return the deletions that a reader of the segment has to apply, by root."""
    found = {
        root: tuple(each for each in vectors[root] if each.n > segment.deletes_applied_through)
        for root in roots_among(segment, vectors)
    }
    return {root: some for root, some in found.items() if some}


def needed(vectors: Vectors, present: Iterable[Segment]) -> Vectors:
    """Return the vectors without those that no present segment needs (rule 5)."""
    least = _least_purged(vectors, present)
    kept = {
        root: tuple(each for each in some if each.n > least[root])
        for root, some in vectors.items()
        if root in least
    }
    return {root: some for root, some in kept.items() if some}


def _least_purged(vectors: Vectors, present: Iterable[Segment]) -> dict[SegmentId, int]:
    """Return, by root, how far the holder that is purged least is purged."""
    least: dict[SegmentId, int] = {}
    for segment in present:
        for root in roots_among(segment, vectors):
            least[root] = min(
                least.get(root, segment.deletes_applied_through), segment.deletes_applied_through
            )
    return least


def paths(vectors: Vectors) -> frozenset[str]:
    """Return the files that the vectors are in."""
    return frozenset(each.path for some in vectors.values() for each in some)


def checksums(vectors: Vectors) -> dict[str, str]:
    """Return the checksum of each file that the vectors are in; empty where none is known."""
    return {each.path: each.checksum for some in vectors.values() for each in some}


def newest(vectors: Vectors) -> int:
    """Return the newest event among the vectors; 0 if there is none."""
    return max((each.n for some in vectors.values() for each in some), default=0)
