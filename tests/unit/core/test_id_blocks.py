"""Blocks of ids: how many an append asks for, how they are dealt, which ones go back."""

from dataclasses import replace

from airflow_provider_segtable.core.locks import (
    MOST_IDS,
    Allocation,
    Generation,
    Granted,
    LockRequest,
    Mode,
    block_request,
    block_size,
    decide,
    gone_back,
    likeness,
    portions,
)
from airflow_provider_segtable.core.segment import ChunkKey
from airflow_provider_segtable.core.time import Interval

MORNING, EVENING = (ChunkKey(Interval(start, start + 10), 1) for start in (10, 20))


def wanted(*counts: int, group: str = "a", at_least: int = 0) -> LockRequest:
    """Return an append's request for ids in the morning, and perhaps in the evening."""
    asked = tuple(
        Allocation(chunk=chunk, generation=Generation.FIRST, count=count, at_least=at_least)
        for chunk, count in zip((MORNING, EVENING), counts, strict=False)
    )
    return LockRequest(
        table="t", group=group, purpose=group, holder="me", mode=Mode.APPEND, allocate=asked
    )


def test_appends_are_alike_whatever_their_names_and_the_log_they_read() -> None:
    """Other counts, chunks, holders or priorities make them different."""
    one = likeness(wanted(1))
    assert one == likeness(wanted(1, group="b", at_least=7))
    others = (
        wanted(2),
        wanted(1, 1),
        replace(wanted(1), holder="you"),
        replace(wanted(1), priority=75),
    )
    assert all(one != likeness(other) for other in others)


def test_a_block_is_as_large_as_the_appends_before_it() -> None:
    """At least one portion, and never more ids than the bound if that is possible."""
    assert [block_size(wanted(1), n) for n in (0, 1, 2, 4, 1000)] == [1, 1, 2, 4, MOST_IDS]
    assert block_size(wanted(3, 2), 1000) * 5 <= MOST_IDS
    assert block_size(wanted(MOST_IDS + 1), 1000) == 1


def test_each_portion_has_the_ids_that_one_append_asked_for() -> None:
    """As ``decide`` allocates a block; no id is in two portions."""
    asked = wanted(2, 1)
    granted = decide(block_request(asked, 3), (), {})
    assert isinstance(granted, Granted)
    dealt = portions(asked, granted.allocated, 3)
    assert dealt[1] == (MORNING.segment(2), MORNING.segment(3), EVENING.segment(1))
    assert sorted(i for each in dealt for i in each) == sorted(granted.allocated)


def test_unused_ids_go_back_unless_another_writer_came_after() -> None:
    """Then they are holes: the counter never falls below an id that somebody has."""
    unused = [MORNING.segment(6), MORNING.segment(7), EVENING.segment(3)]
    morning, evening = (MORNING, Generation.FIRST), (EVENING, Generation.FIRST)
    assert gone_back(unused, {morning: 8, evening: 5}) == {morning: 6}
    assert gone_back([], {morning: 8}) == {}
