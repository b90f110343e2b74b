"""Texts as numbers, truths, days and instants, as Spark casts them (ANSI, session zone UTC).

1. A text has blanks around it, which do not count.
2. A time may lack its last parts: ``2026``, ``2026-1``, ``2026-01-01 12``, ``2026-01-01 12:30``.
   Digits below a microsecond are cut off. Its zone is an offset, ``Z``, ``UTC`` or a region. One
   form more than Spark's is read: a zone after the minutes, as ISO 8601 has it.
3. A date may be followed by ``T`` or a blank and anything.
4. ``ValueError`` means that Spark refuses the text, too; ``OnlySpark`` that it may know better.
"""

import re
from datetime import UTC, date, datetime, time
from decimal import Decimal
from zoneinfo import ZoneInfo

from airflow_provider_segtable.core.time import instant


class OnlySpark(Exception):
    """Raised for what only Spark computes; the text says why."""


_BLANK = "".join(map(chr, range(0x21))) + "\x7f"
"""What Spark trims before it casts a text: blanks and control characters."""
_DAY = re.compile(r"\+?(\d{4})(?:-(\d{1,2})(?:-(\d{1,2})(?:[ T].*)?)?)?", re.ASCII | re.DOTALL)
_ZONE = r"Z|UTC|[+-]\d{1,2}(?::\d{2})?|[A-Za-z]+(?:/[A-Za-z_]+)+"
_CLOCK = rf"(\d{{1,2}})(?::(\d{{1,2}})(?::(\d{{1,2}})(?:\.(\d*))?)?(?: ?(?P<zone>{_ZONE}))?)?"
_TIME = re.compile(rf"\+?(\d{{4}})(?:-(\d{{1,2}})(?:-(\d{{1,2}})(?:[ T]{_CLOCK})?)?)?", re.ASCII)
_SPECIAL = re.compile(r"(epoch|now|today|tomorrow|yesterday)\b", re.IGNORECASE)
_FAR_YEAR = re.compile(r"[+-]?\d{5,6}(-|$)|-\d{4}|\+?0000|T?\d{1,2}:", re.ASCII)
_INTEGER = re.compile(r"[+-]?\d+", re.ASCII)
_DOUBLE = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?", re.ASCII | re.IGNORECASE)
_NO_NUMBER = {"inf": "inf", "+inf": "inf", "infinity": "inf", "+infinity": "inf"}
_NO_NUMBER |= {"-inf": "-inf", "-infinity": "-inf", "nan": "nan"}
_TRUTHS = {"true": True, "t": True, "yes": True, "y": True, "1": True}
_TRUTHS |= {"false": False, "f": False, "no": False, "n": False, "0": False}
_WAY_OUT = "write ISO 8601, e.g. 2013-01-31 or 2013-01-31T12:00:00Z"
_MOST_OFFSET = 18 * 60


def as_integer(text: str) -> int:
    """Return a text as an integer of any size."""
    found = _INTEGER.fullmatch(text.strip(_BLANK))
    if not found:
        raise ValueError(f"{text!r} is not a whole number")
    return int(found[0])


def as_double(text: str) -> float:
    """Return a text as a floating number, infinities and NaN included."""
    plain = text.strip(_BLANK)
    if _DOUBLE.fullmatch(plain):
        return float(plain)
    if plain.lower() in _NO_NUMBER:
        return float(_NO_NUMBER[plain.lower()])
    if _DOUBLE.fullmatch(plain[:-1]) or "0x" in plain.lower():
        raise OnlySpark(f"it reads {text!r} as Java does")
    raise ValueError(f"{text!r} is not a number")


def as_decimal(text: str) -> Decimal:
    """Return a text as a decimal, with all of its digits."""
    plain = text.strip(_BLANK)
    if not _DOUBLE.fullmatch(plain):
        raise ValueError(f"{text!r} is not a number")
    return Decimal(plain)


def as_truth(text: str) -> bool:
    """Return a text as true or false."""
    found = _TRUTHS.get(text.strip(_BLANK).lower())
    if found is None:
        raise ValueError(f"{text!r} is neither true nor false")
    return found


def as_day(text: str, *, literal: bool = True) -> int:
    """Return a text as days since 1970; special names such as ``today`` are for literals."""
    plain = text.strip(_BLANK)
    found = _DAY.fullmatch(plain)
    if not found:
        raise _no_time(text, plain, literal=literal)
    year, month, day = (int(part or 1) for part in found.groups())
    if not year:
        raise OnlySpark("it has a year 0")
    return date(year, month, day).toordinal() - date(1970, 1, 1).toordinal()


def as_instant(text: str, *, literal: bool = True, zoned: bool = True) -> int:
    """Return a text as microseconds since 1970.

    Args:
        text: the text.
        literal: whether names such as ``today`` may be meant.
        zoned: False for a time without zone, which ignores the zone in the text.
    """
    plain = text.strip(_BLANK)
    found = _TIME.fullmatch(plain)
    if not found:
        raise _no_time(text, plain, literal=literal)
    year, month, day, hour, minute, second, fraction = found.groups()[:7]
    if not int(year):
        raise OnlySpark("it has a year 0")
    micros = int((fraction or "").ljust(6, "0")[:6])
    clock = time(int(hour or 0), int(minute or 0), int(second or 0), micros)
    when = datetime.combine(date(int(year), int(month or 1), int(day or 1)), clock)
    zone = found["zone"]
    if zone is None or not zoned or zone in {"Z", "UTC"}:
        return instant(when.replace(tzinfo=UTC))
    if "/" in zone:
        return instant(when.replace(tzinfo=_region(zone, text)))
    hours, _, minutes = zone[1:].partition(":")
    offset = int(hours) * 60 + int(minutes or 0)
    if offset > _MOST_OFFSET or int(minutes or 0) > 59:
        raise ValueError(f"{text!r} is not a time: its zone is further than 18 hours")
    away = offset * 60_000_000 * (-1 if zone[0] == "-" else 1)
    return instant(when.replace(tzinfo=UTC)) - away


def _region(zone: str, text: str) -> ZoneInfo:
    try:
        return ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        raise ValueError(f"{text!r} is not a time: there is no time zone {zone!r}") from None


def _no_time(text: str, plain: str, *, literal: bool) -> Exception:
    if literal and _SPECIAL.match(plain):
        return OnlySpark(f"{text!r} depends on the time of the query")
    if _FAR_YEAR.match(plain) or re.search(r"[+-]\d{4}$|\d ?[A-Z]", plain):
        return OnlySpark(f"it may read {text!r} as a time")
    return ValueError(f"{text!r} is not a time: {_WAY_OUT}")
