"""Intervals as people say them: ``10 Nov``, ``Mar 2025``, ``2 to 5 Jan``.

1. Times are UTC. A day, month or year is named by its own name, others by both ends.
2. The end of whole days is the last day, not the midnight after it.
3. The present year is left out, except where nothing else would be left.
"""

from datetime import datetime, timedelta

from airflow_provider_segtable.core.time import DAY_US, Instant, Interval, moment


def in_words(interval: Interval, now: Instant) -> str:
    """Return an interval in words.

    Args:
        interval: the interval.
        now: the wall clock, whose year is left out.
    """
    start, end, year = moment(interval.start), moment(interval.end), moment(now).year
    if interval.start % DAY_US or interval.end % DAY_US:
        same_day = (end - timedelta(microseconds=1)).date() == start.date()
        until = _clock(end) if same_day else f"{_day(end, year)} {_clock(end)}"
        return f"{_day(start, year)} {_clock(start)} to {until}"
    if start.day == 1 and end.day == 1:
        return _months(start, end)
    last = end - timedelta(days=1)
    if last == start:
        return _day(start, year)
    if (start.year, start.month) == (last.year, last.month):
        return f"{start.day} to {_day(last, year)}"
    return f"{_day(start, start.year if start.year == last.year else year)} to {_day(last, year)}"


def _months(start: datetime, end: datetime) -> str:
    last = end - timedelta(days=1)
    whole_years = (start.month, end.month) == (1, 1)
    form = "%Y" if whole_years else "%b %Y"
    first, final = start.strftime(form), last.strftime(form)
    return first if first == final else f"{first} to {final}"


def _day(at: datetime, year: int) -> str:
    named = f"{at.day} {at.strftime('%b')}"
    return named if at.year == year else f"{named} {at.year}"


def _clock(at: datetime) -> str:
    return at.strftime("%H:%M")
