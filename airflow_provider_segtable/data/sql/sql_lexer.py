r"""Spark's literals in SQL text, before the parser reads it.

The parser's Spark dialect is older than Spark 4 in how it reads texts, and takes seconds for a long
list of values. So its input is rewritten:

1. A text is read as Spark 4 reads it: ``'O''Hare'`` is ``O'Hare``, adjacent texts are one,
   ``\n``, ``\101``, ``\u00e9`` and ``\U0001F600`` are characters, ``\%`` and ``\_`` stay as they
   are, ``r'\n'`` has no escapes. It is given to the parser with backslashes alone.
2. Comments become blanks. Comments between ``/*`` and ``*/`` nest.
3. A list of plain values after ``IN`` is read here. The parser sees one name in its place, which
   ``sql_text.parsed`` replaces by the list.
4. What is neither is passed on as it is; an unclosed text or comment is the parser's error.
5. Names for the present, such as ``now()``, become one time for a whole statement (``at_time``),
   for whichever engine reads it.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby

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
_MARK = "\0values "
_BARE = "current_timestamp|current_date|localtimestamp"
_PRESENT = re.compile(
    rf"(?<![\w$.])(?:(now|curdate|unix_timestamp|{_BARE})\s*+\(\s*+\)"
    rf"|({_BARE})(?![\w$.]|\s*+\())",
    re.IGNORECASE,
)
"""Names for the present: calls without arguments, and those that need no parentheses."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """SQL text for the parser, and value lists by the names that stand for them.

    Values are as they are written: texts still have their quotes.
    """

    text: str
    lists: dict[str, list[str]]


def prepared(text: str) -> Prepared:
    """Return SQL text as the parser is to see it."""
    lists: dict[str, list[str]] = {}
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
                lists[name] = _VALUE.findall(piece)
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
            values = _VALUES.match(text, at) if kind == "within" else None
            if values:
                yield "values", values.group()
                at = values.end()


def _block_end(text: str, at: int) -> int:
    """Return where a comment ends, or 0 if it does not."""
    depth = 1
    for found in _BLOCK.finditer(text, at):
        depth += 1 if found.group() == "/*" else -1
        if not depth:
            return found.end()
    return 0


def unescaped(text: str) -> str:
    """Return what a text literal stands for, quotes and all escapes taken off."""
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
    if not _PRESENT.search(text):
        return text
    utc, known = now.astimezone(UTC), {name.lower() for name in names}

    def told(found: re.Match[str]) -> str:
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
        pieces.append(_PRESENT.sub(told, piece) if code else piece)
    return "".join(pieces)
