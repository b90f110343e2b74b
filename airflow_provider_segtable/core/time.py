"""Event time: half-open intervals, granularities that split time into chunks, and a table's layout.

1. An instant is an ``int``: microseconds since 1970-01-01T00:00:00Z. No time zones anywhere.
2. An interval ``[start, end)`` holds its start and not its end; empty intervals do not exist.
3. Chunks of one granularity tile the whole range; a week starts on Monday.
4. A table can hold the years 1 to 9998, up to ``MAX_INSTANT`` (exclusive), the start of 9999.
5. A *layout* partitions a table's time into chunks. The table's granularity determines the chunks,
   except where a *granularity override* applies.
6. A major compaction that changes the granularity of a region overrides it there. Overrides are
   disjoint and sorted; neighbours of equal granularity are joined. Overrides equal to the table's
   granularity are dropped.
   In a primary-key table an override may also have its own number of buckets. If its granularity
   changes and no number is given, a region gets the largest number that it had.
7. Every instant belongs to exactly one chunk. A chunk may extend over the edge of an override;
   instants beyond the edge belong to another chunk, and no row of this one lies there.
8. Chunks that extend over an edge *cross* if, at one version, overshadowing would show the wrong
   one beyond the edge (among equal versions, the later start wins, then the earlier end). A new
   version must not have chunks that cross: its region has one granularity (ADR 0012).
9. Users give a time as a ``datetime``, a ``date`` (its midnight), ISO 8601 text, or an ``Instant``
   (microseconds since the epoch). Without a zone it is UTC.
10. Users give an interval as an ``Interval``, the text ``start/end``, or a pair of times. ``None``
    in a pair leaves that side open.

A layout with one override (rules 5 to 7)::

    granularity hour                | 00 | 01 | ... | 23 | 00 | 01 | ...
    override [Jan 1, Jan 2) by day  |      January 1     | 00 | 01 | ...
"""

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from functools import lru_cache
from typing import Any, TypeAlias

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput, TimeOutOfRange

Instant: TypeAlias = int
"""Microseconds since the epoch, UTC."""

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
MICROSECOND = timedelta(microseconds=1)
SECOND_US = 1_000_000
MINUTE_US = 60 * SECOND_US
HOUR_US = 60 * MINUTE_US
DAY_US = 24 * HOUR_US
MONDAY_US = 4 * DAY_US
"""The first Monday after the epoch, 1970-01-05."""


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
    return tuple(_together(intervals, meeting=True))


def united(intervals: Iterable[Interval]) -> list[Interval]:
    """Return intervals in order, with overlapping ones joined; those that only meet stay apart."""
    return _together(intervals, meeting=False)


def _together(intervals: Iterable[Interval], *, meeting: bool) -> list[Interval]:
    found: list[Interval] = []
    for each in sorted(intervals):
        last = found[-1] if found else None
        if last and (each.start < last.end or (meeting and each.start == last.end)):
            found[-1] = Interval(last.start, max(last.end, each.end))
        else:
            found.append(each)
    return found


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
                return _fixed(at, 7 * DAY_US, MONDAY_US)
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


# Layout: the partition of time into chunks
@dataclass(frozen=True, slots=True, order=True)
class GranularityOverride:
    """An interval with its own granularity; ``buckets`` is 0 if it has the table's number."""

    interval: Interval
    granularity: Granularity
    buckets: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Cut:
    """A wanted division: a granularity, a number of buckets, both, or neither (None and 0)."""

    granularity: Granularity | None = None
    buckets: int = 0

    def __bool__(self) -> bool:
        """Return whether anything is wanted."""
        return self != Cut()

    def __str__(self) -> str:
        """Return ``day``, ``8 buckets``, or ``day in 8 buckets``."""
        buckets = f"{self.buckets} buckets" if self.buckets else ""
        return " in ".join(filter(None, (self.granularity and self.granularity.value, buckets)))


@dataclass(frozen=True, slots=True, kw_only=True)
class Layout:
    """The table's granularity and number of buckets, and the overrides that differ from it."""

    granularity: Granularity
    overrides: tuple[GranularityOverride, ...] = ()
    buckets: int = 0

    def chunk(self, at: Instant) -> Interval:
        """Return the time chunk of an instant.

        Raises:
            TimeOutOfRange: if the instant is outside the years 1 to 9998.
        """
        override = self.override(at)
        return (override.granularity if override else self.granularity).chunk(at)

    def override(self, at: Instant) -> GranularityOverride | None:
        """Return the override at an instant, or None."""
        before = bisect_right(self.overrides, at, key=lambda override: override.interval.start) - 1
        if before >= 0 and self.overrides[before].interval.holds(at):
            return self.overrides[before]
        return None

    def own_buckets(self, at: Instant) -> int:
        """Return the number of buckets of an instant's region; 0 if it has the table's."""
        override = self.override(at)
        return override.buckets if override else 0

    def buckets_at(self, at: Instant) -> int:
        """Return the number of buckets of an instant's chunk; 0 without a primary key."""
        return self.own_buckets(at) or self.buckets

    def pieces(self, region: Interval) -> Iterator[GranularityOverride]:
        """Yield the parts of a region, each with its granularity and its own number of buckets."""
        at = region.start
        for override in self.overrides:
            inside = override.interval.clip(region)
            if inside is None:
                continue
            if at < inside.start:
                yield GranularityOverride(Interval(at, inside.start), self.granularity)
            yield GranularityOverride(inside, override.granularity, override.buckets)
            at = inside.end
        if at < region.end:
            yield GranularityOverride(Interval(at, region.end), self.granularity)

    def cuts(self, region: Interval) -> frozenset[tuple[Granularity, int]]:
        """Return how the region is divided: all granularities, each with its own buckets."""
        return frozenset((piece.granularity, piece.buckets) for piece in self.pieces(region))

    def granularities(self, region: Interval) -> frozenset[Granularity]:
        """Return all granularities in the region."""
        return frozenset(granularity for granularity, _ in self.cuts(region))

    def holds(self, first: Instant, last: Instant) -> Interval | None:
        """Return the chunk that holds both instants, or None if they lie in two."""
        chunk = self.chunk(first)
        return chunk if self.chunk(last) == chunk else None

    def chunks(self, first: Instant, last: Instant) -> Iterator[Interval]:
        """Yield the time chunks from that of an instant to that of another one, in order."""
        at = first
        while at <= last:
            chunk = self.chunk(at)
            yield chunk
            at = chunk.end

    def most_chunks(self, first: Instant, last: Instant) -> int:
        """Return an upper bound of the number of time chunks between two instants; lists none."""
        if self.holds(first, last):
            return 1
        pieces = self.pieces(Interval(first, last + 1))
        return sum(2 + (p.interval.end - p.interval.start) // p.granularity.least for p in pieces)

    def edge(self, at: Instant) -> Instant:
        """Return the end (exclusive) of the instants from ``at`` on that belong to its chunk."""
        chunk = self.chunk(at)
        inside = self.override(at)
        if inside:
            return min(chunk.end, inside.interval.end)
        following = bisect_right(self.overrides, at, key=lambda override: override.interval.start)
        if following < len(self.overrides):
            return min(chunk.end, self.overrides[following].interval.start)
        return chunk.end

    def crossing(self, region: Interval) -> Granularity | None:
        """Return the granularity of an override at whose edge chunks of the region cross; rule 8.

        None if none cross.
        """
        for edge in self._edges(region):
            before, after = self.chunk(edge - 1), self.chunk(edge)
            shared = before.clip(after)
            if before == after or shared is None:
                continue
            later = max(before, after, key=lambda chunk: (chunk.start, -chunk.end))
            hidden = (shared.start < edge and later is after) or (
                edge < shared.end and later is before
            )
            if hidden:
                override = self.override(edge - 1) or self.override(edge)
                return override.granularity if override else None
        return None

    def _edges(self, region: Interval) -> list[Instant]:
        """Return the edges of overrides inside a region."""
        first = bisect_right(
            self.overrides, region.start, key=lambda override: override.interval.end
        )
        after = bisect_left(
            self.overrides, region.end, key=lambda override: override.interval.start
        )
        near = (override.interval for override in self.overrides[first:after])
        edges = {edge for override in near for edge in (override.start, override.end)}
        return sorted(edge for edge in edges if region.start < edge < region.end)

    def recut(
        self, region: Interval, granularity: Granularity | None, buckets: int = 0
    ) -> "Layout":
        """Return the layout with a region repartitioned.

        Args:
            region: splits no chunk, old or new.
            granularity: None keeps the region's.
            buckets: the number of buckets; 0 keeps it (rule 6).
        """
        kept = [piece for override in self.overrides for piece in _outside(override, region)]
        pieces = [*self.pieces(region)]
        largest = max(piece.buckets or self.buckets for piece in pieces)
        for piece in pieces:
            number = buckets or (largest if granularity else piece.buckets)
            own = 0 if number == self.buckets else number
            cut = granularity or piece.granularity
            if (cut, own) != (self.granularity, 0):
                kept.append(GranularityOverride(piece.interval, cut, own))
        return replace(self, overrides=tuple(_joined(sorted(kept))))


def aligned(region: Interval, granularity: Granularity) -> Interval:
    """Return the smallest interval of whole chunks of a granularity that covers the region."""
    return Interval(granularity.chunk(region.start).start, granularity.chunk(region.end - 1).end)


def _outside(override: GranularityOverride, region: Interval) -> Iterator[GranularityOverride]:
    start, end = override.interval.start, override.interval.end
    for first, last in ((start, min(end, region.start)), (max(start, region.end), end)):
        if first < last:
            yield replace(override, interval=Interval(first, last))


def _joined(overrides: Iterable[GranularityOverride]) -> Iterator[GranularityOverride]:
    held: GranularityOverride | None = None
    for override in overrides:
        touches = held and held.interval.end == override.interval.start
        if held and touches and _alike(held, override):
            held = replace(held, interval=Interval(held.interval.start, override.interval.end))
            continue
        if held:
            yield held
        held = override
    if held:
        yield held


def _alike(one: GranularityOverride, other: GranularityOverride) -> bool:
    return (one.granularity, one.buckets) == (other.granularity, other.buckets)


def encode_overrides(overrides: Iterable[GranularityOverride]) -> list[list[str | int]]:
    """Return granularity overrides as JSON; those with the table's buckets name no number."""
    return [
        [each.interval.name, each.granularity.value, *([each.buckets] if each.buckets else [])]
        for each in overrides
    ]


def decode_overrides(body: Iterable[Sequence[Any]]) -> tuple[GranularityOverride, ...]:
    """Parse the output of ``encode_overrides``."""
    return tuple(
        GranularityOverride(Interval.from_name(name), Granularity(granularity), *buckets)
        for name, granularity, *buckets in body
    )


# Times and intervals as users give them
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
