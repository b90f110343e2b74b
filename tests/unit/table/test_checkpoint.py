"""Checkpoints: every part of a state comes back, from older formats, too; copies are exact."""

import gc
import json
import weakref
from dataclasses import MISSING, fields, replace

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_segtable.core.consumer import Consumer, LogMark
from airflow_provider_segtable.core.deletion import Deletion, PredicateDelete
from airflow_provider_segtable.core.errors import ChecksumMismatch, CorruptTable
from airflow_provider_segtable.core.indexes.index_kind import BloomFilter
from airflow_provider_segtable.core.indexes.index_state import (
    Feed,
    IndexDefinition,
    IndexGap,
    IndexState,
)
from airflow_provider_segtable.core.locks import FencingToken, Generation
from airflow_provider_segtable.core.log.families.append_events import Appended, Voided
from airflow_provider_segtable.core.log.families.plan_events import (
    PlanAborted,
    PlanInflight,
    PlanRequested,
    PlanYielded,
)
from airflow_provider_segtable.core.log.families.tag_events import Tagged
from airflow_provider_segtable.core.log.state import (
    IdSpaces,
    LastPart,
    LoadPart,
    Overwritten,
    State,
)
from airflow_provider_segtable.core.log_store.manifest import (
    BucketManifest,
    Lineage,
    Position,
    Waypoint,
)
from airflow_provider_segtable.core.paths import digest
from airflow_provider_segtable.core.predicate import IsNull
from airflow_provider_segtable.core.publishing import unpublished
from airflow_provider_segtable.core.segment import ChunkKey, Segment, Shard, tombstone
from airflow_provider_segtable.core.settlement import (
    ReplacedVectors,
    SettledGroup,
    Settlement,
)
from airflow_provider_segtable.core.time import Granularity, GranularityOverride, Interval
from airflow_provider_segtable.core.timeline import PackedChunk, Timeline
from airflow_provider_segtable.table.log import checkpoint, checkpoint_chunks
from airflow_provider_segtable.table.log.checkpoint import (
    decode_head,
    encode_head,
    read_checkpoint,
    write_checkpoint,
)
from tests.support.builders import (
    BASE,
    CHUNK,
    JANUARY,
    after,
    created,
    first,
    major_plan,
    minor_plan,
)

TWO = (first(0), first(1))
TOKEN = FencingToken("epoch", 3)


def month(number: int) -> ChunkKey:
    """Return a chunk of 2014."""
    start = Granularity.MONTH.chunk(Interval.parse("2014-01-01/2014-02-01").start)
    for _ in range(number):
        start = Granularity.MONTH.chunk(start.end)
    return ChunkKey(start, BASE)


def plans() -> State:
    """Return a table whose plans have been through everything."""
    january, over = minor_plan(TWO), major_plan(TWO, clustering="carrier")
    start = PlanInflight(
        plan_id=over.id,
        attempt="a1",
        token=TOKEN,
        outputs=(),
        inputs=tuple(segment.id for segment in TWO),
        version=BASE + 1_000,
    )
    outputs = (CHUNK.segment(32768), CHUNK.segment(32769))
    other = replace(start, plan_id=january.id, outputs=outputs, inputs=(), version=None)
    return after(
        created(),
        Appended(segments=TWO),
        PlanRequested(plan=over),
        start,
        PlanYielded(plan_id=over.id, attempt="a1", reason="an append goes first"),
        PlanAborted(plan_id=over.id, attempt="a1", reason="no more"),
        PlanRequested(plan=january),
        other,
        Tagged(name="good", n=2),
        Voided(ids=(CHUNK.segment(7), CHUNK.segment(9)), reason="dead"),
    )


def full() -> State:
    """Return a state in which every part differs from its default."""
    deletions = tuple(
        Deletion(n=n, path=f"deletes/{n}.arrow", rows=n, checksum=c)
        for n, c in (
            (3, "0123456789abcdef"),
            (5, ""),
        )
    )
    return replace(
        plans(),
        overrides=(GranularityOverride(JANUARY, Granularity.DAY),),
        retained_from=2,
        adopts=True,
        joined=(7, 11),
        pending_delete=frozenset({"data/b.parquet", "data/a.parquet"}),
        vectors={TWO[0].id: deletions, TWO[1].id: deletions[:1]},
        predicate_deletes=(PredicateDelete(n=4, predicate=IsNull("carrier")),),
        vectors_pruned_through=2,
        overwritten=(Overwritten(3, (JANUARY,)), Overwritten(6, ())),
        consumers={
            "billing": Consumer(3, 17),
            "tail": Consumer(3, 18, {4: LogMark(position=Position(epoch=1, offset=9), through=2)}),
        },
        indexes={
            "a": IndexState(
                definition=IndexDefinition(name="a", id="a-1", kind=BloomFilter(columns=(1,))),
                requested_n=3,
                requested_at=17,
                lacks=(IndexGap(JANUARY, 3, 17), IndexGap(JANUARY, 5, 19)),
                feeds=((4, Feed(index="a-1", segments=(TWO[0],))),),
                forwarded=3,
                available_n=6,
            )
        },
        log_store={
            2: BucketManifest(
                epoch=3,
                owner="host:7",
                committed=Position(epoch=2, offset=50),
                lineage=Lineage(begins=(Position(epoch=1), Position(epoch=3, offset=50))),
                waypoints=(Waypoint(0, 5), Waypoint(40, 9, 7)),
            )
        },
        settled={
            CHUNK: Settlement(
                n=5,
                path="deletes/settled-b.arrow",
                checksum="0123456789abcdef",
                group=SettledGroup(chunk=CHUNK, files=(0, 1), identity="00ff", hidden=2, open=1),
            )
        },
        replaced_vectors=(ReplacedVectors(path="deletes/settled-a.arrow", first=3, last=5),),
        loads={
            "z/a.csv": LastPart(
                4, LoadPart(load="z/a.csv", start=2, end=5, total=9, checksum="00ff")
            )
        },
    )


def test_every_part_of_a_state_comes_back() -> None:
    """None of them has its default here, so none can be forgotten.

    A state of a dropped table has no checkpoint.
    """
    state = full()
    for field in fields(State):
        if field.name == "dropped":
            continue
        value = getattr(state, field.name)
        empty = field.default_factory() if field.default_factory is not MISSING else field.default
        assert value != empty, field.name
    assert read_checkpoint(write_checkpoint(state)) == state


def test_every_part_of_a_plan_comes_back() -> None:
    """Its attempt, token, outputs, inputs as found, yields and note."""
    state = plans()
    found = read_checkpoint(write_checkpoint(state)).plans
    assert dict(found) == dict(state.plans)
    over, january = found.values()
    assert (over.yields, over.note, over.version) == (1, "no more", BASE + 1_000)
    assert over.found == tuple(segment.id for segment in TWO)
    assert (january.token, january.outputs[1].partition) == (TOKEN, 32769)


def test_a_head_of_an_older_format_has_defaults_for_what_it_lacks() -> None:
    """Tags, deletions and overwrites came later, and checksums of vectors, too."""
    state = full()
    head = encode_head(state)
    rows = head["vectors"][str(TWO[1].id)]
    head["vectors"] = {str(TWO[1].id): [row[:3] for row in rows]}
    found = decode_head(head, state.timeline, state.ids)
    (deletion,) = found.vectors[TWO[1].id]
    assert (deletion.n, deletion.path, deletion.rows) == (3, "deletes/3.arrow", 3)
    assert deletion.checksum == ""
    later = (
        "retained_from",
        "tags",
        "doomed",
        "vectors",
        "erasures",
        "forgotten",
        "overwritten",
        "consumers",
        "settled",
        "replaced_vectors",
        "joined",
    )
    for key in later:
        del head[key]
    assert decode_head(head, state.timeline, state.ids) == replace(
        state,
        retained_from=0,
        tags={},
        pending_delete=frozenset(),
        vectors={},
        predicate_deletes=(),
        vectors_pruned_through=0,
        overwritten=(),
        consumers={},
        settled={},
        replaced_vectors=(),
        joined=None,
    )


def test_recent_overwrites_and_consumers_are_written_only_if_there_are_any() -> None:
    """So the bytes of other tables stay as they were."""
    assert not {"overwritten", "consumers"} & encode_head(created()).keys()


@pytest.mark.parametrize("rows", [1, 3, 1000])
def test_a_checkpoint_of_a_changed_checkpoint_is_that_of_its_state(
    rows: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Chunks are copied, changed, emptied, settled and added, one after another."""
    monkeypatch.setattr(checkpoint_chunks, "GROUP_ROWS", rows)
    chunks = [month(n) for n in range(7)]
    some = [first(p, chunk=chunk) for chunk in chunks[1:6] for p in (0, 1)]
    begun = after(created(), Appended(segments=(*some, tombstone(month(8), BASE))))
    state = saved(begun)
    steps: tuple[tuple[list[Segment], list[Segment], list[int]], ...] = (
        ([], [], []),
        ([first(2, chunk=chunks[2])], [], [2]),
        ([], [some[0], some[1]], []),  # the first chunk is emptied, its ids stay
        ([], [], [4]),  # ids are used up in a chunk that is copied
        ([first(0, chunk=chunks[0]), first(0, chunk=chunks[6])], [some[4]], [0, 6]),
        ([some[0]], [], []),
        ([], some[1:2], [1]),
    )
    for come, gone, settled in steps:
        for packed in (True, False):
            ids = state.ids.settle([*(s.id for s in come)])
            ids = ids.settle([chunks[n].segment(5) for n in settled])
            present = {s.id for s in state.timeline.segments()}
            timeline = state.timeline.with_changes(
                add=come, remove=[s.id for s in gone if s.id in present]
            )
            changed = replace(state, timeline=timeline, ids=ids)
            found = saved(changed)
            assert [*found.timeline.segments()] == [*timeline.segments()]
            assert dict(found.ids) == dict(ids)
            state = found if packed else changed
    assert {type(chunk) for chunk in saved(state).timeline.chunks()} == {PackedChunk}


def saved(state: State) -> State:
    """Return the state as a checkpoint gives it back, with the files that it names."""
    found = read_checkpoint(write_checkpoint(state))
    named = sorted(found.timeline.paths())
    assert named == sorted(s.path for s in state.timeline.segments() if s.path)
    assert found == state
    assert len(found.ids) == len(state.ids)
    for generation in Generation:
        assert [*found.ids.holes(generation)] == [*state.ids.holes(generation)]
    return found


def test_ids_without_segments_are_kept() -> None:
    """Also of chunks that never had one, and with their holes."""
    ids = IdSpaces({}).settle([CHUNK.segment(p) for p in (0, 3, 32768, 32770)])
    state = replace(created(), ids=ids, timeline=Timeline.empty())
    assert dict(saved(saved(state)).ids) == dict(ids)


def test_what_is_no_checkpoint_is_refused() -> None:
    """Junk, half a file, a flipped bit, an unknown format; the log is folded instead."""
    data = write_checkpoint(created())
    for bad in (b"", b"junk", data[: len(data) // 2]):
        with pytest.raises(CorruptTable):
            read_checkpoint(bad)
    flipped = bytearray(data)
    flipped[20] ^= 1
    with pytest.raises(ChecksumMismatch):
        read_checkpoint(bytes(flipped))


@pytest.mark.parametrize("number", [1, 99])
def test_an_unknown_format_is_refused(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Older than the oldest, or newer than the newest."""
    monkeypatch.setattr(checkpoint, "FORMAT", number)
    data = write_checkpoint(created())
    with pytest.raises(CorruptTable, match=f"format {number}"):
        read_checkpoint(data)


def older(data: bytes) -> bytes:
    """Return a checkpoint as a segtable wrote it that did not record bases."""
    file = pq.ParquetFile(pa.BufferReader(data))
    entries = {k: v for k, v in (file.metadata.metadata or {}).items() if k.startswith(b"segtable")}
    head = json.loads(entries[b"segtable"])
    head.pop("bases")
    entries |= {b"segtable": json.dumps(head).encode(), b"segtable.checksum": checkpoint._BLANK}
    sink = pa.BufferOutputStream()
    rows = file.read().drop_columns(["base"]).replace_schema_metadata(None)
    with pq.ParquetWriter(sink, rows.schema, store_schema=False) as writer:
        writer.write_table(rows)
        writer.add_key_value_metadata(entries)
    made = sink.getvalue().to_pybytes()
    at = made.rindex(checkpoint._BLANK)
    sum_ = checkpoint._BLANK[:10] + digest(made).encode()
    return made[:at] + sum_ + made[at + len(sum_) :]


def test_a_checkpoint_without_bases_tells_them_as_far_as_numbers_do() -> None:
    """What a major compaction wrote is a base; what was restored is none until it is compacted."""
    made, again = (ChunkKey(JANUARY, BASE + n) for n in (5, 9))
    core = tuple(
        replace(first(p, chunk=made), shard=Shard.first_generation(p, core=2, base=2))
        for p in range(2)
    )
    late = first(2).carried(made.segment(2), core=2)
    state = after(created(), Appended(segments=(*core, late, first(0, chunk=month(1)))))
    found = read_checkpoint(older(write_checkpoint(state)))
    summaries = found.timeline.visible_summaries()
    assert [each.late for each in summaries.values()] == [None, 1]
    assert [s.id for s in found.timeline.base(made)] == [s.id for s in core]
    assert found == state
    assert (
        read_checkpoint(write_checkpoint(read_checkpoint(older(write_checkpoint(state))))) == state
    )
    moved = tuple(s.carried(again.segment(p), core=2) for p, s in enumerate(core))
    based = (replace(s, shard=replace(s.shard, base=2)) for s in moved)
    restored = after(created(), Appended(segments=tuple(based)))
    assert restored.timeline.base(again) != ()
    assert read_checkpoint(older(write_checkpoint(restored))).timeline.base(again) == ()


def test_unknown_counts_are_copied_until_a_chunk_changes() -> None:
    """A checkpoint made from an older one knows what is beside a base only where it looked."""
    chunk = ChunkKey(JANUARY, BASE + 5)
    core = replace(first(0, chunk=chunk), shard=Shard.first_generation(0, core=1, base=1))
    state = after(created(), Appended(segments=(core,)))
    copied = read_checkpoint(write_checkpoint(read_checkpoint(older(write_checkpoint(state)))))
    assert copied.timeline.summary(chunk).late is None
    assert unpublished(copied) == ""
    grown = after(copied, Appended(segments=(first(1).carried(chunk.segment(1), core=1),)))
    assert read_checkpoint(write_checkpoint(grown)).timeline.summary(chunk).late == 1


def test_a_state_that_is_let_go_leaves_memory_without_the_collector() -> None:
    """A planner opens a thousand tables, one after another: their checkpoints form no cycles."""
    data = write_checkpoint(after(created(), Appended(segments=(first(0),))))
    gc.collect()
    gc.disable()
    try:
        state = read_checkpoint(data)
        (chunk,) = state.timeline.chunks()
        assert isinstance(chunk, PackedChunk)
        assert chunk.unpacked.count == len([*chunk.paths()]) == 1
        source = weakref.ref(chunk.source)
        del state, chunk
        assert source() is None
    finally:
        gc.enable()
