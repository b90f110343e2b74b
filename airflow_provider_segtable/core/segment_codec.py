"""JSON codec of segments, their lineage and roots, and deletion vector files.

Absent attributes are omitted, not written as null.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from airflow_provider_segtable.core.deletion import VectorFile
from airflow_provider_segtable.core.errors import CorruptTable
from airflow_provider_segtable.core.paths import data_path, vectors_path
from airflow_provider_segtable.core.segment import (
    ChunkKey,
    FooterChecksum,
    Roots,
    Run,
    Segment,
    SegmentId,
    Shard,
    implied,
)

Json = dict[str, Any]


def encode_segment(segment: Segment) -> Json:
    """Return a segment descriptor as JSON."""
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
        "lineage": encode_lineage(segment),
    }
    rarely = {
        "core": shard.core,
        "base": shard.base,
        "clustering": segment.clustering,
        "origin": str(segment.origin or ""),
        "replaces": encode_roots(segment.replaces),
        "roots": encode_roots(segment.roots),
        "purged": segment.deletes_applied_through,
        "schema": segment.schema,
        "completed": segment.completed,
        "buckets": segment.buckets,
        "adopted": segment.adopted,
        "footer": [segment.footer.start, segment.footer.crc] if segment.footer else [],
    }
    events = {} if segment.events == segment.rows else {"events": segment.events}
    return body | events | {name: value for name, value in rarely.items() if value}


def decode_segment(body: Mapping[str, Any]) -> Segment:
    """Parse the output of ``encode_segment``."""
    segment_id = SegmentId.parse(body["id"])
    shard = Shard(
        partition=segment_id.partition,
        root_start=body["root"][0],
        root_end=body["root"][1],
        minor_version=body["minor_version"],
        group_size=body["group_size"],
        core=body.get("core", 0),
        base=body.get("base", 0),
    )
    return Segment(
        id=segment_id,
        shard=shard if "base" in body else implied(shard, segment_id, carried="origin" in body),
        path=data_path(body["path"], rows=body["rows"], adopted=_marked(body)),
        rows=body["rows"],
        size=body["size"],
        row_groups=body["row_groups"],
        time_min=body["time"][0],
        time_max=body["time"][1],
        created=body["created"],
        lineage=decode_lineage(body["lineage"], segment_id.chunk),
        events=body.get("events", body["rows"]),
        clustering=body.get("clustering", ""),
        origin=SegmentId.parse(body["origin"]) if "origin" in body else None,
        replaces=decode_roots(body.get("replaces", {})),
        roots=decode_roots(body.get("roots", {})),
        deletes_applied_through=body.get("purged", 0),
        schema=body.get("schema", 0),
        footer=FooterChecksum(*body["footer"]) if "footer" in body else None,
        completed=body.get("completed", 0),
        buckets=body.get("buckets", 0),
    )


def _marked(body: Mapping[str, Any]) -> bool:
    """Return whether a descriptor marks its file as adopted."""
    found = body.get("adopted", False)
    if not isinstance(found, bool):
        raise CorruptTable(f"'adopted' of {body['id']} is {found!r:.100}, not true or false")
    return found


def encode_lineage(segment: Segment) -> list[list[int | str]]:
    """Return the runs as JSON; a root in the segment's own chunk is its partition alone."""
    own = segment.id.chunk
    return [
        [run.root.partition if run.root.chunk == own else str(run.root), run.start, run.rows]
        for run in segment.lineage
    ]


def decode_lineage(body: Iterable[Any], own: ChunkKey) -> tuple[Run, ...]:
    """Parse the output of ``encode_lineage`` for a segment of chunk ``own``."""
    return tuple(
        Run(own.segment(root) if isinstance(root, int) else SegmentId.parse(root), start, rows)
        for root, start, rows in body
    )


def encode_roots(roots: tuple[Roots, ...]) -> Json:
    """Return root ranges by chunk as JSON."""
    return {str(each.chunk): [list(span) for span in each.spans] for each in roots}


def decode_roots(body: Mapping[str, Any]) -> tuple[Roots, ...]:
    """Parse the output of ``encode_roots``."""
    return tuple(
        Roots(chunk=ChunkKey.parse(chunk), spans=tuple((start, end) for start, end in spans))
        for chunk, spans in body.items()
    )


def encode_vectors(file: VectorFile) -> Json:
    """Return a file of deletion vectors as JSON, as events record it."""
    rows = {str(root): count for root, count in file.rows.items()}
    checksum = {"checksum": file.checksum} if file.checksum else {}
    return {"path": file.path, "size": file.size, "rows": rows, **checksum}


def decode_vectors(body: Mapping[str, Any]) -> VectorFile:
    """Parse the output of ``encode_vectors``."""
    rows = {SegmentId.parse(root): count for root, count in body["rows"].items()}
    return VectorFile(
        path=vectors_path(body["path"]),
        size=body["size"],
        rows=rows,
        checksum=body.get("checksum", ""),
    )


def encode_segments(segments: tuple[Segment, ...]) -> list[Json]:
    """Return segments as JSON."""
    return [encode_segment(segment) for segment in segments]


def decode_segments(bodies: Iterable[Json]) -> tuple[Segment, ...]:
    """Parse the output of ``encode_segments``."""
    return tuple(map(decode_segment, bodies))


def encode_ids(ids: Iterable[SegmentId]) -> list[str]:
    """Return segment ids as JSON."""
    return [str(segment_id) for segment_id in ids]


def decode_ids(texts: Iterable[str]) -> tuple[SegmentId, ...]:
    """Parse the output of ``encode_ids``."""
    return tuple(map(SegmentId.parse, texts))
