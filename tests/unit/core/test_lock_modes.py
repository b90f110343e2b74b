"""Lock modes, revocation and the queue: rules 2 to 5 of ``core.locks``, claim by claim."""

from dataclasses import replace
from typing import Any

import pytest

from airflow_provider_segtable.core.locks import (
    MAX_YIELDS,
    Allocation,
    AlreadyGranted,
    Extent,
    FencingToken,
    Generation,
    Granted,
    Lock,
    LockRequest,
    Mode,
    Refused,
    Revokes,
    Waits,
    ahead,
    contested,
    decide,
    gives_way,
    in_turn,
)
from airflow_provider_segtable.core.segment import ChunkKey, SegmentId
from airflow_provider_segtable.core.time import Interval

DAY = Interval(10, 20)
MORNING = Interval(10, 15)
NEXT = Interval(20, 30)
WEEK = Interval(10, 80)
ALL_MODES = (Mode.EXCLUSIVE, Mode.SHARED, Mode.APPEND, Mode.REPLACE)


def segment(partition: int, interval: Interval = DAY) -> SegmentId:
    return SegmentId(interval, 1, partition)


def wish(*intervals: Interval, group: str = "mine", **more: Any) -> LockRequest:
    """Return a request for intervals."""
    return LockRequest(
        table="t", group=group, purpose="p1", holder="me", intervals=intervals, **more
    )


def new(
    interval: Interval, count: int = 1, generation: Generation = Generation.FIRST
) -> Allocation:
    return Allocation(chunk=ChunkKey(interval, 1), generation=generation, count=count, at_least=0)


def held(*intervals: Interval, **more: Any) -> Lock:
    """Return a lock on intervals; ``segments`` and ``allocated`` may be given instead."""
    given: dict[str, Any] = {
        "group": "theirs",
        "purpose": "p2",
        "holder": "they",
        "priority": 25,
        "segments": frozenset(),
        "allocated": (),
        "since": 0,
        "token": FencingToken("e", 1),
    }
    return Lock(**{**given, **more}, intervals=intervals)


def append_lock(interval: Interval, **more: Any) -> Lock:
    return held(allocated=(segment(0, interval),), mode=Mode.APPEND, **more)


def test_intervals_exclude_each_other_where_they_overlap() -> None:
    """Touching intervals are apart; what is contested is the common part, each piece once."""
    assert contested(wish(MORNING, NEXT), held(DAY)) == Extent(intervals=(MORNING,))
    assert contested(wish(NEXT), held(DAY)) == Extent()
    assert contested(wish(WEEK), held(NEXT, DAY)) == Extent(intervals=(DAY, NEXT))
    assert contested(wish(WEEK, DAY), held(DAY)) == Extent(intervals=(DAY,))


def test_an_interval_excludes_the_segments_in_it() -> None:
    """Existing and new ones of any chunk that overlaps it, and in both directions."""
    inside, outside = segment(1, MORNING), segment(2, NEXT)
    lock = held(segments=frozenset({inside, outside}), allocated=(segment(3),))
    assert contested(wish(DAY), lock) == Extent(segments=frozenset({inside, segment(3)}))
    ask = LockRequest(
        table="t",
        group="mine",
        purpose="p1",
        holder="me",
        segments=frozenset({inside}),
        allocate=(new(NEXT), new(Interval(90, 99))),
    )
    assert contested(ask, held(WEEK)) == Extent(intervals=(MORNING, NEXT))
    assert contested(ask, held(MORNING)) == Extent(intervals=(MORNING,))
    assert contested(ask, held(Interval(80, 90))) == Extent()


def test_segments_exclude_only_themselves() -> None:
    """Whatever else is locked in their chunk; allocated ids count too."""
    mine = frozenset({segment(1), segment(2)})
    ask = LockRequest(table="t", group="mine", purpose="p", holder="me", segments=mine)
    lock = held(segments=frozenset({segment(2), segment(3)}), allocated=(segment(1),))
    assert contested(ask, lock) == Extent(segments=mine)
    assert contested(ask, held(segments=frozenset({segment(3)}))) == Extent()


@pytest.mark.parametrize("mine", ALL_MODES)
@pytest.mark.parametrize("theirs", ALL_MODES)
def test_modes_that_may_overlap(mine: Mode, theirs: Mode) -> None:
    """Readers share, appends never meet, and appends go on under one enclosing replace."""
    appending = mine is Mode.APPEND
    asked = wish(allocate=(new(DAY),), mode=mine) if appending else wish(DAY, mode=mine)
    lock = append_lock(DAY) if theirs is Mode.APPEND else held(DAY, mode=theirs)
    together = {
        (Mode.SHARED, Mode.SHARED),
        (Mode.APPEND, Mode.APPEND),
        (Mode.APPEND, Mode.REPLACE),
        (Mode.REPLACE, Mode.APPEND),
    }
    granted = isinstance(decide(asked, [lock], {}), Granted)
    assert granted == ((mine, theirs) in together)


def test_an_append_must_lie_inside_the_replace() -> None:
    """What it adds to a chunk that sticks out could not be carried over."""
    into_week = LockRequest(
        table="t",
        group="mine",
        purpose="p",
        holder="me",
        mode=Mode.APPEND,
        allocate=(new(WEEK), new(MORNING)),
    )
    assert contested(into_week, held(DAY, mode=Mode.REPLACE)) == Extent(intervals=(DAY,))
    assert not contested(into_week, held(NEXT, WEEK, mode=Mode.REPLACE))
    replacing = wish(NEXT, DAY, mode=Mode.REPLACE)
    both = held(allocated=(segment(0), segment(0, WEEK)), mode=Mode.APPEND)
    assert contested(replacing, both) == Extent(segments=frozenset({segment(0, WEEK)}))
    assert not contested(replacing, append_lock(MORNING))


def test_a_place_excludes_the_chunks_in_which_it_wants_ids() -> None:
    """A time chunk request behind it waits, unless it replaces what the append adds to."""
    place = held(waiting=True, chunks=(ChunkKey(MORNING, 1), ChunkKey(NEXT, 1)), mode=Mode.APPEND)
    assert contested(wish(DAY), place) == Extent(intervals=(MORNING,))
    assert not contested(wish(DAY, NEXT, mode=Mode.REPLACE), place)
    assert contested(wish(DAY, mode=Mode.REPLACE), replace(place, mode=Mode.EXCLUSIVE))


def test_a_lock_of_lower_priority_is_revoked_where_it_is_contested() -> None:
    """The taker is named; the lock keeps excluding others from the rest."""
    lock = held(WEEK, priority=25)
    decision = decide(wish(DAY, priority=50, version_above=7), [lock], {}, now=1)
    assert isinstance(decision, Revokes)
    assert decision.granted == Granted(allocated=(), version=8)
    (left,) = decision.whom
    assert left.revoked is not None
    assert left.revoked.by == "me for p1, group mine, priority 50 over 25"
    assert (left.revoked.segments, left.revoked.intervals) == (frozenset(), (DAY,))
    assert left.excludes.intervals == (Interval(20, 80),)
    assert replace(left, revoked=None) == lock


def test_a_lock_may_be_revoked_part_by_part() -> None:
    """The first taker stays named; what was taken adds up."""
    segments = held(segments=frozenset(map(segment, range(4))))

    def taken(group: str, what: frozenset[SegmentId], by: Lock) -> Lock:
        ask = LockRequest(
            table="t", group=group, purpose="p", holder="me", segments=what, priority=50
        )
        decision = decide(ask, [by], {})
        assert isinstance(decision, Revokes)
        return decision.whom[0]

    first = taken("one", frozenset({segment(0), segment(1)}), segments)
    second = taken("two", frozenset({segment(2)}), first)
    assert first.revoked is not None
    assert second.revoked is not None
    assert second.revoked.by == first.revoked.by
    assert second.revoked.segments == frozenset(map(segment, range(3)))
    spans = held(WEEK)
    for group, interval in (("one", NEXT), ("two", DAY)):
        decision = decide(wish(interval, group=group, priority=50), [spans], {})
        assert isinstance(decision, Revokes)
        (spans,) = decision.whom
    assert spans.revoked is not None
    assert spans.revoked.intervals == (DAY, NEXT)
    assert isinstance(decide(wish(DAY, group="three"), [spans], {}), Granted)


@pytest.mark.parametrize(
    ("what", "yields"),
    [
        ({}, True),
        ({"priority": 49}, True),
        ({"priority": 50}, False),
        ({"priority": 51}, False),
        ({"irrevocable": True}, False),
        ({"waiting": True}, False),
        ({"yields": MAX_YIELDS - 1}, True),
        ({"yields": MAX_YIELDS}, False),
    ],
    ids=str,
)
def test_which_locks_give_way(what: dict[str, Any], *, yields: bool) -> None:
    """Those of lower priority that do not publish, are no place and have not yielded too often."""
    assert gives_way(held(DAY, **what), wish(DAY, priority=50)) is yields


def test_one_lock_that_does_not_give_way_keeps_all() -> None:
    """Nothing is revoked for a request that has to wait; it waits for all that is in its way."""
    low, high = held(DAY, group="low"), held(NEXT, group="high", priority=75)
    apart = held(Interval(90, 99), group="apart", priority=75)
    decision = decide(wish(WEEK, priority=50), [low, high, apart], {})
    assert decision == Waits(on=(low, high))


def place(group: str, priority: int = 25, yields: int = 0) -> Lock:
    return held(DAY, group=group, priority=priority, yields=yields, waiting=True)


def test_places_are_served_by_firmness_then_priority_then_arrival() -> None:
    """The order is total: who comes first among equals stays first."""
    low, high, firm, also_low, also_firm = places = [
        place("low"),
        place("high", 75),
        place("firm", 0, MAX_YIELDS),
        place("also low", 25, MAX_YIELDS - 1),
        place("also firm", 99, MAX_YIELDS + 1),
    ]
    assert in_turn(places) == (firm, also_firm, high, low, also_low)


def test_places_ahead_of_a_request() -> None:
    """Without a place of its own it comes after its equals; with one, where that stands."""
    low, high, firm, _ = places = [
        place("low"),
        place("high", 75),
        place("firm", 0, MAX_YIELDS),
        place("also"),
    ]
    assert ahead(wish(DAY), places) == places
    assert ahead(wish(DAY, group="low"), places, mine=0) == [high, firm]
    assert ahead(wish(DAY, group="also"), places, mine=3) == [low, high, firm]
    assert ahead(wish(DAY, priority=50), places) == [high, firm]
    assert ahead(wish(DAY, priority=75), places) == [high, firm]
    assert ahead(wish(DAY, yields=MAX_YIELDS), places) == [firm]
    assert ahead(wish(DAY, group="firm", yields=MAX_YIELDS), places, mine=2) == []


def test_a_group_that_waits_goes_on_waiting() -> None:
    """Its own place is what it waits for, whatever else is held."""
    mine = replace(place("mine"), priority=0)
    assert decide(wish(DAY, priority=99), [held(NEXT), mine], {}) == Waits(on=(mine,))


def test_a_group_that_holds_a_lock_gets_the_same_again() -> None:
    """The order of intervals does not matter, nor what others hold meanwhile."""
    mine = held(NEXT, DAY, group="mine", version=7, mode=Mode.REPLACE, priority=1)
    same = wish(DAY, NEXT, mode=Mode.REPLACE, version_above=3)
    assert decide(same, [held(DAY, priority=99), mine], {}) == AlreadyGranted(lock=mine)
    for other in (
        wish(DAY, NEXT, mode=Mode.SHARED, version_above=3),
        wish(DAY, NEXT, mode=Mode.REPLACE),
        wish(DAY, mode=Mode.REPLACE, version_above=3),
    ):
        decision = decide(other, [mine], {})
        assert isinstance(decision, Refused)
        assert decision.why.startswith(
            "group mine holds another lock already (replace, time_chunk, for p2)"
        )


def test_allocations_are_the_same_if_they_add_up() -> None:
    """By chunk and generation, however they were split."""
    mine = held(group="mine", allocated=(segment(0), segment(1), segment(40_000), segment(5, NEXT)))

    def again(*allocate: Allocation) -> object:
        ask = LockRequest(table="t", group="mine", purpose="p", holder="me", allocate=allocate)
        return decide(ask, [mine], {})

    later, next_day = new(DAY, generation=Generation.LATER), new(NEXT)
    for two in ((new(DAY, 2),), (new(DAY), new(DAY))):
        assert again(*two, later, next_day) == AlreadyGranted(lock=mine)
    for other in ((new(DAY, 3), next_day), (new(DAY, 2), later, new(NEXT, 2)), (later, next_day)):
        assert isinstance(again(*other), Refused)
