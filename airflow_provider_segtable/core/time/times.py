"""Times and intervals as users give them.

1. A time is a ``datetime``, a ``date`` (its midnight), ISO 8601 text, or an ``Instant``
   (microseconds since the epoch). Without a zone it is UTC.
2. An interval is an ``Interval``, the text ``start/end``, or a pair of times. ``None`` in a pair
   leaves that side open.
"""

from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import TypeAlias

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.time.interval import (
    ALL_TIME,
    Instant,
    Interval,
    instant,
    parse_instant,
)

Time: TypeAlias = datetime | date | str | Instant
"""A time as users give it."""

TimeRange: TypeAlias = Interval | str | Sequence[Time | None]
"""An interval as users give it; a sequence has two times."""


def as_instant(time: Time) -> Instant:
    """Return a time as an instant; without a zone it is UTC.

    Raises:
        InvalidInput: it is neither a time nor ISO 8601 text.
    """
    match time:
        case datetime():
            aware = time if time.tzinfo else time.replace(tzinfo=UTC)
            return int(instant(aware))
        case date():
            return instant(datetime(time.year, time.month, time.day, tzinfo=UTC))
        case str():
            return parse_instant(time)
        case int() if not isinstance(time, bool):
            return time
    raise InvalidInput(
        f"{time!r} is not a time: give a datetime, a date, ISO 8601 text or microseconds"
    )


def as_interval(given: TimeRange) -> Interval:
    """Return an interval that a user gives.

    Raises:
        InvalidInput: it is not an interval, or it is empty.
    """
    if isinstance(given, Interval):
        return given
    if isinstance(given, str):
        return Interval.parse(given)
    try:
        start, end = given
    except (TypeError, ValueError):
        raise InvalidInput(
            f"{given!r} is not an interval: give a pair (start, end), or text, "
            "2013-01-01/2013-02-01"
        ) from None
    return Interval(
        ALL_TIME.start if start is None else as_instant(start),
        ALL_TIME.end if end is None else as_instant(end),
    )
