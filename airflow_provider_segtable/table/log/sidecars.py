"""Sidecars: the chunks of a large table in files that many checkpoints share.

::

    checkpoint 512            head, chunks that changed lately, list of sidecars
                                                                 |    |    |
    sidecars                                    [chunks a..c] [d..k] [l..z]   never changed

1. A checkpoint of a small table has all chunks in its own file. Once these are more than
   ``MOST_SEGMENTS`` or ``MOST_CHUNKS``, most of them move to *sidecars*: files of the same columns
   (``table.log.checkpoint_chunks``), each with the chunks of a range of keys. Their ranges are
   disjoint and in order.
2. The checkpoint lists its sidecars: path, checksum, range, counts. It repeats the chunks that
   changed since their sidecar was written, and has those that are in none. Its own chunk counts.
3. The next checkpoint lists the same sidecars. So its size depends on what changed, and on the
   number of sidecars, which is one for tens of thousands of segments.
4. If the chunks beside the sidecars become too many, those that did not change since the checkpoint
   before move to sidecars: the sidecars of their ranges are written anew, under another name,
   small neighbours are joined, and full ones are split. A chunk that is written to every minute
   stays in the checkpoint.
5. A chunk that lost all segments is taken out of its sidecar at once. So whatever a checkpoint
   has of a sidecar's range adds or replaces chunks, and the range of a block is known unread.
6. Opening a table reads no sidecar. One is read when a chunk of its range is looked at; the last
   ``KEPT`` stay in memory.
7. A sidecar that is lost or damaged is made again from an older checkpoint and the events after it,
   if these are still there; the next checkpoint writes it anew.

ADR 0074 has the reasons. Source of the idea: the sidecar files of Delta Lake's checkpoints, and
Iceberg's manifests.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import lru_cache, partial
from itertools import groupby
from typing import TYPE_CHECKING, Any

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import CorruptTable, NotFound
from airflow_provider_segtable.core.locks import Generation
from airflow_provider_segtable.core.log.state import IdSpace, IdSpaces, SpaceKey, State
from airflow_provider_segtable.core.paths import digest
from airflow_provider_segtable.core.segment import ChunkKey
from airflow_provider_segtable.core.spans import AnyBlock, IntervalIndex, StoredBlock
from airflow_provider_segtable.core.time import Instant, Interval
from airflow_provider_segtable.core.timeline import AnyChunk, PackedChunk, Timeline
from airflow_provider_segtable.table.log.opening import OpenedSpaces

if TYPE_CHECKING:
    from airflow_provider_segtable.table.log.checkpoint_chunks import CheckpointChunks, LoadedChunks

MOST_SEGMENTS = 65_536
MOST_CHUNKS = 1024
"""How much completes a sidecar, and how much a checkpoint may have beside its sidecars."""
SMALL = 4
"""A sidecar with less than this part of the limits is joined with a neighbour that is rewritten."""
PATIENCE = 4
"""Sidecars are rewritten once the chunks beside them are this part of them."""
KEPT = 32
"""Number of sidecars that stay in memory, of each opened checkpoint."""
SIDECARS = "_segtable/sidecars"


def sidecar_path(n: int, checksum: str) -> str:
    """Return the path of a sidecar that the checkpoint after event ``n`` is the first to list."""
    return f"{SIDECARS}/{n:020d}-{checksum}.parquet"


# The list of sidecars in a checkpoint
@dataclass(frozen=True, slots=True, kw_only=True)
class Sidecar:
    """A sidecar, as a checkpoint lists it.

    Attributes:
        path: the path of its file.
        checksum: that of the file's bytes (``core.paths.digest``).
        size: the number of these.
        low: its lowest key.
        high: its highest key.
        first: the lowest key of a chunk with segments; None if there is none.
        last: the highest one.
        end: the highest end of these chunks.
        chunks: the number of its chunks.
        segments: the number of their segments.
    """

    path: str
    checksum: str
    size: int
    low: ChunkKey
    high: ChunkKey
    first: ChunkKey | None
    last: ChunkKey | None
    end: Instant
    chunks: int
    segments: int

    @property
    def small(self) -> bool:
        """Return whether it is joined with a neighbour that is rewritten."""
        return self.segments * SMALL < MOST_SEGMENTS and self.chunks * SMALL < MOST_CHUNKS

    def encode(self) -> list[Any]:
        """Return the sidecar as JSON."""
        keys = (self.low, self.high, self.first, self.last)
        counts = (self.end, self.chunks, self.segments)
        return [self.path, self.checksum, self.size, *map(encode_key, keys), *counts]

    @staticmethod
    def decode(body: Sequence[Any]) -> "Sidecar":
        """Parse the output of ``encode``."""
        path, checksum, size, low, high, first, last, end, chunks, segments = body
        return Sidecar(
            path=path,
            checksum=checksum,
            size=size,
            low=decode_key(low),
            high=decode_key(high),
            first=first and decode_key(first),
            last=last and decode_key(last),
            end=end,
            chunks=chunks,
            segments=segments,
        )


def encode_key(key: ChunkKey | None) -> list[int] | None:
    """Return a chunk as JSON."""
    if key is None:
        return None
    return [key.interval.start, key.interval.end, key.version, key.bucket]


def decode_key(body: Sequence[int]) -> ChunkKey:
    """Parse the output of ``encode_key``."""
    start, end, version, bucket = body
    return ChunkKey(Interval(start, end), version, bucket)


# An opened checkpoint
Load = Callable[[int], "CheckpointChunks"]
"""Reads a sidecar, by its number in the list."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layers:
    """The chunks of an opened checkpoint: its own, and those of its sidecars.

    ``timeline`` is that of the checkpoint, ``n`` its event. ``lost`` are the numbers of sidecars
    that could not be read, and were made again.
    """

    n: int
    own: "CheckpointChunks"
    sidecars: Sequence[Sidecar]
    load: Load
    timeline: Timeline
    lost: set[int]

    def covering(self, key: ChunkKey) -> int | None:
        """Return the number of the sidecar in whose range a key is, or None."""
        at = bisect_right(self.sidecars, key, key=lambda each: each.low) - 1
        return at if at >= 0 and not self.sidecars[at].high < key else None


class LayeredSpaces(OpenedSpaces):
    """The id spaces of an opened checkpoint."""

    def __init__(self, layers: Layers) -> None:
        """Look up spaces in the checkpoint's own chunks, then in its sidecars."""
        self.layers = layers
        self.opening = layers.own.opening

    def __getitem__(self, key: SpaceKey) -> IdSpace:
        """Return the space of a chunk and generation."""
        layers = self.layers
        if layers.own.spaces.number(key[0]) is not None:
            return layers.own.spaces[key]
        number = layers.covering(key[0])
        if number is None:
            raise KeyError(key)
        return layers.load(number).spaces[key]

    def __iter__(self) -> Iterator[SpaceKey]:
        """Yield the keys of all spaces; each sidecar is read."""
        own = self.layers.own.spaces
        yield from own
        for number in range(len(self.layers.sidecars)):
            spaces = self.layers.load(number).spaces
            yield from (key for key in spaces if own.number(key[0]) is None)

    def __len__(self) -> int:
        """Return the number of spaces; each sidecar is read."""
        return sum(1 for _ in self)


def layers_of(state: State) -> Layers | None:
    """Return the checkpoint that a state was opened with; None if it was folded from the start."""
    spaces = state.ids.opened
    return spaces.layers if isinstance(spaces, LayeredSpaces) else None


def has_sidecars(state: State) -> bool:
    """Return whether a state was opened with a checkpoint that lists sidecars."""
    layers = layers_of(state)
    return layers is not None and bool(layers.sidecars)


def is_large(state: State) -> bool:
    """Return whether a state has sidecars, or may get some at its next checkpoint."""
    return len(state.timeline) > MOST_SEGMENTS or has_sidecars(state)


def oldest_needed(state: State) -> int:
    """Return the event of the checkpoint whose sidecars a state reads; or the next event."""
    layers = layers_of(state)
    return layers.n if layers is not None and layers.sidecars else state.n + 1


def opened(
    n: int,
    own: "CheckpointChunks",
    sidecars: Sequence[Sidecar],
    count: int,
    load: Callable[[Sidecar], "CheckpointChunks"],
    made_again: Callable[[Sidecar], "CheckpointChunks"],
) -> Layers:
    """Return the chunks of a checkpoint without reading its sidecars.

    Args:
        n: the event of the checkpoint.
        own: the chunks of its own file.
        sidecars: its sidecars, by range.
        count: the number of all segments.
        load: reads a sidecar.
        made_again: makes it from other files, where ``load`` raises ``CorruptTable``.
    """
    lost: set[int] = set()
    read_before: set[int] = set()

    def read(number: int) -> "CheckpointChunks":
        try:
            found = load(sidecars[number])
        except (CorruptTable, NotFound):
            if number in read_before:  # its chunks are known by their numbers in the lost file
                raise
            found = made_again(sidecars[number])
            lost.add(number)
            return found
        read_before.add(number)
        return found

    # No cache refers to the layers: a state that is let go leaves memory at once.
    cached = lru_cache(maxsize=KEPT)(read)
    timeline = Timeline.of_blocks(_blocks(own, sidecars, cached), count)
    return Layers(n=n, own=own, sidecars=sidecars, load=cached, timeline=timeline, lost=lost)


def _blocks(
    own: "CheckpointChunks", sidecars: Sequence[Sidecar], load: Load
) -> Iterator[AnyBlock[AnyChunk]]:
    """Yield the blocks of a timeline, by key."""
    from airflow_provider_segtable.table.log.checkpoint_chunks import LoadedChunks

    packed: list[AnyChunk] = [PackedChunk(key, own, at) for key, at in own.numbers()]
    overs: list[Sequence[AnyChunk]] = []
    sources = [LoadedChunks(each.path, partial(load, at)) for at, each in enumerate(sidecars)]
    merged = lru_cache(maxsize=KEPT)(partial(_merged, sources, overs))
    done = 0
    for number, each in enumerate(sidecars):
        begin = bisect_left(packed, each.low, done, key=_key)
        end = bisect_right(packed, each.high, begin, key=_key)
        over = packed[begin:end]
        overs.append(over)
        yield from IntervalIndex.of(packed[done:begin]).blocks
        yield from _block(each, over, partial(merged, number))
        done = end
    yield from IntervalIndex.of(packed[done:]).blocks


def _key(chunk: AnyChunk) -> ChunkKey:
    return chunk.key


def _block(
    sidecar: Sidecar, over: Sequence[AnyChunk], load: Callable[[], IntervalIndex[AnyChunk]]
) -> Iterable[AnyBlock[AnyChunk]]:
    """Return the block of a sidecar's range, or blocks if all chunks with segments are known."""
    if sidecar.first is None or sidecar.last is None:
        return IntervalIndex[AnyChunk].of(over).blocks
    first = min([sidecar.first, *(chunk.key for chunk in over[:1])])
    last = max([sidecar.last, *(chunk.key for chunk in over[-1:])])
    end = max([sidecar.end, *(chunk.end for chunk in over)])
    return (
        StoredBlock(
            first=first,
            last=last,
            start=first.interval.start,
            end=end,
            name=None if over else sidecar.path,
            load=load,
        ),
    )


def _merged(
    sources: Sequence["LoadedChunks"], overs: Sequence[Sequence[AnyChunk]], number: int
) -> IntervalIndex[AnyChunk]:
    """Return the chunks of a sidecar's range: those of the checkpoint replace the sidecar's."""
    over, source = overs[number], sources[number]
    replaced = {chunk.key for chunk in over}
    stored = (PackedChunk(key, source, at) for key, at in source.stored.numbers())
    kept = (chunk for chunk in stored if chunk.key not in replaced)
    return IntervalIndex.of([*kept, *over])


# The next checkpoint
Encode = Callable[[Sequence[AnyChunk], Sequence[ChunkKey]], bytes]
"""Encodes a file of chunks with segments, and chunks without, both by key."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """What goes where in a checkpoint.

    ``own`` are the chunks in its own file, None for all. ``kept`` are the sidecars that it lists
    again; ``runs`` are the chunks of new ones: each run lies between two kept ones, and becomes one
    or more.
    """

    own: Sequence[ChunkKey] | None
    kept: Sequence[Sidecar] = ()
    runs: Sequence[Sequence[ChunkKey]] = ()


def layout_of(state: State) -> Layout:
    """Decide where the chunks of a state go in its next checkpoint (rules 1 to 5)."""
    layers = layers_of(state)
    if layers is None or not layers.sidecars:
        return _first_layout(state, layers)
    if _fits(state, layers):
        return Layout(own=None)
    dirty = state.timeline.changed_chunks(layers.timeline) | state.ids.changed
    beside = {*layers.own.keys, *dirty}
    gone = {key for key in dirty if state.timeline.chunk(key) is None}
    wanted = {at for key in gone if (at := layers.covering(key)) is not None} | layers.lost
    cold = _cold(state, layers, beside, dirty)
    wanted |= {at for key in cold if (at := layers.covering(key)) is not None}
    wanted = _with_small(layers.sidecars, wanted)
    moving = {key for key in beside if key in cold or layers.covering(key) in wanted}
    stored = (key for at in wanted for key in layers.load(at).keys)
    kept = [each for at, each in enumerate(layers.sidecars) if at not in wanted]
    runs = _runs(sorted({*stored, *moving}), kept)
    return Layout(own=sorted(beside - moving), kept=kept, runs=runs)


def _fits(state: State, layers: Layers) -> bool:
    """Return whether the table has become small, so that its checkpoint needs no sidecars."""
    chunks = len(layers.own.keys) + sum(each.chunks for each in layers.sidecars)
    return 2 * len(state.timeline) < MOST_SEGMENTS and 2 * chunks < MOST_CHUNKS


def _first_layout(state: State, layers: Layers | None) -> Layout:
    """Return the layout of a state without sidecars."""
    chunks = [(chunk.key, chunk.count) for chunk in state.timeline.chunks()]
    if not _many(count for _, count in chunks):
        return Layout(own=None)
    hot: set[ChunkKey] = set()
    if layers is not None:
        hot = state.timeline.changed_chunks(layers.timeline) | state.ids.changed
    if _many(state.timeline.summary(key).count for key in hot):
        hot = set()
    keys = {key for key, _ in chunks} | {key for key, _ in state.ids}
    return Layout(own=sorted(hot), runs=[sorted(keys - hot)])


def _cold(
    state: State, layers: Layers, beside: set[ChunkKey], dirty: set[ChunkKey]
) -> set[ChunkKey]:
    """Return the chunks beside the sidecars that move to sidecars; none if they are few."""

    def counts(keys: Iterable[ChunkKey]) -> list[int]:
        return [state.timeline.summary(key).count for key in keys]

    if not _many(counts(beside)):
        return set()
    cold = beside if _many(counts(dirty)) else beside - dirty
    touched = {at for key in cold if (at := layers.covering(key)) is not None}
    rewritten = sum(layers.sidecars[at].segments for at in touched)
    return cold if rewritten <= PATIENCE * sum(counts(beside)) else set()


def _many(counts: Iterable[int]) -> bool:
    """Return whether chunks of so many segments are too many beside the sidecars."""
    some = [*counts]
    return len(some) > MOST_CHUNKS or sum(some) > MOST_SEGMENTS


def _with_small(sidecars: Sequence[Sidecar], wanted: set[int]) -> set[int]:
    """Return the numbers of sidecars to rewrite with their small neighbours."""
    near = {at + step for at in wanted for step in (-1, 1) if 0 <= at + step < len(sidecars)}
    return wanted | {at for at in near if sidecars[at].small}


def _runs(keys: Sequence[ChunkKey], kept: Sequence[Sidecar]) -> list[list[ChunkKey]]:
    """Return keys as runs between the sidecars that are kept."""
    lows = [each.low for each in kept]
    return [[*run] for _, run in groupby(keys, lambda key: bisect_right(lows, key))]


def new_sidecars(state: State, layout: Layout, encode: Encode) -> Iterator[tuple[Sidecar, bytes]]:
    """Yield the new sidecars of a layout, with their files."""
    for run in layout.runs:
        for keys in _split(state, run):
            chunks, idle = parted(state, keys)
            if chunks or idle:
                yield _sidecar(state.n, keys, chunks, encode(chunks, idle))


def _split(state: State, keys: Sequence[ChunkKey]) -> Iterator[Sequence[ChunkKey]]:
    """Yield the keys of a run for one sidecar after another."""
    first, segments = 0, 0
    for at, key in enumerate(keys):
        segments += state.timeline.summary(key).count
        if segments >= MOST_SEGMENTS or at + 1 - first >= MOST_CHUNKS:
            yield keys[first : at + 1]
            first, segments = at + 1, 0
    if first < len(keys):
        yield keys[first:]


def parted(state: State, keys: Iterable[ChunkKey]) -> tuple[Sequence[AnyChunk], Sequence[ChunkKey]]:
    """Return the chunks of keys that have segments, and the keys that only have id spaces."""
    found = [(key, state.timeline.chunk(key)) for key in keys]
    idle = [key for key, chunk in found if chunk is None and _has_ids(state.ids, key)]
    return [chunk for _, chunk in found if chunk is not None], idle


def _has_ids(ids: IdSpaces, key: ChunkKey) -> bool:
    return any((key, generation) in ids for generation in Generation)


def _sidecar(
    n: int, keys: Sequence[ChunkKey], chunks: Sequence[AnyChunk], data: bytes
) -> tuple[Sidecar, bytes]:
    checksum = digest(data)
    found = Sidecar(
        path=sidecar_path(n, checksum),
        checksum=checksum,
        size=len(data),
        low=keys[0],
        high=keys[-1],
        first=chunks[0].key if chunks else None,
        last=chunks[-1].key if chunks else None,
        end=max((chunk.end for chunk in chunks), default=0),
        chunks=len(keys),
        segments=sum(chunk.count for chunk in chunks),
    )
    return found, data
