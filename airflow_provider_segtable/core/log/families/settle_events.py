"""Settled file groups: an event records vectors that tell which rows of keyed files are shown.

1. ``GroupsSettled`` names one vector file for the groups that it settles (``core.settlement``). It
   moves no row and changes none, so it commutes with every other event.
2. *Admission*: a group whose files are not all visible any more is left out, and so is one that
   is settled over at least the same files already. If none is left, it is a conflict.
3. A later settlement of a group replaces the earlier one. A file of vectors that no group has any
   more is kept for the versions that use it.

On disk the event is called ``Settled``. An older segtable refuses it by name: it must not clean a
table whose vector files it does not know.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import groupby
from typing import Any

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.log.event import Conflict, Stamp
from airflow_provider_segtable.core.log.event_kind import EventKind, no_interval, nothing
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.paths import vectors_path
from airflow_provider_segtable.core.segment import ChunkKey
from airflow_provider_segtable.core.segment_codec import Json
from airflow_provider_segtable.core.settlement import (
    ReplacedVectors,
    SettledGroup,
    Settlement,
    Settlements,
    usable,
    vector_paths,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupsSettled:
    """The rows of these file groups are settled by the vectors in the file at ``path``.

    ``damaged`` are vector files that cannot be read: their settlements are replaced in any case.
    """

    path: str
    size: int
    checksum: str
    groups: tuple[SettledGroup, ...]
    damaged: tuple[str, ...] = ()


# JSON
def encode_settlements(settled: Settlements) -> list[Any]:
    """Return settlements as JSON, by vector file."""
    ordered = sorted(settled.values(), key=lambda each: (each.n, each.path, each.group.chunk))
    return [
        [*file, [_encode_group(each.group) for each in some]]
        for file, some in groupby(ordered, lambda each: (each.n, each.path, each.checksum))
    ]


def decode_settlements(body: Iterable[Any]) -> Settlements:
    """Parse the output of ``encode_settlements``."""
    found = (
        Settlement(n=n, path=vectors_path(path), checksum=checksum, group=_decode_group(group))
        for n, path, checksum, groups in body
        for group in groups
    )
    return {each.group.chunk: each for each in found}


def encode_replaced(replaced: Iterable[ReplacedVectors]) -> list[Any]:
    """Return replaced vector files as JSON."""
    return [[each.path, each.first, each.last] for each in replaced]


def decode_replaced(body: Iterable[Any]) -> tuple[ReplacedVectors, ...]:
    """Parse the output of ``encode_replaced``."""
    return tuple(
        ReplacedVectors(path=vectors_path(path), first=first, last=last)
        for path, first, last in body
    )


def _encode_group(group: SettledGroup) -> list[Any]:
    return [str(group.chunk), [*_spans(group.files)], group.identity, group.hidden, group.open]


def _decode_group(body: Sequence[Any]) -> SettledGroup:
    chunk, spans, identity, hidden, opened = body
    return SettledGroup(
        chunk=ChunkKey.parse(chunk),
        files=tuple(at for start, end in spans for at in range(start, end)),
        identity=identity,
        hidden=hidden,
        open=opened,
    )


def _spans(ascending: Iterable[int]) -> Iterator[list[int]]:
    """Yield half-open ranges of neighbouring numbers."""
    span: list[int] = []
    for number in ascending:
        if span and span[1] == number:
            span[1] += 1
            continue
        if span:
            yield span
        span = [number, number + 1]
    if span:
        yield span


def _encode(action: GroupsSettled) -> Json:
    return {
        "path": action.path,
        "size": action.size,
        "checksum": action.checksum,
        "groups": [_encode_group(group) for group in action.groups],
        **({"damaged": [*action.damaged]} if action.damaged else {}),
    }


def _decode(body: Mapping[str, Any]) -> GroupsSettled:
    return GroupsSettled(
        path=vectors_path(body["path"]),
        size=body["size"],
        checksum=body["checksum"],
        groups=tuple(map(_decode_group, body["groups"])),
        damaged=tuple(map(vectors_path, body.get("damaged", ()))),
    )


# Admission and fold
def _admit(action: GroupsSettled, state: State) -> GroupsSettled | Conflict:
    left = tuple(group for group in action.groups if _adds(group, state, action.damaged))
    if not left:
        reason = "the files were replaced, or settled by another process, meanwhile"
        return Conflict(reason=f"{reason}; settle again", winner=state.n)
    return replace(action, groups=left)


def _adds(group: SettledGroup, state: State, damaged: Sequence[str]) -> bool:
    """Return whether a group's files are all visible, and no settlement covers them already."""
    groups = state.timeline.visible_groups(group.chunk)
    visible = [segment for each in groups for segment in each.segments]
    known = state.settled.get(group.chunk)
    covered = (
        known is not None
        and known.path not in damaged
        and {*known.group.files} >= {*group.files}
        and usable(known.group, visible)
    )
    return not covered and usable(group, visible)


def _settled(state: State, action: GroupsSettled, at: Stamp) -> State:
    new = {
        group.chunk: Settlement(n=at.n, path=action.path, checksum=action.checksum, group=group)
        for group in action.groups
    }
    after = {**state.settled, **new}
    gone = vector_paths(state.settled) - vector_paths(after)
    first = {each.path: each.n for each in state.settled.values()}
    replaced = (ReplacedVectors(path=p, first=first[p], last=at.n) for p in sorted(gone))
    return replace(state, settled=after, replaced_vectors=(*state.replaced_vectors, *replaced))


def _line(action: GroupsSettled) -> str:
    hidden, opened = (sum(getattr(g, name) for g in action.groups) for name in ("hidden", "open"))
    merged = f", {counted(opened, 'row')} to merge at read" if opened else ""
    return f"{counted(len(action.groups), 'file group')} settled: {hidden:,} hidden rows{merged}"


KINDS = (
    EventKind(
        type=GroupsSettled,
        name="Settled",
        apply=_settled,
        admit=_admit,
        segments=nothing,
        effects=nothing,
        touches=no_interval,
        encode=_encode,
        decode=_decode,
        line=_line,
    ),
)
