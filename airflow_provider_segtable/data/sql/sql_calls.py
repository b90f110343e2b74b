"""Functions of SQL: how each takes its arguments, by the parser's names.

A function has the values of Spark's function of this name, or is not here: functions whose values
may differ in a single digit or letter (powers, logarithms, hashes of floating numbers) are left to
Spark, and so is an option that is not read here (``sql_predicates.unknown_part``).
"""

import hashlib
import zlib
from collections.abc import Callable
from typing import Any, Protocol, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from airflow_provider_segtable.data.sql import arrow_numbers as numbers
from airflow_provider_segtable.data.sql import sql_casts as collections
from airflow_provider_segtable.data.sql import sql_functions as functions
from airflow_provider_segtable.data.sql.arrow_numbers import BINARY, TEXT, TIME, Values
from airflow_provider_segtable.data.sql.sql_casts import brought, cast_to, mapped
from airflow_provider_segtable.data.sql.sql_text import Kind, OnlySpark, Tree, literal


class Computer(Protocol):
    """Computes the arguments, for some rows."""

    def value(self, tree: Tree) -> Values:
        """Return the value of an argument."""

    def filled(self, tree: Tree) -> pa.Array:
        """Return its values for each row, also if it is a constant."""

    def texts(self, tree: Tree) -> Values:
        """Return texts."""

    def number(self, tree: Tree) -> Values:
        """Return numbers."""

    def whole(self, tree: Tree) -> Values:
        """Return whole numbers."""

    def days(self, tree: Tree) -> Values:
        """Return dates."""

    def times(self, tree: Tree) -> Values:
        """Return times."""

    def branched(self, tree: Tree) -> Values:
        """Return the value of the branch that is taken."""


Call: TypeAlias = Callable[[Computer, Any], Values]


def _of_text(compute: Callable[[Values], Values]) -> Call:
    return lambda here, tree: compute(here.texts(tree.this))


def _of_texts(compute: Callable[[Values, Values], Values]) -> Call:
    return lambda here, tree: compute(here.texts(tree.this), here.texts(tree.expression))


def _of_count(compute: Callable[[Values, Values], Values]) -> Call:
    return lambda here, tree: compute(here.texts(tree.this), here.whole(tree.expression))


def _is_nan(here: Computer, tree: Tree) -> Values:
    values = brought(here.number(tree.this), pa.float64())
    return pc.fill_null(pc.is_nan(values), False)


def _is_null(here: Computer, tree: Tree) -> Values:
    (of,) = tree.expressions
    found = pc.is_null(here.filled(of))
    return found if tree.name.lower() == "isnull" else pc.invert(found)


def _substring(here: Computer, tree: Tree) -> Values:
    length = tree.args.get("length")
    start, count = here.whole(tree.args["start"]), length and here.whole(length)
    return functions.substring(here.texts(tree.this), start, count)


def _replaced(here: Computer, tree: Tree) -> Values:
    new = tree.args.get("replacement")
    by = pa.scalar("", TEXT) if new is None else here.texts(new)
    return functions.replaced(here.texts(tree.this), here.texts(tree.expression), by)


def _position(here: Computer, tree: Tree) -> Values:
    start = tree.args.get("position")
    first = pa.scalar(1, pa.int32()) if start is None else here.whole(start)
    return functions.position(here.texts(tree.this), here.texts(tree.args["substr"]), first)


def _trimmed(here: Computer, tree: Tree) -> Values:
    of = pa.scalar(" ", TEXT) if tree.expression is None else here.texts(tree.expression)
    where = str(tree.args.get("position") or "")
    return functions.trimmed(here.texts(tree.this), where.upper(), of)


def _days_added(here: Computer, tree: Tree) -> Values:
    days = here.value(tree.expression)
    if str(tree.args.get("unit")).upper() != "DAY" or days.type == pa.int64():
        raise OnlySpark("it adds other than days")
    return functions.later_days(here.days(tree.this), here.whole(tree.expression))


def _months_added(here: Computer, tree: Tree) -> Values:
    return functions.later_months(here.days(tree.this), here.whole(tree.expression))


def _days_between(here: Computer, tree: Tree) -> Values:
    if tree.args.get("unit"):
        start, end = (each.this for each in (tree.expression, tree.this))
        return _units_between(here, start, end, str(tree.args["unit"]))
    return functions.days_between(here.days(tree.this), here.days(tree.expression))


def _truncated(here: Computer, tree: Tree) -> Values:
    of_dates, unit = isinstance(tree, exp.DateTrunc), tree.args["unit"].name
    functions.check_unit(unit, of_dates=of_dates)
    return functions.truncated(here.days(tree.this) if of_dates else here.times(tree.this), unit)


def _part(here: Computer, name: str, of: Tree) -> Values:
    name = {"DAYOFMONTH": "DAY"}.get(name, name)
    return functions.part(name, (here.times if name in functions.OF_TIMES else here.days)(of))


_EXTRACTED = {"YEAR": "YEAR", "QUARTER": "QUARTER", "MONTH": "MONTH", "DAY": "DAY"}
_EXTRACTED |= {"WEEK": "WEEKOFYEAR", "DOY": "DAYOFYEAR", "DOW": "DAYOFWEEK"}
_EXTRACTED |= {"DAYOFWEEK": "DAYOFWEEK", "HOUR": "HOUR", "MINUTE": "MINUTE"}


def _extracted(here: Computer, name: str, of: Tree) -> Values:
    """Return a part as ``extract`` does: seconds are decimals there, which is left to Spark."""
    if name.upper() not in _EXTRACTED:
        raise OnlySpark(f"it extracts {name}")
    return _part(here, _EXTRACTED[name.upper()], of)


def _text_of(tree: Tree, noun: str) -> str:
    found = literal(tree)
    if found is None or found.kind is not Kind.TEXT:
        raise OnlySpark(f"{noun} is a text")
    return found.text


def _bytes_of(here: Computer, tree: Tree) -> Values:
    """Return bytes; of a text, in UTF-8."""
    values = here.value(tree)
    return values if values.type == BINARY else cast_to(here.texts(tree), BINARY)


def _only_bytes_of(here: Computer, tree: Tree) -> Values:
    """Return bytes of a text or of bytes: Spark takes nothing else for them."""
    kind = here.value(tree).type
    if kind not in (TEXT, BINARY) and not pa.types.is_null(kind):
        raise OnlySpark(f"it takes the bytes of {kind}")
    return _bytes_of(here, tree)


def _length(here: Computer, tree: Tree) -> Values:
    values = here.value(tree.this)
    if values.type == BINARY:
        return pc.cast(pc.binary_length(values), pa.int32())
    return pc.cast(pc.utf8_length(here.texts(tree.this)), pa.int32())


def _digest(name: str) -> Call:
    def compute(given: bytes) -> str:
        return hashlib.new(name, given, usedforsecurity=False).hexdigest()

    return lambda here, tree: mapped(compute, TEXT, _only_bytes_of(here, tree.this))


def _sha2(here: Computer, tree: Tree) -> Values:
    bits = literal(tree.args.get("length"))
    if bits is None or bits.text not in {"0", "224", "256", "384", "512"}:
        raise OnlySpark("a SHA-2 has 224, 256, 384 or 512 bits")
    return _digest(f"sha{bits.text}" if bits.text != "0" else "sha256")(here, tree)


def _padded(here: Computer, tree: Tree) -> Values:
    fill = tree.args.get("fill_pattern")
    with_ = pa.scalar(" ", TEXT) if fill is None else here.texts(fill)
    if BINARY in (here.value(tree.this).type, with_.type):
        raise OnlySpark("it fills up bytes")
    count = here.whole(tree.expression)
    return functions.padded(here.texts(tree.this), count, with_, left=bool(tree.args["is_left"]))


def _translated(here: Computer, tree: Tree) -> Values:
    given = (tree.this, tree.args["from_"], tree.args["to"])
    return functions.translated(*map(here.texts, given))


def _joined_with(here: Computer, tree: Tree) -> Values:
    """Return texts joined by a separator; a null one is left out."""
    by, *parts = (here.value(each) for each in tree.expressions)
    if any(each.type != TEXT for each in (by, *parts)) or not parts:
        raise OnlySpark("it joins other than texts")
    full = [here.filled(each) for each in tree.expressions[1:]]  # none may be left of a row
    texts = pc.binary_join_element_wise(
        pa.nulls(len(full[0]), TEXT), *full, by, null_handling="skip"
    )
    return pc.if_else(pc.is_valid(here.filled(tree.expressions[0])), pc.fill_null(texts, ""), None)


def _split(here: Computer, tree: Tree) -> Values:
    by = _text_of(tree.expression, "a separator")
    if not by or any(each in by for each in r"\.[]{}()*+?^$|"):
        raise OnlySpark(f"the separator {by!r} is a regular expression")
    texts = here.filled(tree.this)
    if texts.type != TEXT:
        raise OnlySpark("it splits other than texts")
    return collections.split(texts.to_pylist(), by)


def _before(here: Computer, tree: Tree) -> Values:
    given = here.texts(tree.this), here.texts(tree.args["delimiter"])
    return functions.before(*given, here.whole(tree.args["count"]))


def _written_time(here: Computer, tree: Tree) -> Values:
    of = tree.this.this if isinstance(tree.this, exp.TimeStrToTime) else tree.this
    pattern = functions.time_pattern(tree.args["format"].name)
    return functions.written_times(here.times(of), pattern)


def _read_time(here: Computer, tree: Tree) -> Values:
    texts = here.value(tree.this)
    if texts.type != TEXT:
        raise OnlySpark("a format is for texts")
    pattern = functions.time_pattern(tree.args["format"].name)
    return functions.read_times(texts, pattern)


def _to_day(here: Computer, tree: Tree) -> Values:
    return (
        cast_to(_read_time(here, tree), pa.date32())
        if tree.args.get("format")
        else here.days(tree.this)
    )


def _to_time(here: Computer, tree: Tree) -> Values:
    return _read_time(here, tree)


_DEFAULT = "%Y-%mstrict-%dstrict %Hstrict:%Mstrict:%Sstrict"


def _unix_seconds(here: Computer, tree: Tree) -> Values:
    values = here.value(tree.this)
    if tree.args["format"].name != _DEFAULT or values.type not in (TIME, pa.date32()):
        raise OnlySpark("it reads texts as times")
    return _epoch(1_000_000)(here, tree)


def _epoch(micros: int) -> Call:
    def compute(here: Computer, tree: Tree) -> Values:
        (given,) = tree.expressions if isinstance(tree, exp.Anonymous) else (tree.this,)
        if here.value(given).type not in (TIME, pa.date32()):
            raise OnlySpark("it is not a time")
        return mapped(lambda at: at // micros, pa.int64(), pc.cast(here.times(given), pa.int64()))

    return compute


def _of_epoch(micros: int) -> Call:
    def compute(here: Computer, tree: Tree) -> Values:
        (given,) = tree.expressions
        values = here.value(given)
        if not pa.types.is_integer(values.type):
            raise OnlySpark("it counts in fractions")
        return functions.times_of(values, micros)

    return compute


def _unix_day(here: Computer, tree: Tree) -> Values:
    if here.value(tree.this).type != pa.date32():
        raise OnlySpark("it is not a date")
    return pc.cast(here.days(tree.this), pa.int32())


def _made_day(here: Computer, tree: Tree) -> Values:
    return functions.made_days(*(here.whole(each) for each in tree.expressions))


def _units_between(here: Computer, start: Tree, end: Tree, unit: str) -> Values:
    return functions.units_between(here.times(start), here.times(end), unit)


def _later(here: Computer, tree: Tree) -> Values:
    """Return times or dates later by some units; a date with days stays a date."""
    count = here.value(tree.expression)
    if not pa.types.is_integer(count.type) or count.type == pa.int64():
        raise OnlySpark(f"it counts by {count.type}")
    return functions.later_units(here.times(tree.this), count, str(tree.args["unit"]))


def _zoned(here: Computer, tree: Tree) -> Values:
    of = tree.this.this if isinstance(tree.this, exp.Cast) else tree.this
    zone = _text_of(tree.args["zone"], "a time zone")
    local = isinstance(tree, exp.AtTimeZone)
    return functions.in_zone(here.times(of), zone, to_local=local)


def _positive_rest(here: Computer, tree: Tree) -> Values:
    left, right = (here.number(each) for each in tree.expressions)
    if not all(pa.types.is_integer(each.type) for each in (left, right)):
        raise OnlySpark("it divides other than integers")
    kind = numbers.common(left.type, right.type)
    rest = numbers.remainder(left, right).cast(kind)
    divisor = brought(right, kind)
    # a negative divisor gives no positive rest, in Spark neither
    moved = numbers.remainder(numbers.added(rest, divisor), divisor)
    return pc.if_else(pc.less(rest, 0), moved.cast(kind), rest)


def _bits(compute: Callable[[Values, Values], Values]) -> Call:
    def of(here: Computer, tree: Tree) -> Values:
        left, right = here.value(tree.this), here.value(tree.expression)
        if not (pa.types.is_integer(left.type) and pa.types.is_integer(right.type)):
            raise OnlySpark("only integers have bits")
        kind = numbers.common(left.type, right.type)
        return compute(brought(left, kind), brought(right, kind))

    return of


def _inverted(here: Computer, tree: Tree) -> Values:
    values = here.value(tree.this.unnest())
    if not pa.types.is_integer(values.type):
        raise OnlySpark("only integers have bits")
    return pc.bit_wise_not(values)


def _unless_nan(here: Computer, tree: Tree) -> Values:
    first, second = (brought(here.number(e), pa.float64()) for e in (tree.this, tree.expression))
    return pc.if_else(pc.fill_null(pc.is_nan(first), False), second, first)


def _zero_if_null(here: Computer, tree: Tree) -> Values:
    (of,) = tree.expressions
    return here.branched(exp.Coalesce(this=of.copy(), expressions=[exp.Literal.number(0)]))


def _null_if_zero(here: Computer, tree: Tree) -> Values:
    (of,) = tree.expressions
    return here.branched(exp.Nullif(this=of.copy(), expression=exp.Literal.number(0)))


def _item(here: Computer, tree: Tree) -> Values:
    (wanted,) = tree.expressions
    first = int(tree.args.get("offset") or 0)
    return collections.item(here.filled(tree.this), here.filled(wanted), first=first, beyond=False)


def _get(here: Computer, tree: Tree) -> Values:
    of, wanted = map(here.filled, tree.expressions)
    if pa.types.is_map(of.type):
        raise OnlySpark("it takes an array")
    return collections.item(of, wanted, first=0, beyond=True)


def _size(here: Computer, tree: Tree) -> Values:
    of = tree.expressions[0] if isinstance(tree, exp.Anonymous) else tree.this
    return collections.size(here.filled(of))


_PARTS = ("Year", "Quarter", "Month", "Day", "DayOfMonth", "DayOfYear", "DayOfWeek", "WeekOfYear")
_OF_PARSER: dict[str, Call] = {
    **{
        name: lambda here, tree: _part(here, type(tree).__name__.upper(), tree.this)
        for name in (*_PARTS, "Hour", "Minute", "Second")
    },
    **dict.fromkeys(("TimestampTrunc", "DateTrunc"), _truncated),
    "Abs": lambda here, tree: pc.abs_checked(here.number(tree.this)),
    "Sqrt": lambda here, tree: functions.square_root(brought(here.number(tree.this), pa.float64())),
    "Sign": lambda here, tree: functions.signs(here.number(tree.this)),
    "IsNan": _is_nan,
    "Nanvl": _unless_nan,
    "BitwiseAnd": _bits(pc.bit_wise_and),
    "BitwiseOr": _bits(pc.bit_wise_or),
    "BitwiseXor": _bits(pc.bit_wise_xor),
    "BitwiseNot": _inverted,
    "Upper": _of_text(lambda texts: functions.letters(texts, str.upper, pc.ascii_upper)),
    "Lower": _of_text(lambda texts: functions.letters(texts, str.lower, pc.ascii_lower)),
    "Length": _length,
    "Reverse": _of_text(functions.reversed_texts),
    "Trim": _trimmed,
    "Substring": _substring,
    "Left": _of_count(functions.left),
    "Right": _of_count(functions.right),
    "Replace": _replaced,
    "Pad": _padded,
    "Repeat": lambda here, tree: functions.repeated(
        here.texts(tree.this), here.whole(tree.args["times"])
    ),
    "Translate": _translated,
    "ConcatWs": _joined_with,
    "RegexpSplit": _split,
    "SubstringIndex": _before,
    "StartsWith": _of_texts(functions.begins),
    "EndsWith": _of_texts(functions.ends),
    "Contains": _of_texts(functions.contains),
    "StrPosition": _position,
    "MD5": _digest("md5"),
    "SHA": _digest("sha1"),
    "SHA2": _sha2,
    "Hex": lambda here, tree: functions.hexadecimal(here.value(tree.this)),
    "TsOrDsToDate": _to_day,
    "StrToTime": _to_time,
    "TimeToStr": _written_time,
    "TsOrDsAdd": _days_added,
    "TimestampAdd": _later,
    "TimestampDiff": lambda here, tree: _units_between(
        here, tree.expression, tree.this, str(tree.args["unit"])
    ),
    "AddMonths": _months_added,
    "LastDay": lambda here, tree: functions.last_days(here.days(tree.this)),
    "DateDiff": _days_between,
    "Extract": lambda here, tree: _extracted(here, tree.this.name, tree.expression),
    "AtTimeZone": _zoned,
    "FromTimeZone": _zoned,
    "StrToUnix": _unix_seconds,
    "UnixSeconds": _epoch(1_000_000),
    "UnixMillis": _epoch(1000),
    "UnixMicros": _epoch(1),
    "UnixDate": _unix_day,
    "ArraySize": _size,
    "ArrayContains": lambda here, tree: collections.contains(
        here.filled(tree.this), here.filled(tree.expression)
    ),
    "Bracket": _item,
    "MapContainsKey": lambda here, tree: collections.has_key(
        here.filled(tree.this), here.filled(tree.args["key"])
    ),
    "MapKeys": lambda here, tree: collections.keys_or_items(here.filled(tree.this), keys=True),
}
_OF_SPARK: dict[str, Call] = {
    "isnull": _is_null,
    "isnotnull": _is_null,
    "weekday": lambda here, tree: functions.part("WEEKDAY", here.days(tree.expressions[0])),
    "date_part": lambda here, tree: _extracted(
        here, _text_of(tree.expressions[0], "a part"), tree.expressions[1]
    ),
    "timestamp_seconds": _of_epoch(1_000_000),
    "timestamp_millis": _of_epoch(1000),
    "timestamp_micros": _of_epoch(1),
    "make_date": _made_day,
    "pmod": _positive_rest,
    "positive": lambda here, tree: here.number(tree.expressions[0]),
    "zeroifnull": _zero_if_null,
    "nullifzero": _null_if_zero,
    "btrim": lambda here, tree: functions.trimmed(
        here.texts(tree.expressions[0]),
        "",
        here.texts(tree.expressions[1]) if len(tree.expressions) > 1 else pa.scalar(" ", TEXT),
    ),
    "crc32": lambda here, tree: mapped(
        zlib.crc32, pa.int64(), _only_bytes_of(here, tree.expressions[0])
    ),
    "octet_length": lambda here, tree: pc.cast(
        pc.binary_length(_bytes_of(here, tree.expressions[0])), pa.int32()
    ),
    "get": _get,
    "cardinality": _size,
    "map_values": lambda here, tree: collections.keys_or_items(
        here.filled(tree.expressions[0]), keys=False
    ),
}
CALLS: dict[str, Call] = {**_OF_PARSER, **_OF_SPARK}
"""Functions by the parser's names, and by their own where the parser does not know them."""
