"""Indexes: requested, built piece by piece, dropped.

1. ``IndexRequested`` adds an index to the table. From then on every writer reads it before it
   commits, because nobody commits without having read the whole log. So it feeds the index in its
   own event, or the log records what the index lacks (``core.indexes.index_state``).
2. ``IndexBuilt`` says that the index has entries for everything that was published in a time
   through a version (0: for a part of it); the entries themselves are a feed of the event. A build
   may stop after any of these events, and another one goes on from there.
3. ``FeedsJoined`` puts the entries of neighbouring inline feeds into files: one feed, in their
   place. ``IndexForwarded`` says that the index's own table has the feeds through an event.
4. ``IndexDropped`` ends an index. Its name is free again, its id never is. The event that drops or
   replaces an index aborts its pending plans (``plan_events.without_hopeless``).
5. *Admission of a request*: refused if the name is taken, unless by the index that it ``replaces``,
   or if the table does not have a column any more. *Of everything else*: refused if the index was
   dropped meanwhile; a build, too, if another attempt superseded it.
6. *Feeds are joined once*: refused unless the first and the last one still wait, and all between
   them are inline. As feeds are only added at the end, these are then the feeds that the author
   has seen. Inline feeds have to be joined before they can be forwarded.
7. *An alteration of the table* is refused if it drops or widens an indexed column: the entries have
   values of its type. A column may be renamed.

Source of the idea: Hudi RFC-45. There the writer's check and the indexer's end race with each other
unless a lock is held; here both are events of one log.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.indexes.index_state import (
    Feed,
    IndexDefinition,
    IndexState,
    decode_index,
    encode_index,
)
from airflow_provider_segtable.core.log.event import Conflict, Stamp
from airflow_provider_segtable.core.log.event_kind import EventKind, no_interval, nothing
from airflow_provider_segtable.core.log.families.plan_events import without_hopeless
from airflow_provider_segtable.core.log.state import State, index_of
from airflow_provider_segtable.core.paths import known_name
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.segment_codec import decode_segments, encode_segments
from airflow_provider_segtable.core.time import Interval, joined


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexRequested:
    """An index is to be built. ``replaces`` is the id of the index of this name that it ends."""

    index: IndexDefinition
    replaces: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexBuilt:
    """The index has entries for what was published in ``interval`` by events up to ``through``.

    ``plan_id`` and ``attempt`` name the attempt that built it, None if no plan did.
    """

    index: str
    interval: Interval
    through: int
    plan_id: str | None = None
    attempt: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedsJoined:
    """The inline feeds of events ``first`` to ``through`` are in these log files of the index."""

    index: str
    first: int
    through: int
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexForwarded:
    """The index's own table has all feeds of events up to ``through``."""

    index: str
    through: int


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexDropped:
    """The index is gone."""

    index: str


def _line_of_request(action: IndexRequested) -> str:
    again = "" if action.replaces is None else " anew"
    return f"index {action.index.name} ({action.index.kind.name}) requested{again}"


def _line_of_build(action: IndexBuilt) -> str:
    how = f"built through version {action.through}" if action.through else "built in part"
    return f"index {action.index}: {action.interval} {how}"


def _line_of_join(action: FeedsJoined) -> str:
    files = counted(len(action.segments), "file")
    return f"index {action.index}: entries of events {action.first} to {action.through} in {files}"


def _id(body: Mapping[str, Any]) -> str:
    return known_name(body["index"], "the folder of an index")


def _requested(state: State, action: IndexRequested, at: Stamp) -> State:
    after = _with(state, requested(action.index, state, at))
    return without_hopeless(state, after, at)


def _built(state: State, action: IndexBuilt, _: Stamp) -> State:
    return _changed(state, action.index, lambda it: it.built(action.interval, action.through))


def _joined(state: State, action: FeedsJoined, _: Stamp) -> State:
    first, through, segments = action.first, action.through, action.segments
    return _changed(state, action.index, lambda it: it.joined(first, through, segments))


def _forwarded(state: State, action: IndexForwarded, _: Stamp) -> State:
    return _changed(state, action.index, lambda it: it.with_forwarded(action.through))


def _ended(state: State, action: IndexDropped, at: Stamp) -> State:
    left = {n: each for n, each in state.indexes.items() if each.definition.id != action.index}
    return without_hopeless(state, replace(state, indexes=left), at)


def requested(index: IndexDefinition, state: State, at: Stamp) -> IndexState:
    """Return the state of a new index: it lacks all time that has files."""
    chunks = {chunk.interval for chunk in state.timeline.visible_chunks()}
    begun = IndexState(definition=index, requested_n=at.n, requested_at=at.time, forwarded=at.n)
    return begun.lacking(joined(chunks), at.n, at.time)


def noted(
    state: State,
    at: Stamp,
    made: Iterable[Segment],
    feeds: Iterable[Feed],
    *,
    known_records: bool = False,
) -> State:
    """Return the state once each index knows what an event has fed it, or what it lacks.

    Args:
        state: the state after the event.
        at: the event.
        made: the segments that it published.
        feeds: its feeds.
        known_records: whether all records of the files were in other files before, and files may
            be among them that were published before.
    """
    if not state.indexes:
        return state
    brought, new = {feed.index: feed for feed in feeds}, [*made]
    where = joined({segment.id.interval for segment in new})
    files = 0 if known_records else len({segment.path for segment in new if segment.path})

    def after(each: IndexState) -> IndexState:
        feed = brought.get(each.definition.id)
        lacking = () if known_records and not each.definition.kind.about_files else where
        found = each if feed is None else each.fed(at.n, feed)
        if feed is None or not feed.covers(files):
            found = found.lacking(lacking, at.n, at.time)
        return found.with_available(at.n)

    return replace(state, indexes={name: after(each) for name, each in state.indexes.items()})


def _admit_build(action: IndexBuilt, state: State) -> IndexBuilt | Conflict:
    return _dropped(action.index, state) or _superseded(action, state) or action


def _admit_join(action: FeedsJoined, state: State) -> FeedsJoined | Conflict:
    found = index_of(action.index, state)
    if found is None:
        return _gone(action.index)
    if action.through in (n for n, _ in found.inline_run(action.first)):
        return action
    return Conflict(
        reason=f"feeds of index {action.index} from event {action.first} on were joined already"
    )


def _admit_forward(action: IndexForwarded, state: State) -> IndexForwarded | Conflict:
    found, through = index_of(action.index, state), action.through
    if found is None:
        return _gone(action.index)
    if not found.forwarded < through <= state.n:
        reason = f"index {action.index} is at version {found.forwarded}, not before {through}"
        return Conflict(reason=reason)
    if any(feed.inline for n, feed in found.feeds if n <= through):
        return Conflict(reason=f"feeds of index {action.index} have no files yet: join them")
    return action


def _admit_drop(action: IndexDropped, state: State) -> IndexDropped | Conflict:
    return _dropped(action.index, state) or action


def _dropped(index: str, state: State) -> Conflict | None:
    return _gone(index) if index_of(index, state) is None else None


def _gone(index: str) -> Conflict:
    return Conflict(reason=f"index {index} was dropped")


def _admit_request(action: IndexRequested, state: State) -> IndexRequested | Conflict:
    """Return the request, or the conflict.

    Raises:
        InvalidInput: the table cannot be indexed so.
    """
    index = action.index
    known = state.indexes.get(index.name)
    if (known and known.definition.id) != action.replaces:
        is_there = "is requested already" if known else "was dropped meanwhile"
        return Conflict(
            reason=f"index {index.name!r} {is_there}", winner=known.requested_n if known else None
        )
    index.kind.check(state.table)
    return action


def _superseded(action: IndexBuilt, state: State) -> Conflict | None:
    if action.plan_id is None:
        return None
    plan = state.plans.get(action.plan_id)
    if plan is not None and plan.status.pending and plan.attempt == action.attempt:
        return None
    return Conflict(
        reason=f"plan {action.plan_id} was taken over by another attempt, or has ended",
        winner=plan.last_n if plan else None,
    )


def _with(state: State, index: IndexState) -> State:
    return replace(state, indexes={**state.indexes, index.definition.name: index})


def _changed(state: State, index: str, change: Callable[[IndexState], IndexState]) -> State:
    found = index_of(index, state)
    return state if found is None else _with(state, change(found))


KINDS = (
    EventKind(
        type=IndexRequested,
        name="IndexRequested",
        apply=_requested,
        admit=_admit_request,
        segments=nothing,
        effects=nothing,
        touches=no_interval,
        encode=lambda action: {
            "index": encode_index(action.index),
            **({} if action.replaces is None else {"replaces": action.replaces}),
        },
        decode=lambda body: IndexRequested(
            index=decode_index(body["index"]), replaces=body.get("replaces")
        ),
        line=_line_of_request,
    ),
    EventKind(
        type=IndexBuilt,
        name="IndexBuilt",
        apply=_built,
        admit=_admit_build,
        segments=nothing,
        effects=nothing,
        touches=no_interval,
        encode=lambda action: {
            "index": action.index,
            "interval": action.interval.name,
            "through": action.through,
            **({} if action.plan_id is None else {"plan_id": action.plan_id}),
            **({} if action.attempt is None else {"attempt": action.attempt}),
        },
        decode=lambda body: IndexBuilt(
            index=_id(body),
            interval=Interval.from_name(body["interval"]),
            through=body["through"],
            plan_id=body.get("plan_id"),
            attempt=body.get("attempt"),
        ),
        line=_line_of_build,
    ),
    EventKind(
        type=FeedsJoined,
        name="FeedsJoined",
        apply=_joined,
        admit=_admit_join,
        segments=nothing,
        effects=nothing,
        touches=no_interval,
        encode=lambda action: {
            "index": action.index,
            "first": action.first,
            "through": action.through,
            "segments": encode_segments(action.segments),
        },
        decode=lambda body: FeedsJoined(
            index=_id(body),
            first=body["first"],
            through=body["through"],
            segments=decode_segments(body["segments"]),
        ),
        line=_line_of_join,
    ),
    EventKind(
        type=IndexForwarded,
        name="IndexForwarded",
        apply=_forwarded,
        admit=_admit_forward,
        segments=nothing,
        effects=nothing,
        touches=no_interval,
        encode=lambda action: {"index": action.index, "through": action.through},
        decode=lambda body: IndexForwarded(index=_id(body), through=body["through"]),
        line=lambda action: f"index {action.index}: its table is at version {action.through}",
    ),
    EventKind(
        type=IndexDropped,
        name="IndexDropped",
        apply=_ended,
        admit=_admit_drop,
        segments=nothing,
        effects=nothing,
        touches=no_interval,
        encode=lambda action: {"index": action.index},
        decode=lambda body: IndexDropped(index=_id(body)),
        line=lambda action: f"index {action.index} dropped",
    ),
)
