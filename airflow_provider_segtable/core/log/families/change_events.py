"""Changes of rows: a delete, update, merge or overwrite deletes and appends atomically.

1. Rows of a table that keeps them as they came are deleted by root address (deletion vectors),
   rows of a rollup table by a predicate (``core.deletion``).
2. *Admission*: its appends get other ids as those of an append do. Its deletions commute with
   every compaction, because root addresses never change. It is refused if one of its roots has a
   deletion that its author had not read: the author has to check for equal rows. It is refused,
   too, if such deletions may have been pruned by a cleaning, or undone by a restore.
3. *An overwrite* is refused, too, if another one, or a restore, replaced rows of the same time that
   its author had not read (``core.log.state``). In a rollup table its predicate spares its
   own rows.

On disk the event is called ``Changed``.
"""

from collections.abc import Mapping
from typing import Any

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass, replace
from airflow_provider_segtable.core.deletion import PredicateDelete, VectorFile
from airflow_provider_segtable.core.log.event import Conflict, Stamp, amount
from airflow_provider_segtable.core.log.event_kind import (
    Effect,
    EventKind,
    RowEffect,
    RowsDeleted,
    RowsInserted,
    intervals_of_segments,
    own_segments,
)
from airflow_provider_segtable.core.log.families import append_events
from airflow_provider_segtable.core.log.state import (
    KEPT,
    Overwritten,
    State,
    delete_rows,
    publish,
    rival,
)
from airflow_provider_segtable.core.predicate import Predicate, decode_predicate, encode_predicate
from airflow_provider_segtable.core.requests.change_request import ChangeKind
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.segment_codec import (
    Json,
    decode_segments,
    decode_vectors,
    encode_segments,
    encode_vectors,
)
from airflow_provider_segtable.core.time import Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class RowsChanged:
    """Rows are deleted and others appended, visible together.

    Attributes:
        kind: ``delete``, ``update``, ``merge`` or ``overwrite``.
        segments: the appended first-generation segments.
        vectors: the deleted rows, by root address; disjoint from all vectors up to ``seen``.
        seen: the newest event that the author had read.
        predicate: the deleted rows of a rollup table.
        matched: the number of matching rows.
        reason: the request, for people.
        overwritten: of an overwrite, outer bounds of the event times that it replaces.
    """

    kind: str
    segments: tuple[Segment, ...] = ()
    vectors: tuple[VectorFile, ...] = ()
    seen: int = 0
    predicate: Predicate | None = None
    matched: int = 0
    reason: str = ""
    overwritten: tuple[Interval, ...] = ()

    @property
    def deleted(self) -> int:
        """Return the number of rows that the vectors delete."""
        return sum(sum(file.rows.values()) for file in self.vectors)


def _encode_changed(action: RowsChanged) -> Json:
    predicate = action.predicate and encode_predicate(action.predicate)
    overwritten = [interval.name for interval in action.overwritten]
    return {
        "kind": action.kind,
        "segments": encode_segments(action.segments),
        "vectors": [encode_vectors(file) for file in action.vectors],
        "seen": action.seen,
        "matched": action.matched,
        "reason": action.reason,
        **({"predicate": predicate} if predicate else {}),
        **({"overwritten": overwritten} if overwritten else {}),
    }


def _decode_changed(body: Mapping[str, Any]) -> RowsChanged:
    return RowsChanged(
        kind=body["kind"],
        segments=decode_segments(body["segments"]),
        vectors=tuple(map(decode_vectors, body["vectors"])),
        seen=body["seen"],
        matched=body["matched"],
        reason=body["reason"],
        predicate=decode_predicate(body["predicate"]) if "predicate" in body else None,
        overwritten=tuple(map(Interval.from_name, body.get("overwritten", ()))),
    )


def _line(action: RowsChanged) -> str:
    gone = counted(action.matched if action.predicate else action.deleted, "row")
    came = f", +{amount(action.segments)}" if action.segments else ""
    why = f": {action.reason}" if action.reason else ""
    return f"{action.kind}: {gone} deleted{came}{why}"


def _changed(state: State, action: RowsChanged, stamp: Stamp) -> State:
    n, kind = stamp.n, state.table.kind
    segments = tuple(kind.published(segment, stamp.time) for segment in action.segments)
    published = delete_rows(publish(state, segments), action.vectors, n)
    if action.overwritten:
        kept = (*state.overwritten, Overwritten(n, action.overwritten))[-KEPT:]
        published = replace(published, overwritten=kept)
    if action.predicate is None:
        return published
    predicate_delete = PredicateDelete(n=n, predicate=action.predicate)
    return replace(published, predicate_deletes=(*state.predicate_deletes, predicate_delete))


def _admit(action: RowsChanged, state: State) -> RowsChanged | Conflict:
    """Return the change with its appends under free ids, or the conflict."""
    winner = rival(state.overwritten, action.seen, action.overwritten)
    if winner:
        return Conflict(reason=f"event {winner} overwrote the same time", winner=winner)
    if action.vectors and action.seen < state.vectors_pruned_through:
        pruned = state.vectors_pruned_through
        reason = f"deletions up to event {pruned} were cleaned or undone since event {action.seen}"
        return Conflict(reason=f"{reason}; look again", winner=pruned)
    for root in (root for file in action.vectors for root in file.rows):
        winner = max((each.n for each in state.vectors.get(root, ())), default=0)
        if winner > action.seen:
            return Conflict(reason=f"event {winner} deleted rows of {root}, too", winner=winner)
    found = append_events.placed(action.segments, state)
    if isinstance(found, Conflict):
        return found
    return replace(action, segments=_spared(action, found, state.n + 1))


def _spared(action: RowsChanged, segments: tuple[Segment, ...], n: int) -> tuple[Segment, ...]:
    """Return new segments that the event's own predicate does not apply to."""
    if action.predicate is None:
        return segments
    return tuple(replace(segment, deletes_applied_through=n) for segment in segments)


def _effects(action: RowsChanged) -> tuple[Effect, ...]:
    update = action.kind == ChangeKind.UPDATE
    before = RowEffect.UPDATE_BEFORE if update else RowEffect.DELETE
    after = RowEffect.UPDATE_AFTER if update else RowEffect.INSERT
    deleted = (RowsDeleted(action.vectors, before),) if action.vectors else ()
    inserted = (RowsInserted(action.segments, after),) if action.segments else ()
    return (*deleted, *inserted)


KINDS = (
    EventKind(
        type=RowsChanged,
        name="Changed",
        joins=True,
        apply=_changed,
        admit=_admit,
        segments=own_segments,
        effects=_effects,
        touches=intervals_of_segments,
        encode=_encode_changed,
        decode=_decode_changed,
        line=_line,
    ),
)
