"""Windows: the hours of a week in which plans of a kind may begin.

1. A window is ``[days] from-to``, by a wall clock: ``22:00-06:00``, ``Sat,Sun 00:00-24:00``,
   ``Mon-Fri 20:00-05:30``. One that ends before it begins goes on until the next day; its days are
   those on which it begins.
2. The clock is that of one zone for all windows of a fleet. Its jumps need no rule of their own:
   a moment is inside if its wall clock is.
3. A plan that has begun goes on after its window closes; none begins.

Source of the idea: HBase's and Paimon's off-peak hours, with days and a zone.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta, tzinfo
from datetime import time as clock
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.time import Instant, instant, moment

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
DAY_MINUTES = 24 * 60
_FORM = re.compile(
    r"(?:(?P<days>[A-Za-z][A-Za-z, -]*)\s+)?(?P<start>\d\d?:\d\d)\s*-\s*(?P<end>\d\d?:\d\d)"
)
_EXAMPLES = '"22:00-06:00", "Sat,Sun 00:00-24:00" or "Mon-Fri 20:00-05:30"'
_SEARCH_DAYS = 9
"""A window that opens at all does so in the coming week; clocks may jump over it once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Window:
    """Minutes of some days, ``start`` to before ``end``; ``end`` may be on the next day."""

    text: str
    days: frozenset[int]
    start: int
    end: int

    def holds(self, at: datetime) -> bool:
        """Return whether a moment of the zone's wall clock is inside."""
        minute = at.hour * 60 + at.minute
        today, before = at.weekday(), (at.weekday() - 1) % 7
        if today in self.days and self.start <= minute < self.end:
            return True
        return before in self.days and minute + DAY_MINUTES < self.end


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """The windows of one kind of work; without any it may begin at all times."""

    windows: tuple[Window, ...] = ()
    zone: tzinfo = UTC

    def open_at(self, now: Instant) -> bool:
        """Return whether work may begin."""
        at = moment(now).astimezone(self.zone)
        return not self.windows or any(window.holds(at) for window in self.windows)

    def next_opening(self, now: Instant) -> Instant | None:
        """Return when work may begin, from now on; None if not within a week."""
        if self.open_at(now):
            return now
        starts = sorted(self._starts(moment(now).astimezone(self.zone)))
        return next((at for at in starts if at >= now and self.open_at(at)), None)

    def _starts(self, day: datetime) -> set[Instant]:
        """Return when windows begin in the coming days; a repeated hour has each twice."""
        days = [day.replace(tzinfo=None) + timedelta(days=n) for n in range(_SEARCH_DAYS)]
        minutes = {window.start for window in self.windows}
        return {
            _instant(each, minute, self.zone, fold)
            for each in days
            for minute in minutes
            for fold in (0, 1)
        }


def _instant(day: datetime, minute: int, zone: tzinfo, fold: int) -> Instant:
    wall = datetime.combine(day, clock(minute // 60, minute % 60))
    return instant(wall.replace(tzinfo=zone, fold=fold).astimezone(UTC))


def parse_windows(texts: Sequence[str], zone: tzinfo = UTC) -> Windows:
    """Return windows from their texts.

    Raises:
        InvalidInput: a text is no window; the message shows the form.
    """
    return Windows(windows=tuple(map(_window, texts)), zone=zone)


def parse_zone(name: str) -> tzinfo:
    """Return a time zone by its name, e.g. ``Europe/Berlin``.

    Raises:
        InvalidInput: there is none of this name.
    """
    try:
        return UTC if name == "UTC" else ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidInput(
            f"{name!r} is not a time zone: write a name such as Europe/Berlin, or UTC"
        ) from None


def _window(text: str) -> Window:
    found = _FORM.fullmatch(text.strip())
    if found is None:
        raise InvalidInput(f"{text!r} is not a window: write e.g. {_EXAMPLES}")
    start, end = _minutes(text, found["start"]), _minutes(text, found["end"])
    if start in (DAY_MINUTES, end):
        raise InvalidInput(f"{text!r} is an empty window: all day is 00:00-24:00")
    return Window(
        text=text.strip(),
        days=_days(text, found["days"] or "Mon-Sun"),
        start=start,
        end=end if end > start else end + DAY_MINUTES,
    )


def _minutes(text: str, clock: str) -> int:
    hours, _, minutes = clock.partition(":")
    found = int(hours) * 60 + int(minutes)
    if int(minutes) > 59 or found > DAY_MINUTES:
        raise InvalidInput(f"{text!r} is not a window: {clock} is not a time of day")
    return found


def _days(text: str, names: str) -> frozenset[int]:
    found: set[int] = set()
    for part in names.split(","):
        first, _, last = (word.strip().lower()[:3] for word in part.partition("-"))
        if first not in DAYS or (last and last not in DAYS):
            raise InvalidInput(
                f"{text!r} is not a window: {part.strip()!r} are no days; write e.g. {_EXAMPLES}"
            )
        start, end = DAYS.index(first), DAYS.index(last or first)
        found.update((start + n) % 7 for n in range((end - start) % 7 + 1))
    return frozenset(found)
