"""Buckets: the timeline of a primary-key table is the timelines of its buckets, side by side."""

import random
from collections.abc import Iterable
from dataclasses import replace

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.segment import NARROW, WIDE, ChunkKey, Segment
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.core.timeline import Timeline, Visible
from tests.examples import examples
from tests.property.overshadow_model import segments
from tests.property.test_overshadow_random import legal_family, walk

CHUNKS = [(Interval(0, 4), 1), (Interval(0, 4), 2), (Interval(0, 8), 2), (Interval(2, 4), 3)]


def in_bucket(segment: Segment, interval: Interval, version: int, bucket: int) -> Segment:
    """Return a segment as it would be in a file group, numbered as there."""
    partition = segment.id.partition
    if partition in NARROW.later:
        partition += WIDE.later.start - NARROW.later.start
    chunk = ChunkKey(interval, version, bucket)
    return replace(
        segment,
        id=chunk.segment(partition),
        shard=replace(segment.shard, partition=partition),
    )


def alone(present: Iterable[Segment], bucket: int) -> Timeline:
    """Return the timeline of one bucket's segments."""
    return Timeline.empty().with_changes(add=(s for s in present if s.id.bucket == bucket))


@examples(60)
@given(st.randoms(use_true_random=False), st.integers(1, 3))
def test_each_bucket_is_a_timeline_of_its_own(draw: random.Random, buckets: int) -> None:
    """Whatever comes and goes, one bucket's segments never hide or show another's."""
    pool = [
        in_bucket(segment, *chunk, bucket)
        for bucket in range(buckets)
        for chunk in CHUNKS
        for segment in segments(legal_family(draw, 3, 2))
    ]
    for timeline, present in walk(draw, pool, steps=8, largest=12):
        parts = [alone(present, bucket) for bucket in range(buckets)]
        found: list[Visible] = [each for part in parts for each in part.lookup()]
        assert sorted(timeline.lookup(), key=place) == sorted(found, key=place)
        for chunk in timeline.chunk_keys():
            keys = [group.key for group in timeline.groups(chunk)]
            part = parts[chunk.bucket]
            assert [*timeline.states(chunk, keys)] == [*part.states(chunk, keys)]
        assert {s.id for s in timeline.hidden_segments()} == {
            s.id for part in parts for s in part.hidden_segments()
        }


def place(each: Visible) -> tuple[int, int, Interval, int]:
    """Return what sorts visible groups of all buckets."""
    return each.chunk.bucket, each.group.root_start, each.interval, each.chunk.version
