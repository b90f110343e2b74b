"""Appends, adoptions of files, and ids of writers that gave up.

1. ``Appended`` publishes new first-generation segments; ``Voided`` settles ids under which no
   segment will ever be published.
2. *Admission of an append*: it never waits. If its chunk has moved to another version, or its ids
   were settled, it gets other ids, by metadata alone. It is refused only if granularity changed
   and one of its segments lies in two chunks. A segment with a provisional id gets the next id of
   its chunk, so ids follow the order of completion.
3. In a checkpoint of the log store an append has ``log``, the ranges of the records
   (``log_store_events``), which are admitted with it.
4. An append that is a part of a load has ``load`` (``core.log.state``); it follows the load's last
   part, or is refused.
5. *Admission of a void*: ids that were settled meanwhile are dropped.
6. ``Adopted`` is an append whose files were there before: other programs wrote them. It is a kind
   of its own, so that a segtable that does not know such files refuses the log by name.
7. *Admission of an adoption*: like an append, and only if the log names none of its files, not even
   as pending deletion, and the rows of none were copied instead (``copy_commit``). So a file is
   adopted once, whatever the number of writers.
"""

from collections.abc import Iterable, Sequence

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass, replace
from airflow_provider_segtable.core.locks import Generation
from airflow_provider_segtable.core.log.event import Conflict, Stamp, amount
from airflow_provider_segtable.core.log.event_kind import (
    EventKind,
    RowEffect,
    RowsInserted,
    intervals_of_ids,
    intervals_of_segments,
    nothing,
    own_segments,
)
from airflow_provider_segtable.core.log.families import log_store_events
from airflow_provider_segtable.core.log.replacement import moved
from airflow_provider_segtable.core.log.state import (
    COMMITS_KEPT,
    IdSpace,
    LoadPart,
    State,
    check_part,
    decode_part,
    encode_part,
    publish,
    settle,
    void,
    with_part,
)
from airflow_provider_segtable.core.log_store.manifest import LogRange, decode_ranges, encode_ranges
from airflow_provider_segtable.core.paths import digest
from airflow_provider_segtable.core.segment import ChunkKey, Segment, SegmentId
from airflow_provider_segtable.core.segment_codec import (
    decode_ids,
    decode_segments,
    encode_ids,
    encode_segments,
)
from airflow_provider_segtable.core.tables.table_kind import TableKind
from airflow_provider_segtable.core.time import Instant


@dataclass(frozen=True, slots=True, kw_only=True)
class Appended:
    """New first-generation segments, visible together.

    ``log`` has the ranges of the log store whose records they are, in a checkpoint, and ``load``
    the part of a load that they are.
    """

    segments: tuple[Segment, ...]
    log: tuple[LogRange, ...] = ()
    load: LoadPart | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Adopted(Appended):
    """New segments whose files other programs wrote; they stay where they are."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Voided:
    """Allocated ids of a writer that gave up: no segment will ever be published under them."""

    ids: tuple[SegmentId, ...]
    reason: str


def _line_of_append(action: Appended) -> str:
    segments = action.segments
    chunks = counted(len({segment.id.interval for segment in segments}), "chunk")
    log = f"; log store, {', '.join(map(str, action.log))}" if action.log else ""
    load = f"; {action.load}" if action.load else ""
    return f"+{amount(segments)} in {chunks}{log}{load}"


def _line_of_adoption(action: Adopted) -> str:
    return f"{_line_of_append(action)}; adopted"


def published(kind: TableKind, action: Appended, at: Instant) -> tuple[Segment, ...]:
    """Return the segments as an append at this time publishes them."""
    return tuple(kind.published(segment, at) for segment in action.segments)


def placed(segments: Iterable[Segment], state: State) -> tuple[Segment, ...] | Conflict:
    """Return new segments under their final ids; as the table's kind places them.

    Several files may have been written under one id. The first one published keeps the id as its
    root; rows of the others get root addresses by the id under which they are published.
    """
    spaces: dict[ChunkKey, IdSpace] = {}

    def space_of(chunk: ChunkKey) -> IdSpace:
        return spaces.get(chunk) or state.id_space(chunk, Generation.FIRST)

    done: list[Segment] = []
    for segment in segments:
        target, written = moved(segment, state), segment.id
        if isinstance(target, Conflict):
            return target
        unsettled = not written.provisional and space_of(written.chunk).free(written.partition)
        stays = written.chunk == target and unsettled
        partition = written.partition if stays else space_of(target).next
        spaces[target] = space_of(target).settle([partition])
        if not written.provisional:
            spaces[written.chunk] = space_of(written.chunk).settle([written.partition])
        carried = segment.carried(target.segment(partition), state.timeline.core(target))
        done.append(state.table.kind.placed(carried, state.n, renamed=not unsettled))
    return tuple(done)


def _admit_void(action: Voided, state: State) -> Voided | Conflict:
    still = tuple(
        i for i in action.ids if state.id_space(i.chunk, Generation.of(i)).free(i.partition)
    )
    if not still:
        return Conflict(reason="all these ids were settled meanwhile")
    return replace(action, ids=still)


def _appended(state: State, run: Sequence[tuple[Appended, Stamp]]) -> State:
    """Return the state after neighbouring appends: their segments enter the timeline at once."""
    kind = state.table.kind
    found = [segment for action, at in run for segment in published(kind, action, at.time)]
    state = publish(state, found)
    for action, at in run:
        if action.log:
            state = log_store_events.with_ranges(state, action.log, at.n)
        if action.load:
            state = replace(state, loads=with_part(state.loads, action.load, at.n, COMMITS_KEPT))
    return state


def _voided(state: State, action: Voided, _: Stamp) -> State:
    return void(settle(state, action.ids), action.ids)


def _admit(action: Appended, state: State) -> Appended | Conflict:
    """Return the action under ids that are free now, or the conflict.

    Raises:
        Fenced, OffsetGap: a range of the log store does not follow.
        CommitConflict: a part of a load does not.
    """
    if action.log:
        log_store_events.check_ranges(action.log, state)
    check_part(action.load, state.loads)
    found = placed(action.segments, state)
    return found if isinstance(found, Conflict) else replace(action, segments=found)


def copy_commit(path: str, size: int, crc: int) -> str:
    """Return the commit id of an append of the rows of a file of another program.

    Args:
        path: below the table's root.
        size: in bytes.
        crc: of its footer.
    """
    return f"import-{digest(f'{path} {size} {crc}'.encode())}"


def copy_commit_of(segment: Segment) -> str:
    """Return the commit id under which the rows of an adopted file would have been copied."""
    return copy_commit(segment.path, segment.size, segment.footer.crc if segment.footer else 0)


def _admit_adoption(action: Adopted, state: State) -> Adopted | Conflict:
    """Return the action under ids that are free now, or the conflict; see rule 7."""
    wanted = {segment.path for segment in action.segments}
    known = wanted & (state.pending_delete | {*state.timeline.paths()})
    if known:
        return Conflict(reason=f"{min(known)} is in the table already")
    copied = (s.path for s in action.segments if s.footer and copy_commit_of(s) in state.commits)
    if (path := next(copied, None)) is not None:
        return Conflict(reason=f"the rows of {path} were copied already")
    found = placed(action.segments, state)
    return found if isinstance(found, Conflict) else replace(action, segments=found)


KINDS = (
    EventKind(
        type=Adopted,
        name="Adopted",
        apply=lambda state, action, at: _appended(state, ((action, at),)),
        together=_appended,
        admit=_admit_adoption,
        segments=own_segments,
        effects=lambda action: (RowsInserted(action.segments, RowEffect.INSERT),),
        touches=intervals_of_segments,
        encode=lambda action: {"segments": encode_segments(action.segments)},
        decode=lambda body: Adopted(segments=decode_segments(body["segments"])),
        line=_line_of_adoption,
    ),
    EventKind(
        type=Appended,
        name="Appended",
        joins=True,
        apply=lambda state, action, at: _appended(state, ((action, at),)),
        together=_appended,
        admit=_admit,
        segments=own_segments,
        effects=lambda action: (RowsInserted(action.segments, RowEffect.INSERT),),
        touches=intervals_of_segments,
        encode=lambda action: {
            "segments": encode_segments(action.segments),
            **({"log": encode_ranges(action.log)} if action.log else {}),
            **({"load": encode_part(action.load)} if action.load else {}),
        },
        decode=lambda body: Appended(
            segments=decode_segments(body["segments"]),
            log=decode_ranges(body["log"]) if "log" in body else (),
            load=decode_part(body["load"]) if "load" in body else None,
        ),
        line=_line_of_append,
    ),
    EventKind(
        type=Voided,
        name="Voided",
        apply=_voided,
        admit=_admit_void,
        segments=nothing,
        effects=nothing,
        touches=intervals_of_ids,
        encode=lambda action: {"ids": encode_ids(action.ids), "reason": action.reason},
        decode=lambda body: Voided(ids=decode_ids(body["ids"]), reason=body["reason"]),
        line=lambda action: f"{counted(len(action.ids), 'id')} voided: {action.reason}",
    ),
)
