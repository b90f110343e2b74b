r"""Parse SQL text into trees, and convert the literals in it as Spark does.

Text for the parser: sqlglot's Spark dialect is older than Spark 4 in how it reads texts, and takes
seconds for a long list of values. So this module reads texts, comments and long lists of values
itself, and passes a rewritten text on.

1. A text is read as Spark 4 reads it: ``'O''Hare'`` is ``O'Hare``, adjacent texts are one,
   ``\n``, ``\101``, ``\u00e9`` and ``\U0001F600`` are characters, ``\%`` and ``\_`` stay as they
   are, ``r'\n'`` has no escapes. It is given to the parser with backslashes alone.
2. Comments become blanks. Comments between ``/*`` and ``*/`` nest.
3. A list of plain values after ``IN`` is read here. The parser sees one name in its place, which
   ``parsed`` replaces by the list.
4. All other text is passed on as it is; an unclosed text or comment is the parser's error.
5. Names for the present, such as ``now()``, become one time for a whole statement (``at_time``),
   for whichever engine reads it.

Texts as numbers, truths, days and instants, as Spark casts them (ANSI, session zone UTC).

6. Blanks around a text do not count.
7. A time may lack its last parts: ``2026``, ``2026-1``, ``2026-01-01 12``, ``2026-01-01 12:30``.
   Digits below a microsecond are cut off. Its zone is an offset, ``Z``, ``UTC`` or a region. One
   form more than Spark's is read: a zone after the minutes, as ISO 8601 has it.
8. A date may be followed by ``T`` or a blank and anything.
9. ``ValueError`` means that Spark refuses the text, too; ``OnlySpark`` that Spark may accept it.

Trees and their literals:

10. A literal is kept as it was written, with its kind. ``data.sql.column_bounds`` finds its place
    among a column's values; ``fitted`` returns the column's value that equals it, for assignments.
11. A number with an exponent, or with the suffix D or F, is a double; all others are exact.
"""

import re
from collections.abc import Collection, Iterator
from datetime import UTC, date, datetime, time
from decimal import Context, Decimal, InvalidOperation
from enum import StrEnum
from itertools import groupby, islice
from math import isfinite
from typing import Any, TypeAlias
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import sqlglot
from sqlglot import exp

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.predicate import Day, Moment, Value
from airflow_provider_segtable.core.time import DAY_US, instant
from airflow_provider_segtable.data.arrow_schema import is_text

# Text for the parser
_TEXT = r"""'(?:[^'\\]|\\.|'')*+'|"(?:[^"\\]|\\.|"")*+\""""
_RAW = r"""[rR](?:'[^']*+'|"[^"]*+")"""
_PARTS = re.compile(
    rf"""
    (?P<name>`(?:[^`]|``)*+`)
    | (?P<raw>{_RAW})
    | (?P<text>{_TEXT})
    | (?P<line>--(?:\\\n|[^\r\n])*+)
    | (?P<block>/\*)
    | (?P<within>\bin\s*+(?=\())
    | (?P<hex>[xX](?:{_TEXT}))
    | (?P<other>[\w$.]++|\s++|.)
    """,
    re.VERBOSE | re.DOTALL | re.IGNORECASE,
)
_BLOCK = re.compile(r"/\*|\*/")
_ESCAPE = r"\\(?:u([0-9a-fA-F]{4})|U([0-9a-fA-F]{8})|([01][0-7]{2})|(.))"
_LONE = re.compile("[\ud800-\udfff]")
_ESCAPED = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a"}
_ESCAPED |= {each: f"\\{each}" for each in "%_"}
_PLAIN = (
    r"[+-]?(?:\d++(?:\.\d*+)?|\.\d++)(?:e[+-]?\d++)?[LD]?(?![\w.])"
    r"|(?:(?:date|timestamp)\s*+)?'(?:[^'\\]|'')*+'|null\b"
)
_VALUES = re.compile(
    rf"\(\s*+(?:{_PLAIN})\s*+(?:,\s*+(?:{_PLAIN})\s*+)*+\)", re.IGNORECASE | re.DOTALL
)
_VALUE = re.compile(_PLAIN, re.IGNORECASE | re.DOTALL)
_QUOTED = {
    quote: rf"{quote}([^{quote}\\]*+(?:(?:\\.|{quote}{quote})[^{quote}\\]*+)*+){quote}"
    for quote in "'\""
}
_NUMBER = r"[+-]?(?:\d++(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?[lL]?(?![\w.])"
_MARK = "\0values "
_BARE = "current_timestamp|current_date|localtimestamp"
_PRESENT = re.compile(
    rf"(?<![\w$.])(?:(now|curdate|unix_timestamp|{_BARE})\s*+\(\s*+\)"
    rf"|({_BARE})(?![\w$.]|\s*+\())",
    re.IGNORECASE,
)
"""Names for the present: calls without arguments, some without parentheses."""
_PRESENT_WORDS = ("now", "curdate", "unix_timestamp", *_BARE.split("|"))


@dataclass(frozen=True, slots=True)
class Prepared:
    """SQL text for the parser, and the text of value lists by the names that stand for them."""

    text: str
    lists: dict[str, str]


def prepared(text: str) -> Prepared:
    """Return SQL text as the parser is to see it."""
    lists: dict[str, str] = {}
    pieces: list[str] = []
    waiting: list[str] = []  # adjacent texts

    def end_text() -> None:
        if waiting:
            pieces.append(quoted("".join(waiting)))
            waiting.clear()

    for kind, piece in _tokens(text):
        if kind == "text":
            waiting.append(unescaped(piece))
        elif kind == "raw":
            waiting.append(piece[2:-1])
        elif piece.isspace():
            pieces.extend([] if waiting else [piece])
        else:
            spaced = " " if waiting else ""
            end_text()
            pieces.append(spaced)
            name = f"{_MARK}{len(lists)}"
            if kind == "values":
                lists[name] = piece
            pieces.append(f"(`{name}`)" if kind == "values" else piece)
    end_text()
    return Prepared("".join(pieces), lists)


def _tokens(text: str) -> Iterator[tuple[str, str]]:
    """Yield the parts of a text with their kinds; comments are blanks."""
    at = 0
    while at < len(text):
        found = _PARTS.match(text, at)
        if found is None:  # never: any character is a part
            break
        kind, at = str(found.lastgroup), found.end()
        if kind == "line":
            yield "other", " "
        elif kind == "block":
            at = _block_end(text, at)
            yield "other", " " if at else text[found.start() :]
            at = at or len(text)
        else:
            yield kind, found.group()
            values = _list_at(text, at) if kind == "within" else ""
            if values:
                yield "values", values
                at += len(values)


def _block_end(text: str, at: int) -> int:
    """Return where a comment ends, or 0 if it does not."""
    depth = 1
    for found in _BLOCK.finditer(text, at):
        depth += 1 if found.group() == "/*" else -1
        if not depth:
            return found.end()
    return 0


def unescaped(text: str) -> str:
    """Return the value of a text literal, quotes and all escapes taken off."""
    quote, within = text[0], text[1:-1]
    if "\\" not in within:
        return within.replace(quote * 2, quote)
    plain = re.sub(rf"{_ESCAPE}|{quote}{quote}", _escaped, within, flags=re.DOTALL)
    paired = plain.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    return _LONE.sub("?", paired)


def _escaped(found: re.Match[str]) -> str:
    short, long, octal, one = found.groups()
    if one is not None:
        return _ESCAPED.get(one, one)
    if not (short or long or octal):
        return found[0][0]  # a doubled quote
    code = int(octal, 8) if octal else int(short or long, 16)
    return chr(code) if code <= 0x10FFFF else "??"


def quoted(text: str) -> str:
    """Return a text as a literal that every dialect of the parser reads alike."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def at_time(text: str, now: datetime, names: Collection[str] = ()) -> str:
    """Return SQL text with a time in place of all names for the present.

    Args:
        text: an expression.
        now: the time; its day is that of the zone UTC.
        names: columns. ``current_date`` without parentheses is the column, if there is one.
    """
    letters = text.lower()  # a search for names takes long in a long list of values
    if not any(word in letters for word in _PRESENT_WORDS) or not _PRESENT.search(text):
        return text
    utc, known = now.astimezone(UTC), {name.lower() for name in names}

    def literal_time(found: re.Match[str]) -> str:
        called, bare = found.groups()
        if bare and bare.lower() in known:
            return bare
        match (called or bare).lower():
            case "current_date" | "curdate":
                return f"DATE '{utc.date()}'"
            case "localtimestamp":
                return f"TIMESTAMP_NTZ '{utc.replace(tzinfo=None)}'"
            case "unix_timestamp":
                return f"{int(utc.timestamp())}L"
        return f"TIMESTAMP '{utc}'"

    pieces = []
    for code, some in groupby(_tokens(text), key=lambda each: each[0] == "other"):
        piece = "".join(each for _, each in some)
        pieces.append(_PRESENT.sub(literal_time, piece) if code else piece)
    return "".join(pieces)


# Texts as numbers, truths, days and instants
class OnlySpark(Exception):
    """Raised for expressions that only Spark computes; the text is the reason."""


_BLANK = "".join(map(chr, range(0x21))) + "\x7f"
"""Characters that Spark trims before it casts a text: blanks and control characters."""
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


# Trees and their literals
DIALECT = "spark"
EPOCH = date(1970, 1, 1)
Tree: TypeAlias = Any  # the name of sqlglot's base class depends on its version
_NOISE = re.compile(r"\x1b\[\d*m|<class '[\w.]+\.|'>")
"""Colours and class names in the parser's messages."""
_NUMBER_OR_TIME = re.compile(r"\s*[+-]?\.?\d|\s*[+-]?(inf|nan)", re.IGNORECASE)
_Type = exp.DataType.Type
_TIMES = {_Type.TIMESTAMP, _Type.TIMESTAMPTZ, _Type.TIMESTAMPLTZ}
_WHOLE = {_Type.TINYINT: 7, _Type.SMALLINT: 15, _Type.INT: 31, _Type.BIGINT: 63}
_EXACT = Context(prec=1500)
_SHOWN = 3
"""Values of a long list that a message shows."""


class Kind(StrEnum):
    """The kind of a literal, as written."""

    TEXT = "text"
    NUMBER = "a number"
    BOOLEAN = "a boolean"
    DATE = "a date"
    TIME = "a timestamp"
    LOCAL_TIME = "a timestamp without zone"
    NULL = "NULL"


@dataclass(frozen=True, slots=True)
class Literal:
    """A literal: its kind, and its text without quotes."""

    kind: Kind
    text: str


def parsed(
    text: str,
    noun: str,
    example: str,
    *,
    names: Collection[str] = (),
    now: datetime | None = None,
) -> Tree:
    """Return the tree of an SQL expression.

    Args:
        text: the expression.
        noun: the expected kind of text, for the error.
        example: one that is right, for the error.
        names: the columns that it may name.
        now: the value of ``current_timestamp()``; by default the time of this call.

    Raises:
        InvalidInput: it is not one expression in Spark's SQL.
    """
    ready = prepared(at_time(text, now or datetime.now(UTC), names))
    try:
        trees = sqlglot.parse(ready.text, dialect=DIALECT)
    except sqlglot.errors.SqlglotError as error:
        raise InvalidInput(f"{text!r} is not {noun} in Spark's SQL: {_fault(error)}") from None
    if len(trees) != 1 or trees[0] is None:
        raise InvalidInput(f'{text!r} is not {noun}: write one, e.g. "{example}"')
    for name in list(trees[0].find_all(exp.Column)) if ready.lists else ():
        if name.name in ready.lists:
            name.replace(exp.Var(this=ValueList.of(ready.lists[name.name])))
    return trees[0]


def _fault(error: sqlglot.errors.SqlglotError) -> str:
    """Return the fault of a text, and the way out where it is known."""
    if not isinstance(error, sqlglot.errors.ParseError):
        return (
            "a text in it does not end; write it in quotes, and a quote within it twice: 'O''Hare'"
        )
    said = " ".join(_NOISE.sub("", str(error)).split())
    word = str(error.errors[0]["highlight"]) if error.errors else ""
    if not word.isalpha() or word.lower() in _BETWEEN_COLUMNS:
        return said
    return f"{said}; a column of the name {word} is written in backticks: `{word}`"


_BETWEEN_COLUMNS = frozenset(("and", "or", "not", "is", "in", "like", "between", "as"))


@dataclass(frozen=True, slots=True)
class _ListForm:
    """A way to write all values of a list: its kind, the whole list, and each value."""

    kind: Kind
    quote: str
    whole: re.Pattern[str]
    each: re.Pattern[str]

    @staticmethod
    def of(kind: Kind, quote: str, value: str) -> "_ListForm":
        """Return the form of lists whose values have a form."""
        whole = rf"\(\s*+{value}\s*+(?:,\s*+{value}\s*+)*+\)"
        flags = re.DOTALL | re.ASCII
        return _ListForm(kind, quote, re.compile(whole, flags), re.compile(value, flags))

    def values(self, piece: str) -> list[str]:
        """Return the values of a list of this form, without quotes and suffixes."""
        quote = self.quote
        if not quote:
            numbers = [each.strip() for each in piece[1:-1].split(",")]
            long = "l" in piece or "L" in piece
            return [each.rstrip("lL") for each in numbers] if long else numbers
        found = self.each.findall(piece)
        if "\\" in piece:
            return [unescaped(f"{quote}{each}{quote}") for each in found]
        return [each.replace(quote * 2, quote) for each in found] if quote * 2 in piece else found


_LIST_FORMS = (
    _ListForm.of(Kind.NUMBER, "", _NUMBER),
    *(_ListForm.of(Kind.TEXT, quote, value) for quote, value in _QUOTED.items()),
    _ListForm.of(Kind.DATE, "'", r"(?i:date)\s*+" + _QUOTED["'"]),
    _ListForm.of(Kind.TIME, "'", r"(?i:timestamp)\s*+" + _QUOTED["'"]),
)
"""Lists of one kind of values are read as a whole; ``_VALUES`` are of several kinds."""


def _list_at(text: str, at: int) -> str:
    """Return the list of plain values at a place of a text; empty if there is none."""
    every = (*(form.whole for form in _LIST_FORMS), _VALUES)
    found = (each.match(text, at) for each in every)
    return next((each.group() for each in found if each), "")


class ValueList(str):
    """The values of an ``IN``, as the text of one node: a tree of so many would take seconds.

    ``alike`` has their kind and their texts, if all are of one kind and written alike.
    """

    __slots__ = ("alike", "written")
    alike: "tuple[Kind, list[str]] | None"
    written: str

    @staticmethod
    def of(piece: str) -> "ValueList":
        """Return the list that is written in parentheses."""
        form = next((each for each in _LIST_FORMS if each.whole.fullmatch(piece)), None)
        alike = None if form is None else (form.kind, form.values(piece))
        each = _VALUE if form is None else form.each
        count = len(alike[1] if alike else _VALUE.findall(piece))
        shown = _SHOWN if count > 2 * _SHOWN else count
        some = (found.group() for found in islice(each.finditer(piece), shown))
        more = f", and {count - shown} more" if count > shown else ""
        made = ValueList(", ".join(some) + more)
        made.alike, made.written = alike, piece
        return made


def _plain(text: str) -> "Literal":
    """Return a plain literal of a list."""
    if text[-1] == "'":
        prefix, _, _ = text.partition("'")
        kind = {"": Kind.TEXT, "DATE": Kind.DATE, "TIMESTAMP": Kind.TIME}[prefix.strip().upper()]
        return Literal(kind, unescaped(text[len(prefix) :]))
    if text[0] in "nN":
        return Literal(Kind.NULL, "")
    if text[-1] in "dD":
        return _double(float(text[:-1])) or Literal(Kind.NUMBER, f"{text[:-1]}e0")
    return Literal(Kind.NUMBER, text.rstrip("lL"))


def plain_list(tree: exp.In) -> "tuple[Kind, list[str]] | None":
    """Return the values of an ``IN``, if all are of one kind and written alike.

    A list of a hundred thousand is then converted as a whole; any other list value by value, by
    ``listed``.
    """
    (only, *more) = tree.expressions
    return None if more or not isinstance(only.this, ValueList) else only.this.alike


def listed(tree: exp.In) -> Iterator["Literal | Tree"]:
    """Yield the values of an ``IN``: literals, and trees of other expressions."""
    for each in tree.expressions:
        if isinstance(each.this, ValueList):
            alike = each.this.alike
            if alike is None:
                yield from map(_plain, _VALUE.findall(each.this.written))
            else:
                yield from (Literal(alike[0], text) for text in alike[1])
        else:
            yield literal(each) or each


def column_path(tree: Tree) -> tuple[str, ...]:
    """Return the name of a column, followed by the names of the fields within it."""
    if isinstance(tree, exp.Dot):
        return (*column_path(tree.this), tree.expression.name)
    if not isinstance(tree, exp.Column) or not isinstance(tree.this, exp.Identifier):
        raise OnlySpark("it is a part of a column")
    return tuple(each.name for each in tree.parts)


def written(tree: Tree) -> str:
    """Return a tree as SQL text."""
    return str(tree.sql(DIALECT))


def literal(tree: Tree) -> Literal | None:
    """Return the literal that a tree is, or None."""
    match tree.unnest():
        case exp.Null():
            return Literal(Kind.NULL, "")
        case exp.Boolean() as found:
            return Literal(Kind.BOOLEAN, str(found.this))
        case exp.Literal() as found:
            return Literal(Kind.TEXT if found.is_string else Kind.NUMBER, str(found.this))
        case exp.Neg() as found:
            return _negative(literal(found.this))
        case exp.Cast() as found:
            return None if found.args.get("safe") else _cast(literal(found.this), found.to)
    return None


def _negative(found: Literal | None) -> Literal | None:
    if found is None or found.kind is not Kind.NUMBER:
        return None
    negative = found.text.startswith("-")
    return Literal(Kind.NUMBER, found.text[1:] if negative else f"-{found.text}")


def _cast(found: Literal | None, to: Tree) -> Literal | None:
    """Return the literal that a cast makes of a literal, if it is one."""
    if found is None:
        return None
    if found.kind is Kind.TEXT and to.this is _Type.DATE:
        return Literal(Kind.DATE, found.text)
    if found.kind is Kind.TEXT and to.this in _TIMES:
        return Literal(Kind.TIME, found.text)
    if found.kind is Kind.TEXT and to.this is _Type.TIMESTAMPNTZ:
        return Literal(Kind.LOCAL_TIME, found.text)
    if found.kind is Kind.NUMBER and to.this in _WHOLE and found.text.lstrip("+-").isdigit():
        return found if abs(int(found.text)) <= 2 ** _WHOLE[to.this] else None  # 1L, or -128Y
    if found.kind is Kind.NUMBER and to.this is _Type.DOUBLE:
        return _double(float(found.text))
    if found.kind is Kind.NUMBER and to.this is _Type.FLOAT:
        return _double(float(np.float32(found.text)))
    if to.this is _Type.DECIMAL and found.kind in {Kind.NUMBER, Kind.TEXT}:
        return _decimal(found.text, to)
    return None


def _double(number: float) -> Literal | None:
    text = repr(number)
    return Literal(Kind.NUMBER, text if "e" in text else f"{text}e0") if isfinite(number) else None


def _decimal(text: str, to: Tree) -> Literal | None:
    """Return a number with the suffix BD, or cast to a decimal that has all of its digits."""
    sizes = [int(each.name) for each in to.expressions] or [10]
    try:
        number = Decimal(text)
    except InvalidOperation:
        return None
    precision, scale = sizes[0], sizes[1] if len(sizes) > 1 else 0
    exponent = number.as_tuple().exponent
    fits = isinstance(exponent, int) and -exponent <= scale
    if not fits or number.adjusted() >= precision - scale:
        return None
    return Literal(Kind.NUMBER, f"{number.quantize(Decimal(1).scaleb(-scale), context=_EXACT):f}")


def is_double(text: str) -> bool:
    """Return whether a number is a double as it is written."""
    return "e" in text.lower()


def fitted(found: Literal, kind: pa.DataType) -> Value:
    """Return a literal as a value of a column's type, or None if it has another type.

    Raises:
        ValueError, InvalidOperation: it is no value of the type.
        OnlySpark: Spark may know its value.
    """
    text = found.text
    match found.kind:
        case Kind.NUMBER:
            return _number(text, kind)
        case Kind.BOOLEAN:
            return text == "True" if pa.types.is_boolean(kind) else None
        case Kind.TEXT if is_text(kind):
            return text
        case _ if pa.types.is_timestamp(kind):
            return Moment(literal_instant(found))
        case Kind.TIME | Kind.LOCAL_TIME if pa.types.is_date(kind):
            days, rest = divmod(literal_instant(found), DAY_US)
            if rest:
                raise ValueError("it is within a day")
            return Day(days)
        case _ if pa.types.is_date(kind):
            return Day(as_day(text))
    return None


def comparable(found: Literal, kind: pa.DataType) -> bool:
    """Return whether Spark may compare a literal with a column that has no such value.

    Spark casts texts to numbers and times, and compares numbers of any size; it refuses all else.
    """
    numeric = pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind)
    text = is_text(kind) or pa.types.is_binary(kind)
    if found.kind is Kind.TEXT and (numeric or pa.types.is_temporal(kind)):
        return bool(_NUMBER_OR_TIME.match(found.text))
    if found.kind is Kind.NUMBER:
        return bool(numeric or text)
    return bool(
        text
        or (found.kind in (Kind.DATE, Kind.TIME, Kind.LOCAL_TIME) and pa.types.is_temporal(kind))
    )


def literal_instant(found: Literal) -> int:
    """Return the microseconds since 1970 of a literal; a date alone is its midnight.

    Raises:
        ValueError: it is no time.
        OnlySpark: Spark may read it as a time.
    """
    if found.kind is Kind.DATE:
        return as_day(found.text) * DAY_US
    return as_instant(found.text, zoned=found.kind is not Kind.LOCAL_TIME)


def _number(text: str, kind: pa.DataType) -> Value:
    if pa.types.is_floating(kind):
        if not isfinite(float(text)):
            raise ValueError("it is too large")
        return float(text)
    number = Decimal(text)
    if pa.types.is_decimal(kind):
        return number
    if not pa.types.is_integer(kind):
        return None
    if number.adjusted() > 20 or number != int(number):
        raise ValueError("the column has whole numbers of at most 64 bits")
    return int(number)
