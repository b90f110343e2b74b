"""What lock nodes say is read back as it was meant, and stays small."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.coordination.records import decode_lock, encode_lock
from airflow_provider_segtable.core.errors import UnsupportedFormat
from airflow_provider_segtable.core.lockbox import FencingToken, LockRequest
from airflow_provider_segtable.core.segment import ChunkKey, SegmentId
from airflow_provider_segtable.testing.builders import BASE, CHUNK

CHUNKS = (CHUNK, ChunkKey(CHUNK.interval, BASE + 1))
TOKEN = FencingToken("e", 7)
ids = st.builds(lambda chunk, p: chunk.segment(p), st.sampled_from(CHUNKS), st.integers(0, 65535))


def asking(segments: frozenset[SegmentId]) -> LockRequest:
    return LockRequest(table="t", group="g", purpose="p", holder="h", segments=segments)


@given(st.frozensets(ids, max_size=20), st.lists(ids, max_size=20, unique=True))
def test_a_lock_survives_its_node(segments: frozenset[SegmentId], new: list[SegmentId]) -> None:
    """Segments come back as a set, allocated ids in their order."""
    lock = decode_lock(encode_lock(asking(segments), new), since=5, token=TOKEN)
    assert (lock.segments, lock.allocated) == (segments, tuple(new))
    assert (lock.group, lock.purpose, lock.holder, lock.since) == ("g", "p", "h", 5)
    assert lock.token == TOKEN


def test_neighbouring_segments_cost_nothing() -> None:
    """A run of 30,000 segments takes a few hundred bytes, far below ZooKeeper's limit."""
    run = frozenset(CHUNK.segment(p) for p in range(30_000))
    assert len(encode_lock(asking(run))) < 300


def test_a_newer_record_is_refused_by_name() -> None:
    """A lock written by a newer segtable is not guessed at."""
    with pytest.raises(UnsupportedFormat, match="format 2"):
        decode_lock(b'{"v":2}', since=0, token=TOKEN)
