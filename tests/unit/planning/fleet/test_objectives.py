"""Objectives: what readers of a table meet, and what the planner does about it."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.log.work import depth
from airflow_provider_segtable.core.segment import ChunkKey, Segment
from airflow_provider_segtable.core.time import DAY_US, HOUR_US, Granularity, Instant
from airflow_provider_segtable.planning.fleet.fleet import Objective
from airflow_provider_segtable.planning.fleet.objectives import (
    Measure,
    measured,
    missed,
    policy_for,
)
from airflow_provider_segtable.planning.properties import Policy
from tests.support.builders import BASE, after, created, first

START = Granularity.DAY.chunk(BASE).start


def chunk(granularity: Granularity, at: Instant) -> ChunkKey:
    """Return a chunk of the base version."""
    return ChunkKey(granularity.chunk(at), BASE)


def spanning(key: ChunkKey, *hours: tuple[float, float]) -> tuple[Segment, ...]:
    """Return segments of a chunk by the hours that they span."""
    start = key.interval.start
    return tuple(
        replace(
            first(n, chunk=key),
            time_min=start + round(since * HOUR_US),
            time_max=start + round(until * HOUR_US) - 1,
        )
        for n, (since, until) in enumerate(hours)
    )


def table(*segments: Segment) -> State:
    """Return a table with some segments."""
    return after(created(), Appended(segments=segments))


def test_the_fullest_day_counts() -> None:
    """Hours of a day together; a chunk that is longer than a day alone."""
    hours = [chunk(Granularity.HOUR, START + n * HOUR_US) for n in range(3)]
    segments = [first(0, chunk=hours[0]), *(first(n, chunk=hours[1]) for n in range(3))]
    month = chunk(Granularity.MONTH, START + 40 * DAY_US)
    later = [first(n, chunk=month) for n in range(6)]
    asked = Objective(files_read=1)
    assert measured(table(*segments), asked, BASE).files_read == 4
    assert measured(table(*segments, *later), asked, BASE).files_read == 6


def test_the_hot_end_alone_counts_if_it_is_asked_for() -> None:
    """Before the newest event, whatever the clock says."""
    days = [chunk(Granularity.DAY, START + n * DAY_US) for n in range(4)]
    old = [first(n, chunk=days[0]) for n in range(9)]
    state = table(*old, first(0, chunk=days[3]), first(1, chunk=days[3]))
    asked = Objective(files_read=1)
    assert measured(state, asked, BASE).files_read == 9
    assert measured(state, replace(asked, hot=DAY_US), BASE).files_read == 2
    assert measured(created(), replace(asked, hot=DAY_US), BASE).files_read == 0


spans = st.tuples(st.integers(0, 23), st.integers(1, 24)).filter(lambda span: span[0] < span[1])


@given(st.lists(spans, min_size=1, max_size=8))
def test_overlap_is_the_mean_number_of_files_of_an_instant(hours: list[tuple[int, int]]) -> None:
    """As counted hour by hour over the time that the files span."""
    key = chunk(Granularity.DAY, START)
    segments = spanning(key, *hours)
    covered = range(min(s for s, _ in hours), max(e for _, e in hours))
    counts = [sum(start <= hour < end for start, end in hours) for hour in covered]
    mean = sum(counts) / len(counts)
    assert depth(segments) == pytest.approx(mean)
    state, asked = table(*segments), Objective(overlap=mean * 0.99)
    found = measured(state, asked, BASE)
    if len(hours) > mean * 0.99:
        assert found.overlap == pytest.approx(mean)
        assert [miss.name for miss in missed(asked, found)] == ["overlap"]


def test_what_is_not_asked_for_is_not_measured() -> None:
    """An empty objective is met by every table."""
    state = table(first(0), first(1))
    assert measured(state, Objective(), BASE) == Measure()
    assert missed(Objective(), measured(state, Objective(), BASE)) == ()
    assert measured(state, Objective(deleted=0.1, stale_index=1), BASE) == Measure(
        deleted=0, stale_index=0
    )


def test_misses_are_told_the_worst_first() -> None:
    """With both numbers, and durations in words."""
    aims = Objective(files_read=10, deleted=0.1, stale_index=60_000_000, publish_lag=1)
    found = Measure(files_read=12, deleted=0.5, stale_index=90_000_000)
    told = missed(aims, found)
    assert [str(miss) for miss in told] == [
        "deleted is 0.5, of 0.1",
        "stale_index is 1.5 m, of 1 m",
        "files_read is 12, of 10",
    ]
    assert [miss.sentence for miss in told] == [
        "50% of all rows are deleted, of 10% at most",
        "an index lacks what was committed 1.5 m ago, of 1 m at most",
        "a day is read from 12 files, of 10 at most",
    ]
    assert told[1].facts() == {"objective": "stale_index", "found": 90, "aim": 60}
    assert missed(replace(aims, deleted=0.0), found)[0].name == "deleted"


def test_thresholds_are_lowered_where_an_aim_is_near() -> None:
    """And stay where it is far, so that nothing is rewritten for nothing."""
    policy, aims = Policy(), Objective(files_read=10, overlap=3, deleted=0.05)
    far = Measure(files_read=8, overlap=2.4, deleted=0.04)
    assert policy_for(policy, aims, far) == policy
    near = policy_for(policy, aims, replace(far, files_read=8.1))
    assert (near.min_segments, near.max_age_minutes, near.semi_major_unclustered) == (2, 0, 0.5)
    sorted_ = policy_for(policy, aims, replace(far, overlap=2.5))
    assert (sorted_.min_segments, sorted_.semi_major_unclustered) == (2, 0)
    assert policy_for(policy, aims, replace(far, deleted=0.041)).deleted_share == 0.025
