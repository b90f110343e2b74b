"""Repair: one event restores to the log what the table's files prove.

1. Lost segments leave the timeline, restored ones enter it. Of a restored compacted segment all
   roots are settled, because they were published once, with or without files now.
2. *Admission*: refused if an id to remove is absent or one to add is present, or if segments of a
   chunk would disagree about its core set: plan the repair again.
3. If events were lost, nobody knows which epochs the log store had. Its buckets go on from what the
   log still has, in an epoch that no writer has reached: the repair's time in seconds. So every
   position of before is reset, and every service of before is fenced.

On disk the event is called ``Restored``.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.deletion import VectorFile
from airflow_provider_segtable.core.log.event import Conflict, Stamp, amount
from airflow_provider_segtable.core.log.event_kind import (
    Effect,
    EventKind,
    own_segments,
    rows_differ,
    whole_table,
)
from airflow_provider_segtable.core.log.families.log_store_events import bucket_of
from airflow_provider_segtable.core.log.families.table_events import decode_table, encode_table
from airflow_provider_segtable.core.log.state import State, delete_rows, publish, settle, void
from airflow_provider_segtable.core.log_store.manifest import BucketManifest
from airflow_provider_segtable.core.segment import ChunkKey, Segment, SegmentId
from airflow_provider_segtable.core.segment_codec import (
    Json,
    decode_ids,
    decode_segments,
    decode_vectors,
    encode_ids,
    encode_segments,
    encode_vectors,
)
from airflow_provider_segtable.core.settlement import (
    ReplacedVectors,
    vector_paths,
    without_files,
)
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.time import (
    SECOND_US,
    GranularityOverride,
    decode_overrides,
    encode_overrides,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class TableRepaired:
    """A repair: facts from the table's files that the log lacks.

    Attributes:
        segments: segments that are missing in the log, or that get another id.
        lost: ids that leave the timeline: their files are missing or incomplete.
        voided: ids under which no segment will ever be published.
        overrides: the granularity overrides from now on; None if unchanged.
        vectors: deletions that are missing in the log.
        table: the table's definition, if files know of alterations that the log lost.
        log_buckets: buckets of the log store of which events may be lost.
        reason: what was repaired, for people.
    """

    segments: tuple[Segment, ...]
    lost: tuple[SegmentId, ...] = ()
    vectors: tuple[VectorFile, ...] = ()
    voided: tuple[SegmentId, ...] = ()
    overrides: tuple[GranularityOverride, ...] | None = None
    table: TableDefinition | None = None
    log_buckets: tuple[int, ...] = ()
    reason: str


def _encode_restored(action: TableRepaired) -> Json:
    rarely = {
        "lost": encode_ids(action.lost),
        "voided": encode_ids(action.voided),
        "vectors": [encode_vectors(file) for file in action.vectors],
        "log_buckets": [*action.log_buckets],
    }
    return {
        "segments": encode_segments(action.segments),
        "reason": action.reason,
        **{name: value for name, value in rarely.items() if value},
        **({} if action.overrides is None else {"zones": encode_overrides(action.overrides)}),
        **({} if action.table is None else {"table": encode_table(action.table)}),
    }


def _decode_restored(body: Mapping[str, Any]) -> TableRepaired:
    return TableRepaired(
        segments=decode_segments(body["segments"]),
        lost=decode_ids(body.get("lost", [])),
        voided=decode_ids(body.get("voided", [])),
        vectors=tuple(map(decode_vectors, body.get("vectors", []))),
        overrides=decode_overrides(body["zones"]) if "zones" in body else None,
        table=decode_table(body["table"]) if "table" in body else None,
        log_buckets=tuple(body.get("log_buckets", ())),
        reason=body["reason"],
    )


def _line(action: TableRepaired) -> str:
    lost = counted(len(action.lost), "segment")
    return f"{action.reason}: {amount(action.segments)} adopted, {lost} left out"


def _repaired(state: State, action: TableRepaired, stamp: Stamp) -> State:
    kind = (action.table or state.table).kind
    segments = tuple(s if s.completed else kind.published(s, stamp.time) for s in action.segments)
    left = replace(
        state,
        timeline=state.timeline.with_changes(remove=action.lost),
        settled=without_files(state.settled, action.lost),
        replaced_vectors=_replaced_vectors(state, action, stamp),
    )
    roots = (  # the roots of compacted segments were published once, with or without files now
        segment.id.chunk.segment(partition)
        for segment in action.segments
        for partition in range(segment.shard.root_start, segment.shard.root_end)
    )
    settled = settle(left, (*roots, *action.voided))
    voided = void(settled, action.voided)
    overrides = state.overrides if action.overrides is None else action.overrides
    published = delete_rows(publish(voided, segments), action.vectors, stamp.n)
    log_store = {**state.log_store, **dict(_begun_anew(state, action, stamp))}
    table = action.table or state.table
    return replace(published, overrides=overrides, table=table, log_store=log_store)


def _replaced_vectors(
    state: State, action: TableRepaired, stamp: Stamp
) -> tuple[ReplacedVectors, ...]:
    """Return the vector files that only versions before the repair use."""
    left = vector_paths(without_files(state.settled, action.lost))
    gone = {each.path: each.n for each in state.settled.values() if each.path not in left}
    replaced = (ReplacedVectors(path=p, first=n, last=stamp.n) for p, n in sorted(gone.items()))
    return (*state.replaced_vectors, *replaced)


def _begun_anew(
    state: State, action: TableRepaired, stamp: Stamp
) -> Iterator[tuple[int, BucketManifest]]:
    """Yield the buckets of which events may be lost, in an epoch of their own."""
    for bucket in action.log_buckets:
        known = bucket_of(state, bucket)
        yield bucket, known.repaired(max(known.epoch + 1, stamp.time // SECOND_US))


def _admit(action: TableRepaired, state: State) -> TableRepaired | Conflict:
    """Refuse a repair if later events changed the state that it was planned for."""
    for lost in action.lost:
        if state.timeline.get(lost) is None:
            return Conflict(reason=f"{lost} is not in the table any more; repair again")
    for segment in action.segments:  # an attempt whose end was lost may have settled ids
        dead = segment.id.partition in state.voided.get(segment.id.chunk, ())
        if dead or state.timeline.get(segment.id):
            return Conflict(reason=f"{segment.id} was published or voided meanwhile; repair again")
        if segment.path in state.pending_delete:
            return Conflict(reason=f"{segment.path} was cleaned meanwhile; repair again")
    return _core_sets_differ(action, state) or action


def _core_sets_differ(action: TableRepaired, state: State) -> Conflict | None:
    """Refuse a repair if segments of a chunk would disagree about its core set."""
    left = state.timeline.with_changes(remove=action.lost)
    sizes: dict[ChunkKey, int] = {}
    for segment in action.segments:
        chunk, found = segment.id.chunk, segment.shard.core
        known = left.core(chunk) if chunk in left.chunk_keys(chunk.interval) else found
        expected = sizes.setdefault(chunk, known)
        if found != expected:
            reason = f"{segment.id} says that the core set of its chunk has {found} segments"
            return Conflict(reason=f"{reason}, others say {expected}; repair again")
    return None


def _effects(action: TableRepaired) -> tuple[Effect, ...]:
    roots = (root for file in action.vectors for root in file.rows)
    ids = (*(segment.id for segment in action.segments), *action.lost, *roots)
    return rows_differ(each.interval for each in ids)


KINDS = (
    EventKind(
        type=TableRepaired,
        name="Restored",
        apply=_repaired,
        admit=_admit,
        segments=own_segments,
        effects=_effects,
        touches=whole_table,
        encode=_encode_restored,
        decode=_decode_restored,
        line=_line,
    ),
)
