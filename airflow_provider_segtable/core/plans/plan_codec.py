"""Plans and fencing tokens as JSON; absent attributes are omitted, not written as null."""

from collections.abc import Mapping
from typing import Any

from airflow_provider_segtable.core.locks.lockbox import FencingToken
from airflow_provider_segtable.core.plans.compaction_plan import CompactionPlan, PlanKind
from airflow_provider_segtable.core.segments.segment import ChunkKey
from airflow_provider_segtable.core.segments.segment_codec import Json, decode_ids, encode_ids
from airflow_provider_segtable.core.time.interval import Granularity, Interval


def encode_plan(plan: CompactionPlan) -> Json:
    """Return a plan as JSON."""
    body: Json = {
        "id": plan.id,
        "kind": plan.kind.value,
        "interval": plan.chunk.interval.name,
        "version": plan.chunk.version,
        "inputs": _encode_inputs(plan),
        "root": [plan.root_start, plan.root_end],
        "outputs": plan.outputs,
        "rows": plan.rows,
        "size": plan.size,
        "reason": plan.reason,
    }
    rarely = {
        "clustering": plan.clustering,
        "region": plan.region.name if plan.region else "",
        "granularity": plan.granularity.value if plan.granularity else "",
    }
    return body | {name: value for name, value in rarely.items() if value}


def _encode_inputs(plan: CompactionPlan) -> list[int] | list[str]:
    if plan.region:
        return encode_ids(plan.inputs)
    return [segment_id.partition for segment_id in plan.inputs]


def decode_plan(body: Mapping[str, Any]) -> CompactionPlan:
    """Parse the output of ``encode_plan``."""
    chunk = ChunkKey.parse(f"{body['interval']}_{body['version']}")
    region = Interval.from_name(body["region"]) if "region" in body else None
    inputs = body["inputs"]
    return CompactionPlan(
        id=body["id"],
        kind=PlanKind(body["kind"]),
        chunk=chunk,
        inputs=decode_ids(inputs) if region else tuple(map(chunk.segment, inputs)),
        root_start=body["root"][0],
        root_end=body["root"][1],
        outputs=body["outputs"],
        rows=body["rows"],
        size=body["size"],
        reason=body["reason"],
        clustering=body.get("clustering", ""),
        region=region,
        granularity=Granularity(body["granularity"]) if "granularity" in body else None,
    )


def encode_token(token: FencingToken) -> Json:
    """Return a fencing token as JSON."""
    return {"epoch": token.epoch, "number": token.number}


def decode_token(body: Mapping[str, Any]) -> FencingToken:
    """Parse the output of ``encode_token``."""
    return FencingToken(**body)
