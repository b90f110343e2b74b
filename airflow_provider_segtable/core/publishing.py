"""The files that a version shows, the differences between two versions, and statistics of footers.

1. The kind of the table decides which visible files are shown (``TableKind.shows_base``). An append
   table shows all. A primary-key table shows the base files: each bucket as it was when its base
   compaction was planned, so older than the newest version, and not at one time in all buckets. A
   rollup table shows all, but is refused while segments with rows are beside a base
   (``core.segment``): a group may have several rows (``unpublished``).
2. A file is *clipped* to the pieces of time in which its segment is visible, where no higher
   version hides it, as far as it has rows there. A file without rows in them is not shown; one with
   all its rows in them has no clips. At every instant one chunk of a bucket wins, so a file that is
   visible under two ids, because it was carried over, has every row in one piece at most: its
   pieces are joined, and it is shown once.
3. Differences between two versions are found where their chunks differ, and where their deletions
   do. A file whose rows all lie in one piece is known from there. Of any other, all pieces are
   looked up, in both versions. So the costs of ``changed_files`` follow the extent of the change,
   not the size of the table.
4. A shown file names the deletions and clips that hide some of its rows. Two shown files of one
   path with equal *keys* show the same rows. So the published entry of a file, above all the
   positions of its hidden rows, stays valid while its key is the same.
5. A bound in the statistics of a footer is a Python value of the file's type: bool, int, float,
   ``Decimal``, str or bytes. Times are integers, so that no unit and no year is out of range:
   timestamps in microseconds since the epoch (UTC if the column has a zone, else as they read),
   times of day in microseconds since midnight, dates in days since the epoch. Nanoseconds are
   rounded outwards.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import field
from hashlib import sha256
from itertools import zip_longest
from typing import Any, NamedTuple, Protocol

from airflow_provider_segtable.core.chunk import Group
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.deletion import Deletion, PredicateDelete, holds_any
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.predicate import Predicate, encode_predicate, may_hold, reach
from airflow_provider_segtable.core.segment import Segment, SegmentId, base_groups
from airflow_provider_segtable.core.time import ALL_TIME, Interval, joined
from airflow_provider_segtable.core.timeline import AnyChunk


# Shown files and their keys
@dataclass(frozen=True, slots=True, kw_only=True)
class ShownFile:
    """One data file of a version, and which of its rows the version shows.

    Attributes:
        segment: its descriptor.
        clips: rows outside of these intervals of event time are hidden; disjoint and in order,
            empty if no row is.
        deletions: the deletions that hide rows, by root, as readers apply them.
        predicates: rows of a rollup table that match one of these are hidden.
        tombstones: whether rows that record the deletion of a key are in the file, and hidden.
    """

    segment: Segment
    clips: tuple[Interval, ...] = ()
    deletions: tuple[tuple[SegmentId, tuple[Deletion, ...]], ...] = ()
    predicates: tuple[Predicate, ...] = ()
    tombstones: bool = False
    key: str = field(init=False, compare=False)

    def __post_init__(self) -> None:
        """Compute the key."""
        object.__setattr__(self, "key", self._key())

    @property
    def path(self) -> str:
        """Return the path, relative to the table's root."""
        return self.segment.path

    @property
    def whole(self) -> bool:
        """Return whether nothing can hide any of its rows."""
        return not self.key

    def _key(self) -> str:
        """Return a digest of all that hides rows; empty if nothing does."""
        if not (self.clips or self.deletions or self.predicates or self.tombstones):
            return ""
        parts = [
            *(f"clip {each.start} {each.end}" for each in self.clips),
            *(f"{root} {each.path}" for root, some in self.deletions for each in some),
            *(f"matching {encode_predicate(each)}" for each in self.predicates),
            *(["tombstones"] if self.tombstones else []),
        ]
        return sha256("\n".join(sorted(parts)).encode()).hexdigest()[:32]


# Files of a version, and differences between two
RULES = 1
"""The number of the rules that choose and clip shown files (rules 1 and 2).

A version that was published by other rules may show other files.
0 is before segments recorded their base: base files were recognized by numbers.
"""


class Piece(NamedTuple):
    """A segment with rows in an interval in which it is visible."""

    segment: Segment
    interval: Interval

    @property
    def whole(self) -> bool:
        """Return whether all its rows lie in the interval."""
        interval, segment = self.interval, self.segment
        return interval.start <= segment.time_min and segment.time_max < interval.end


@dataclass(frozen=True, slots=True, kw_only=True)
class Changes:
    """The change from one version's files to another's.

    Attributes:
        gone: paths of files that the later version does not show.
        shown: files that it shows and the earlier one did not, or with another key; by path.
    """

    gone: frozenset[str] = frozenset()
    shown: Mapping[str, ShownFile] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Return whether anything differs."""
        return bool(self.gone or self.shown)


def unpublished(state: State) -> str:
    """Return why a version's files do not have its rows, with the way out; empty if they do."""
    table = state.table
    return table.kind.unpublished(table.schema, _unmerged(state))


def _unmerged(state: State) -> Iterator[str]:
    """Yield the chunks that a major compaction has yet to merge."""
    for chunk, summary in state.timeline.visible_summaries().items():
        late = summary.late
        if late is None:  # a checkpoint of an older segtable has no number
            late = len(state.timeline.beside_base(chunk))
        if late:
            yield f"{late} of {summary.visible} segments of {chunk.interval} are not merged"


def shown_files(state: State) -> dict[str, ShownFile]:
    """Return all files that a version shows, by path."""
    return _files(state, _pieces(state, None))


def changed_files(before: State, after: State) -> Changes:
    """Return the difference between the files of a version and of an earlier one.

    It equals the difference of ``shown_files`` of both, and its cost follows the change.
    """
    regions = after.timeline.changed(before.timeline)
    roots = _changed_roots(before, after)
    predicates = {*before.predicate_deletes} ^ {*after.predicate_deletes}
    was, now = (
        [
            *_changed_pieces(state, other, regions),
            *_with_roots(state, roots),
            *_matched(state, predicates),
        ]
        for state, other in ((before, after), (after, before))
    )
    split = [piece for piece in (*was, *now) if not piece.whole]
    return difference(_looked_up(before, was, split), _looked_up(after, now, split))


class Keyed(Protocol):
    """A file with a key, by which it is known whether it shows the same rows."""

    @property
    def key(self) -> str:
        """Return the key."""
        ...


def difference(before: Mapping[str, Keyed], after: Mapping[str, ShownFile]) -> Changes:
    """Return the change from some files to others, by their keys."""
    return Changes(
        gone=frozenset(before.keys() - after.keys()),
        shown={
            path: file
            for path, file in after.items()
            if path not in before or before[path].key != file.key
        },
    )


def _changed_pieces(state: State, other: State, regions: Iterable[Interval]) -> Iterator[Piece]:
    """Yield the pieces of a version in some regions that may not be the same in the other one."""
    for region in regions:
        theirs = {(at, each.key): each for at, each in other.timeline.winning(region)}
        for interval, chunk in state.timeline.winning(region):
            same = theirs.get((interval, chunk.key))
            for group in _changed_groups(state, chunk, same):
                yield from _shown_of(group.segments, interval)


def _with_roots(state: State, roots: Collection[SegmentId]) -> Iterator[Piece]:
    """Yield the pieces of files that may have rows of some roots."""
    for region in joined(root.interval for root in roots):
        for piece in _pieces(state, region):
            if holds_any(piece.segment, roots):
                yield piece


def _matched(state: State, deletes: Iterable[PredicateDelete]) -> Iterator[Piece]:
    """Yield the pieces of files that may have rows which some predicate deletes match."""
    for each in deletes:
        first, last = reach(each.predicate, state.table.time_column)
        region = Interval(first, last + 1).clip(ALL_TIME) if first <= last else None
        for piece in _pieces(state, region) if region else ():
            if _may_match(state, piece.segment, each):
                yield piece


def _may_match(state: State, segment: Segment, delete: PredicateDelete) -> bool:
    """Return whether a segment may have rows that a predicate delete matches, by their times."""
    first, last, column = segment.time_min, segment.time_max, state.table.time_column
    return may_hold(delete.predicate, column, first, last, exact=False)


def _changed_roots(before: State, after: State) -> frozenset[SegmentId]:
    """Return the roots of which other rows are deleted.

    Versions share most entries, in the same order: these are not looked up.
    """
    then, now = before.vectors, after.vectors
    pairs = zip_longest(then.items(), now.items(), fillvalue=(None, None))
    roots = {
        root for a, b in pairs if a[0] is not b[0] or a[1] is not b[1] for root in (a[0], b[0])
    }
    return frozenset(root for root in roots if root and then.get(root) != now.get(root))


def _pieces(state: State, interval: Interval | None) -> Iterator[Piece]:
    """Yield the pieces of a version in an interval."""
    for at, chunk in state.timeline.winning(interval):
        for group in _groups(state, chunk):
            yield from _shown_of(group.segments, at)


def _groups(state: State, chunk: AnyChunk) -> Iterable[Group]:
    """Return the groups of a chunk that are shown, by root."""
    visible = chunk.unpacked.visible
    return base_groups(visible) if state.table.kind.shows_base else visible


def _changed_groups(state: State, chunk: AnyChunk, before: AnyChunk | None) -> Iterable[Group]:
    """Return the groups of a chunk that are shown now and were not before."""
    if before is None or not state.table.kind.shows_base:
        visible = chunk.unpacked.visible
        return visible.without(before.unpacked.visible) if before else _groups(state, chunk)
    shown = {group.key: group for group in _groups(state, before)}
    return [group for group in _groups(state, chunk) if shown.get(group.key) != group]


def _shown_of(segments: Iterable[Segment], interval: Interval) -> Iterator[Piece]:
    """Yield the segments with rows in an interval."""
    for segment in segments:
        near = segment.time_min < interval.end and interval.start <= segment.time_max
        if segment.path and near:
            yield Piece(segment, interval)


def _looked_up(
    state: State, pieces: Iterable[Piece], split: Iterable[Piece]
) -> dict[str, ShownFile]:
    """Return the files of some pieces, and the files of ``split`` by all their pieces."""
    paths = {piece.segment.path for piece in split}
    found = [piece for piece in pieces if piece.segment.path not in paths]
    for region in joined(_times(piece.segment) for piece in split):
        found += (piece for piece in _pieces(state, region) if piece.segment.path in paths)
    return _files(state, found)


def _times(segment: Segment) -> Interval:
    """Return the interval of the event times of a segment's rows."""
    return Interval(segment.time_min, segment.time_max + 1)


def _files(state: State, pieces: Iterable[Piece]) -> dict[str, ShownFile]:
    """Return the files of pieces, by path."""
    whole: dict[str, Segment] = {}
    split: dict[str, list[Piece]] = {}
    for piece in pieces:
        if piece.whole:
            whole[piece.segment.path] = piece.segment
        else:
            split.setdefault(piece.segment.path, []).append(piece)
    files = {path: _file(state, segment, ()) for path, segment in whole.items()}
    for path, some in split.items():
        segment = min((piece.segment for piece in some), key=lambda each: each.id)
        times = _times(segment)
        left = joined(inside for each in some if (inside := times.clip(each.interval)))
        files[path] = _file(state, segment, () if left == (times,) else left)
    return files


def _file(state: State, segment: Segment, clips: tuple[Interval, ...]) -> ShownFile:
    return ShownFile(
        segment=segment,
        clips=clips,
        deletions=tuple(_deletions(state, segment)),
        predicates=tuple(
            each.predicate for each in state.erased(segment) if _may_match(state, segment, each)
        ),
        tombstones=state.table.kind.deletion.in_files,
    )


def _deletions(state: State, segment: Segment) -> Iterator[tuple[SegmentId, tuple[Deletion, ...]]]:
    """Yield the deletions of rows that a segment may hold: rows of a root lie in its time chunk."""
    for root, some in state.deletions(segment).items():
        if segment.time_min < root.interval.end and root.interval.start <= segment.time_max:
            yield root, some


# Statistics of footers
@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnStats:
    """Statistics of a top-level column in the footer of a file; None if it has none.

    Attributes:
        low: a lower bound of its values that are neither null nor NaN.
        high: an upper bound of them.
        nulls: the number of nulls.
        size: its compressed bytes.
        nan: whether there may be values that are not a number; no bound is one of these. A format
            whose readers count NaN as the greatest value must not state the bounds.
    """

    low: Any = None
    high: Any = None
    nulls: int | None = None
    size: int | None = None
    nan: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class FileStats:
    """Statistics in the footer of a file.

    Attributes:
        columns: by the ids of the columns in the schema that the file was written with.
        numbered: whether all its columns, nested ones too, carry ids.
        split_offsets: where its row groups begin.
        odd: why some of Iceberg's readers cannot read it although they find its columns; or empty.
    """

    columns: Mapping[int, ColumnStats] = field(default_factory=dict)
    numbered: bool = False
    split_offsets: tuple[int, ...] = ()
    odd: str = ""
