"""Events as JSON, versioned and checksummed.

1. An event file is one JSON object with ``format`` (the number of this codec), ``checksum`` and
   the event's fields. Unknown formats and kinds are refused by name, never guessed.
2. The checksum covers everything else, the event's number included, so a torn, flipped or
   misplaced file is detected.
3. Encoding is canonical (sorted keys, no spaces): equal events have equal bytes.
4. Absent attributes of segments and plans are omitted, not written as null.
"""

import json
from collections.abc import Callable, Mapping
from typing import Any

from airflow_provider_segtable.core.deletes.predicate import decode_predicate, encode_predicate
from airflow_provider_segtable.core.digest import digest
from airflow_provider_segtable.core.errors import CorruptTable, UnsupportedFormat
from airflow_provider_segtable.core.locks.lockbox import FencingToken
from airflow_provider_segtable.core.log.events import (
    Action,
    Appended,
    Cleaned,
    Event,
    PlanAborted,
    PlanCompleted,
    PlanInflight,
    PlanRequested,
    PlanYielded,
    RowsChanged,
    Swept,
    TableCreated,
    TableRepaired,
    Tagged,
    Untagged,
    Voided,
)
from airflow_provider_segtable.core.paths import file_path, known_name
from airflow_provider_segtable.core.plans.compaction_plan import CompactionPlan, PlanKind
from airflow_provider_segtable.core.segments.segment import ChunkKey, Segment, SegmentId
from airflow_provider_segtable.core.segments.segment_codec import (
    Json,
    decode_segment,
    decode_vectors,
    encode_segment,
    encode_vectors,
)
from airflow_provider_segtable.core.tables.rollup_spec import decode_rollup, encode_rollup
from airflow_provider_segtable.core.tables.schema import Column, Schema
from airflow_provider_segtable.core.time.interval import Granularity, Interval, iso, parse_instant
from airflow_provider_segtable.core.time.layout import GranularityOverride

FORMAT = 1


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
        UnsupportedFormat: if a newer segtable wrote the file.
        CorruptTable: if the file is torn, flipped, or no event.
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
    # Without the checksum, these are the bytes that the author hashed; encoding again costs more.
    if checksum != _checksum(data.replace(f'"checksum":"{checksum}",'.encode(), b"", 1)):
        raise CorruptTable(f"{where} fails its checksum: restore it or repair the log")
    if body["kind"] not in _DECODERS:
        raise UnsupportedFormat(f"{where} is a {body['kind']!r} event: upgrade segtable")
    try:
        action = _DECODERS[body["kind"]](body["action"])
    except CorruptTable as error:
        raise CorruptTable(f"{where}: {error}") from None
    return Event(
        n=body["n"],
        time=parse_instant(body["time"]),
        commit=body["commit"],
        author=body["author"],
        action=action,
    )


def _canonical(body: Json) -> bytes:
    return json.dumps(body, sort_keys=True, separators=(",", ":")).encode()


def _checksum(canonical: bytes) -> str:
    return digest(canonical)


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
    """Parse the output of ``encode_table``."""
    return TableCreated(
        table_id=known_name(body["table_id"], "a table's locks"),
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
    """Parse the output of ``encode_plan``."""
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


def _encode_changed(action: RowsChanged) -> Json:
    predicate = action.predicate and encode_predicate(action.predicate)
    return {
        "kind": action.kind,
        "segments": _segments(action.segments),
        "vectors": [encode_vectors(file) for file in action.vectors],
        "seen": action.seen,
        "matched": action.matched,
        "reason": action.reason,
        **({"predicate": predicate} if predicate else {}),
    }


def _decode_changed(body: Json) -> RowsChanged:
    return RowsChanged(
        kind=body["kind"],
        segments=_parse_segments(body["segments"]),
        vectors=tuple(map(decode_vectors, body["vectors"])),
        seen=body["seen"],
        matched=body["matched"],
        reason=body["reason"],
        predicate=decode_predicate(body["predicate"]) if "predicate" in body else None,
    )


def _encode_restored(action: TableRepaired) -> Json:
    overrides = [[z.interval.name, z.granularity.value] for z in action.overrides or ()]
    rarely = {
        "lost": _ids(action.lost),
        "voided": _ids(action.voided),
        "vectors": [encode_vectors(file) for file in action.vectors],
    }
    return {
        "segments": _segments(action.segments),
        "reason": action.reason,
        **{name: value for name, value in rarely.items() if value},
        **({} if action.overrides is None else {"zones": overrides}),
    }


def _decode_restored(body: Json) -> TableRepaired:
    overrides = (
        GranularityOverride(Interval.from_name(name), Granularity(g))
        for name, g in body.get("zones", [])
    )
    return TableRepaired(
        segments=_parse_segments(body["segments"]),
        lost=_parse_ids(body.get("lost", [])),
        voided=_parse_ids(body.get("voided", [])),
        vectors=tuple(map(decode_vectors, body.get("vectors", []))),
        overrides=tuple(overrides) if "zones" in body else None,
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


def _parse_tags(body: Mapping[str, int]) -> dict[str, int]:
    return {known_name(name, "a tag"): n for name, n in body.items()}


def _parse_segments(bodies: list[Json]) -> tuple[Segment, ...]:
    return tuple(map(decode_segment, bodies))


_ENCODERS: dict[type, Callable[[Any], Json]] = {
    TableCreated: encode_table,
    Appended: lambda a: {"segments": _segments(a.segments)},
    RowsChanged: _encode_changed,
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
    TableRepaired: _encode_restored,
}

_DECODERS: dict[str, Callable[[Json], Action]] = {
    "TableCreated": decode_table,
    "Appended": lambda b: Appended(segments=_parse_segments(b["segments"])),
    "Changed": _decode_changed,
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
        retained_from=b["retained_from"], ids=_parse_ids(b["ids"]), tags=_parse_tags(b["tags"])
    ),
    "Swept": lambda b: Swept(paths=tuple(map(file_path, b["paths"]))),
    "Tagged": lambda b: Tagged(name=known_name(b["name"], "a tag"), n=b["n"]),
    "Untagged": lambda b: Untagged(name=known_name(b["name"], "a tag")),
    "Restored": _decode_restored,
}
