"""The head of a checkpoint: a state without its chunks, as a JSON object."""

from collections.abc import Mapping
from typing import Any

from airflow_provider_segtable.core.consumer import decode_consumers, encode_consumers
from airflow_provider_segtable.core.deletion import Deletion, PredicateDelete
from airflow_provider_segtable.core.id_space import IdSpaces
from airflow_provider_segtable.core.indexes.index_state import decode_indexes, encode_indexes
from airflow_provider_segtable.core.locks import decode_token, encode_token
from airflow_provider_segtable.core.log.families.table_events import decode_table, encode_table
from airflow_provider_segtable.core.log.families.tag_events import decode_tags
from airflow_provider_segtable.core.log.plan import PlanState, PlanStatus
from airflow_provider_segtable.core.log.plan_kinds import decode_plan
from airflow_provider_segtable.core.log.state import (
    Overwritten,
    RecentCommits,
    State,
    decode_loads,
    encode_loads,
)
from airflow_provider_segtable.core.log_store.manifest import decode_manifests, encode_manifests
from airflow_provider_segtable.core.paths import file_path, vectors_path
from airflow_provider_segtable.core.predicate import decode_predicate, encode_predicate
from airflow_provider_segtable.core.segment import ChunkKey, SegmentId
from airflow_provider_segtable.core.segment_codec import decode_ids, encode_ids
from airflow_provider_segtable.core.time import Interval, decode_overrides, encode_overrides
from airflow_provider_segtable.core.timeline import Timeline


def encode_head(state: State) -> dict[str, Any]:
    """Return the head of a state's checkpoint."""
    return {
        "n": state.n,
        "time": state.time,
        "base_version": state.base_version,
        "table": encode_table(state.table),
        "plans": [_encode_plan_state(plan) for plan in state.plans.values()],
        "voided": {str(chunk): sorted(parts) for chunk, parts in state.voided.items()},
        "commits": dict(state.commits),
        "zones": encode_overrides(state.overrides),
        "retained_from": state.retained_from,
        "tags": dict(state.tags),
        "doomed": sorted(state.pending_delete),
        "vectors": {
            str(root): [[each.n, each.path, each.rows, each.checksum] for each in some]
            for root, some in state.vectors.items()
        },
        "erasures": [
            [each.n, encode_predicate(each.predicate)] for each in state.predicate_deletes
        ],
        "forgotten": state.vectors_pruned_through,
        **_encode_overwritten(state.overwritten),
        **({"consumers": encode_consumers(state.consumers)} if state.consumers else {}),
        **({"indexes": encode_indexes(state.indexes)} if state.indexes else {}),
        **({"log_store": encode_manifests(state.log_store)} if state.log_store else {}),
        **({"loads": encode_loads(state.loads)} if state.loads else {}),
    }


def decode_head(head: Mapping[str, Any], timeline: Timeline, ids: IdSpaces) -> State:
    """Return the state of a head and its chunks; older formats lack some entries.

    Raises:
        SegtableError, KeyError, TypeError, ValueError: ``encode_head`` did not produce the head.
    """
    plans = [_decode_plan_state(body) for body in head["plans"]]
    return State(
        n=head["n"],
        time=head["time"],
        base_version=head["base_version"],
        table=decode_table(head["table"]),
        timeline=timeline,
        plans={plan.plan.id: plan for plan in plans},
        ids=ids,
        voided={ChunkKey.parse(c): frozenset(parts) for c, parts in head["voided"].items()},
        commits=RecentCommits(head["commits"]),
        overrides=decode_overrides(head["zones"]),
        retained_from=head.get("retained_from", 0),
        tags=decode_tags(head.get("tags", {})),
        pending_delete=frozenset(map(file_path, head.get("doomed", ()))),
        vectors={
            SegmentId.parse(root): tuple(_deletion(*each) for each in some)
            for root, some in head.get("vectors", {}).items()
        },
        predicate_deletes=tuple(
            PredicateDelete(n=n, predicate=decode_predicate(body))
            for n, body in head.get("erasures", [])
        ),
        vectors_pruned_through=head.get("forgotten", 0),
        overwritten=tuple(
            Overwritten(n, tuple(map(Interval.from_name, names)))
            for n, names in head.get("overwritten", ())
        ),
        consumers=decode_consumers(head.get("consumers", {})),
        indexes=decode_indexes(head.get("indexes", ())),
        log_store=decode_manifests(head.get("log_store", ())),
        loads=decode_loads(head.get("loads", ())),
    )


def _encode_overwritten(recent: tuple[Overwritten, ...]) -> dict[str, Any]:
    if not recent:
        return {}
    return {"overwritten": [[each.n, [one.name for one in each.intervals]] for each in recent]}


def _deletion(n: int, path: str, rows: int, checksum: str = "") -> Deletion:
    return Deletion(n=n, path=vectors_path(path), rows=rows, checksum=checksum)


def _encode_plan_state(state: PlanState) -> dict[str, Any]:
    return {
        "plan": state.plan.encode(),
        "status": state.status.value,
        "requested_at": state.requested_at,
        "changed_at": state.changed_at,
        "last_n": state.last_n,
        "author": state.author,
        "attempts": state.attempts,
        "attempt": state.attempt,
        "token": encode_token(state.token) if state.token else None,
        "outputs": encode_ids(state.outputs),
        "note": state.note,
        "yields": state.yields,
        "version": state.version,
        "found": encode_ids(state.found),
    }


def _decode_plan_state(body: dict[str, Any]) -> PlanState:
    token = decode_token(body["token"]) if body["token"] else None
    outputs = decode_ids(body["outputs"])
    changed = {
        "plan": decode_plan(body["plan"]),
        "status": PlanStatus(body["status"]),
        "token": token,
        "outputs": outputs,
        "found": decode_ids(body["found"]),
    }
    return PlanState(**{**body, **changed})
