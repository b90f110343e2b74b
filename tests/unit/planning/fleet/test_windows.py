"""Windows: the hours in which work may begin, by a wall clock."""

from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.time import MINUTE_US, instant, parse_instant
from airflow_provider_segtable.planning.fleet.windows import parse_windows, parse_zone

BERLIN = ZoneInfo("Europe/Berlin")


def at(text: str) -> int:
    """Return an instant of the wall clock in Berlin."""
    return instant(datetime.fromisoformat(text).replace(tzinfo=BERLIN).astimezone(UTC))


def test_a_window_over_midnight_belongs_to_the_day_it_begins() -> None:
    """Friday's goes on until Saturday morning, Saturday has none of its own."""
    found = parse_windows(["Mon-Fri 22:00-06:00"], BERLIN)
    inside = ["2026-01-02T22:00", "2026-01-03T05:59", "2026-01-05T23:00"]
    outside = ["2026-01-02T21:59", "2026-01-03T06:00", "2026-01-03T23:00", "2026-01-05T05:00"]
    assert [found.open_at(at(each)) for each in inside + outside] == [True] * 3 + [False] * 4


@pytest.mark.parametrize(
    ("texts", "now", "opens"),
    [
        (["22:00-06:00"], "2026-01-02T12:00", "2026-01-02T22:00"),
        (["22:00-06:00"], "2026-01-02T23:00", "2026-01-02T23:00"),
        (["Sat,Sun 00:00-24:00"], "2026-01-05T00:00", "2026-01-10T00:00"),
        (["Sun-Mon 01:00-02:00", "Wed 03:30-04:00"], "2026-01-06T09:00", "2026-01-07T03:30"),
        (["02:15-04:00"], "2026-03-29T00:30", "2026-03-29T03:15"),  # the clock jumps from 2 to 3
        (["02:00-02:30"], "2026-03-29T00:30", "2026-03-30T02:00"),  # that day has none
        ([], "2026-01-02T12:00", "2026-01-02T12:00"),
    ],
)
def test_the_next_opening_is_told(texts: list[str], now: str, opens: str) -> None:
    """By the wall clock, also where it jumps."""
    assert parse_windows(texts, BERLIN).next_opening(at(now)) == at(opens)


texts = st.sampled_from(
    ["22:00-06:00", "Mon 00:00-24:00", "Tue-Thu 01:30-02:30", "Sat,Sun 23:59-00:01", "02:10-02:20"]
)
minutes = st.integers(0, 60 * 24 * 40).map(lambda n: at("2026-03-20T00:00") + n * MINUTE_US)


@given(st.lists(texts, min_size=1, max_size=2), minutes)
def test_work_begins_at_the_first_open_minute(some: list[str], now: int) -> None:
    """As a search minute by minute finds it."""
    windows = parse_windows(some, BERLIN)
    found = windows.next_opening(now)
    naive = (now + n * MINUTE_US for n in range(60 * 24 * 9))
    first = next((each for each in naive if windows.open_at(each)), None)
    assert found == first


def test_the_wall_clock_of_the_zone_counts() -> None:
    """In winter Berlin is an hour ahead of UTC, in summer two."""
    found = parse_windows(["22:00-23:00"], BERLIN)
    assert found.open_at(parse_instant("2026-01-01T21:30:00Z"))
    assert found.open_at(parse_instant("2026-07-01T20:30:00Z"))
    assert not found.open_at(parse_instant("2026-07-01T21:30:00Z"))


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("at night", "is not a window: write e.g."),
        ("22:00-22:00", "is an empty window: all day is 00:00-24:00"),
        ("24:00-06:00", "is an empty window"),
        ("22:00-25:00", "25:00 is not a time of day"),
        ("10:75-12:00", "10:75 is not a time of day"),
        ("Foo 10:00-12:00", "'Foo' are no days"),
        ("Mon-Bar 10:00-12:00", "'Mon-Bar' are no days"),
    ],
)
def test_other_texts_are_refused(text: str, told: str) -> None:
    """With the form."""
    with pytest.raises(InvalidInput, match=told):
        parse_windows([text])


def test_an_unknown_zone_is_refused() -> None:
    """Names of files and empty ones, too."""
    assert parse_zone("UTC") is UTC
    for name in ("", "Mars/Olympus", "../etc/passwd", "Europe"):
        with pytest.raises(InvalidInput, match="is not a time zone"):
            parse_zone(name)


def test_a_week_has_all_its_days() -> None:
    """A range of days may go over the end of the week."""
    found = parse_windows(["Sat-Mon 10:00-11:00"])
    monday = datetime(2026, 1, 5, 10, tzinfo=UTC)
    days = [found.open_at(instant(monday + timedelta(days=n))) for n in range(7)]
    assert days == [True, False, False, False, False, True, True]
