"""Conversion of table schemas to Arrow and back.

1. Types are text as Arrow prints them; only this module parses them, with a small recursive
   grammar, so that the log can be read without Arrow.
2. A type that text cannot represent exactly (dictionary, extension, union) is refused when the
   table is created.
"""

import re
from collections import Counter
from collections.abc import Callable
from functools import lru_cache
from zoneinfo import ZoneInfo

import pyarrow as pa

from airflow_provider_segtable.core.errors import SchemaMismatch
from airflow_provider_segtable.core.schema import Column, Schema
from airflow_provider_segtable.core.tables.table_kind import TableKind

_HOURS, _MINUTES = 24, 60
FIELD_ID = b"PARQUET:field_id"
"""The key in a field's metadata under which pyarrow reads and writes the id of a column."""

_PRIMITIVES: dict[str, pa.DataType] = {
    str(made): made
    for made in (
        pa.bool_(),
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64()),
        *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64()),
        *(pa.float16(), pa.float32(), pa.float64()),
        *(pa.string(), pa.large_string(), pa.binary(), pa.large_binary()),
        *(pa.date32(), pa.date64(), pa.null()),
        *(pa.time32("s"), pa.time32("ms"), pa.time64("us"), pa.time64("ns")),
        *(pa.timestamp(unit) for unit in ("s", "ms", "us", "ns")),
        *(pa.duration(unit) for unit in ("s", "ms", "us", "ns")),
    )
}


def from_arrow(schema: pa.Schema) -> Schema:
    """Return the table schema of an Arrow schema.

    Raises:
        SchemaMismatch: naming the column whose type cannot be stored.
    """
    for field in schema:
        try:
            exact = parse_type(str(field.type)) == field.type
        except SchemaMismatch:
            exact = False
        if not exact:
            raise SchemaMismatch(
                f"column {field.name!r} has type {field.type}, which a table cannot store: "
                "cast it to a plain type (dictionaries to their value type)"
            )
    return Schema(tuple(Column(name=f.name, type=str(f.type), nullable=f.nullable) for f in schema))


def check_once(schema: pa.Schema) -> None:
    """Refuse a name that several columns have.

    Raises:
        SchemaMismatch: naming them.
    """
    twice = [name for name, count in Counter(schema.names).items() if count > 1]
    if twice:
        raise SchemaMismatch(
            f"the schema has several columns {', '.join(map(repr, twice))}: name each column once"
        )


def check_zones(kind: pa.DataType, name: str) -> None:
    """Refuse a time zone that does not exist, at any depth of a column's type.

    Tables that were created with one stay readable as Arrow, so this is for new columns alone.

    Raises:
        SchemaMismatch: naming the zone.
    """
    if pa.types.is_timestamp(kind) and kind.tz is not None and not _is_zone(kind.tz):
        raise SchemaMismatch(
            f"column {name!r} has the time zone {kind.tz!r}, which does not exist: write UTC, a "
            "name such as Europe/Berlin, or an offset such as +01:00"
        )
    for at in range(kind.num_fields):
        check_zones(kind.field(at).type, name)


def _is_zone(zone: str) -> bool:
    offset = re.fullmatch(r"[+-](\d{2}):?(\d{2})", zone)
    if offset:
        return int(offset[1]) < _HOURS and int(offset[2]) < _MINUTES
    try:
        ZoneInfo(zone)
    except (KeyError, ValueError, OSError):
        return False
    return True


def to_arrow(schema: Schema) -> pa.Schema:
    """Return the Arrow schema of a table schema."""
    return pa.schema([pa.field(c.name, parse_type(c.type), c.nullable) for c in schema.columns])


def physical_schema(shown: pa.Schema, kind: TableKind) -> pa.Schema:
    """Return the schema of a table's files: the columns that readers see, then the hidden ones."""
    return pa.schema([*shown, *to_arrow(Schema(kind.hidden))])


@lru_cache(maxsize=1024)  # each append needs the types of all columns
def parse_type(text: str) -> pa.DataType:
    """Parse a type as Arrow prints it.

    Raises:
        SchemaMismatch: if a table cannot store the type.
    """
    if text in _PRIMITIVES:
        return _PRIMITIVES[text]
    for pattern, build in _PARAMETRIC:
        match = re.fullmatch(pattern, text)
        if match:
            return build(*match.groups())
    raise SchemaMismatch(f"{text!r} is not a type that a table can store")


def _field(text: str) -> pa.Field:
    name, _, rest = text.partition(": ")
    nullable = not rest.endswith(" not null")
    return pa.field(name, parse_type(rest.removesuffix(" not null")), nullable)


def _map(inside: str) -> pa.DataType:
    key, *items = _split(inside)
    if not items:
        raise SchemaMismatch(f"map<{inside}> has one type: a map has two, of keys and of values")
    item = items[0]
    return pa.map_(parse_type(key), parse_type(item))


def _split(inside: str) -> list[str]:
    parts, depth, start = [], 0, 0
    for at, char in enumerate(inside):
        depth += (char in "<[(") - (char in ">])")
        if char == "," and depth == 0:
            parts.append(inside[start:at].strip())
            start = at + 1
    parts.append(inside[start:].strip())
    return parts


_PARAMETRIC: tuple[tuple[str, Callable[..., pa.DataType]], ...] = (
    (r"timestamp\[(\w+), tz=([^\]]+)\]", pa.timestamp),
    (r"decimal128\((\d+), (-?\d+)\)", lambda p, s: pa.decimal128(int(p), int(s))),
    (r"fixed_size_binary\[(\d+)\]", lambda width: pa.binary(int(width))),
    (
        r"fixed_size_list<(.+)>\[(\d+)\]",
        lambda inside, size: pa.list_(_field(inside), int(size)),
    ),
    (r"list<(.+)>", lambda inside: pa.list_(_field(inside))),
    (r"large_list<(.+)>", lambda inside: pa.large_list(_field(inside))),
    (r"struct<(.+)>", lambda inside: pa.struct([_field(part) for part in _split(inside)])),
    (r"map<(.+)>", _map),
)
