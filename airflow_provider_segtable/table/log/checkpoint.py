"""Checkpoints: a state as one Parquet file, columnar where it is large.

1. One row a segment; the table's definition, plans, ids and recent commits are few and stand as
   JSON in the file's key-value metadata under ``segtable``.
2. ``read_checkpoint(write_checkpoint(state)) == state``, always; anything else is refused and
   the reader folds the log instead.
3. A checksum of all its bytes stands in the key-value metadata under ``segtable.checksum``. It is
   computed over the file with zeros in its place, and written over these.
"""

import io
import json
import re
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_segtable.core.deletes.deletion import Deletion, Erasure
from airflow_provider_segtable.core.deletes.predicate import decode_predicate, encode_predicate
from airflow_provider_segtable.core.digest import digest
from airflow_provider_segtable.core.errors import ChecksumMismatch, CorruptTable, SegtableError
from airflow_provider_segtable.core.locks.lockbox import FencingToken, Generation
from airflow_provider_segtable.core.log.codec import (
    decode_plan,
    decode_table,
    encode_plan,
    encode_table,
    encode_token,
)
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.paths import data_path, file_path, known_name, vectors_path
from airflow_provider_segtable.core.plans.plan_state import PlanState, PlanStatus
from airflow_provider_segtable.core.segments.id_space import IdSpace
from airflow_provider_segtable.core.segments.segment import (
    ChunkKey,
    FooterChecksum,
    Segment,
    SegmentId,
    Shard,
)
from airflow_provider_segtable.core.segments.segment_codec import (
    decode_lineage,
    decode_roots,
    encode_lineage,
    encode_roots,
)
from airflow_provider_segtable.core.segments.timeline import Timeline
from airflow_provider_segtable.core.time.interval import Granularity, Interval
from airflow_provider_segtable.core.time.layout import Zone

FORMAT = 5
READABLE = (2, 3, 4, FORMAT)
"""Format 2 knew no cleaning, 3 no deletions, 4 no checksums; the log behind them may be gone."""
_KEY = b"segtable"
_CHECKSUM_KEY = b"segtable.checksum"
_BLANK = b"sha256/16:" + b"0" * 16
"""The value of ``segtable.checksum`` before its digits are known."""
_CHECKSUM = re.compile(re.escape(_BLANK[:10]) + rb"([0-9a-f]{16})")

_SCHEMA = pa.schema(
    [
        ("start", pa.int64()),
        ("end", pa.int64()),
        ("version", pa.int64()),
        ("partition", pa.int32()),
        ("root_start", pa.int32()),
        ("root_end", pa.int32()),
        ("minor_version", pa.int32()),
        ("group_size", pa.int32()),
        ("core", pa.int32()),
        ("path", pa.string()),
        ("rows", pa.int64()),
        ("size", pa.int64()),
        ("row_groups", pa.int32()),
        ("time_min", pa.int64()),
        ("time_max", pa.int64()),
        ("created", pa.int64()),
        ("lineage", pa.string()),
        ("events", pa.int64()),
        ("clustering", pa.string()),
        ("origin", pa.string()),
        ("replaces", pa.string()),
        ("roots", pa.string()),
        ("purged", pa.int64()),
        ("footer_start", pa.int64()),
        ("footer_crc", pa.int64()),
    ]
)


def write_checkpoint(state: State) -> bytes:
    """Return the state as the content of a checkpoint file."""
    rows = [_row(segment) for segment in state.timeline.segments()]
    table = pa.Table.from_pylist(rows, schema=_SCHEMA)
    sink = io.BytesIO()
    with pq.ParquetWriter(sink, _SCHEMA, compression="zstd") as writer:
        writer.write_table(table)
        head = json.dumps(_head(state)).encode()
        writer.add_key_value_metadata({_KEY: head, _CHECKSUM_KEY: _BLANK})
    data = sink.getvalue()
    at = data.rindex(_BLANK)
    return data[:at] + _BLANK[:10] + digest(data).encode() + data[at + len(_BLANK) :]


def read_checkpoint(data: bytes) -> State:
    """Return the state that a checkpoint file holds.

    Raises:
        ChecksumMismatch: if its bytes are not those that were written.
        CorruptTable: if it is torn, foreign, or of another format.
    """
    summed = _checked(data)
    try:
        # On this thread alone: a process that ends while Arrow's threads still start is aborted.
        table = pq.ParquetFile(pa.BufferReader(data), pre_buffer=False).read(use_threads=False)
        head = json.loads((table.schema.metadata or {})[_KEY])
        _check_format(head["format"], summed=summed)
        segments = [_segment(row) for row in table.to_pylist()]
        return _state(head, segments)
    except CorruptTable:
        raise
    except (pa.ArrowException, OSError, LookupError, TypeError, ValueError, SegtableError) as error:
        raise CorruptTable(f"checkpoint is unreadable: {error}") from error


def _check_format(found: object, *, summed: bool) -> None:
    if found not in READABLE:
        raise CorruptTable(f"checkpoint has format {found}, expected {FORMAT}")
    if found == FORMAT and not summed:
        raise ChecksumMismatch("checkpoint has no checksum, though its format has one")


def _checked(data: bytes) -> bool:
    """Return whether the file has a checksum, which is then the one of its bytes."""
    found = [*_CHECKSUM.finditer(data)]
    if not found:
        return False
    start, end = found[-1].span()
    if digest(data[:start] + _BLANK + data[end:]).encode() != found[-1][1]:
        raise ChecksumMismatch("checkpoint was damaged after it was written")
    return True


def _row(segment: Segment) -> dict[str, Any]:
    shard = segment.shard
    return {
        "start": segment.id.interval.start,
        "end": segment.id.interval.end,
        "version": segment.id.version,
        "partition": shard.partition,
        "root_start": shard.root_start,
        "root_end": shard.root_end,
        "minor_version": shard.minor_version,
        "group_size": shard.group_size,
        "core": shard.core,
        "path": segment.path,
        "rows": segment.rows,
        "size": segment.size,
        "row_groups": segment.row_groups,
        "time_min": segment.time_min,
        "time_max": segment.time_max,
        "created": segment.created,
        "lineage": json.dumps(encode_lineage(segment)) if segment.lineage else None,
        "events": segment.events,
        "clustering": segment.clustering,
        "origin": str(segment.origin) if segment.origin else None,
        "replaces": json.dumps(encode_roots(segment.replaces)) if segment.replaces else None,
        "roots": json.dumps(encode_roots(segment.roots)) if segment.roots else None,
        "purged": segment.purged,
        "footer_start": segment.footer.start if segment.footer else None,
        "footer_crc": segment.footer.crc if segment.footer else None,
    }


def _segment(row: Mapping[str, Any]) -> Segment:
    interval = Interval(row["start"], row["end"])
    shard = {name: row[name] for name in Shard.__dataclass_fields__}
    facts = (
        *("rows", "size", "row_groups", "time_min", "time_max", "created"),
        *("events", "clustering"),
    )
    lineage = row["lineage"] or "[]"  # a list in older formats
    name = SegmentId(interval, row["version"], row["partition"])
    return Segment(
        id=name,
        shard=Shard(**shard),
        path=data_path(row["path"], rows=row["rows"]),
        lineage=decode_lineage(
            json.loads(lineage) if isinstance(lineage, str) else lineage, name.chunk
        ),
        origin=SegmentId.parse(row["origin"]) if row["origin"] else None,
        replaces=decode_roots(json.loads(row["replaces"] or "{}")),
        roots=decode_roots(json.loads(row.get("roots") or "{}")),
        purged=row.get("purged", 0),
        footer=_footer(row),
        **{name: row[name] for name in facts},
    )


def _footer(row: Mapping[str, Any]) -> FooterChecksum | None:
    start = row.get("footer_start")
    return None if start is None else FooterChecksum(start, row["footer_crc"])


def _head(state: State) -> dict[str, Any]:
    return {
        "format": FORMAT,
        "n": state.n,
        "time": state.time,
        "base_version": state.base_version,
        "table": encode_table(state.table),
        "plans": [_encode_plan_state(plan) for plan in state.plans.values()],
        "ids": [
            [str(chunk), generation.value, space.next, sorted(space.holes)]
            for (chunk, generation), space in state.ids.items()
        ],
        "voided": {str(chunk): sorted(parts) for chunk, parts in state.voided.items()},
        "commits": dict(state.commits),
        "zones": [[zone.interval.name, zone.granularity.value] for zone in state.zones],
        "retained_from": state.retained_from,
        "tags": dict(state.tags),
        "doomed": sorted(state.doomed),
        "vectors": {
            str(root): [[each.n, each.path, each.rows, each.checksum] for each in some]
            for root, some in state.vectors.items()
        },
        "erasures": [[each.n, encode_predicate(each.predicate)] for each in state.erasures],
        "forgotten": state.forgotten,
    }


def _state(head: Mapping[str, Any], segments: list[Segment]) -> State:
    plans = [_decode_plan_state(body) for body in head["plans"]]
    return State(
        n=head["n"],
        time=head["time"],
        base_version=head["base_version"],
        table=decode_table(head["table"]),
        timeline=Timeline.empty().with_changes(add=segments),
        plans={plan.plan.id: plan for plan in plans},
        ids={
            (ChunkKey.parse(chunk), Generation(generation)): IdSpace(following, frozenset(holes))
            for chunk, generation, following, holes in head["ids"]
        },
        voided={ChunkKey.parse(c): frozenset(parts) for c, parts in head["voided"].items()},
        commits=head["commits"],
        zones=tuple(
            Zone(Interval.from_name(name), Granularity(cut)) for name, cut in head["zones"]
        ),
        retained_from=head.get("retained_from", 0),
        tags={known_name(name, "a tag"): n for name, n in head.get("tags", {}).items()},
        doomed=frozenset(map(file_path, head.get("doomed", ()))),
        vectors={
            SegmentId.parse(root): tuple(_deletion(*each) for each in some)
            for root, some in head.get("vectors", {}).items()
        },
        erasures=tuple(
            Erasure(n=n, predicate=decode_predicate(body)) for n, body in head.get("erasures", [])
        ),
        forgotten=head.get("forgotten", 0),
    )


def _deletion(n: int, path: str, rows: int, checksum: str = "") -> Deletion:
    return Deletion(n=n, path=vectors_path(path), rows=rows, checksum=checksum)


def _encode_plan_state(state: PlanState) -> dict[str, Any]:
    return {
        "plan": encode_plan(state.plan),
        "status": state.status.value,
        "requested_at": state.requested_at,
        "changed_at": state.changed_at,
        "last_n": state.last_n,
        "author": state.author,
        "attempts": state.attempts,
        "attempt": state.attempt,
        "token": encode_token(state.token) if state.token else None,
        "outputs": [str(output) for output in state.outputs],
        "note": state.note,
        "yields": state.yields,
        "version": state.version,
        "found": [str(segment_id) for segment_id in state.found],
    }


def _decode_plan_state(body: dict[str, Any]) -> PlanState:
    token = FencingToken(**body["token"]) if body["token"] else None
    outputs = tuple(map(SegmentId.parse, body["outputs"]))
    changed = {
        "plan": decode_plan(body["plan"]),
        "status": PlanStatus(body["status"]),
        "token": token,
        "outputs": outputs,
        "found": tuple(map(SegmentId.parse, body["found"])),
    }
    return PlanState(**{**body, **changed})
