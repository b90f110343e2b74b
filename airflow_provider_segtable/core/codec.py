"""Events as JSON, versioned and checksummed.

1. An event file is one JSON object with ``format`` (the number of this codec), ``checksum`` and
   the event's fields. Unknown formats and kinds are refused by name, never guessed.
2. The checksum covers everything else, the event's number included, so a torn, flipped or
   misplaced file is noticed.
3. Encoding is canonical (sorted keys, no spaces): equal events have equal bytes.
4. What a segment or plan does not have is left out, not written as null.
"""

import hashlib
import json
from collections.abc import Callable, Mapping
from typing import Any

from airflow_provider_segtable.core.errors import CorruptTable, UnsupportedFormat
from airflow_provider_segtable.core.events import (
    Action,
    Appended,
    Cleaned,
    Event,
    PlanAborted,
    PlanCompleted,
    PlanInflight,
    PlanRequested,
    PlanYielded,
    Restored,
    Swept,
    TableCreated,
    Tagged,
    Untagged,
    Voided,
)
from airflow_provider_segtable.core.interval import Granularity, Interval, iso, parse_instant
from airflow_provider_segtable.core.layout import Zone
from airflow_provider_segtable.core.lockbox import FencingToken
from airflow_provider_segtable.core.plan import CompactionPlan, PlanKind
from airflow_provider_segtable.core.rollup import decode_rollup, encode_rollup
from airflow_provider_segtable.core.schema import Column, Schema
from airflow_provider_segtable.core.segment import (
    ChunkKey,
    Replaced,
    Run,
    Segment,
    SegmentId,
    Shard,
)

FORMAT = 1

Json = dict[str, Any]


def encode(event: Event) -> bytes:
    """Return the event's file content."""
    body: Json = {
        "format": FORMAT,
        "n": event.n,
        "time": iso(event.time),
        "commit": event.commit,
        "author": event.author,
        "kind": event.kind,
        "action": _ENCODERS[type(event.action)](event.action),
    }
    return _canonical({**body, "checksum": _checksum(_canonical(body))})


def decode(data: bytes, where: str) -> Event:
    """Parse an event file.

    Args:
        data: the file's content.
        where: the file's name, for messages.

    Raises:
        UnsupportedFormat: written by a newer segtable.
        CorruptTable: torn, flipped, or not an event at all.
    """
    try:
        body = json.loads(data)
        checksum = body.pop("checksum")
        found = body["format"]
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptTable(f"{where} is no event ({error}): restore it or repair the log") from None
    if found != FORMAT:
        raise UnsupportedFormat(
            f"{where} has format {found}, this segtable reads {FORMAT}: upgrade segtable"
        )
    # Cutting the checksum out of the bytes is what the author hashed, and cheaper than encoding.
    if checksum != _checksum(data.replace(f'"checksum":"{checksum}",'.encode(), b"", 1)):
        raise CorruptTable(f"{where} fails its checksum: restore it or repair the log")
    if body["kind"] not in _DECODERS:
        raise UnsupportedFormat(f"{where} is a {body['kind']!r} event: upgrade segtable")
    return Event(
        n=body["n"],
        time=parse_instant(body["time"]),
        commit=body["commit"],
        author=body["author"],
        action=_DECODERS[body["kind"]](body["action"]),
    )


def _canonical(body: Json) -> bytes:
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()


def _checksum(canonical: bytes) -> str:
    return hashlib.sha256(canonical).hexdigest()[:16]


def encode_segment(segment: Segment) -> Json:
    """Return a descriptor as JSON."""
    shard = segment.shard
    body: Json = {
        "id": str(segment.id),
        "root": [shard.root_start, shard.root_end],
        "minor_version": shard.minor_version,
        "group_size": shard.group_size,
        "path": segment.path,
        "rows": segment.rows,
        "size": segment.size,
        "row_groups": segment.row_groups,
        "time": [segment.time_min, segment.time_max],
        "created": segment.created,
        "lineage": [[run.root, run.start, run.rows] for run in segment.lineage],
    }
    rarely = {
        "core": shard.core,
        "events": segment.events if segment.events != segment.rows else 0,
        "clustering": segment.clustering,
        "origin": str(segment.origin or ""),
        "replaces": encode_replaced(segment.replaces),
    }
    return body | {name: value for name, value in rarely.items() if value}


def decode_segment(body: Mapping[str, Any]) -> Segment:
    """Parse what ``encode_segment`` wrote."""
    segment_id = SegmentId.parse(body["id"])
    return Segment(
        id=segment_id,
        shard=Shard(
            partition=segment_id.partition,
            root_start=body["root"][0],
            root_end=body["root"][1],
            minor_version=body["minor_version"],
            group_size=body["group_size"],
            core=body.get("core", 0),
        ),
        path=body["path"],
        rows=body["rows"],
        size=body["size"],
        row_groups=body["row_groups"],
        time_min=body["time"][0],
        time_max=body["time"][1],
        created=body["created"],
        lineage=tuple(Run(*run) for run in body["lineage"]),
        events=body.get("events", body["rows"]),
        clustering=body.get("clustering", ""),
        origin=SegmentId.parse(body["origin"]) if "origin" in body else None,
        replaces=decode_replaced(body.get("replaces", {})),
    )


def encode_replaced(replaces: tuple[Replaced, ...]) -> Json:
    """Return root ranges by chunk."""
    return {str(each.chunk): [list(span) for span in each.roots] for each in replaces}


def decode_replaced(body: Mapping[str, Any]) -> tuple[Replaced, ...]:
    """Parse what ``encode_replaced`` wrote."""
    return tuple(
        Replaced(chunk=ChunkKey.parse(chunk), roots=tuple((start, end) for start, end in spans))
        for chunk, spans in body.items()
    )


def encode_table(action: TableCreated) -> Json:
    """Return a table's definition as JSON."""
    return {
        "table_id": action.table_id,
        "name": action.name,
        "schema": [
            {"name": c.name, "type": c.type, "nullable": c.nullable} for c in action.schema.columns
        ],
        "time_column": action.time_column,
        "granularity": action.granularity.value,
        "properties": dict(action.properties),
        **({"rollup": encode_rollup(action.rollup)} if action.rollup else {}),
    }


def decode_table(body: Mapping[str, Any]) -> TableCreated:
    """Parse what ``encode_table`` wrote."""
    return TableCreated(
        table_id=body["table_id"],
        name=body["name"],
        schema=Schema(tuple(Column(**column) for column in body["schema"])),
        time_column=body["time_column"],
        granularity=Granularity(body["granularity"]),
        properties=body["properties"],
        rollup=decode_rollup(body["rollup"]) if "rollup" in body else None,
    )


def encode_plan(plan: CompactionPlan) -> Json:
    """Return a plan as JSON."""
    body: Json = {
        "id": plan.id,
        "kind": plan.kind.value,
        "interval": plan.chunk.interval.name,
        "version": plan.chunk.version,
        "inputs": _inputs(plan),
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


def _inputs(plan: CompactionPlan) -> list[int] | list[str]:
    if plan.region:
        return _ids(plan.inputs)
    return [segment_id.partition for segment_id in plan.inputs]


def decode_plan(body: Mapping[str, Any]) -> CompactionPlan:
    """Parse what ``encode_plan`` wrote."""
    chunk = ChunkKey.parse(f"{body['interval']}_{body['version']}")
    region = Interval.from_name(body["region"]) if "region" in body else None
    inputs = body["inputs"]
    return CompactionPlan(
        id=body["id"],
        kind=PlanKind(body["kind"]),
        chunk=chunk,
        inputs=_parse_ids(inputs) if region else tuple(map(chunk.segment, inputs)),
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


def _encode_restored(action: Restored) -> Json:
    zones = [[z.interval.name, z.granularity.value] for z in action.zones or ()]
    rarely = {"lost": _ids(action.lost), "voided": _ids(action.voided)}
    return {
        "segments": _segments(action.segments),
        "reason": action.reason,
        **{name: ids for name, ids in rarely.items() if ids},
        **({} if action.zones is None else {"zones": zones}),
    }


def _decode_restored(body: Json) -> Restored:
    zones = (Zone(Interval.from_name(name), Granularity(g)) for name, g in body.get("zones", []))
    return Restored(
        segments=_parse_segments(body["segments"]),
        lost=_parse_ids(body.get("lost", [])),
        voided=_parse_ids(body.get("voided", [])),
        zones=tuple(zones) if "zones" in body else None,
        reason=body["reason"],
    )


def encode_token(token: FencingToken) -> Json:
    """Return a fencing token as JSON."""
    return {"epoch": token.epoch, "number": token.number}


def _segments(segments: tuple[Segment, ...]) -> list[Json]:
    return [encode_segment(segment) for segment in segments]


def _ids(ids: tuple[SegmentId, ...]) -> list[str]:
    return [str(segment_id) for segment_id in ids]


def _parse_ids(texts: list[str]) -> tuple[SegmentId, ...]:
    return tuple(map(SegmentId.parse, texts))


def _parse_segments(bodies: list[Json]) -> tuple[Segment, ...]:
    return tuple(map(decode_segment, bodies))


_ENCODERS: dict[type, Callable[[Any], Json]] = {
    TableCreated: encode_table,
    Appended: lambda a: {"segments": _segments(a.segments)},
    Voided: lambda a: {"ids": _ids(a.ids), "reason": a.reason},
    PlanRequested: lambda a: {"plan": encode_plan(a.plan)},
    PlanInflight: lambda a: {
        "plan_id": a.plan_id,
        "attempt": a.attempt,
        "token": encode_token(a.token),
        "outputs": _ids(a.outputs),
        **({"inputs": _ids(a.inputs), "version": a.version} if a.version else {}),
    },
    PlanCompleted: lambda a: {
        "plan_id": a.plan_id,
        "attempt": a.attempt,
        "segments": _segments(a.segments),
    },
    PlanYielded: lambda a: {"plan_id": a.plan_id, "attempt": a.attempt, "reason": a.reason},
    PlanAborted: lambda a: {"plan_id": a.plan_id, "attempt": a.attempt, "reason": a.reason},
    Cleaned: lambda a: {
        "retained_from": a.retained_from,
        "ids": _ids(a.ids),
        "tags": dict(a.tags),
    },
    Swept: lambda a: {"paths": list(a.paths)},
    Tagged: lambda a: {"name": a.name, "n": a.n},
    Untagged: lambda a: {"name": a.name},
    Restored: _encode_restored,
}

_DECODERS: dict[str, Callable[[Json], Action]] = {
    "TableCreated": decode_table,
    "Appended": lambda b: Appended(segments=_parse_segments(b["segments"])),
    "Voided": lambda b: Voided(ids=_parse_ids(b["ids"]), reason=b["reason"]),
    "PlanRequested": lambda b: PlanRequested(plan=decode_plan(b["plan"])),
    "PlanInflight": lambda b: PlanInflight(
        plan_id=b["plan_id"],
        attempt=b["attempt"],
        token=FencingToken(**b["token"]),
        outputs=_parse_ids(b["outputs"]),
        inputs=_parse_ids(b.get("inputs", [])),
        version=b.get("version"),
    ),
    "PlanCompleted": lambda b: PlanCompleted(
        plan_id=b["plan_id"],
        attempt=b["attempt"],
        segments=_parse_segments(b["segments"]),
    ),
    "PlanYielded": lambda b: PlanYielded(
        plan_id=b["plan_id"], attempt=b["attempt"], reason=b["reason"]
    ),
    "PlanAborted": lambda b: PlanAborted(
        plan_id=b["plan_id"], attempt=b["attempt"], reason=b["reason"]
    ),
    "Cleaned": lambda b: Cleaned(
        retained_from=b["retained_from"], ids=_parse_ids(b["ids"]), tags=b["tags"]
    ),
    "Swept": lambda b: Swept(paths=tuple(b["paths"])),
    "Tagged": lambda b: Tagged(**b),
    "Untagged": lambda b: Untagged(**b),
    "Restored": _decode_restored,
}
