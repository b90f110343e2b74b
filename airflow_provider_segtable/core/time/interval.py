"""Half-open intervals of event time, and the granularities that split time into chunks.

1. An instant is an ``int``: microseconds since 1970-01-01T00:00:00Z. No time zones anywhere.
2. An interval ``[start, end)`` holds its start and not its end; empty intervals do not exist.
3. Chunks of one granularity tile the whole range; a week starts on Monday.
4. A table can hold the years 1 to 9998, up to ``MAX_INSTANT`` (exclusive), the start of 9999.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import TypeAlias

from airflow_provider_segtable.core.errors import InvalidInput, TimeOutOfRange

Instant: TypeAlias = int
"""Microseconds since the epoch, UTC."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
DAY_US = 86_400_000_000
HOUR_US = 3_600_000_000


def instant(moment: datetime) -> Instant:
    """Return ``moment`` (aware) in microseconds since the epoch, exactly."""
    return (moment - EPOCH) // MICROSECOND


MIN_INSTANT: Instant = instant(datetime(1, 1, 1, tzinfo=UTC))
MAX_INSTANT: Instant = instant(datetime(9999, 1, 1, tzinfo=UTC))


def moment(at: Instant) -> datetime:
    """Return the aware UTC datetime of an instant."""
    return EPOCH + timedelta(microseconds=at)


def iso(at: Instant) -> str:
    """Return an instant as ISO 8601, e.g. ``2013-01-01T00:00:00Z``; a zero fraction is omitted."""
    return moment(at).isoformat().replace("+00:00", "Z")


def parse_instant(text: str) -> Instant:
    """Parse ISO 8601; a date alone means its midnight, a time without zone is UTC.

    Raises:
        InvalidInput: if ``text`` is no ISO 8601 date or time.
    """
    try:
        parsed = datetime.fromisoformat(text)
    except ValueError:
        way_out = "write ISO 8601, e.g. 2013-01-31 or 2013-01-31T12:00:00Z"
        raise InvalidInput(f"{text!r} is not a time: {way_out}") from None
    return instant(parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC))


def _compact(at: Instant) -> str:
    when = moment(at)
    fraction = f".{when.microsecond:06d}" if when.microsecond else ""
    return f"{when.year:04d}{when:%m%dT%H%M%S}{fraction}"


@lru_cache(maxsize=4096)  # the ids of a chunk name the same interval over and over
def _name(start: Instant, end: Instant) -> str:
    return f"{_compact(start)}_{_compact(end)}"


def _from_compact(text: str) -> Instant:
    match = re.fullmatch(r"(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)(?:\.(\d{6}))?", text)
    if not match:
        raise InvalidInput(f"{text!r} is not a compact time: write e.g. 20130131T120000")
    return instant(datetime(*(int(part or 0) for part in match.groups()), tzinfo=UTC))  # type: ignore[misc,arg-type]


@dataclass(frozen=True, slots=True, order=True)
class Interval:
    """A non-empty half-open interval ``[start, end)`` of instants."""

    start: Instant
    end: Instant

    def __post_init__(self) -> None:
        """Refuse empty and reversed intervals."""
        if self.start >= self.end:
            raise InvalidInput(
                f"interval {iso(self.start)}/{iso(self.end)} is empty: its end must be later than "
                "its start"
            )

    def __str__(self) -> str:
        """Return ISO 8601 ``start/end``."""
        return f"{iso(self.start)}/{iso(self.end)}"

    @property
    def name(self) -> str:
        """Return the form used in paths and ids: ``20130101T000000_20130201T000000``."""
        return _name(self.start, self.end)

    @staticmethod
    @lru_cache(maxsize=4096)  # a log names the same few chunks over and over
    def from_name(name: str) -> "Interval":
        """Parse the output of ``name``."""
        start, _, end = name.partition("_")
        return Interval(_from_compact(start), _from_compact(end))

    @staticmethod
    def parse(text: str) -> "Interval":
        """Parse ISO 8601 ``start/end``, e.g. ``2013-01-01/2013-02-01``."""
        start, _, end = text.partition("/")
        if not start.strip() or not end.strip():
            raise InvalidInput(
                f"{text!r} is not an interval: write start/end, 2013-01-01/2013-02-01"
            )
        return Interval(parse_instant(start), parse_instant(end))

    def holds(self, at: Instant) -> bool:
        """Return whether the instant lies in the interval."""
        return self.start <= at < self.end

    def encloses(self, other: "Interval") -> bool:
        """Return whether all of ``other`` lies in this interval."""
        return self.start <= other.start and other.end <= self.end

    def overlaps(self, other: "Interval") -> bool:
        """Return whether the two share an instant."""
        return self.start < other.end and other.start < self.end

    def clip(self, other: "Interval") -> "Interval | None":
        """Return the intersection, or None if it is empty."""
        start, end = max(self.start, other.start), min(self.end, other.end)
        return Interval(start, end) if start < end else None


ALL_TIME = Interval(MIN_INSTANT, MAX_INSTANT)


def joined(intervals: Iterable[Interval]) -> tuple[Interval, ...]:
    """Return the instants of any intervals as disjoint intervals that do not touch, in order."""
    found: list[Interval] = []
    for each in sorted(intervals):
        if found and each.start <= found[-1].end:
            found[-1] = Interval(found[-1].start, max(found[-1].end, each.end))
        else:
            found.append(each)
    return tuple(found)


class Granularity(StrEnum):
    """The sizes of time chunks."""

    HOUR = "hour"
    DAY = "day"
    WEEK = "week"
    MONTH = "month"
    YEAR = "year"
    ALL = "all"

    def chunk(self, at: Instant) -> Interval:
        """Return the chunk that holds the instant.

        Raises:
            TimeOutOfRange: if the instant is outside the years 1 to 9998.
        """
        if not ALL_TIME.holds(at):
            raise TimeOutOfRange(
                f"event time {at} µs is outside {ALL_TIME}: check the unit of the time column"
            )
        match self:
            case Granularity.ALL:
                return ALL_TIME
            case Granularity.HOUR:
                return _fixed(at, HOUR_US, 0)
            case Granularity.DAY:
                return _fixed(at, DAY_US, 0)
            case Granularity.WEEK:
                return _fixed(at, 7 * DAY_US, 4 * DAY_US)  # 1970-01-05 was a Monday
            case Granularity.MONTH:
                return _month(moment(at))
            case Granularity.YEAR:
                year = moment(at).year
                return Interval(_first_of(year, 1), _first_of(year + 1, 1))

    @property
    def least(self) -> int:
        """Return the length of the shortest chunk, in microseconds."""
        days = {Granularity.WEEK: 7, Granularity.MONTH: 28, Granularity.YEAR: 365}
        if self is Granularity.HOUR:
            return HOUR_US
        whole = ALL_TIME.end - ALL_TIME.start
        return whole if self is Granularity.ALL else days.get(self, 1) * DAY_US

    def nests_in(self, other: "Granularity") -> bool:
        """Return whether every chunk of this granularity lies in one chunk of the other."""
        if self is Granularity.WEEK:
            return other in {Granularity.WEEK, Granularity.ALL}  # weeks straddle months and years
        finer_first = [each for each in Granularity if each is not Granularity.WEEK]
        if other is Granularity.WEEK:
            return self in {Granularity.HOUR, Granularity.DAY}
        return finer_first.index(self) <= finer_first.index(other)

    def chunks(self, interval: Interval) -> Iterator[Interval]:
        """Yield the chunks that overlap the interval, in order."""
        at = interval.start
        while at < interval.end:
            chunk = self.chunk(at)
            yield chunk
            at = chunk.end


def _fixed(at: Instant, width: int, origin: Instant) -> Interval:
    start = at - (at - origin) % width
    return Interval(max(start, MIN_INSTANT), min(start + width, MAX_INSTANT))


def _first_of(year: int, month: int) -> Instant:
    return instant(datetime(year, month, 1, tzinfo=UTC))


def _month(when: datetime) -> Interval:
    following = (when.year + when.month // 12, when.month % 12 + 1)
    return Interval(_first_of(when.year, when.month), _first_of(*following))
