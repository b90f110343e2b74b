"""Checkpoints: a state as one Parquet file, with segments decoded on demand.

1. One row per segment, sorted by chunk; all segments of a chunk are in one row group. Key-value
   metadata contain the rest: ``segtable`` is the head, the state without its chunks, as a JSON
   object; ``segtable.chunks`` is a table with one row per chunk (a Parquet file, base64): the place
   of its segments and their summary.
2. ``read_checkpoint(write_checkpoint(state)) == state``, always. Any other file is refused, and
   the reader folds the log instead.
3. Reading decodes the head and the chunk table. A chunk's segments are decoded at its first use.
   Writing copies the row groups of chunks that are still packed, without decoding them
   (``table.log.checkpoint_chunks``).
4. The key-value metadata contain a checksum of all bytes under ``segtable.checksum``. It is
   computed over the file with zeros in its place, then overwrites them.
"""

import base64
import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn

import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_segtable.core.consumer import decode_consumers, encode_consumers
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.deletion import Deletion, PredicateDelete
from airflow_provider_segtable.core.errors import (
    ChecksumMismatch,
    CorruptTable,
    OtherFormat,
    SegtableError,
)
from airflow_provider_segtable.core.indexes.index_state import decode_indexes, encode_indexes
from airflow_provider_segtable.core.locks import Generation, decode_token, encode_token
from airflow_provider_segtable.core.log.families.settle_events import (
    decode_replaced,
    decode_settlements,
    encode_replaced,
    encode_settlements,
)
from airflow_provider_segtable.core.log.families.table_events import decode_table, encode_table
from airflow_provider_segtable.core.log.families.tag_events import decode_tags
from airflow_provider_segtable.core.log.plan import PlanState, PlanStatus
from airflow_provider_segtable.core.log.plan_kinds import decode_plan
from airflow_provider_segtable.core.log.state import (
    IdSpace,
    IdSpaces,
    Overwritten,
    RecentCommits,
    State,
    decode_loads,
    encode_loads,
)
from airflow_provider_segtable.core.log.work import Work
from airflow_provider_segtable.core.log_store.manifest import decode_manifests, encode_manifests
from airflow_provider_segtable.core.paths import digest, file_path, named_path, vectors_path
from airflow_provider_segtable.core.predicate import decode_predicate, encode_predicate
from airflow_provider_segtable.core.segment import ChunkKey, SegmentId
from airflow_provider_segtable.core.segment_codec import decode_ids, encode_ids
from airflow_provider_segtable.core.settlement import ReplacedVectors
from airflow_provider_segtable.core.time import Interval, decode_overrides, encode_overrides
from airflow_provider_segtable.core.timeline import AnyChunk, Timeline
from airflow_provider_segtable.table.log.checkpoint_chunks import (
    QUICK,
    CheckpointChunks,
    ChunkWriter,
)
from airflow_provider_segtable.table.log.opening import Opening
from airflow_provider_segtable.table.log.segment_rows import segments_in
from airflow_provider_segtable.table.log.sidecars import (
    LayeredSpaces,
    Sidecar,
    decode_key,
    encode_key,
    layers_of,
    layout_of,
    new_sidecars,
    opened,
    parted,
)


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
        **_encode_work(state.plans.values()),
        **({"consumers": encode_consumers(state.consumers)} if state.consumers else {}),
        **({"indexes": encode_indexes(state.indexes)} if state.indexes else {}),
        **({"log_store": encode_manifests(state.log_store)} if state.log_store else {}),
        **({"loads": encode_loads(state.loads)} if state.loads else {}),
        **({"adopts": True} if state.adopts else {}),
        **({"settled": encode_settlements(state.settled)} if state.settled else {}),
        **_encode_replaced(state.replaced_vectors),
        **({"joined": [*state.joined]} if state.joined else {}),
    }


def decode_head(head: Mapping[str, Any], timeline: Timeline, ids: IdSpaces) -> State:
    """Return the state of a head and its chunks; older formats lack some entries.

    Raises:
        SegtableError, KeyError, TypeError, ValueError: ``encode_head`` did not produce the head.
    """
    work = head.get("work", {})
    plans = [_with_work(_decode_plan_state(body), work) for body in head["plans"]]
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
        pending_delete=frozenset(
            map(named_path if "adopts" in head else file_path, head.get("doomed", ()))
        ),
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
        adopts=bool(head.get("adopts", False)),
        settled=decode_settlements(head.get("settled", ())),
        replaced_vectors=decode_replaced(head.get("replaced_vectors", ())),
        joined=_joined(*head["joined"]) if "joined" in head else None,
    )


def _encode_replaced(replaced: tuple[ReplacedVectors, ...]) -> dict[str, Any]:
    return {"replaced_vectors": encode_replaced(replaced)} if replaced else {}


def _joined(first: int, last: int) -> tuple[int, int]:
    return first, last


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


def _encode_work(plans: Iterable[PlanState]) -> dict[str, Any]:
    """Return the start and the measures of plans, apart: an older segtable reads plans without."""
    work = {
        known.plan.id: [known.started_at, *(known.work.encode() if known.work else ())]
        for known in plans
        if known.started_at
    }
    return {"work": work} if work else {}


def _with_work(state: PlanState, work: Mapping[str, Sequence[float]]) -> PlanState:
    started_at, *measures = work.get(state.plan.id, [0])
    done = Work.decode(measures) if measures else None
    return replace(state, started_at=int(started_at), work=done)


FORMAT = 8
INDEXED = 9
"""The format of tables with indexes: an older segtable must not read them without."""
LOGGED = 10
"""The format of tables with a log store: an older segtable must not commit to them."""
ADOPTING = 11
"""The format of tables with adopted files: an older segtable takes their paths for damage."""
SETTLED = 12
"""The format of tables with settled file groups: an older segtable would take their vectors for
orphans."""
WITHIN = 13
"""The format of a version within a file of several events: an older segtable takes the next
number for free."""
LAYERED = 14
"""The format of checkpoints with sidecars: an older segtable would miss their chunks."""
READABLE = (2, 3, 4, 5, 6, 7, FORMAT, INDEXED, LOGGED, ADOPTING, SETTLED, WITHIN, LAYERED)
"""Format 2 had no cleaning, 3 no deletions, 4 no checksums, 5 no chunk table, 6 one schema, 7 no
buckets; all are read, because the events before them may have been deleted."""
CHUNKED = 6
"""First format with a chunk table."""
SUMMED = 5
"""First format with a checksum."""

_HEAD = b"segtable"
_CHUNKS = b"segtable.chunks"
_CHECKSUM_KEY = b"segtable.checksum"
_BLANK = b"sha256/16:" + b"0" * 16
"""The value of ``segtable.checksum`` while the digest is computed."""
_CHECKSUM = re.compile(re.escape(_BLANK[:10]) + rb"([0-9a-f]{16})")


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointFiles:
    """A checkpoint as files: its own, and the new sidecars by path.

    ``listed`` are all sidecars that it names. ``rests_on`` is the event of the checkpoint that
    listed those which are not new, None without any.
    """

    own: bytes
    new: Mapping[str, bytes]
    listed: Sequence[Sidecar]
    rests_on: int | None


def checkpoint_files(state: State) -> CheckpointFiles:
    """Encode the state as the files of a checkpoint (``table.log.sidecars``)."""
    layout, layers = layout_of(state), layers_of(state)
    if layout.own is None:
        return CheckpointFiles(own=write_checkpoint(state), new={}, listed=(), rests_on=None)
    made = [*new_sidecars(state, layout, partial(_sidecar_file, state))]
    listed = sorted([*layout.kept, *(each for each, _ in made)], key=lambda each: each.low)
    chunks, idle = parted(state, layout.own)
    head = {**_layered_head(state, listed, {*layout.own}), **encode_head(state)}
    return CheckpointFiles(
        own=_file(state, chunks, idle, head),
        new={each.path: data for each, data in made},
        listed=listed,
        rests_on=layers.n if layers is not None and layout.kept else None,
    )


def _layered_head(
    state: State, listed: Sequence[Sidecar], own: AbstractSet[ChunkKey]
) -> dict[str, Any]:
    """Return the entries of the head about sidecars."""
    holes = [
        [encode_key(key), generation.value]
        for key, generation in sorted(state.ids.with_holes)
        if key not in own
    ]
    return {
        "format": LAYERED,
        "sidecars": [each.encode() for each in listed],
        "segments": len(state.timeline),
        "open": holes,
    }


def _sidecar_file(state: State, chunks: Sequence[AnyChunk], idle: Sequence[ChunkKey]) -> bytes:
    return _file(state, chunks, idle, {"format": LAYERED, "sidecar": True})


def write_checkpoint(state: State) -> bytes:
    """Encode the state as the content of one checkpoint file, which needs no sidecar."""
    chunks = [*state.timeline.chunks()]
    used = {chunk.key for chunk in chunks}
    idle = sorted({key for key, _ in state.ids} - used)
    return _file(state, chunks, idle, {"format": _format(state), **encode_head(state)})


def _file(
    state: State, chunks: Iterable[AnyChunk], idle: Iterable[ChunkKey], head: Mapping[str, Any]
) -> bytes:
    """Encode chunks of a state as a file with a head."""
    writer = ChunkWriter(state)
    return sealed(writer, writer.write(chunks, idle), head)


def sealed(writer: ChunkWriter, chunks: pa.Table, head: Mapping[str, Any]) -> bytes:
    """Return the file of a writer, with its chunk table and a head."""
    table = io.BytesIO()
    pq.write_table(chunks, table, use_dictionary=False, **QUICK)
    data = writer.finish(
        {
            _HEAD: json.dumps({**head, "bases": True}).encode(),
            _CHUNKS: base64.b64encode(table.getvalue()),
            _CHECKSUM_KEY: _BLANK,
        }
    )
    at = data.rindex(_BLANK)
    return data[:at] + _BLANK[:10] + digest(data).encode() + data[at + len(_BLANK) :]


def _format(state: State) -> int:
    if state.joined:
        return WITHIN
    if state.settled or state.replaced_vectors:
        return SETTLED
    if state.adopts:
        return ADOPTING
    if state.log_store:
        return LOGGED
    return INDEXED if state.indexes else FORMAT


@dataclass(frozen=True, slots=True)
class SidecarFiles:
    """How the sidecars of a checkpoint are read.

    ``read`` returns the bytes of a path, or raises ``NotFound``. ``rebuilt`` returns the state
    after an event without the checkpoint of that event, or raises ``CorruptTable``.
    """

    read: Callable[[str], bytes]
    rebuilt: Callable[[int], State]


def _refuse(_: object) -> NoReturn:
    raise CorruptTable("checkpoint has sidecars, and is read alone")


def read_checkpoint(data: bytes, sidecars: SidecarFiles | None = None) -> State:
    """Return the state in a checkpoint file.

    Args:
        data: the content of the file.
        sidecars: how its sidecars are read; without, a checkpoint that has any is refused.

    Raises:
        ChecksumMismatch: the bytes do not match their checksum.
        OtherFormat: an older or newer segtable wrote the file.
        CorruptTable: the file is truncated, or not a checkpoint.
    """
    with _reading(data) as (file, head):
        if head["format"] < CHUNKED:
            return _read_whole(file, head)
        own = _chunks(data, file, head, Opening())
        listed = [Sidecar.decode(each) for each in head.get("sidecars", ())]
        if listed and sidecars is None:
            _refuse(head["n"])
        files = sidecars or SidecarFiles(_refuse, _refuse)
        layers = opened(
            head["n"],
            own,
            listed,
            head.get("segments", own.segments),
            partial(_loaded, files, own.opening),
            partial(_made_again, files, own.opening, head["n"]),
        )
        holes = {(decode_key(key), Generation(name)) for key, name in head.get("open", ())}
        ids = IdSpaces(LayeredSpaces(layers), holes.union(own.with_holes()))
        return decode_head(head, layers.timeline, ids)


def listed_sidecars(data: bytes) -> tuple[Sidecar, ...]:
    """Return the sidecars that a checkpoint file lists; errors as ``read_checkpoint``."""
    with _reading(data) as (_, head):
        return tuple(Sidecar.decode(each) for each in head.get("sidecars", ()))


@contextmanager
def _reading(data: bytes) -> Iterator[tuple[pq.ParquetFile, dict[str, Any]]]:
    """Open a file of a checkpoint for the block; yield it with its head."""
    summed = _checked(data)
    try:
        # Single-threaded: a process that ends while Arrow starts its threads is aborted.
        file = pq.ParquetFile(pa.BufferReader(data), pre_buffer=False)
        head = json.loads((file.metadata.metadata or {})[_HEAD])
        _check_format(head["format"], summed=summed)
        yield file, head
    except CorruptTable:
        raise
    except (pa.ArrowException, OSError, LookupError, TypeError, ValueError, SegtableError) as error:
        raise CorruptTable(f"checkpoint is unreadable: {error}") from error


def _chunks(
    data: bytes, file: pq.ParquetFile, head: Mapping[str, Any], opening: Opening
) -> CheckpointChunks:
    """Return the chunks of an opened file."""
    table = pa.BufferReader(base64.b64decode(file.metadata.metadata[_CHUNKS]))
    return CheckpointChunks(
        data,
        file,
        pq.ParquetFile(table, pre_buffer=False).read(use_threads=False),
        with_bases="bases" in head,
        opening=opening,
    )


def read_sidecar(data: bytes, sidecar: Sidecar, opening: Opening) -> CheckpointChunks:
    """Return the chunks of a sidecar's file.

    Raises:
        CorruptTable: it is not the file that the checkpoint lists.
    """
    if digest(data) != sidecar.checksum:
        raise ChecksumMismatch(f"{sidecar.path} was damaged after it was written")
    with _reading(data) as (file, head):
        return _chunks(data, file, head, opening)


def _loaded(files: SidecarFiles, opening: Opening, sidecar: Sidecar) -> CheckpointChunks:
    return read_sidecar(files.read(sidecar.path), sidecar, opening)


def _made_again(
    files: SidecarFiles, opening: Opening, n: int, sidecar: Sidecar
) -> CheckpointChunks:
    """Return the chunks of a lost sidecar, as the state of its checkpoint has them."""
    state = files.rebuilt(n)
    chunks = [chunk for chunk in state.timeline.chunks() if _inside(sidecar, chunk.key)]
    used = {chunk.key for chunk in chunks}
    idle = sorted({key for key, _ in state.ids if _inside(sidecar, key)} - used)
    data = _sidecar_file(state, chunks, idle)
    with _reading(data) as (file, head):
        return _chunks(data, file, head, opening)


def _inside(sidecar: Sidecar, key: ChunkKey) -> bool:
    return not (key < sidecar.low or sidecar.high < key)


def _check_format(found: int, *, summed: bool) -> None:
    if found not in READABLE:
        raise OtherFormat(f"checkpoint has format {found}, expected {FORMAT}")
    if found >= SUMMED and not summed:
        raise ChecksumMismatch("checkpoint has no checksum, though its format has one")


def _checked(data: bytes) -> bool:
    """Verify the checksum; return False if the file has none."""
    found = [*_CHECKSUM.finditer(data, max(0, data.rfind(_CHECKSUM_KEY)))]
    if not found:
        return False
    start, end = found[-1].span()
    if digest(data[:start] + _BLANK + data[end:]).encode() != found[-1][1]:
        raise ChecksumMismatch("checkpoint was damaged after it was written")
    return True


def _read_whole(file: pq.ParquetFile, head: Mapping[str, Any]) -> State:
    """Return the state in a checkpoint of an older format."""
    segments = segments_in(file.read(use_threads=False))
    spaces = {
        (ChunkKey.parse(chunk), Generation(generation)): IdSpace(following, frozenset(holes))
        for chunk, generation, following, holes in head["ids"]
    }
    return decode_head(head, Timeline.empty().with_changes(add=segments), IdSpaces(spaces))
