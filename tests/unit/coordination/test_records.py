"""What lock nodes say is read back as it was meant, and stays small."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.coordination.zookeeper.nodes import (
    PUBLISHING,
    decode_lock,
    encode_lock,
    encode_revocation,
    with_state,
)
from airflow_provider_segtable.core.errors import UnsupportedFormat
from airflow_provider_segtable.core.locks import (
    Allocation,
    FencingToken,
    Generation,
    Granted,
    LockRequest,
    Mode,
    Revocation,
)
from airflow_provider_segtable.core.segment import ChunkKey, SegmentId
from tests.support.builders import BASE, CHUNK

CHUNKS = (CHUNK, ChunkKey(CHUNK.interval, BASE + 1))
TOKEN = FencingToken("e", 7)
ids = st.builds(lambda chunk, p: chunk.segment(p), st.sampled_from(CHUNKS), st.integers(0, 65535))


def asking(segments: frozenset[SegmentId]) -> LockRequest:
    return LockRequest(table="t", group="g", purpose="p", holder="h", segments=segments)


@given(st.frozensets(ids, max_size=20), st.lists(ids, max_size=20, unique=True))
def test_a_lock_survives_its_node(segments: frozenset[SegmentId], new: list[SegmentId]) -> None:
    """Segments come back as a set, allocated ids in their order."""
    lock = decode_lock(
        encode_lock(asking(segments), Granted(allocated=tuple(new))), since=5, token=TOKEN
    )
    assert (lock.segments, lock.allocated) == (segments, tuple(new))
    assert (lock.group, lock.purpose, lock.holder, lock.since) == ("g", "p", "h", 5)
    assert lock.token == TOKEN


def test_neighbouring_segments_cost_nothing() -> None:
    """A run of 30,000 segments takes a few hundred bytes, far below ZooKeeper's limit."""
    run = frozenset(CHUNK.segment(p) for p in range(30_000))
    assert len(encode_lock(asking(run))) < 300


def test_a_newer_record_is_refused_by_name() -> None:
    """A lock written by a newer segtable is not guessed at."""
    with pytest.raises(UnsupportedFormat, match="format 3"):
        decode_lock(b'{"v":3}', since=0, token=TOKEN)


def test_a_time_chunk_lock_survives_its_node() -> None:
    """Mode, intervals, version and yields come back."""
    asked = replace(
        asking(frozenset()),
        intervals=(CHUNK.interval,),
        mode=Mode.REPLACE,
        version_above=3,
        yields=2,
    )
    record = encode_lock(asked, Granted(allocated=(), version=17))
    lock = decode_lock(record, since=5, token=TOKEN)
    assert (lock.intervals, lock.mode, lock.version) == ((CHUNK.interval,), Mode.REPLACE, 17)
    assert (lock.yields, lock.waiting) == (2, False)


def test_a_place_names_the_chunks_it_will_write() -> None:
    """A waiting append has no ids yet, but others must know where it wants them."""
    ask = Allocation(chunk=CHUNK, generation=Generation.FIRST, count=2, at_least=0)
    record = encode_lock(replace(asking(frozenset()), allocate=(ask, ask)))
    place = decode_lock(record, since=5, token=TOKEN, waiting=True)
    assert (place.chunks, place.allocated, place.waiting) == ((CHUNK,), (), True)


@given(st.frozensets(ids, max_size=20), st.frozensets(ids, max_size=20))
def test_a_state_survives_its_node(
    segments: frozenset[SegmentId], kept: frozenset[SegmentId]
) -> None:
    """What was yielded, and who took it, come back; publishing is told apart."""
    lock = decode_lock(encode_lock(asking(segments | kept)), since=5, token=TOKEN)
    revocation = Revocation(by="somebody", segments=segments, intervals=(CHUNK.interval,))
    assert with_state(lock, encode_revocation(lock, revocation)).revoked == revocation
    assert with_state(lock, PUBLISHING) == replace(lock, irrevocable=True)


def test_yielding_everything_takes_no_room() -> None:
    """Whoever revokes a lock on 65,536 scattered segments stays below ZooKeeper's limit."""
    scattered = frozenset(chunk.segment(p) for chunk in CHUNKS for p in range(0, 65536, 2))
    lock = decode_lock(encode_lock(asking(scattered)), since=5, token=TOKEN)
    revocation = Revocation(by="somebody", segments=scattered)
    assert len(encode_revocation(lock, revocation)) < 100
