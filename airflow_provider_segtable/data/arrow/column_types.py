"""Parse schemas such as ``"carrier string, time_hour timestamp[us, tz=UTC] not null"``.

1. A type is Arrow's, as ``segtable table describe`` prints it, or else SQL's: ``bigint``,
   ``varchar(20)``, ``decimal(10, 2)``, ``timestamp with time zone``, ``array<bigint>``.
2. A nested type needs no names for what it holds: ``list<bigint>`` is Arrow's
   ``list<item: int64>``. ``float[768]`` is a list of fixed size.
3. Where the two differ Arrow's meaning counts: ``float`` has 32 bits.
"""

import re
from collections.abc import Callable

import pyarrow as pa

from airflow_provider_segtable.core.errors import SchemaMismatch
from airflow_provider_segtable.data.arrow.arrow_schema import parse_type

ALIASES = {
    "boolean": "bool",
    "int": "int64",
    "integer": "int64",
    "bigint": "int64",
    "long": "int64",
    "smallint": "int16",
    "short": "int16",
    "tinyint": "int8",
    "byte": "int8",
    "float64": "double",
    "double precision": "double",
    "real": "float",
    "float32": "float",
    "float16": "halffloat",
    "str": "string",
    "text": "string",
    "varchar": "string",
    "character varying": "string",
    "char": "string",
    "utf8": "string",
    "large_utf8": "large_string",
    "bytes": "binary",
    "bytea": "binary",
    "blob": "binary",
    "varbinary": "binary",
    "date": "date32[day]",
    "date32": "date32[day]",
    "timestamp": "timestamp[us, tz=UTC]",
    "timestamptz": "timestamp[us, tz=UTC]",
    "timestamp with time zone": "timestamp[us, tz=UTC]",
    "timestamp with local time zone": "timestamp[us, tz=UTC]",
    "timestamp_ltz": "timestamp[us, tz=UTC]",
    "timestamp without time zone": "timestamp[us]",
    "timestamp_ntz": "timestamp[us]",
    "datetime": "timestamp[us]",
    "time": "time64[us]",
    "interval": "duration[us]",
    "duration": "duration[us]",
}
EXAMPLE = '"user string, amount double, at timestamp[us, tz=UTC] not null"'


def parse_schema(text: str) -> pa.Schema:
    """Parse comma-separated ``name type [not null]``.

    Raises:
        SchemaMismatch: a column cannot be parsed; the message names it.
    """
    fields = [_field(part) for part in _columns(text) if part]
    names = [field.name for field in fields]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SchemaMismatch(f"schema names column {twice[0]!r} twice: names must differ")
    if not fields:
        raise SchemaMismatch(f"schema {text!r} has no columns: write e.g. {EXAMPLE}")
    return pa.schema(fields)


def _field(text: str) -> pa.Field:
    match = re.fullmatch(r"([^\s:]+)\s*[\s:]\s*(.+?)(\s+not\s+null)?", text, re.IGNORECASE)
    if not match:
        raise SchemaMismatch(
            f"column {text!r} is not of the form `name type`: write e.g. {EXAMPLE}"
        )
    name, kind, required = match.groups()
    return pa.field(name, column_type(name, kind), nullable=required is None)


def column_type(name: str, kind: str) -> pa.DataType:
    """Return the type of a column as it is written, in Arrow's way or SQL's.

    Raises:
        SchemaMismatch: it is unknown; the message names the column and the types there are.
    """
    try:
        return _type(kind)
    except SchemaMismatch:
        known = ", ".join(sorted(ALIASES))
        raise SchemaMismatch(
            f"column {name!r} has type {kind!r}, which is unknown: write one of Arrow's (int64, "
            f"string, double, timestamp[us, tz=UTC], list<string>, ...) or of SQL's ({known}, "
            "decimal(10, 2))"
        ) from None
    except ValueError as error:
        raise SchemaMismatch(f"column {name!r} has type {kind!r}: {error}") from None


def _type(text: str) -> pa.DataType:
    """Parse a type.

    Raises:
        SchemaMismatch: it is unknown.
        ValueError: its numbers are out of range.
    """
    text = re.sub(r"\s+", " ", text.strip())
    try:
        plain = text.lower() if text.isalnum() else text
        return parse_type(ALIASES.get(text.lower(), plain))
    except SchemaMismatch:
        for pattern, build in _PARAMETRIC:
            match = re.fullmatch(pattern, text, re.IGNORECASE)
            if match:
                return build(*match.groups())
        raise


def _decimal(precision: str, scale: str | None) -> pa.DataType:
    return pa.decimal128(int(precision), int(scale or 0))


def _list(inside: str) -> pa.DataType:
    return pa.list_(_item(inside))


def _large_list(inside: str) -> pa.DataType:
    return pa.large_list(_item(inside))


def _fixed_list(inside: str, size: str) -> pa.DataType:
    return pa.list_(_item(inside), int(size))


def _item(text: str) -> pa.Field:
    """Parse the content of a list: a type, which may have a name and forbid null."""
    named = re.fullmatch(r"\w+\s*:\s*.+", text)
    required = re.fullmatch(r"(.+?)\s+not\s+null", text, re.IGNORECASE)
    if named or required:
        return _field(text if named else f"item {text}")
    return pa.field("item", _type(text))


def _map(inside: str) -> pa.DataType:
    key, _, item = inside.partition(",")  # keys are plain
    return pa.map_(_type(key), _type(item))


def _struct(inside: str) -> pa.DataType:
    return pa.struct([_field(part) for part in _columns(inside)])


def _zoned(unit: str, zone: str) -> pa.DataType:
    return pa.timestamp(unit.lower(), zone)


_PARAMETRIC: tuple[tuple[str, Callable[..., pa.DataType]], ...] = (
    (r"(?:decimal|numeric|decimal128) ?\( ?(\d+) ?(?:, ?(\d+) ?)?\)", _decimal),
    (r"(?:varchar|char|character varying|character) ?\(\d+\)", lambda: _type("string")),
    (r"(timestamp|time|timestamptz) ?\([0-6]\)((?: with.*)?)", lambda t, zone: _type(t + zone)),
    (r"timestamp\[(s|ms|us|ns), ?([^=\]]+)\]", _zoned),
    (r"(?:list|array) ?<(.+)>", _list),
    (r"large_list ?<(.+)>", _large_list),
    (r"fixed_size_list ?<(.+)> ?\[(\d+)\]", _fixed_list),
    (r"(.+?) ?\[(\d+)\]", _fixed_list),
    (r"(.+?) ?\[\]", _list),
    (r"map ?<(.+)>", _map),
    (r"(?:struct|row) ?<(.+)>", _struct),
)
"""SQL's types with parameters; a number of letters or digits is read and means nothing."""


def _columns(text: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for at, char in enumerate(text):
        depth += (char in "<[(") - (char in ">])")
        if char == "," and depth == 0:
            parts.append(text[start:at].strip())
            start = at + 1
    return [*parts, text[start:].strip()]
