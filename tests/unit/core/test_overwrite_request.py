"""What an overwrite replaces: its interval, its condition, how the log words it."""

import pytest

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.predicate import (
    AllOf,
    AnyOf,
    Compare,
    Compares,
    Day,
    Moment,
    reach,
)
from airflow_provider_segtable.core.requests.overwrite import (
    Overwrite,
    Touched,
    extent_of,
    within,
)
from airflow_provider_segtable.core.time import DAY_US, Interval, joined


def test_intervals_that_meet_or_overlap_are_one() -> None:
    """In order of time, and a longer one keeps its end."""
    assert joined(()) == ()
    assert joined((Interval(5, 9), Interval(0, 2))) == (Interval(0, 2), Interval(5, 9))
    assert joined((Interval(2, 5), Interval(0, 2))) == (Interval(0, 5),)
    assert joined((Interval(0, 9), Interval(2, 5))) == (Interval(0, 9),)
    assert joined((Interval(0, 3), Interval(2, 5), Interval(6, 7))) == (
        Interval(0, 5),
        Interval(6, 7),
    )


def test_an_interval_is_a_predicate_from_its_start_to_before_its_end() -> None:
    """One interval by two comparisons, several by any of these."""
    one = AllOf(
        (
            Compare("at", Compares.AT_LEAST, Moment(3)),
            Compare("at", Compares.LESS, Moment(7)),
        )
    )
    assert within((Interval(3, 7),), "at", days=False) == one
    both = within((Interval(3, 7), Interval(9, 12)), "at", days=False)
    assert isinstance(both, AnyOf)
    assert both.of[0] == one
    assert reach(both, "at") == (3, 12)
    nothing = within((), "at", days=False)
    assert nothing == AnyOf(())


@pytest.mark.parametrize(
    ("interval", "first", "after"),
    [
        (Interval(0, DAY_US), 0, 1),
        (Interval(1, DAY_US), 1, 1),
        (Interval(0, DAY_US + 1), 0, 2),
        (Interval(-DAY_US, 0), -1, 0),
        (Interval(-1, DAY_US - 1), 0, 1),
    ],
)
def test_dates_are_their_midnights(interval: Interval, first: int, after: int) -> None:
    """A date is replaced if its midnight lies in the interval."""
    predicate = within((interval,), "at", days=True)
    assert isinstance(predicate, AllOf)
    assert [each.value for each in predicate.of if isinstance(each, Compare)] == [
        Day(first),
        Day(after),
    ]


def test_the_log_words_a_request_by_what_it_replaces() -> None:
    """An interval, the chunks of the rows, or the condition."""
    assert str(Overwrite(where="a = 1")) == "where a = 1"
    assert str(Overwrite(extent=Touched.CHUNKS)) == "the chunks of the rows"
    interval = Interval.parse("2013-01-01/2013-02-01")
    assert str(Overwrite(extent=interval)) == str(interval)


def test_an_extent_may_be_given_as_it_is() -> None:
    """None, the word, a pair of times; a text that is neither says what is possible."""
    interval = Interval.parse("2013-01-01/2013-02-01")
    assert extent_of(None) is None
    assert extent_of(Touched.CHUNKS) is Touched.CHUNKS
    assert extent_of(interval) == interval
    assert extent_of(("2013-01-01", "2013-02-01")) == interval
    with pytest.raises(InvalidInput, match="'chunk' does not say what to overwrite"):
        extent_of("chunk")
    with pytest.raises(InvalidInput, match="where='' is empty"):
        Overwrite(where="")
