"""Lock rules and allocation: what the module header of ``core.locks`` says, claim by claim."""

from typing import Any

import pytest

from airflow_provider_segtable.core.errors import InvalidInput, LimitReached
from airflow_provider_segtable.core.locks import (
    Allocation,
    AlreadyGranted,
    FencingToken,
    Generation,
    Granted,
    IdSource,
    Lock,
    LockRequest,
    Mode,
    Refused,
    Waits,
    check_allocation,
    decide,
)
from airflow_provider_segtable.core.segment import ChunkKey
from tests.support.builders import BASE, CHUNK

OTHER_CHUNK = ChunkKey(CHUNK.interval, BASE + 1)


def asking(
    group: str, *segments: int, first: int = 0, later: int = 0, at_least: int = 0
) -> LockRequest:
    wanted = ((Generation.FIRST, first), (Generation.LATER, later))
    return LockRequest(
        table="t",
        group=group,
        purpose="test",
        holder="me",
        segments=frozenset(CHUNK.segment(p) for p in segments),
        allocate=tuple(
            Allocation(chunk=CHUNK, generation=generation, count=count, at_least=at_least)
            for generation, count in wanted
            if count
        ),
    )


def held(group: str, *segments: int, allocated: tuple[int, ...] = ()) -> Lock:
    return Lock(
        group=group,
        purpose="test",
        holder="somebody",
        priority=25,
        segments=frozenset(CHUNK.segment(p) for p in segments),
        allocated=tuple(CHUNK.segment(p) for p in allocated),
        since=BASE,
        token=FencingToken("e", 1),
    )


def test_what_is_free_is_granted() -> None:
    """A request that meets no lock is granted."""
    assert decide(asking("g", 1, 2), [held("h", 3)], {}) == Granted(allocated=())


def test_one_contested_segment_blocks_the_whole_request() -> None:
    """All or nothing: no part of a contested request is granted, and every blocker is named."""
    locks = [held("a", 1), held("b", 9), held("c", 3)]
    assert decide(asking("g", 1, 2, 3), locks, {}) == Waits(on=(locks[0], locks[2]))


def test_new_ids_of_others_block() -> None:
    """A segment that is still being written cannot be locked by another."""
    writing = held("a", allocated=(5,))
    assert decide(asking("g", 5), [writing], {}) == Waits(on=(writing,))


def test_an_append_never_waits() -> None:
    """A request for new ids only is granted whatever is held."""
    outcome = decide(asking("g", first=1), [held("a", 0, 1, allocated=(2,))], {})
    assert isinstance(outcome, Granted)


def test_the_same_segment_of_another_version_is_another_segment() -> None:
    """Partition numbers mean something only within (interval, version)."""
    request = LockRequest(
        table="t",
        group="g",
        purpose="test",
        holder="me",
        segments=frozenset({OTHER_CHUNK.segment(1)}),
    )
    assert isinstance(decide(request, [held("a", 1)], {}), Granted)


def test_a_group_asks_twice_and_gets_once() -> None:
    """Equal groups that ask for the same are one request."""
    mine = held("g", 1, allocated=(32768,))
    assert decide(asking("g", 1, later=1), [mine], {}) == AlreadyGranted(lock=mine)


@pytest.mark.parametrize(
    "other", [asking("g", 1), asking("g", 1, later=2), asking("g", 1, 2, later=1)], ids=str
)
def test_a_group_that_asks_for_something_else_is_refused(other: LockRequest) -> None:
    """One group is one lock; the refusal says what it holds and the way out."""
    outcome = decide(other, [held("g", 1, allocated=(32768,))], {})
    assert isinstance(outcome, Refused)
    assert "release that one first" in outcome.why


def test_generations_number_apart() -> None:
    """First and later generation have counters of their own, each starting its range."""
    outcome = decide(asking("g", first=2, later=1), [], {})
    assert isinstance(outcome, Granted)
    assert [each.partition for each in outcome.allocated] == [0, 1, 32768]
    assert outcome.counters == {(CHUNK, Generation.FIRST): 2, (CHUNK, Generation.LATER): 32769}


@pytest.mark.parametrize(("counter", "at_least", "given"), [(5, 0, 5), (5, 5, 5), (5, 8, 8)])
def test_ids_start_at_the_higher_of_counter_and_log(
    counter: int, at_least: int, given: int
) -> None:
    """The counter wins over an old log view, the log over a wiped counter."""
    counters = {(CHUNK, Generation.FIRST): counter}
    outcome = decide(asking("g", first=1, at_least=at_least), [], counters)
    assert isinstance(outcome, Granted)
    assert [each.partition for each in outcome.allocated] == [given]


def test_two_allocations_of_one_chunk_do_not_meet() -> None:
    """Asking twice for the same chunk in one request gives different ids, in order."""
    ask = Allocation(chunk=CHUNK, generation=Generation.FIRST, count=2, at_least=0)
    request = LockRequest(table="t", group="g", purpose="p", holder="h", allocate=(ask, ask))
    outcome = decide(request, [], {})
    assert isinstance(outcome, Granted)
    assert [each.partition for each in outcome.allocated] == [0, 1, 2, 3]
    assert outcome.counters == {(CHUNK, Generation.FIRST): 4}


def test_the_last_id_is_given_and_no_more() -> None:
    """Ids end at the limit of their generation; they are never wrapped into the next."""
    last = {(CHUNK, Generation.FIRST): 32767}
    assert isinstance(decide(asking("g", first=1), [], last), Granted)
    with pytest.raises(LimitReached, match="limit 32768"):
        decide(asking("g", first=2), [], last)


def test_tokens_compare_within_an_epoch_only() -> None:
    """Across epochs neither token is older."""
    old, new, other = FencingToken("a", 1), FencingToken("a", 2), FencingToken("b", 0)
    assert old.older_than(new)
    assert not new.older_than(old)
    assert not other.older_than(old)
    assert not old.older_than(other)


def major(group: str, **what: Any) -> LockRequest:
    return LockRequest(
        table="t", group=group, purpose="p", holder="h", intervals=(CHUNK.interval,), **what
    )


@pytest.mark.parametrize(
    ("now", "above", "last", "given"), [(9, 5, 5, 9), (1, 5, 3, 6), (1, 3, 5, 6), (1, 5, 5, 6)]
)
def test_a_version_is_higher_than_all_that_is_known(
    now: int, above: int, last: int, given: int
) -> None:
    """The clock wins if it is ahead; else the log's version, or the last handed out, and one."""
    outcome = decide(major("g", version_above=above), [], {}, now=now, last_version=last)
    assert isinstance(outcome, Granted)
    assert outcome.version == given


def test_no_version_is_given_unasked() -> None:
    """A time chunk lock alone hands out no version."""
    outcome = decide(major("g"), [], {}, now=9)
    assert outcome == Granted(allocated=())


def test_the_first_version_is_the_next_after_the_one_that_was_named() -> None:
    """Without a clock and without versions before it."""
    outcome = decide(major("g", version_above=0), [], {})
    assert outcome == Granted(allocated=(), version=1)


ASK = Allocation(chunk=CHUNK, generation=Generation.FIRST, count=1, at_least=0)


@pytest.mark.parametrize(
    ("what", "why"),
    [
        ({"intervals": (CHUNK.interval,), "allocate": (ASK,)}, "one granularity"),
        ({"intervals": (CHUNK.interval,), "segments": frozenset({CHUNK.segment(1)})}, "one granul"),
        ({"version_above": 1}, "version without intervals"),
        ({"mode": Mode.REPLACE, "allocate": (ASK,)}, "REPLACE without intervals"),
        ({"mode": Mode.APPEND, "intervals": (CHUNK.interval,)}, "allocate new ids"),
        ({"mode": Mode.APPEND}, "allocate new ids"),
    ],
)
def test_requests_that_make_no_sense_are_refused(what: dict[str, Any], why: str) -> None:
    """Two granularities in one request, and modes that theirs does not have."""
    with pytest.raises(InvalidInput, match=why):
        LockRequest(table="t", group="g", purpose="p", holder="h", **what)


def test_who_numbers_segments() -> None:
    """Druid's table of granularity and rollup; perfect rollup needs the whole chunk."""
    assert check_allocation("segment", perfect_rollup=False) is IdSource.CENTRAL_INCREMENTAL
    assert check_allocation("time_chunk", perfect_rollup=False) is IdSource.LOCAL_INCREMENTAL
    assert check_allocation("time_chunk", perfect_rollup=True) is IdSource.LOCAL_BULK
    with pytest.raises(InvalidInput, match="use a major compaction"):
        check_allocation(major("g").granularity.SEGMENT, perfect_rollup=True)
