"""The times for which a predicate can hold, by brute force over a few instants."""

from itertools import product

import pytest

from airflow_provider_segtable.core.predicate import (
    EVERYWHERE,
    AllOf,
    Among,
    AnyOf,
    Compare,
    Compares,
    Day,
    IsNull,
    Moment,
    Not,
    Predicate,
    instant_of,
    may_hold,
    reach,
)
from airflow_provider_segtable.core.time import DAY_US
from tests.unit.core.test_predicate_bounds import COMPARED

SIMPLE: list[Predicate] = [
    *(Compare("at", how, Moment(us)) for how in Compares for us in (1, 3)),
    Among("at", ()),
    Among("at", (Moment(3), Moment(1))),
]
JOINED: list[Predicate] = [
    kind((one, negated(other)))
    for one, other in product(SIMPLE, repeat=2)
    for kind in (AllOf, AnyOf)
    for negated in (lambda each: each, Not)
]
RANGES = [(first, last) for first in range(5) for last in range(first, 5)]


def holds(predicate: Predicate, at: float) -> bool:
    """Return whether a predicate over the time alone holds at a time."""
    match predicate:
        case Compare(how=how, value=Moment(us=us)):
            return bool(COMPARED[how](at, us))
        case Among(values=values):
            return Moment(int(at)) in values and at == int(at)
        case Not(of=one):
            return not holds(one, at)
        case AllOf(of=some):
            return all(holds(one, at) for one in some)
        case AnyOf(of=some):
            return any(holds(one, at) for one in some)
    raise AssertionError(predicate)


@pytest.mark.parametrize("negated", [False, True])
def test_a_range_of_times_is_skipped_exactly_if_none_of_them_matches(
    negated: bool,  # noqa: FBT001
) -> None:
    """Of times in whole microseconds, and of finer ones that were rounded down."""
    for one in (*SIMPLE, *JOINED, AllOf(()), AnyOf(())):
        predicate = Not(one) if negated else one
        for first, last in RANGES:
            whole = [holds(predicate, at) for at in range(first, last + 1)]
            assert may_hold(predicate, "at", first, last) is any(whole), (predicate, first, last)
            finer = any(holds(predicate, at / 2) for at in range(2 * first, 2 * last + 2))
            assert may_hold(predicate, "at", first, last, exact=False) is finer, predicate


def test_the_reach_is_from_the_first_time_that_matches_to_the_last() -> None:
    """Rounded outwards, where times between two instants match."""
    for predicate in (*SIMPLE, *JOINED):
        low, high = reach(predicate, "at")
        matching = [at / 2 for at in range(-2, 11) if holds(predicate, at / 2)]
        if not matching:
            assert low > high, predicate
            continue
        least = EVERYWHERE[0] if matching[0] == -1 else int(matching[0])
        most = EVERYWHERE[1] if matching[-1] == 5 else -int(-matching[-1] // 1)
        assert (low, high) == (least, most), predicate


def test_other_columns_and_values_that_are_no_times_may_always_hold() -> None:
    """Beside them the time decides."""
    early = Compare("at", Compares.LESS, Moment(3))
    for other in (
        IsNull("at"),
        IsNull("n"),
        Compare("n", Compares.EQUAL, Moment(1)),
        Compare("at", Compares.EQUAL, "1"),
        Among("n", ()),
        Among("at", (Moment(1), "1")),
    ):
        for each in (other, Not(other)):
            assert may_hold(each, "at", 3, 4)
            assert not may_hold(AllOf((early, each)), "at", 3, 4)
            assert may_hold(AnyOf((early, each)), "at", 3, 4)


def test_a_null_in_a_set_is_no_time() -> None:
    """It equals nothing, so the others decide."""
    some = Among("at", (None, Moment(1)))
    assert may_hold(some, "at", 0, 2)
    assert not may_hold(some, "at", 2, 4)


def test_limits_beyond_all_time_match_all_or_nothing() -> None:
    """Comparisons with an instant at or beyond either end."""
    first, last = EVERYWHERE
    for us, how, expected in (
        (first - 5, Compares.AT_MOST, False),
        (first, Compares.LESS, False),
        (first, Compares.AT_MOST, True),
        (last + 5, Compares.AT_LEAST, False),
        (last, Compares.MORE, False),
        (last, Compares.AT_LEAST, True),
        (first - 5, Compares.MORE, True),
        (last + 5, Compares.LESS, True),
    ):
        assert may_hold(Compare("at", how, Moment(us)), "at", first, last) is expected, (us, how)


def test_a_day_is_its_midnight() -> None:
    """And nothing else but moments and days is a time."""
    assert instant_of(Day(2)) == 2 * DAY_US
    assert instant_of(Moment(7)) == 7
    assert [instant_of(value) for value in (None, 7, 7.0, True, "7")] == [None] * 5
