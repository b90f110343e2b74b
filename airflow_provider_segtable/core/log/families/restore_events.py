"""Restore: the table shows the rows of an earlier version again, by one event.

1. What the version showed is *carried over* to a new version of its time chunks: other ids, the
   same files (``Segment.carried``). Tombstones hide the rest. Nothing leaves the timeline, so all
   kept versions stay readable, and cleaning goes by its ordinary rules.
2. Regions of time that show the same rows now as then are left alone: the same files, with the
   same deletions. So a restore of what was restored already changes nothing.
3. Deletions of later events do not apply to carried segments: their ``deletes_applied_through`` is
   raised. Deletions that the version had, but its segments had not applied, are recorded again
   under the restore's event. A rollup table has the version's predicate deletes again, also those
   that an earlier restore dropped; the event has them only if those of the newest state up to the
   version are others.
4. Where a restored chunk had segments without rows, these are carried over, too: they tell the
   balance check that deleted rows were left out there.
5. A base that is whole stays one (``core.segment``): what was merged, or rolled up, is so
   under other ids. All else is beside it, as it was.
6. The granularity overrides are those of the version. The definition, tags and ids stay.
7. Pending plans whose interval overlaps a restored region are aborted: their inputs are hidden.
8. Every row change that its author began before the restore is refused if it deletes rows: its
   author has to look again (``State.vectors_pruned_through``). So is every overwrite of a restored
   region (``State.overwritten``).
9. The log store's buckets end where they did in the version, in a new epoch (``log_store_events``).
10. *Admission*: the author names the version and what it showed. What changes is found out against
   the newest state: an event before the restore is undone, one after it is kept. Refused if the
   version is no longer kept, a repair took or changed one of its segments, or parts of one root's
   rows have applied different deletions (``_uneven``).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.deletion import Deletion, PredicateDelete, VectorFile
from airflow_provider_segtable.core.locks import Generation
from airflow_provider_segtable.core.log.event import Conflict, Stamp, made
from airflow_provider_segtable.core.log.event_kind import (
    EventKind,
    own_segments,
    rows_differ,
    whole_table,
)
from airflow_provider_segtable.core.log.families import log_store_events
from airflow_provider_segtable.core.log.plan import PlanState, PlanStatus
from airflow_provider_segtable.core.log.replacement import hidden_by_equals, tombstones
from airflow_provider_segtable.core.log.state import KEPT, Overwritten, State, delete_rows, publish
from airflow_provider_segtable.core.log_store.manifest import (
    BucketManifest,
    decode_manifests,
    encode_manifests,
)
from airflow_provider_segtable.core.predicate import decode_predicate, encode_predicate
from airflow_provider_segtable.core.segment import (
    ChunkKey,
    Segment,
    SegmentId,
    base_of,
    base_restored,
)
from airflow_provider_segtable.core.segment_codec import (
    Json,
    decode_segments,
    decode_vectors,
    encode_segments,
    encode_vectors,
)
from airflow_provider_segtable.core.tables.table_kind import DeletionForm
from airflow_provider_segtable.core.time import (
    GranularityOverride,
    Instant,
    Interval,
    Layout,
    decode_overrides,
    encode_overrides,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionRestored:
    """The rows of an earlier version are visible again.

    Attributes:
        version: the restored version.
        segments: as requested, all segments that the version showed; as committed, those of changed
            regions under their new ids, and tombstones.
        vectors: as committed, the deletions that the carried segments have not applied.
        overrides: the version's granularity overrides.
        log_store: the buckets of the log store as of the version.
        erased: the version's predicate deletes; as committed, None if those of the state before the
            event, up to the version, are the same, and in events of older segtables.
    """

    version: int
    segments: tuple[Segment, ...]
    vectors: tuple[VectorFile, ...] = ()
    overrides: tuple[GranularityOverride, ...] = ()
    log_store: Mapping[int, BucketManifest] = field(default_factory=dict)
    erased: tuple[PredicateDelete, ...] | None = None


def _encode(action: VersionRestored) -> Json:
    erased = (
        None
        if action.erased is None
        else [[e.n, encode_predicate(e.predicate)] for e in action.erased]
    )
    return {
        "version": action.version,
        "segments": encode_segments(action.segments),
        "vectors": [encode_vectors(file) for file in action.vectors],
        "zones": encode_overrides(action.overrides),
        **({"log_store": encode_manifests(action.log_store)} if action.log_store else {}),
        **({} if erased is None else {"erased": erased}),
    }


def _decode(body: Mapping[str, Any]) -> VersionRestored:
    erased = (
        PredicateDelete(n=n, predicate=decode_predicate(each)) for n, each in body.get("erased", ())
    )
    return VersionRestored(
        version=body["version"],
        segments=decode_segments(body["segments"]),
        vectors=tuple(map(decode_vectors, body["vectors"])),
        overrides=decode_overrides(body["zones"]),
        log_store=decode_manifests(body.get("log_store", ())),
        erased=tuple(erased) if "erased" in body else None,
    )


def restoration(old: State) -> VersionRestored:
    """Return the request to restore a version."""
    return VersionRestored(
        version=old.n,
        segments=old.timeline.visible_segments(),
        overrides=old.overrides,
        log_store=old.log_store,
        erased=old.predicate_deletes,
    )


def _restored(state: State, action: VersionRestored, at: Stamp) -> State:
    regions = {segment.id.interval for segment in action.segments}
    note = f"version {action.version} was restored"
    replaced = Overwritten(at.n, tuple(sorted(regions)))
    undone = replace(
        state,
        overwritten=(*state.overwritten, replaced)[-KEPT:],
        overrides=action.overrides,
        predicate_deletes=_erased(action, state),
        vectors_pruned_through=at.n,
        plans={i: _ended(plan, regions, note, at) for i, plan in state.plans.items()},
        log_store=log_store_events.restored(state, action.log_store, action.version, at.n),
    )
    segments = tuple(_with_bases(action.segments, state))
    return delete_rows(publish(undone, segments), action.vectors, at.n)


def _erased(action: VersionRestored, state: State) -> tuple[PredicateDelete, ...]:
    """Return the version's predicate deletes."""
    if action.erased is not None:
        return action.erased
    return tuple(each for each in state.predicate_deletes if each.n <= action.version)


def _with_bases(segments: Sequence[Segment], state: State) -> Iterator[Segment]:
    """Yield restored segments in their bases, also if an older segtable wrote the event."""
    if any(segment.shard.base and segment.rows for segment in segments):
        yield from segments
        return
    for chunk, some in _by_chunk(segments, lambda segment: segment.id.chunk).items():
        befores = (
            each.segments()
            for each in state.timeline.chunks(chunk.interval)
            if each.key.place == chunk.place and each.key != chunk
        )
        size = max((base_restored(some, present) for present in befores), default=0)
        yield from (_in_base(segment, at, size) for at, segment in enumerate(some))


def _in_base(segment: Segment, at: int, size: int) -> Segment:
    """Return the segment at a place of its chunk, of which the first ``size`` are a base."""
    return replace(segment, shard=replace(segment.shard, base=size)) if at < size else segment


def _by_chunk(
    segments: Iterable[Segment], chunk_of: Callable[[Segment], ChunkKey]
) -> dict[ChunkKey, list[Segment]]:
    found: dict[ChunkKey, list[Segment]] = {}
    for segment in segments:
        found.setdefault(chunk_of(segment), []).append(segment)
    return found


def _ended(plan: PlanState, regions: Iterable[Interval], note: str, at: Stamp) -> PlanState:
    touched = plan.status.pending and any(plan.plan.interval.overlaps(each) for each in regions)
    return plan.finished(PlanStatus.ABORTED, note, at) if touched else plan


def admit(action: VersionRestored, state: State) -> VersionRestored | Conflict:
    """Return what the restore changes in this state, or the conflict that forbids it."""
    if not state.keeps(action.version):
        kept = f"kept are {state.retained_from} to {state.n}, and tagged versions"
        return Conflict(reason=f"version {action.version} was cleaned: {kept}")
    for segment in action.segments:
        if state.timeline.get(segment.id) != segment:
            return Conflict(
                reason=f"version {action.version} showed {segment.id}, which a repair has "
                "removed or changed since; choose a version after the repair"
            )
    layout = state.table.layout(action.overrides)
    changed = tuple(changes(action, state, layout))
    refused = _uneven(changed, action.version, state)
    if refused:
        return refused
    segments = tuple(_carried(changed, action.version, state))
    for segment, winner in hidden_by_equals(segments):
        return Conflict(
            reason=f"chunks of version {action.version} overlap: {winner} would hide rows of "
            f"{segment.id}; read the version and write its rows again"
        )
    vectors = _waiting([s for c in changed for s in c.then], action.version, state)
    known = _erased(replace(action, erased=None), state)
    erased = None if action.erased == known else action.erased
    return replace(action, segments=segments, vectors=vectors, erased=erased)


def changes_anything(action: VersionRestored, state: State) -> bool:
    """Return whether an admitted restore changes what readers of the newest state see."""
    erased = _erased(action, state) != state.predicate_deletes
    truncated = log_store_events.ends(action.log_store, state) != log_store_events.ends(
        state.log_store, state
    )
    return bool(action.segments) or erased or truncated or action.overrides != state.overrides


@dataclass(frozen=True, slots=True, kw_only=True)
class RegionChange:
    """A region of time whose rows differ, and the segments that the version showed there."""

    region: Interval
    then: tuple[Segment, ...]


def changes(action: VersionRestored, state: State, layout: Layout) -> Iterator[RegionChange]:
    """Yield the regions that a restore changes; ``layout`` is the one of the version."""
    chunks = {segment.id.interval for segment in action.segments}
    chunks.update(chunk.interval for chunk in state.timeline.visible_chunks())
    by_start = sorted(action.segments, key=lambda segment: segment.id.interval.start)
    at = 0
    for region in _regions(chunks, layout):
        first = at
        while at < len(by_start) and by_start[at].id.interval.start < region.end:
            at += 1
        then = tuple(by_start[first:at])
        now = state.timeline.visible_segments(region)
        recut = layout.cuts(region) != state.layout.cuts(region)
        if recut or _differ(then, now, action, state):
            yield RegionChange(region=region, then=then)


def _regions(chunks: Iterable[Interval], layout: Layout) -> Iterator[Interval]:
    """Yield disjoint regions that split neither these chunks nor those of a layout."""
    held: Interval | None = None
    for chunk in sorted(_widened(chunk, layout) for chunk in chunks):
        if held and chunk.start < held.end:
            held = Interval(held.start, max(held.end, chunk.end))
            continue
        if held:
            yield held
        held = chunk
    if held:
        yield held


def _widened(region: Interval, layout: Layout) -> Interval:
    before = None
    while region != before:
        before = region
        for cut in (layout.chunk(region.start), layout.chunk(region.end - 1)):
            region = Interval(min(region.start, cut.start), max(region.end, cut.end))
    return region


def _differ(
    then: Sequence[Segment], now: Sequence[Segment], action: VersionRestored, state: State
) -> bool:
    """Return whether readers see other rows: by files, and by the deletions that apply to them."""
    old = replace(state, predicate_deletes=_erased(action, state))
    before = {_shown(s, _pending(s, action.version, state), old) for s in then if s.rows}
    return before != {_shown(s, state.deletions(s), state) for s in now if s.rows}


def _shown(
    segment: Segment, deletions: Mapping[SegmentId, Iterable[Deletion]], state: State
) -> tuple[str, frozenset[tuple[SegmentId, str]], frozenset[int]]:
    """Return a segment's file and what hides rows of it in a version; none depends on its id."""
    vectors = ((root, each.path) for root, some in deletions.items() for each in some)
    erased = (each.n for each in state.erased(segment))
    return segment.path, frozenset(vectors), frozenset(erased)


def _pending(segment: Segment, version: int, state: State) -> dict[SegmentId, list[Deletion]]:
    """Return the deletions that the version had and the segment had not applied, by root."""
    found = {
        root: [each for each in some if each.n <= version]
        for root, some in state.deletions(segment).items()
    }
    return {root: some for root, some in found.items() if some}


def _waiting(segments: Iterable[Segment], version: int, state: State) -> tuple[VectorFile, ...]:
    """Return the vector files of all these deletions, with the roots that still need them."""
    files: dict[str, tuple[Deletion, dict[SegmentId, int]]] = {}
    for segment in segments:
        for root, some in _pending(segment, version, state).items():
            for each in some:
                files.setdefault(each.path, (each, {}))[1][root] = each.rows
    return tuple(
        VectorFile(path=path, size=0, rows=rows, checksum=first.checksum)
        for path, (first, rows) in sorted(files.items())
    )


def _uneven(changed: Iterable[RegionChange], version: int, state: State) -> Conflict | None:
    """Refuse if a compaction's balance could not tell which rows are deleted afterwards.

    A carried segment has applied all recorded deletions, or none. So a root whose rows are spread
    over segments that had applied different ones cannot be carried over.
    """
    for change in changed:
        by_root: dict[SegmentId, tuple[Segment, frozenset[int]]] = {}
        pending = {s.id: _pending(s, version, state) for s in change.then}
        roots = {root for some in pending.values() for root in some}
        for segment in change.then:
            for root in (root for root in roots if segment.may_hold(root)):
                mine = frozenset(each.n for each in pending[segment.id].get(root, ()))
                other, theirs = by_root.setdefault(root, (segment, mine))
                if mine != theirs and pending[segment.id] and pending[other.id]:
                    return Conflict(
                        reason=f"in version {version}, {segment.id} and {other.id} had applied "
                        f"different deletes to rows of {root}; read the version and write its "
                        "rows again"
                    )
    return None


def _carried(changed: Sequence[RegionChange], version: int, state: State) -> Iterator[Segment]:
    """Yield the segments of each region under their new ids, and tombstones."""
    above = _new_version(changed, state)
    for change in changed:
        members = _by_chunk(change.then, lambda s: ChunkKey(s.id.interval, above, s.id.bucket))
        filled = {c: some for c, some in members.items() if any(s.rows for s in some)}
        for chunk, some in filled.items():
            size = len(base_of(some))
            for partition, segment in enumerate(some):
                carried = segment.carried(chunk.segment(partition), len(some))
                inside = _in_base(carried, partition, size)
                yield _undeleted(inside, segment, version, state)
        for bucket in _buckets(change, state):
            covered = [chunk.interval for chunk in filled if chunk.bucket == bucket]
            yield from tombstones(change.region, covered, above, state.time, bucket)


def _buckets(change: RegionChange, state: State) -> set[int]:
    """Return the buckets that have rows in the region, then or now."""
    now = state.timeline.visible_chunks(change.region)
    return {s.id.bucket for s in change.then} | {chunk.bucket for chunk in now}


def _undeleted(carried: Segment, segment: Segment, version: int, state: State) -> Segment:
    """Return the carried segment without the deletions of events after the version (rule 3)."""
    match state.table.kind.deletion:
        case DeletionForm.PREDICATE | DeletionForm.TOMBSTONES:
            return carried
        case DeletionForm.VECTORS:
            waits = bool(_pending(segment, version, state))
            return replace(carried, deletes_applied_through=state.n if waits else state.n + 1)


def _new_version(changed: Iterable[RegionChange], state: State) -> Instant:
    """Return a version above all versions of these regions, whose ids nobody used."""
    changed = tuple(changed)
    above = max((state.version_above(each.region) for each in changed), default=0)
    version = max(state.time, above) + 1
    chunks = {(s.id.interval, s.id.bucket) for each in changed for s in each.then}
    while any(_used(ChunkKey(i, version, bucket), state) for i, bucket in chunks):
        version += 1
    return version


def _used(chunk: ChunkKey, state: State) -> bool:
    return state.id_space(chunk, Generation.FIRST).next > chunk.numbering.first.start


KINDS = (
    EventKind(
        type=VersionRestored,
        name="VersionRestored",
        apply=_restored,
        admit=admit,
        segments=own_segments,
        effects=lambda action: rows_differ(s.id.interval for s in action.segments),
        touches=whole_table,
        encode=_encode,
        decode=_decode,
        line=lambda action: f"version {action.version} again: {made(action.segments)}",
    ),
)
