"""Segments that may be cleaned, and the reason to keep each other hidden segment.

A segment may be cleaned iff

1. it is hidden for good: its group is overshadowed now (not merely waiting for missing members);
2. no kept version shows it, neither a retained nor a tagged one. If it was present and hidden at
   the oldest retained version, only a repair can have made it visible since. So it is enough to
   check that version, and each version right after a repair;
3. no pending plan names it, as planned or as found;
4. all of its atomic update group may be cleaned: a group is never left in part;
5. it has rows, or no segment of a lower version is present below it: a tombstone outlives the
   segments it hides.

Rules 1, 3, 4 and 5 are checked again against the state at commit. Rule 2 cannot change except by
tags, which the commit compares.

Source of the idea: Hudi's cleaner and Paimon's snapshot expiry, and the lessons of their bugs:
remove the name first and the data last; unless all protected files are known, delete nothing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segments.segment import ChunkKey, Segment, SegmentId
from airflow_provider_segtable.core.segments.timeline import Group, GroupState


class Keep(StrEnum):
    """Why a hidden segment stays."""

    RECENT = "a version within retention shows it"
    TAGGED = "a tagged version shows it"
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


def cleanable(head: State, *, retained: Sequence[State], tagged: Sequence[State] = ()) -> Cleanable:
    """Return the segments that may be cleaned.

    Args:
        head: the newest state.
        retained: the oldest version to keep, then every later version right after a repair.
        tagged: the tagged versions.
    """
    oldest = retained[0]
    reasons: dict[SegmentId, Keep] = {}
    visible = {s.id for s in head.timeline.visible_segments()}
    hidden = [s for s in head.timeline.segments() if s.id not in visible]
    shown = {s.id for state in retained for s in state.timeline.visible_segments()}
    named = {s.id for state in tagged for s in state.timeline.visible_segments()}
    for segment in hidden:
        if segment.id not in oldest.timeline or segment.id in shown:
            reasons[segment.id] = Keep.RECENT
        elif segment.id in named:
            reasons[segment.id] = Keep.TAGGED
    free = [segment for segment in hidden if segment.id not in reasons]
    reasons |= needed(free, head)
    gone = tuple(segment for segment in free if segment.id not in reasons)
    return Cleanable(retained_from=oldest.n, segments=gone, kept=reasons)


def still_cleanable(ids: Iterable[SegmentId], state: State) -> tuple[SegmentId, ...]:
    """Return the ids that are present and may be cleaned by rules 1, 3, 4 and 5."""
    present = [segment for i in ids if (segment := state.timeline.get(i))]
    kept = needed(present, state)
    return tuple(segment.id for segment in present if segment.id not in kept)


def needed(segments: Sequence[Segment], state: State) -> dict[SegmentId, Keep]:
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


def _groups(segments: Iterable[Segment], state: State) -> Iterator[tuple[ChunkKey, Group]]:
    wanted: dict[ChunkKey, set[object]] = {}
    for segment in segments:
        wanted.setdefault(segment.id.chunk, set()).add(segment.shard.group)
    for chunk, keys in wanted.items():
        for group in state.timeline.groups(chunk):
            if group.key in keys:
                yield chunk, group


def _not_overshadowed(segments: Iterable[Segment], state: State) -> Iterator[SegmentId]:
    for chunk, group in _groups(segments, state):
        if state.timeline.state(chunk, group.key) is not GroupState.OVERSHADOWED:
            yield from (segment.id for segment in group.segments)


def _torn(
    going: Mapping[SegmentId, Segment], kept: Mapping[SegmentId, Keep], state: State
) -> dict[SegmentId, Keep]:
    torn: dict[SegmentId, Keep] = {}
    for _, group in _groups(going.values(), state):
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
