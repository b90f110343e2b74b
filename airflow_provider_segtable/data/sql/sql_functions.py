"""Functions of texts, times and numbers, as Spark computes them (session zone UTC).

Arguments are Arrow values of the type that the function wants; each returns null for null.
"""

import re
from calendar import monthrange
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR
from math import ceil, floor, isfinite
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.time import DAY_US, MAX_INSTANT, MIN_INSTANT
from airflow_provider_segtable.data.sql import arrow_numbers as numbers
from airflow_provider_segtable.data.sql.arrow_numbers import TEXT, TIME, Values
from airflow_provider_segtable.data.sql.sql_casts import mapped
from airflow_provider_segtable.data.sql.sql_text import OnlySpark

_FAR = "a time is before the year 1 or after 9998"
_INT = pa.int32()
_LONG = pa.int64()
_BOOLEAN = pa.bool_()
_DATE = pa.date32()
_UNITS = {"YEAR": "year", "YYYY": "year", "YY": "year", "QUARTER": "quarter", "WEEK": "week"}
_UNITS |= dict.fromkeys(("MONTH", "MM", "MON"), "month")
_SHORT_UNITS = dict.fromkeys(("DAY", "DD"), "day")
_SHORT_UNITS |= {name: name.lower() for name in ("HOUR", "MINUTE", "SECOND")}

PARTS: dict[str, Callable[[Values], Values]] = {
    "YEAR": pc.year,
    "QUARTER": pc.quarter,
    "MONTH": pc.month,
    "DAY": pc.day,
    "DAYOFYEAR": pc.day_of_year,
    "WEEKOFYEAR": pc.iso_week,
    "WEEKDAY": pc.day_of_week,
    "DAYOFWEEK": lambda days: pc.add(pc.day_of_week(days, week_start=7), 1),
    "HOUR": pc.hour,
    "MINUTE": pc.minute,
    "SECOND": pc.second,
}
OF_TIMES = frozenset(("HOUR", "MINUTE", "SECOND"))
"""Parts of times; all others are of dates."""


def part(name: str, values: Values) -> Values:
    """Return a part of times or dates, such as the year."""
    return pc.cast(PARTS[name](values), _INT)


def truncated(values: Values, unit: str) -> Values:
    """Return times or dates at the beginning of their unit."""
    units = _UNITS | _SHORT_UNITS
    return pc.cast(pc.floor_temporal(values, unit=units[unit.upper()]), values.type)


def check_unit(unit: str, *, of_dates: bool) -> None:
    """Require a unit that times or dates are truncated to."""
    if unit.upper() not in (_UNITS if of_dates else _UNITS | _SHORT_UNITS):
        raise OnlySpark(f"it cuts to {unit!r}")


def moved(values: Values, months: int, days: int, micros: int | None) -> Values:
    """Return times or dates later by months, days and microseconds, in this order.

    A date without ``micros`` stays a date.
    """
    if values.type == _DATE and micros is None:
        return mapped(lambda day: _day_later(day, months, days), _DATE, values)
    times = pc.cast(values, TIME)
    if months:
        times = mapped(lambda time: _months_later(time, months), TIME, times)
    step = pa.scalar(days * DAY_US + (micros or 0), pa.duration("us"))
    return _in_range(pc.add_checked(times, step))


def _months_later(time: datetime, months: int) -> datetime:
    day = _day_later(time.date(), months, 0)
    return time.replace(year=day.year, month=day.month, day=day.day)


def _in_range(times: Values) -> Values:
    """Require times that a table can have."""
    micros = numbers.array(times.cast(_LONG))
    if pc.any(pc.or_(pc.less(micros, MIN_INSTANT), pc.greater(micros, MAX_INSTANT))).as_py():
        raise OnlySpark(_FAR)
    return times


_PARTS_OF_TIMES = ("%Y", "%mstrict", "%dstrict", "%Hstrict", "%Mstrict", "%Sstrict")
_DIGITS = dict(zip(_PARTS_OF_TIMES, ("%Y", "%m", "%d", "%H", "%M", "%S"), strict=True))
_MICROS = {"MICROSECOND": 1, "MILLISECOND": 1000, "SECOND": 1_000_000, "MINUTE": 60_000_000}
_MICROS |= {"HOUR": 3_600_000_000, "DAY": DAY_US, "WEEK": 7 * DAY_US}


def time_pattern(parsed: str) -> tuple[str, ...]:
    """Return the parts of a format such as ``yyyy-MM-dd HH:mm:ss``, as the parser gives it.

    Raises:
        OnlySpark: it has parts that are not read here.
    """
    found = tuple(re.findall(r"%[YmdHMS](?:strict)?|'T'|[-/:. _,]|.", parsed, re.DOTALL))
    known = {*_PARTS_OF_TIMES, "'T'", *"-/:. _,"}
    if not found or not known.issuperset(found) or len(set(found) & set(_PARTS_OF_TIMES)) < 1:
        raise OnlySpark("its format has other parts than yyyy, MM, dd, HH, mm and ss")
    return found


def written_times(times: Values, pattern: tuple[str, ...]) -> Values:
    """Return times as texts of a format."""
    text = "".join(_DIGITS.get(each, each.strip("'")) for each in pattern)

    def one(time: datetime) -> str:
        if time.year < 1000:
            raise OnlySpark("it writes a year before 1000")
        return time.strftime(text)

    return mapped(one, TEXT, times)


def read_times(texts: Values, pattern: tuple[str, ...]) -> Values:
    """Return texts of a format as times.

    Raises:
        OnlySpark: a text has another form, or the format repeats or lacks a part.
    """
    own = [each for each in pattern if each in _PARTS_OF_TIMES]
    if own != list(_PARTS_OF_TIMES[: len(own)]) or len(own) not in (3, 6):
        raise OnlySpark("its format is not that of a date, or of a date and a time of day")
    forms = dict.fromkeys(_PARTS_OF_TIMES, r"(\d\d)") | {"%Y": r"(\d{4})"}
    form = re.compile("".join(forms.get(p) or re.escape(p.strip("'")) for p in pattern), re.ASCII)

    def one(text: str) -> datetime:
        found = form.fullmatch(text)
        try:
            year, month, day, *clock = map(int, found.groups() if found else ())
            return datetime(year, month, day, *clock, tzinfo=UTC)  # type: ignore[misc,arg-type]
        except ValueError:
            raise OnlySpark(f"{text!r} has not the form of its format") from None

    return mapped(one, TIME, texts)


def times_of(numbers_: Values, micros: int) -> Values:
    """Return times by their numbers of units since 1970."""

    def one(number: int) -> int:
        if not MIN_INSTANT <= number * micros <= MAX_INSTANT:
            raise OnlySpark(_FAR)
        return number * micros

    return mapped(one, _LONG, numbers_).cast(TIME)


def made_days(year: Values, month: Values, day: Values) -> Values:
    """Return dates by their parts."""

    def one(y: int, m: int, d: int) -> date:
        if not 1 <= y <= 9998:
            raise OnlySpark(_FAR)
        return date(y, m, d)

    return mapped(one, _DATE, year, month, day)


def units_between(start: Values, end: Values, unit: str) -> Values:
    """Return the whole units from one time to another, towards zero."""
    size = _MICROS.get(unit.upper())
    if size is None:
        raise OnlySpark(f"it counts {unit}s")

    def one(first: int, last: int) -> int:
        far = abs(last - first) // size
        return far if last >= first else -far

    return mapped(one, _LONG, pc.cast(start, _LONG), pc.cast(end, _LONG))


def later_units(times: Values, count: Values, unit: str) -> Values:
    """Return times later by numbers of units."""
    size = _MICROS.get(unit.upper())
    if size is None:
        raise OnlySpark(f"it adds {unit}s")
    micros = mapped(lambda at, n: at + n * size, _LONG, pc.cast(times, _LONG), count)
    return _in_range(micros.cast(TIME))


def in_zone(times: Values, zone: str, *, to_local: bool) -> Values:
    """Return times as a clock in a zone shows them, or the other way round.

    Raises:
        OnlySpark: not both know the zone, or a time differs between them.
    """
    try:
        region = ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        raise OnlySpark(f"it reads {zone!r} as a time zone") from None

    def one(time: datetime) -> datetime:
        if not 1972 <= time.year <= 2037:
            raise OnlySpark("zones had other rules before 1972, and may have after 2037")
        if to_local:
            return time.astimezone(region).replace(tzinfo=UTC)
        there = time.replace(tzinfo=region)
        back = there.astimezone(UTC)
        if back.astimezone(region).replace(tzinfo=UTC) != time:
            raise OnlySpark(f"no clock in {zone} showed {time:%Y-%m-%d %H:%M}")
        return back

    return mapped(one, TIME, times)


def later_days(values: Values, days: Values, sign: int = 1) -> Values:
    """Return dates later by numbers of days."""
    return mapped(lambda day, n: _day_later(day, 0, sign * n), _DATE, values, days)


def later_months(values: Values, months: Values) -> Values:
    """Return dates later by numbers of months."""
    return mapped(lambda day, n: _day_later(day, n, 0), _DATE, values, months)


def _day_later(day: date, months: int, days: int) -> date:
    """Return a date later by months, at most the last of the month, then by days."""
    try:
        if months:
            year, month = divmod(day.year * 12 + day.month - 1 + months, 12)
            last = _last_day(date(year, month + 1, 1))
            day = last.replace(day=min(day.day, last.day))
        return day + timedelta(days)
    except (ValueError, OverflowError):
        raise OnlySpark(_FAR) from None


def last_days(values: Values) -> Values:
    """Return the last day of each date's month."""
    return mapped(_last_day, _DATE, values)


def _last_day(day: date) -> date:
    return day.replace(day=monthrange(day.year, day.month)[1])


def days_between(end: Values, start: Values) -> Values:
    """Return the days from one date to another."""
    return mapped(lambda one, other: (one - other).days, _INT, end, start)


def substring(texts: Values, start: Values, length: Values | None) -> Values:
    """Return parts of texts: from the first character (1), or from the end if negative."""

    def cut(text: str, first: int, count: int) -> str:
        at = first - 1 if first > 0 else len(text) + first if first < 0 else 0
        return text[max(at, 0) : max(at + count, 0)] if count > 0 else ""

    if length is None:
        return mapped(
            lambda text, first: cut(text, first, len(text) + abs(first) + 1), TEXT, texts, start
        )
    return mapped(cut, TEXT, texts, start, length)


def left(texts: Values, count: Values) -> Values:
    """Return the first characters of texts."""
    return mapped(lambda text, n: text[: max(n, 0)], TEXT, texts, count)


def right(texts: Values, count: Values) -> Values:
    """Return the last characters of texts."""
    return mapped(lambda text, n: text[-n:] if n > 0 else "", TEXT, texts, count)


def replaced(texts: Values, old: Values, new: Values) -> Values:
    """Return texts with a part replaced, everywhere; an empty part is nowhere."""
    return mapped(lambda text, a, b: text.replace(a, b) if a else text, TEXT, texts, old, new)


def position(texts: Values, part: Values, start: Values) -> Values:
    """Return where a part begins, from 1; 0 if nowhere from ``start`` on."""

    def found(text: str, wanted: str, first: int) -> int:
        if first < 1 or not wanted:
            return int(first > 0)
        return text.find(wanted, first - 1) + 1

    return mapped(found, _INT, texts, part, start)


def begins(texts: Values, part: Values) -> Values:
    """Return whether texts begin with a part."""
    return mapped(str.startswith, _BOOLEAN, texts, part)


def ends(texts: Values, part: Values) -> Values:
    """Return whether texts end with a part."""
    return mapped(str.endswith, _BOOLEAN, texts, part)


def contains(texts: Values, part: Values) -> Values:
    """Return whether texts have a part."""
    return mapped(lambda text, wanted: wanted in text, _BOOLEAN, texts, part)


def trimmed(texts: Values, where: str, of: Values) -> Values:
    """Return texts without some characters at one end or both."""
    cut = {"LEADING": str.lstrip, "TRAILING": str.rstrip}.get(where, str.strip)
    return mapped(cut, TEXT, texts, of)


def reversed_texts(texts: Values) -> Values:
    """Return texts from behind."""
    return mapped(lambda text: text[::-1], TEXT, texts)


def letters(
    values: Values, each: Callable[[str], str], of_ascii: Callable[[Values], Values]
) -> Values:
    """Map letters; beyond ASCII one by one, as one letter may become two."""
    if pc.all(pc.string_is_ascii(numbers.array(values))).as_py() is not False:
        return of_ascii(values)
    return mapped(each, TEXT, values)


def padded(texts: Values, count: Values, fill: Values, *, left: bool) -> Values:
    """Return texts of a length: filled up at one end, or cut."""

    def one(text: str, length: int, by: str) -> str:
        length = max(length, 0)
        more = length - len(text)
        if more <= 0 or not by:
            return text[:length]
        added = (by * (more // len(by) + 1))[:more]
        return added + text if left else text + added

    return mapped(one, TEXT, texts, count, fill)


def repeated(texts: Values, count: Values) -> Values:
    """Return texts several times in a row."""
    return mapped(lambda text, n: text * max(n, 0), TEXT, texts, count)


def translated(texts: Values, old: Values, new: Values) -> Values:
    """Return texts with letters replaced one by one, and left out if there is none for them."""

    def one(text: str, a: str, b: str) -> str:
        table: dict[int, str] = {}
        for at, letter in enumerate(a):
            table.setdefault(ord(letter), b[at] if at < len(b) else "")
        return text.translate(table)

    return mapped(one, TEXT, texts, old, new)


def before(texts: Values, by: Values, count: Values) -> Values:
    """Return texts up to the n-th separator, or from the n-th last one on."""

    def one(text: str, cut: str, n: int) -> str:
        if not cut or not n:
            return ""
        parts = text.split(cut) if n > 0 else text.rsplit(cut)
        return cut.join(parts[:n] if n > 0 else parts[n:])

    return mapped(one, TEXT, texts, by, count)


def hexadecimal(values: Values) -> Values:
    """Return bytes, or the UTF-8 of texts, as hexadecimal digits."""
    if values.type == TEXT:
        values = pc.cast(values, pa.large_binary())
    if not pa.types.is_large_binary(values.type):
        raise OnlySpark(f"it writes {values.type}")
    return mapped(lambda given: given.hex().upper(), TEXT, values)


def like(texts: Values, pattern: str, escape: str, *, any_case: bool) -> Values:
    """Return whether texts match a pattern: ``%`` is any text, ``_`` any character.

    Raises:
        ValueError: the pattern ends with the escape character.
    """
    if any_case:
        pattern, texts = pattern.lower(), letters(texts, str.lower, pc.ascii_lower)
    if escape not in pattern:
        return pc.match_like(texts, pattern.replace("\\", "\\\\"))
    wanted = re.compile(_like_regex(pattern, escape), re.DOTALL)
    return mapped(lambda text: wanted.fullmatch(text) is not None, _BOOLEAN, texts)


def _like_regex(pattern: str, escape: str) -> str:
    parts, letters = [], iter(pattern)
    for letter in letters:
        if letter == escape:
            escaped = next(letters, None)
            if escaped is None:
                raise ValueError(f"the pattern {pattern!r} ends with its escape character")
            parts.append(re.escape(escaped))
        else:
            parts.append({"%": ".*", "_": "."}.get(letter, re.escape(letter)))
    return "".join(parts)


_REGEX = re.compile(
    r"""(?: [^\\.^$*+?()[\]{}|] | \\[\\.^$*+?()[\]{}|/"'-] | \\[dswDSW]
    | \[\^?(?:[^\\\[\]&^-]|\\[\\.^$*+?()[\]{}|-]|\\[dsw]|[0-9A-Za-z]-[0-9A-Za-z])+-?\]
    | [*+?](?![*+?{]) | \{\d+(?:,\d*)?\}(?![*+?{]) | \((?!\?) | \(\?: | \) | \|
    | ^\^ | \$$ | \. )*""",
    re.VERBOSE,
)
_LINE_ENDS = r"\n\r\x{85}\x{2028}\x{2029}"
_BLANKS = r" \t\n\x0b\f\r"
_CLASS = re.compile(r"\\.|[A-Za-z]-[A-Za-z]|.", re.DOTALL)


def regex_matches(texts: Values, pattern: str) -> Values:
    """Return whether a part of each text matches a regular expression, as Java reads it.

    Raises:
        ValueError: it is no regular expression.
        OnlySpark: Java may read it otherwise than Arrow does.
    """
    given, any_case = pattern, pattern.startswith("(?i)")
    pattern = pattern.removeprefix("(?i)")
    if not _REGEX.fullmatch(pattern) or not pattern.isascii():
        raise OnlySpark(f"the regular expression {given!r} may mean something else in Java")
    parts = re.findall(r"\\.|\[(?:\\.|[^\]])*\]|\{[^}]*\}|\(\?:|.", pattern, re.DOTALL)
    parts = [_as_arrow_reads(each, any_case=any_case) for each in parts]
    if parts and parts[-1] == "$":
        parts[-1] = rf"(?:\r\n|[{_LINE_ENDS}])?\z"
    return pc.match_substring_regex(texts, "".join(parts))


def _as_arrow_reads(part: str, *, any_case: bool) -> str:
    """Return a part of Java's regular expression as RE2's; in any case only of ASCII letters."""
    if part == ".":
        return f"[^{_LINE_ENDS}]"
    if part.lower() == r"\s":
        return f"[{'^' if part[1] == 'S' else ''}{_BLANKS}]"
    if part[0] == "[":
        within = _CLASS.findall(part[1:-1])
        within = [_BLANKS if each == r"\s" else each for each in within]
        if any_case:
            within += [each.swapcase() for each in within if each[0].isalpha()]
            if any(len(each) == 3 and each[0].islower() != each[2].islower() for each in within):
                raise OnlySpark(f"{part} has letters of both cases")
        return f"[{''.join(within)}]"
    if any_case and len(part) == 1 and part.isalpha():
        return f"[{part.lower()}{part.upper()}]"
    return part


def rounded_to_whole(values: Values, *, up: bool) -> Values:
    """Return numbers rounded up or down to integers: decimals of a decimal, else ``bigint``."""
    kind = values.type
    if pa.types.is_integer(kind) or pa.types.is_null(kind):
        return pc.cast(values, _LONG)
    if pa.types.is_decimal(kind):
        way = ROUND_CEILING if up else ROUND_FLOOR
        whole = pa.decimal128(min(max(kind.precision - kind.scale + 1, 1), 38), 0)
        return mapped(lambda one: one.to_integral_value(way), whole, values)

    def near(one: float) -> int:
        if not isfinite(one):
            raise OnlySpark(f"it rounds {one}")
        return ceil(one) if up else floor(one)

    return mapped(near, _LONG, values)


def square_root(values: Values) -> Values:
    """Return square roots of doubles; NaN of negative numbers."""
    return pc.sqrt(pc.cast(values, pa.float64()))


def signs(values: Values) -> Values:
    """Return -1, 0 or 1 as doubles; NaN of NaN."""
    return mapped(lambda one: float(np.sign(float(one))), pa.float64(), values)
