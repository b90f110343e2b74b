"""Query granularities: the steps to which a rollup table truncates event times."""

from enum import StrEnum

from airflow_provider_segtable.core.errors import InvalidName
from airflow_provider_segtable.core.time.interval import (
    HOUR_US,
    MIN_INSTANT,
    Granularity,
    Instant,
)

SECOND_US = 1_000_000
MINUTE_US = 60 * SECOND_US


class QueryGranularity(StrEnum):
    """The steps to which event times are truncated for grouping; ``none`` truncates nothing."""

    NONE = "none"
    SECOND = "second"
    MINUTE = "minute"
    FIVE_MINUTE = "five_minute"
    TEN_MINUTE = "ten_minute"
    FIFTEEN_MINUTE = "fifteen_minute"
    THIRTY_MINUTE = "thirty_minute"
    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    YEAR = "year"

    @staticmethod
    def parse(text: str) -> "QueryGranularity":
        """Return the granularity of this name.

        Raises:
            InvalidName: if there is none.
        """
        try:
            return QueryGranularity(text)
        except ValueError:
            choices = ", ".join(QueryGranularity)
            raise InvalidName(
                f"{text!r} is not a query granularity: choose one of {choices}"
            ) from None

    @property
    def width_us(self) -> int | None:
        """Return the width of its steps, counted from the epoch; None for calendar steps."""
        return _WIDTHS.get(self)

    @property
    def calendar(self) -> Granularity | None:
        """Return the granularity whose chunks are its steps, for day and above."""
        return Granularity(self.value) if self in _CALENDAR else None

    def truncate(self, at: Instant) -> Instant:
        """Return the start of the step that holds the instant."""
        if self.calendar:
            return self.calendar.chunk(at).start
        return max(at - at % (self.width_us or 1), MIN_INSTANT)

    def fits(self, granularity: Granularity) -> bool:
        """Return whether it is at most as coarse as a table's granularity."""
        if granularity is Granularity.ALL:
            return True
        steps = list(QueryGranularity)
        return steps.index(self) <= steps.index(QueryGranularity(granularity.value))


_WIDTHS = {
    QueryGranularity.NONE: 1,
    QueryGranularity.SECOND: SECOND_US,
    QueryGranularity.MINUTE: MINUTE_US,
    QueryGranularity.FIVE_MINUTE: 5 * MINUTE_US,
    QueryGranularity.TEN_MINUTE: 10 * MINUTE_US,
    QueryGranularity.FIFTEEN_MINUTE: 15 * MINUTE_US,
    QueryGranularity.THIRTY_MINUTE: 30 * MINUTE_US,
    QueryGranularity.HOUR: HOUR_US,
}
_CALENDAR = set(QueryGranularity) - set(_WIDTHS)
