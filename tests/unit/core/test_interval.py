"""Intervals and granularities: exact, half-open, tiling."""

from datetime import UTC, datetime, timedelta, timezone

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.errors import InvalidInput, TimeOutOfRange
from airflow_provider_segtable.core.time import (
    ALL_TIME,
    DAY_US,
    MAX_INSTANT,
    MIN_INSTANT,
    Granularity,
    Interval,
    instant,
    iso,
    moment,
    parse_instant,
)

instants = st.integers(MIN_INSTANT, MAX_INSTANT - 1)
intervals = (
    st.tuples(instants, instants)
    .filter(lambda p: p[0] != p[1])
    .map(lambda p: Interval(min(p), max(p)))
)


def test_instants_are_microseconds_utc_exactly() -> None:
    """One day is 86.4 billion; the last microsecond of a far year survives."""
    assert instant(datetime(1970, 1, 2, tzinfo=UTC)) == DAY_US
    far = datetime(9998, 12, 31, 23, 59, 59, 999_999, tzinfo=UTC)
    assert moment(instant(far)) == far


@given(instants)
def test_iso_texts_come_back(at: int) -> None:
    """What iso writes, parse_instant reads, to the microsecond."""
    assert parse_instant(iso(at)) == at


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("2013-01-01", datetime(2013, 1, 1, tzinfo=UTC)),
        ("2013-01-01T06:00", datetime(2013, 1, 1, 6, tzinfo=UTC)),
        ("2013-01-01T06:00:00Z", datetime(2013, 1, 1, 6, tzinfo=UTC)),
        ("2013-01-01T06:00:00.5-05:00", datetime(2013, 1, 1, 11, 0, 0, 500_000, tzinfo=UTC)),
    ],
)
def test_parses_dates_and_times_of_any_zone(text: str, expected: datetime) -> None:
    """A bare date is its midnight, no zone is UTC, an offset is taken off."""
    assert parse_instant(text) == instant(expected)


def test_any_zone_is_the_same_instant() -> None:
    """An aware datetime counts, however it is written."""
    tokyo = timezone(timedelta(hours=9))
    assert instant(datetime(2013, 1, 1, 9, tzinfo=tokyo)) == parse_instant("2013-01-01")


@pytest.mark.parametrize("text", ["", "yesterday", "2013-13-01", "2013-02-30"])
def test_what_is_no_time_is_refused_by_name(text: str) -> None:
    """The message shows the text and how to write it."""
    with pytest.raises(InvalidInput, match=r"is not a time: write ISO 8601"):
        parse_instant(text)


@pytest.mark.parametrize(("start", "end"), [(5, 5), (6, 5)])
def test_empty_and_reversed_intervals_do_not_exist(start: int, end: int) -> None:
    """Start must be before end."""
    with pytest.raises(InvalidInput, match="is empty"):
        Interval(start, end)


@given(intervals)
def test_interval_names_come_back(interval: Interval) -> None:
    """Paths and ISO texts name an interval without loss."""
    assert Interval.from_name(interval.name) == interval
    assert Interval.parse(str(interval)) == interval


def test_names_are_fit_for_paths_and_sort_by_time() -> None:
    """No colons or slashes; years have four digits also before 1000."""
    assert Interval.parse("2013-01-01/2013-02-01").name == "20130101T000000_20130201T000000"
    assert Interval.parse("0001-01-01/0999-01-01").name == "00010101T000000_09990101T000000"


@pytest.mark.parametrize("text", ["2013-01-01", "", "/", "2013-01-01/x"])
def test_what_is_no_interval_is_refused(text: str) -> None:
    """Both ends are needed."""
    with pytest.raises(InvalidInput):
        Interval.parse(text)


@pytest.mark.parametrize("name", ["x", "20130101_20130201", "20130101T000000", "_"])
def test_what_is_no_interval_name_is_refused(name: str) -> None:
    """The compact form is exact."""
    with pytest.raises(InvalidInput):
        Interval.from_name(name)


def test_intervals_are_half_open() -> None:
    """Start belongs, end does not; neighbours that touch do not overlap."""
    interval = Interval(10, 20)
    assert interval.holds(10)
    assert not interval.holds(20)
    assert not interval.overlaps(Interval(20, 30))
    assert interval.clip(Interval(20, 30)) is None
    assert interval.clip(Interval(15, 30)) == Interval(15, 20)
    assert interval.encloses(Interval(10, 20))
    assert not interval.encloses(Interval(10, 21))


@given(intervals, intervals, instants)
def test_relations_are_about_instants(a: Interval, b: Interval, at: int) -> None:
    """Clip holds what both hold; overlap is a non-empty clip; enclosing is clipping to oneself."""
    shared = a.clip(b)
    assert (shared is not None and shared.holds(at)) == (a.holds(at) and b.holds(at))
    assert (shared is not None) == a.overlaps(b) == b.overlaps(a)
    assert a.encloses(b) == (shared == b)


@given(instants, st.sampled_from(Granularity))
def test_chunks_tile_time(at: int, granularity: Granularity) -> None:
    """A chunk holds its instant, is the chunk of all it holds, and the next begins at its end."""
    chunk = granularity.chunk(at)
    assert chunk.holds(at)
    last = min(chunk.end, MAX_INSTANT) - 1  # the last week reaches into a year no table can hold
    assert granularity.chunk(chunk.start) == granularity.chunk(last) == chunk
    if chunk.end < MAX_INSTANT:
        assert granularity.chunk(chunk.end).start == chunk.end


@pytest.mark.parametrize(
    ("granularity", "expected"),
    [
        ("hour", "2012-02-29T23:00:00Z/2012-03-01T00:00:00Z"),
        ("day", "2012-02-29T00:00:00Z/2012-03-01T00:00:00Z"),
        ("week", "2012-02-27T00:00:00Z/2012-03-05T00:00:00Z"),
        ("month", "2012-02-01T00:00:00Z/2012-03-01T00:00:00Z"),
        ("year", "2012-01-01T00:00:00Z/2013-01-01T00:00:00Z"),
        ("all", "0001-01-01T00:00:00Z/9999-01-01T00:00:00Z"),
    ],
)
def test_chunks_of_a_leap_day(granularity: str, expected: str) -> None:
    """Weeks begin on Mondays, months and years have their own lengths."""
    at = parse_instant("2012-02-29T23:59:59.999999")
    assert str(Granularity(granularity).chunk(at)) == expected


@pytest.mark.parametrize("at", [MIN_INSTANT - 1, MAX_INSTANT])
def test_times_no_table_can_hold_are_refused(at: int) -> None:
    """The message hints at the usual cause, a wrong unit."""
    with pytest.raises(TimeOutOfRange, match="unit of the time column"):
        Granularity.DAY.chunk(at)


def test_chunks_that_an_interval_touches() -> None:
    """From the chunk of the first instant to that of the last, without the one after."""
    months = Granularity.MONTH.chunks(Interval.parse("2012-12-31/2013-02-01"))
    assert [str(m)[:7] for m in months] == ["2012-12", "2013-01"]
    assert list(Granularity.ALL.chunks(ALL_TIME)) == [ALL_TIME]
