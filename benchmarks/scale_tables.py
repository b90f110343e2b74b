"""Tables of up to ten million segments, made in a minute or two and little memory.

1. One sidecar is made from segments, as any checkpoint makes it. The others are copies of its
   columns with other times and paths (``shifted``), encoded by the same writer. So no segment of
   theirs is ever an object.
2. A checkpoint lists them all; it is written, and opened again, by the code of every table. The
   log has ``HISTORY`` commits before it, and ``TAIL`` appends to the newest chunk after it.
3. Their data files do not exist: nothing here reads them.
"""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.locks import Generation
from airflow_provider_segtable.core.log.events import Event, encode
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.fold import apply
from airflow_provider_segtable.core.log.log_paths import event_path
from airflow_provider_segtable.core.log.state import IdSpaces, RecentCommits, State
from airflow_provider_segtable.core.paths import digest
from airflow_provider_segtable.core.segment import ChunkKey, Segment, Shard
from airflow_provider_segtable.core.time import Granularity, Interval
from airflow_provider_segtable.core.timeline import Timeline
from airflow_provider_segtable.ports.storage import Storage
from airflow_provider_segtable.table.log.checkpoint import read_sidecar, sealed
from airflow_provider_segtable.table.log.checkpoint_chunks import (
    SCHEMA,
    CheckpointChunks,
    ChunkWriter,
    Opening,
)
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.log.segment_rows import SEGMENT_SCHEMA
from airflow_provider_segtable.table.log.sidecars import (
    MOST_CHUNKS,
    MOST_SEGMENTS,
    LayeredSpaces,
    Sidecar,
    opened,
    sidecar_path,
)

HOUR_US = 3_600_000_000
START = Granularity.HOUR.chunk(0).start
HISTORY = 10_000
TAIL = 128
SMALL, FULL = 1 << 20, 128 << 20
"""Sizes of a segment that is worth compacting, and of one that is not, in bytes."""


def hour(number: int) -> Interval:
    """Return the interval of a chunk."""
    return Interval(START + number * HOUR_US, START + (number + 1) * HOUR_US)


def segment(key: ChunkKey, partition: int, size: int) -> Segment:
    """Return a segment of a chunk."""
    number = (key.interval.start - START) // HOUR_US
    return Segment(
        id=key.segment(partition),
        shard=Shard.first_generation(partition),
        path=f"data/{key.interval.name}/{key.version}_{partition}-{number:016x}.parquet",
        rows=20_000 + partition,
        size=size,
        row_groups=1,
        time_min=key.interval.start + partition,
        time_max=key.interval.end - 1 - partition,
        created=key.interval.end,
    )


def make(storage: Storage, chunks: int, each: int, size: int) -> State:
    """Write a checkpoint of so many chunks and segments in each, and the events after it.

    The table has been created. Returns its newest state.
    """
    log = EventLog(storage)
    empty = replace(log.load(), n=HISTORY, commits=_commits())
    empty = replace(empty, time=max(empty.time, hour(chunks).end))
    state = log.checkpoint(_with_sidecars(storage, empty, chunks, each, size))
    for n in range(TAIL):
        state = appended(storage, state, hour(chunks - 1), f"tail-{n}", size)
    return state


def appended(storage: Storage, state: State, interval: Interval, commit: str, size: int) -> State:
    """Append one segment to a chunk by an event."""
    (chunk,) = state.timeline.visible_chunks(interval)
    partition = state.id_space(chunk, Generation.FIRST).next
    event = Event(
        n=state.n + 1,
        time=state.time + 1,
        commit=commit,
        author="scale",
        action=Appended(segments=(segment(chunk, partition, size),)),
    )
    storage.create(event_path(event.n), encode(event))
    return apply(state, event)


def _commits() -> RecentCommits:
    return RecentCommits({f"{digest(str(n).encode())}{n:016x}": n for n in range(1, HISTORY + 1)})


def _with_sidecars(storage: Storage, empty: State, chunks: int, each: int, size: int) -> State:
    """Return a state whose chunks are in sidecars."""
    together = min(MOST_CHUNKS, max(1, MOST_SEGMENTS // each), chunks)
    model = _model(empty, together, each, size)
    listed: list[Sidecar] = []
    for first in range(0, chunks, together):
        count = min(together, chunks - first)
        data = shifted(empty, model, first, count)
        listed.append(_listed(empty, first, count, each, data))
        storage.replace(listed[-1].path, data)
    opening = Opening()

    def load(sidecar: Sidecar) -> CheckpointChunks:
        return read_sidecar(storage.read(sidecar.path), sidecar, opening)

    own = _own(empty, opening)
    layers = opened(HISTORY - 1, own, listed, chunks * each, load, load)
    return replace(empty, timeline=layers.timeline, ids=IdSpaces(LayeredSpaces(layers)))


def _model(empty: State, chunks: int, each: int, size: int) -> CheckpointChunks:
    """Return the chunks of the first sidecar, made from segments."""
    keys = [ChunkKey(hour(number), empty.base_version) for number in range(chunks)]
    some = [segment(key, partition, size) for key in keys for partition in range(each)]
    timeline = Timeline.empty().with_changes(add=some)
    state = replace(empty, timeline=timeline, ids=empty.ids.settle([s.id for s in some]))
    writer = ChunkWriter(state)
    return _reopened(sealed(writer, writer.write(timeline.chunks(), ()), _HEAD))


_HEAD = {"format": 12, "sidecar": True}


def _own(empty: State, opening: Opening) -> CheckpointChunks:
    writer = ChunkWriter(empty)
    return _reopened(sealed(writer, writer.write((), ()), _HEAD), opening)


def _reopened(data: bytes, opening: Opening | None = None) -> CheckpointChunks:
    key = ChunkKey(hour(0), 0)
    listed = Sidecar(
        path="",
        checksum=digest(data),
        size=len(data),
        low=key,
        high=key,
        first=None,
        last=None,
        end=0,
        chunks=0,
        segments=0,
    )
    return read_sidecar(data, listed, opening or Opening())


def shifted(empty: State, model: CheckpointChunks, first: int, chunks: int) -> bytes:
    """Return a sidecar with the chunks of a model, ``first`` hours later."""
    writer = ChunkWriter(empty)
    at, shift = 0, first * HOUR_US
    while at < chunks:
        end = min(model.group(at)[2], chunks)
        times = ("start", "end", "time_min", "time_max", "created")
        rows = _later(model.rows(at, end), SEGMENT_SCHEMA, shift, times)
        table = model.chunk_rows(at, end)
        table = _later(table, SCHEMA, shift, ("start", "end", "time_min", "time_max", *_AGES))
        writer.add(_renamed(rows, model.counts(at, end), first + at), table)
        at = end
    return sealed(writer, writer.write((), ()), _HEAD)


_AGES = ("oldest", "newest")


def _later(rows: pa.Table, schema: pa.Schema, shift: int, names: tuple[str, ...]) -> pa.Table:
    for name in names:
        at = schema.get_field_index(name)
        rows = rows.set_column(at, schema.field(name), pc.add(rows[name], shift))
    return rows


def _renamed(rows: pa.Table, counts: list[int], first: int) -> pa.Table:
    """Return segments with paths of their chunks."""
    names = [hour(first + at).name for at in range(len(counts))]
    tokens = [f"-{first + at:016x}.parquet" for at in range(len(counts))]
    places = pa.array(np.repeat(np.arange(len(counts)), counts))
    paths = pc.binary_join_element_wise(
        "data/",
        pa.array(names).take(places),
        "/",
        pc.cast(rows["version"], pa.string()),
        "_",
        pc.cast(rows["partition"], pa.string()),
        pa.array(tokens).take(places),
        "",
    )
    at = SEGMENT_SCHEMA.get_field_index("path")
    return rows.set_column(at, SEGMENT_SCHEMA.field("path"), paths)


def _listed(empty: State, first: int, count: int, each: int, data: bytes) -> Sidecar:
    low = ChunkKey(hour(first), empty.base_version)
    high = ChunkKey(hour(first + count - 1), empty.base_version)
    return Sidecar(
        path=sidecar_path(HISTORY, digest(data)),
        checksum=digest(data),
        size=len(data),
        low=low,
        high=high,
        first=low,
        last=high,
        end=high.interval.end,
        chunks=count,
        segments=count * each,
    )


def files_of(folder: Path) -> Iterator[tuple[str, int]]:
    """Yield the paths and sizes of a table's files."""
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            yield str(path.relative_to(folder)), path.stat().st_size
