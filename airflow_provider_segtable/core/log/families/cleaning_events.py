"""Cleaning: which segments may leave the table, and how their files are deleted.

1. ``Cleaned``: segments leave the timeline. Their files are *pending delete* until ``Swept``,
   unless another present segment shares the file. Deletions that no present segment needs leave
   with them (``core.deletion``), and so do settlements of file groups with such segments, and
   their vector files (``core.settlement``).
2. ``Swept``: files that were pending delete are deleted.

A segment may be cleaned iff

1. it is hidden for good: its group is overshadowed now (not merely waiting for missing members);
2. no kept version shows it, neither a retained nor a tagged one. If it was present and hidden at
   the oldest retained version, only a repair can have made it visible since. So it is enough to
   check that version, and each version right after a repair;
3. no pending plan names it, as planned or as found;
4. all of its atomic update group may be cleaned: a group is never left in part;
5. it has rows, or no segment of a lower version is present below it: a tombstone outlives the
   segments it hides.

What readers of published versions need stays, too; nothing rests on that, because files are asked
for once more before they are deleted (``services.cleaning``).

*Admission*: rules 1, 3, 4 and 5 are checked again against the state at commit, and ids that are
needed now, or gone, are dropped. Rule 2 cannot change except by tags and consumers: a cleaning is
refused if a version was tagged that its author had not read, or if a consumer would lose a position
by it that its author had not read. A sweep drops paths that another writer swept.

Source of the idea: Hudi's cleaner and Paimon's snapshot expiry, and the lessons of their bugs:
remove the name first and the data last; unless all protected files are known, delete nothing.
"""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from enum import StrEnum

from airflow_provider_segtable.core.consumer import known_consumer_name
from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.deletion import PredicateDelete, needed, newest, paths
from airflow_provider_segtable.core.log.event import Conflict, Stamp
from airflow_provider_segtable.core.log.event_kind import (
    EventKind,
    intervals_of_ids,
    no_interval,
    nothing,
)
from airflow_provider_segtable.core.log.families.consumer_events import needed_from
from airflow_provider_segtable.core.log.families.tag_events import decode_tags
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.paths import named_path
from airflow_provider_segtable.core.segment import ChunkKey, Segment, SegmentId
from airflow_provider_segtable.core.segment_codec import decode_ids, encode_ids
from airflow_provider_segtable.core.settlement import vector_paths, without_files
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.core.timeline import Group, GroupState, Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleaned:
    """Segments that no kept version shows leave the timeline; their files are pending delete.

    Versions below ``retained_from`` can no longer be read, unless tagged. ``tags`` are the tags
    that the cleaner had read: versions by name; ``consumers`` are the consumers' positions that it
    had read and does not keep: versions by name.
    """

    retained_from: int
    ids: tuple[SegmentId, ...]
    tags: Mapping[str, int] = field(default_factory=dict)
    consumers: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class Swept:
    """Files that were pending delete are deleted."""

    paths: tuple[str, ...]


def _swept(state: State, action: Swept, _: Stamp) -> State:
    return replace(state, pending_delete=state.pending_delete.difference(action.paths))


def _admit_sweep(action: Swept, state: State) -> Swept | Conflict:
    left = tuple(path for path in action.paths if path in state.pending_delete)
    return Swept(paths=left) if left else Conflict(reason="others swept these files")


def _admit_cleaning(action: Cleaned, state: State) -> Cleaned | Conflict:
    unknown = sorted(state.tags.items() - action.tags.items())
    if unknown:
        name, n = unknown[0]
        return Conflict(reason=f"version {n} was tagged {name!r} meanwhile; look again")
    for name, n in passed_over(state, action.retained_from).items():
        if action.consumers.get(name) != n:
            return Conflict(reason=f"consumer {name!r} came to version {n} meanwhile; look again")
    ids = still_cleanable(action.ids, state)
    older = action.retained_from <= state.retained_from
    if not ids and older and not forgettable(state):
        return Conflict(reason="others cleaned all of this meanwhile")
    return replace(action, ids=ids)


def passed_over(state: State, retained_from: int) -> dict[str, int]:
    """Return the consumers that would lose their position if versions were kept from there on.

    Consumers that have lost it already are not among them.
    """
    lost = range(state.retained_from, retained_from)
    needed = {name: needed_from(state, each) for name, each in state.consumers.items()}
    return {name: n for name, n in needed.items() if n in lost}


def _cleaned(state: State, action: Cleaned, _: Stamp) -> State:
    gone = [segment for i in action.ids if (segment := state.timeline.get(i))]
    timeline = state.timeline.with_changes(remove=action.ids)
    shared = {segment.path for segment in _around((s.id.interval for s in gone), timeline)}
    pending_delete = {segment.path for segment in gone if segment.path} - shared
    left = replace(
        state,
        timeline=timeline,
        pending_delete=state.pending_delete | pending_delete,
        retained_from=max(state.retained_from, action.retained_from),
        log_store={
            bucket: known.pruned(action.retained_from) for bucket, known in state.log_store.items()
        },
    )
    settled = without_files(left.settled, action.ids)
    return _forgetting(_without_vectors(replace(left, settled=settled), before=state))


def _without_vectors(state: State, before: State) -> State:
    """Return the state with vector files of settlements given up that no kept version uses."""
    tags = state.tags.values()
    left = tuple(e for e in state.replaced_vectors if e.needed(state.retained_from, tags))
    had = vector_paths(before.settled).union(each.path for each in before.replaced_vectors)
    has = vector_paths(state.settled).union(each.path for each in left)
    if had == has:
        return state
    return replace(state, replaced_vectors=left, pending_delete=state.pending_delete | (had - has))


def _forgetting(state: State) -> State:
    """Return the state with deletions pruned that no present segment needs."""
    if not state.vectors and not state.predicate_deletes:
        return state
    holders = _around((root.interval for root in state.vectors), state.timeline)
    vectors = needed(state.vectors, (segment for segment in holders if segment.rows))
    predicate_deletes = state.predicate_deletes and _waiting(state)
    dropped = {r: set(some) - set(vectors.get(r, ())) for r, some in state.vectors.items()}
    last = newest({root: tuple(some) for root, some in dropped.items()})
    return replace(
        state,
        vectors=vectors,
        predicate_deletes=predicate_deletes,
        pending_delete=state.pending_delete | (paths(state.vectors) - paths(vectors)),
        vectors_pruned_through=max(state.vectors_pruned_through, last),
    )


def _around(intervals: Iterable[Interval], timeline: Timeline) -> Iterator[Segment]:
    """Yield the segments of every chunk that overlaps an interval, each once.

    These include all segments that share a carried file or have rows of a root, because the rows
    of a file or root lie inside each chunk that they belong to.
    """
    chunks = {chunk.key: chunk for each in set(intervals) for chunk in timeline.chunks(each)}
    return (segment for chunk in chunks.values() for segment in chunk.segments())


def _waiting(state: State) -> tuple[PredicateDelete, ...]:
    """Return the predicate deletes that are not applied yet in some present segment."""
    found = (chunk.summary.least_purged for chunk in state.timeline.chunks())
    least = min(
        (
            deletes_applied_through
            for deletes_applied_through in found
            if deletes_applied_through is not None
        ),
        default=state.n,
    )
    return tuple(each for each in state.predicate_deletes if each.n > least)


def forgettable(state: State, retained_from: int = 0) -> bool:
    """Return whether a cleaning would give up vectors, even without removing a segment.

    Args:
        state: the newest version.
        retained_from: the oldest version that it keeps for its age; at least that of the state.
    """
    kept = replace(state, retained_from=max(state.retained_from, retained_from))
    after = _forgetting(_without_vectors(kept, before=state))
    return (after.vectors, after.predicate_deletes, after.replaced_vectors) != (
        *(state.vectors, state.predicate_deletes),
        state.replaced_vectors,
    )


class Keep(StrEnum):
    """Why a hidden segment stays."""

    RECENT = "a version within retention shows it"
    TAGGED = "a tagged version shows it"
    PUBLISHED = "a version published in another format shows it"
    CLAIMED = "a pending plan names it"
    STANDBY = "it waits for the rest of its group or chunk"
    GROUP = "another segment of its group stays"
    BELOW = "it hides something of a lower version that stays"


@dataclass(frozen=True, slots=True, kw_only=True)
class Cleanable:
    """The cleanable segments as of ``retained_from``, and why other hidden ones are kept."""

    retained_from: int
    segments: tuple[Segment, ...] = ()
    kept: Mapping[SegmentId, Keep] = field(default_factory=dict)

    @property
    def ids(self) -> tuple[SegmentId, ...]:
        """Return the ids of the cleanable segments."""
        return tuple(segment.id for segment in self.segments)


def cleanable(
    head: State,
    *,
    retained: Sequence[State],
    tagged: Sequence[State] = (),
    published: Container[str] = (),
    hidden: Sequence[Segment] | None = None,
) -> Cleanable:
    """Return the segments that may be cleaned.

    Args:
        head: the newest state.
        retained: the oldest version to keep, then every later version right after a repair.
        tagged: the tagged versions.
        published: files that readers of published versions need.
        hidden: the hidden segments, if they are known.
    """
    oldest = retained[0]
    reasons: dict[SegmentId, Keep] = {}
    hidden = [*head.timeline.hidden_segments()] if hidden is None else hidden
    chunks = {segment.id.chunk for segment in hidden}
    shown = {s.id for state in retained for s in state.timeline.visible_among(chunks)}
    named = {s.id for state in tagged for s in state.timeline.visible_among(chunks)}
    for segment in hidden:
        if segment.id not in oldest.timeline or segment.id in shown:
            reasons[segment.id] = Keep.RECENT
        elif segment.id in named:
            reasons[segment.id] = Keep.TAGGED
        elif segment.path in published:
            reasons[segment.id] = Keep.PUBLISHED
    free = [segment for segment in hidden if segment.id not in reasons]
    reasons |= _must_stay(free, head)
    gone = tuple(segment for segment in free if segment.id not in reasons)
    return Cleanable(retained_from=oldest.n, segments=gone, kept=reasons)


def still_cleanable(ids: Iterable[SegmentId], state: State) -> tuple[SegmentId, ...]:
    """Return the ids that are present and may be cleaned by rules 1, 3, 4 and 5."""
    present = [segment for i in ids if (segment := state.timeline.get(i))]
    kept = _must_stay(present, state)
    return tuple(segment.id for segment in present if segment.id not in kept)


def _must_stay(segments: Sequence[Segment], state: State) -> dict[SegmentId, Keep]:
    """Return the segments that must stay if all others are cleaned, with the reason."""
    claimed = _claimed(state)
    going = {segment.id: segment for segment in segments}
    kept = {i: Keep.CLAIMED for i in going if i in claimed}
    waiting = _not_overshadowed(going.values(), state)
    kept |= {i: Keep.STANDBY for i in waiting if i in going and i not in kept}
    kept |= _torn(going, kept, state)
    kept |= _covering(going, kept, state)
    return kept


def _claimed(state: State) -> frozenset[SegmentId]:
    return frozenset(i for p in state.pending_plans() for i in (*p.plan.inputs, *p.found))


def _groups(segments: Iterable[Segment], state: State) -> Iterator[tuple[ChunkKey, list[Group]]]:
    """Yield the groups of the segments, by chunk."""
    wanted: dict[ChunkKey, set[object]] = {}
    for segment in segments:
        wanted.setdefault(segment.id.chunk, set()).add(segment.shard.group)
    for chunk, keys in wanted.items():
        yield chunk, [group for group in state.timeline.groups(chunk) if group.key in keys]


def _not_overshadowed(segments: Iterable[Segment], state: State) -> Iterator[SegmentId]:
    for chunk, groups in _groups(segments, state):
        states = state.timeline.states(chunk, (group.key for group in groups))
        for group, found in zip(groups, states, strict=True):
            if found is not GroupState.OVERSHADOWED:
                yield from (segment.id for segment in group.segments)


def _torn(
    going: Mapping[SegmentId, Segment], kept: Mapping[SegmentId, Keep], state: State
) -> dict[SegmentId, Keep]:
    torn: dict[SegmentId, Keep] = {}
    for group in (group for _, some in _groups(going.values(), state) for group in some):
        members = [segment.id for segment in group.segments]
        if any(i not in going or i in kept for i in members):
            torn |= {i: Keep.GROUP for i in members if i in going and i not in kept}
    return torn


def _covering(
    going: Mapping[SegmentId, Segment], kept: Mapping[SegmentId, Keep], state: State
) -> dict[SegmentId, Keep]:
    """Return tombstones that must stay, from the lowest version up.

    The order keeps a tombstone that lies over another kept tombstone.
    """
    covering: dict[SegmentId, Keep] = {}
    dead = (s for i, s in going.items() if s.tombstone and i not in kept)
    for segment in sorted(dead, key=lambda s: s.id.version):
        below = (
            other.id
            for other in state.timeline.segments(segment.id.interval)
            if other.id.version < segment.id.version
        )
        if any(i not in going or i in kept or i in covering for i in below):
            covering[segment.id] = Keep.BELOW
    return covering


KINDS = (
    EventKind(
        type=Cleaned,
        name="Cleaned",
        apply=_cleaned,
        admit=_admit_cleaning,
        segments=nothing,
        effects=nothing,
        touches=intervals_of_ids,
        encode=lambda action: {
            "retained_from": action.retained_from,
            "ids": encode_ids(action.ids),
            "tags": dict(action.tags),
            **({"consumers": dict(action.consumers)} if action.consumers else {}),
        },
        decode=lambda body: Cleaned(
            retained_from=body["retained_from"],
            ids=decode_ids(body["ids"]),
            tags=decode_tags(body["tags"]),
            consumers={known_consumer_name(k): n for k, n in body.get("consumers", {}).items()},
        ),
        line=lambda action: (
            f"{counted(len(action.ids), 'segment')} removed; "
            f"versions are kept from {action.retained_from} on"
        ),
    ),
    EventKind(
        type=Swept,
        name="Swept",
        apply=_swept,
        admit=_admit_sweep,
        segments=nothing,
        effects=nothing,
        touches=no_interval,
        encode=lambda action: {"paths": list(action.paths)},
        decode=lambda body: Swept(paths=tuple(map(named_path, body["paths"]))),
        line=lambda action: f"{counted(len(action.paths), 'file')} deleted",
    ),
)
