"""The state of a table: the sum of its events, and the changes that event families share.

1. State holds every published segment (visible or overshadowed) in the timeline, the layout of
   time, all pending plans, the last finished ones, the settled ids, recent overwrites and loads,
   and the ids of recent commits.
2. Only the fold changes it (``core.log.fold``).
3. *Recent overwrites*: the times whose rows they replaced, by which two overwrites notice each
   other. An overwrite replaces all rows of its time, so it must see those that another one wrote
   first, even if both found nothing to delete. Only overwrites that began before a recent one need
   these entries; so the newest ``KEPT`` suffice. An author that has missed more has to look again.
4. *Recent commits*: each event has one commit id, by which a committer recognises its own event.
   The ids of the newest ``keep`` events are kept, oldest first. Adding one costs O(sqrt(keep)),
   because old ids leave in bulk (``PersistentMap``).
5. *Loads* append the rows of a file in parts under one name, each row once. A load has the name of
   its commit id and its file. Its parts are appends: each has the rows from ``start`` to before
   ``end`` of the file's ``total``, and follows the part before it.
6. A part begins where the log says that the last one ended, whatever sizes parts had. So a load
   that is repeated with other parts, or that failed and was corrected, goes on after its last row.
7. A part records the checksum of all rows up to its end (``data.row_checksum``). So a repeat knows
   whether its file begins with the rows that are committed.
8. A load whose parts end at its total is complete: nothing is appended under its name any more.
9. The state has the last part of each load, as long as it has the ids of commits.
10. *Ids*: an id is *settled* once it is published, voided or burnt, and never used again. The ids
    of a chunk and generation are an ``IdSpace``: below ``next`` every id is settled except the
    *holes*, allocated to a writer that has not committed yet (or never will); the log names no id
    from ``next`` on. ``IdSpaces`` holds the spaces of a table: those at opening, and those changed
    since. Settling ids costs time by the spaces touched, finding holes by the number of spaces
    with holes.
11. A ``PersistentMap`` is a shared ``base`` that never changes, and a small ``delta`` over it. A
    change copies the delta; once that exceeds the square root of the base, both are merged into a
    new base. So a change among n entries costs O(sqrt(n)) on average. Iteration is in the order of
    first insertion, as in a ``dict``; two mappings are equal if their entries are.
12. Only the folds of event families call the changes that they share: ``publish`` (segments enter
    the timeline; their ids and those of their origins are settled), ``settle`` (ids are used up,
    whether or not a segment was published under them), ``void`` (no segment will ever be published
    under these ids) and ``delete_rows`` (event ``n`` deletes the rows of these vectors).
"""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any, TypeVar

from airflow_provider_segtable.core.consumer import Consumer
from airflow_provider_segtable.core.dataclass import dataclass, replace
from airflow_provider_segtable.core.deletion import (
    Deletion,
    PredicateDelete,
    VectorFile,
    Vectors,
    applying,
    with_file,
)
from airflow_provider_segtable.core.errors import CommitConflict
from airflow_provider_segtable.core.indexes.index_state import IndexState
from airflow_provider_segtable.core.locks import Generation
from airflow_provider_segtable.core.log.plan import PlanState
from airflow_provider_segtable.core.log_store.manifest import BucketManifest
from airflow_provider_segtable.core.segment import NO_BUCKET, ChunkKey, Segment, SegmentId
from airflow_provider_segtable.core.settlement import ReplacedVectors, Settlements
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.time import GranularityOverride, Instant, Interval, Layout, iso
from airflow_provider_segtable.core.timeline import Timeline


# Settled ids, and a mapping that changes cheaply
@dataclass(frozen=True, slots=True)
class IdSpace:
    """The settled ids of one chunk and generation."""

    next: int
    holes: frozenset[int] = frozenset()

    def free(self, partition: int) -> bool:
        """Return whether this id is not settled."""
        return partition >= self.next or partition in self.holes

    def settle(self, partitions: Collection[int]) -> "IdSpace":
        """Return the space with these ids settled; they may be settled already."""
        if not self.holes and max(partitions, default=0) < self.next:
            return self
        after, holes = self.next, set(self.holes)
        for partition in sorted(partitions):
            holes.update(range(after, partition))
            holes.discard(partition)
            after = max(after, partition + 1)
        return IdSpace(after, frozenset(holes))


SpaceKey = tuple[ChunkKey, Generation]


class IdSpaces(Mapping[SpaceKey, IdSpace]):
    """The id spaces of a table. Immutable: changes return a new one."""

    __slots__ = ("_before", "_changed", "_open")

    def __init__(
        self,
        spaces: Mapping[SpaceKey, IdSpace] | None = None,
        open_spaces: Iterable[SpaceKey] | None = None,
    ) -> None:
        """Wrap ``spaces``, which must not change from now on.

        Args:
            spaces: the spaces that the table is opened with.
            open_spaces: the keys of those with holes; computed if not given.
        """
        self._before: Mapping[SpaceKey, IdSpace] = {} if spaces is None else spaces
        self._changed: PersistentMap[SpaceKey, IdSpace] = PersistentMap()
        if open_spaces is None:
            open_spaces = (key for key, space in self._before.items() if space.holes)
        self._open = frozenset(open_spaces)

    def __getitem__(self, key: SpaceKey) -> IdSpace:
        """Return the space of a chunk and generation; the log must have named it."""
        return self._changed[key] if key in self._changed else self._before[key]

    def __iter__(self) -> Iterator[SpaceKey]:
        """Yield the keys in the order of their first appearance in the log."""
        yield from self._before
        yield from (key for key in self._changed if key not in self._before)

    def __len__(self) -> int:
        """Return the number of spaces."""
        return len(self._before) + sum(key not in self._before for key in self._changed)

    def __eq__(self, other: object) -> bool:
        """Compare as a mapping."""
        return isinstance(other, Mapping) and dict(self) == dict(other)

    __hash__ = None  # type: ignore[assignment]

    def of(self, chunk: ChunkKey, generation: Generation) -> IdSpace:
        """Return the space of a chunk and generation; empty if the log never named it."""
        return self.get((chunk, generation)) or IdSpace(generation.ids(chunk).start)

    @property
    def opened(self) -> Mapping[SpaceKey, IdSpace]:
        """Return the spaces that the table was opened with."""
        return self._before

    @property
    def changed(self) -> frozenset[ChunkKey]:
        """Return the chunks changed since opening."""
        return frozenset(chunk for chunk, _ in self._changed)

    @property
    def with_holes(self) -> frozenset[SpaceKey]:
        """Return the keys of the spaces with holes."""
        return self._open

    def settle(self, ids: Iterable[SegmentId]) -> "IdSpaces":
        """Return the spaces with these ids settled."""
        touched: dict[SpaceKey, list[int]] = {}
        for segment_id in ids:
            key = (segment_id.chunk, Generation.of(segment_id))
            touched.setdefault(key, []).append(segment_id.partition)
        changed = {key: self.of(*key).settle(parts) for key, parts in touched.items()}
        still_open = self._open.difference(k for k, space in changed.items() if not space.holes)
        opened = (key for key, space in changed.items() if space.holes)
        settled = IdSpaces(self._before, still_open.union(opened))
        settled._changed = self._changed.with_entries(changed)
        return settled

    def holes(self, generation: Generation) -> Iterator[SegmentId]:
        """Yield the holes of all spaces of a generation (rule 2)."""
        for key in sorted(self._open):
            if key[1] is generation:
                yield from map(key[0].segment, sorted(self[key].holes))


K = TypeVar("K")
V = TypeVar("V")

LEAST_DELTA = 32


class PersistentMap(Mapping[K, V]):
    """An immutable mapping; see the module."""

    __slots__ = ("_base", "_delta", "_length")

    def __init__(self, base: Mapping[K, V] | None = None) -> None:
        """Wrap ``base``, which must not change from now on."""
        self._base: Mapping[K, V] = {} if base is None else base
        self._delta: dict[K, V] = {}
        self._length = len(self._base)

    def __getitem__(self, key: K) -> V:
        """Return the value of a key."""
        return self._delta[key] if key in self._delta else self._base[key]

    def __iter__(self) -> Iterator[K]:
        """Yield the keys in the order of first insertion."""
        yield from self._base
        yield from (key for key in self._delta if key not in self._base)

    def __len__(self) -> int:
        """Return the number of entries."""
        return self._length

    def __contains__(self, key: object) -> bool:
        """Return whether the key is present."""
        return key in self._delta or key in self._base

    def __eq__(self, other: object) -> bool:
        """Return whether both have equal entries."""
        return isinstance(other, Mapping) and dict(self) == dict(other)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        """Return the number of entries."""
        return f"PersistentMap({self._length} entries)"

    def with_entries(
        self, entries: Mapping[K, V], keep: Callable[[V], bool] | None = None
    ) -> "PersistentMap[K, V]":
        """Return the mapping with entries added or replaced.

        Values that ``keep`` rejects are removed when the base is rebuilt, so some may stay for a
        while.
        """
        if not entries:
            return self
        delta = {**self._delta, **entries}
        if len(delta) ** 2 > max(len(self._base), LEAST_DELTA**2):
            merged = {**self._base, **delta}
            wanted = merged if keep is None else {k: v for k, v in merged.items() if keep(v)}
            return PersistentMap(wanted)
        changed: PersistentMap[K, V] = PersistentMap(self._base)
        changed._delta = delta
        changed._length = self._length + sum(key not in self for key in entries)
        return changed


# Recent overwrites, recent commits and loads
KEPT = 256
COMMITS_KEPT = 10_000
"""The number of events whose commit ids, and whose loads, are kept."""


@dataclass(frozen=True, slots=True)
class Overwritten:
    """Event ``n`` replaced the rows of these intervals; they are outer bounds."""

    n: int
    intervals: tuple[Interval, ...]


def rival(recent: tuple[Overwritten, ...], seen: int, intervals: tuple[Interval, ...]) -> int:
    """Return the newest event after ``seen`` that may have overwritten an interval, or 0."""
    since = [each for each in recent if each.n > seen]
    if intervals and len(since) == KEPT:
        return since[-1].n  # older ones are not recorded any more
    hits = (
        each.n
        for each in since
        if any(mine.overlaps(other) for mine in intervals for other in each.intervals)
    )
    return max(hits, default=0)


class RecentCommits(Mapping[str, int]):
    """Event numbers by commit id. Immutable: changes return a new one."""

    __slots__ = ("_entries", "_first")

    def __init__(self, entries: Mapping[str, int] | None = None, first: int = 0) -> None:
        """Wrap ``entries``; entries of events below ``first`` are ignored."""
        mapping = entries if isinstance(entries, PersistentMap) else PersistentMap(entries)
        self._entries: PersistentMap[str, int] = mapping
        self._first = first

    def __getitem__(self, commit: str) -> int:
        """Return the number of the event with this commit id."""
        n = self._entries[commit]
        if n < self._first:
            raise KeyError(commit)
        return n

    def __iter__(self) -> Iterator[str]:
        """Yield the commit ids, oldest first."""
        return (commit for commit, n in self._entries.items() if n >= self._first)

    def __len__(self) -> int:
        """Return the number of kept commit ids."""
        return sum(1 for _ in self)

    def __eq__(self, other: object) -> bool:
        """Compare as a mapping."""
        return isinstance(other, Mapping) and dict(self) == dict(other)

    __hash__ = None  # type: ignore[assignment]

    def added(self, commits: Mapping[str, int], n: int, keep: int) -> "RecentCommits":
        """Return the ids with those of later events, up to ``n``; the last ``keep`` are kept."""
        first = max(self._first, n - keep + 1)
        entries = self._entries.with_entries(commits, keep=lambda old: old >= first)
        return RecentCommits(entries, first)


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadPart:
    """The rows from ``start`` to before ``end`` of a load of ``total`` rows.

    ``checksum`` is that of the load's rows up to ``end``.
    """

    load: str
    start: int
    end: int
    total: int
    checksum: str

    def __str__(self) -> str:
        """Return e.g. ``rows 0 to 2 of 5 of load monday/trips.csv``, or ``all of load ...``."""
        if self.start == 0 and self.complete:
            return f"all of load {self.load}"
        return f"rows {self.start:,} to {self.end:,} of {self.total:,} of load {self.load}"

    @property
    def complete(self) -> bool:
        """Return whether the load ends with this part."""
        return self.end >= self.total


@dataclass(frozen=True, slots=True)
class LastPart:
    """The last part of a load, and the event that appended it."""

    n: int
    part: LoadPart


Loads = Mapping[str, LastPart]
"""The last parts of loads, by the names of these."""


def check_part(part: LoadPart | None, loads: Loads) -> None:
    """Refuse a part that does not follow the last one of its load.

    Raises:
        CommitConflict: the message says where the load goes on.
    """
    if part is None:
        return
    known = loads.get(part.load)
    end = known.part.end if known else 0
    if part.start != end or (known and known.part.complete):
        raise CommitConflict(
            f"load {part.load} goes on after row {end}, not {part.start}: another process carries "
            "it out, too: run the same command again"
        )


def with_part(loads: Loads, part: LoadPart, n: int, keep: int) -> Loads:
    """Return the loads after event ``n``; those of the last ``keep`` events stay."""
    recent = {name: each for name, each in loads.items() if each.n > n - keep}
    recent.pop(part.load, None)
    return {**recent, part.load: LastPart(n, part)}


def encode_part(part: LoadPart) -> list[Any]:
    """Return a part as JSON."""
    return [part.load, part.start, part.end, part.total, part.checksum]


def decode_part(body: Any) -> LoadPart:
    """Parse the output of ``encode_part``."""
    load, start, end, total, checksum = body
    return LoadPart(load=load, start=start, end=end, total=total, checksum=checksum)


def encode_loads(loads: Loads) -> list[Any]:
    """Return loads as JSON."""
    return [[each.n, *encode_part(each.part)] for each in loads.values()]


def decode_loads(body: Any) -> Loads:
    """Parse the output of ``encode_loads``."""
    found = [LastPart(n, decode_part(part)) for n, *part in body]
    return {each.part.load: each for each in found}


# The state, and the changes that event families share
@dataclass(frozen=True, slots=True, kw_only=True)
class State:
    """The state of a table at event ``n``.

    Attributes:
        n: the newest event.
        time: its time.
        base_version: the version of all chunks before any compaction: the time of the first event.
        table: the definition.
        timeline: all published segments, visible or overshadowed.
        overrides: the intervals with another granularity than the table's.
        plans: all pending plans and the last finished ones, by id.
        ids: the settled ids.
        voided: partitions under which no segment will ever be published, by chunk.
        commits: the ids of recent commits.
        retained_from: the oldest version that is kept for its age.
        tags: versions that are kept by name.
        pending_delete: paths of unneeded files that the log does not record as deleted yet.
        vectors: the deletions that readers may need, by root.
        predicate_deletes: those of a rollup table.
        vectors_pruned_through: the newest event of which a cleaning removed vectors, or a restore
            undid them.
        overwritten: the times that recent overwrites and restores replaced, oldest first.
        consumers: readers with positions, by name.
        indexes: the indexes, by name.
        log_store: the committed part of each bucket of the log store.
        loads: the last parts of recent loads.
        settled: the newest settlement of each file group of a primary-key table.
        replaced_vectors: vector files of settlements that earlier versions may use.
        dropped: whether the event dropped the table: none follows.
        adopts: whether the table ever had a file that another program wrote.
        joined: the first and the last number of the events in the file of event ``n``, if ``n`` is
            not the last one there: the next number is taken, although no file has it as its name.
    """

    n: int
    time: Instant
    base_version: Instant
    table: TableDefinition
    timeline: Timeline
    overrides: tuple[GranularityOverride, ...] = ()
    plans: Mapping[str, PlanState] = field(default_factory=dict)
    ids: IdSpaces = field(default_factory=IdSpaces)
    voided: Mapping[ChunkKey, frozenset[int]] = field(default_factory=dict)
    commits: RecentCommits = field(default_factory=RecentCommits)
    retained_from: int = 0
    tags: Mapping[str, int] = field(default_factory=dict)
    pending_delete: frozenset[str] = frozenset()
    vectors: Vectors = field(default_factory=dict)
    predicate_deletes: tuple[PredicateDelete, ...] = ()
    vectors_pruned_through: int = 0
    overwritten: tuple[Overwritten, ...] = ()
    consumers: Mapping[str, Consumer] = field(default_factory=dict)
    indexes: Mapping[str, IndexState] = field(default_factory=dict)
    log_store: Mapping[int, BucketManifest] = field(default_factory=dict)
    loads: Loads = field(default_factory=dict)
    settled: Settlements = field(default_factory=dict)
    replaced_vectors: tuple[ReplacedVectors, ...] = ()
    dropped: bool = False
    adopts: bool = False
    joined: tuple[int, int] | None = None

    def __repr__(self) -> str:
        """Return the table and the event number; a large table's contents fill megabytes."""
        return f"State({self.table.name!r}, n={self.n}, time={iso(self.time)})"

    def keeps(self, n: int) -> bool:
        """Return whether version ``n`` can be read: it is retained or tagged."""
        return self.retained_from <= n <= self.n or n in self.tags.values()

    def deletions(self, segment: Segment) -> Mapping[SegmentId, tuple[Deletion, ...]]:
        """Return the deletions that a reader of the segment has to apply, by root."""
        return applying(segment, self.vectors)

    def erased(self, segment: Segment) -> tuple[PredicateDelete, ...]:
        """Return the predicate deletes that a reader of the segment has to apply."""
        return tuple(
            each for each in self.predicate_deletes if each.n > segment.deletes_applied_through
        )

    def id_space(self, chunk: ChunkKey, generation: Generation) -> IdSpace:
        """Return the id space of a chunk and generation."""
        return self.ids.of(chunk, generation)

    def pending_plans(self) -> tuple[PlanState, ...]:
        """Return the plans that still claim their inputs, oldest first."""
        return tuple(p for p in self.plans.values() if p.status.pending)

    @property
    def layout(self) -> Layout:
        """Return the layout of time chunks."""
        return self.table.layout(self.overrides)

    def append_chunk(self, interval: Interval, bucket: int = NO_BUCKET) -> ChunkKey:
        """Return the chunk for new segments of an interval, at its visible version or the base.

        A tombstone that encloses the interval counts, because it would hide a lower version.
        """
        chunks = self.timeline.visible_chunks(interval)
        versions = (
            c.version for c in chunks if c.bucket == bucket and c.interval.encloses(interval)
        )
        return ChunkKey(interval, max(versions, default=self.base_version), bucket)

    def version_above(self, interval: Interval) -> Instant:
        """Return the highest used version of the interval; a new one must be higher."""
        present = (chunk.version for chunk in self.timeline.chunk_keys(interval))
        promised = (
            p.version
            for p in self.plans.values()
            if p.version and p.plan.interval.overlaps(interval)
        )
        return max((self.base_version, *present, *promised))


def index_of(index: str, state: State) -> IndexState | None:
    """Return the state of an index, by its id; None if it was dropped."""
    found = (each for each in state.indexes.values() if each.definition.id == index)
    return next(found, None)


def publish(state: State, segments: Sequence[Segment]) -> State:
    """Return the state with segments in the timeline."""
    ids = (segment.id for segment in segments)
    # An origin may be a root. A provisional one is no number of the chunk.
    origins = (s.origin for s in segments if s.origin and not s.origin.provisional)
    settled = state.ids.settle((*ids, *origins))
    return replace(
        state,
        ids=settled,
        timeline=state.timeline.with_changes(add=segments),
        adopts=state.adopts or any(segment.adopted for segment in segments),
    )


def settle(state: State, ids: Iterable[SegmentId]) -> State:
    """Return the state with ids settled."""
    return replace(state, ids=state.ids.settle(ids))


def void(state: State, ids: tuple[SegmentId, ...]) -> State:
    """Return the state with ids voided."""
    voided = dict(state.voided)
    for segment_id in ids:
        chunk = segment_id.chunk
        voided[chunk] = voided.get(chunk, frozenset()) | {segment_id.partition}
    return replace(state, voided=voided)


def delete_rows(state: State, files: Iterable[VectorFile], n: int) -> State:
    """Return the state with the deletions of event ``n``."""
    vectors = state.vectors
    for file in files:
        vectors = with_file(vectors, n, file)
    return replace(state, vectors=vectors)
