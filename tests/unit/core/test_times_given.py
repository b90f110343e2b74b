"""Times and intervals as users give them."""

from datetime import UTC, date, datetime, timedelta, timezone

import pytest

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.requests.read_request import read_request
from airflow_provider_segtable.core.time import ALL_TIME, HOUR_US, Interval, as_instant, as_interval

NEW_YEAR = 1_767_225_600_000_000


@pytest.mark.parametrize(
    "given",
    [
        datetime(2026, 1, 1),  # noqa: DTZ001 - naive means UTC
        datetime(2026, 1, 1, tzinfo=UTC),
        datetime(2026, 1, 1, 2, tzinfo=timezone(timedelta(hours=2))),
        date(2026, 1, 1),
        "2026-01-01",
        "2026-01-01T01:00+01:00",
        NEW_YEAR,
    ],
)
def test_a_time_has_many_forms(given: object) -> None:
    """All of them are the same instant."""
    assert as_instant(given) == NEW_YEAR  # type: ignore[arg-type]


@pytest.mark.parametrize("given", [True, 1.5, None, "soon"])
def test_what_is_no_time_is_named(given: object) -> None:
    """The message shows the value."""
    with pytest.raises(InvalidInput, match=f"{given!r} is not a time"):
        as_instant(given)  # type: ignore[arg-type]


def test_the_number_of_an_event_is_no_time() -> None:
    """The error names the argument, and the option, for numbers of events."""
    with pytest.raises(InvalidInput, match=r"give since_version \(--since-version 4\)"):
        read_request(since="4")
    with pytest.raises(InvalidInput, match=r"give version \(--version 4\)"):
        read_request(as_of="4")
    with pytest.raises(InvalidInput, match=r"12:00:00Z$"):
        read_request(since="soon")


def test_an_interval_has_many_forms() -> None:
    """Text, a pair, an open side."""
    hour = Interval(NEW_YEAR, NEW_YEAR + HOUR_US)
    assert as_interval(hour) is hour
    assert as_interval("2026-01-01/2026-01-01T01:00") == hour
    assert as_interval([date(2026, 1, 1), "2026-01-01T01:00"]) == hour
    assert as_interval((None, NEW_YEAR)) == Interval(ALL_TIME.start, NEW_YEAR)
    assert as_interval((NEW_YEAR, None)) == Interval(NEW_YEAR, ALL_TIME.end)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ((1, 2, 3), "is not an interval: give a pair"),
        (5, "is not an interval: give a pair"),
        ("2026-01-01", "is not an interval: write start/end"),
        ((2, 1), "interval 1970-01-01.*Z is empty: its end must be later"),
        ("2026-01-01/", "is not an interval: write start/end"),
    ],
)
def test_what_is_no_interval_is_named(given: object, said: str) -> None:
    """The message shows the value and the form."""
    with pytest.raises(InvalidInput, match=said):
        as_interval(given)  # type: ignore[arg-type]
