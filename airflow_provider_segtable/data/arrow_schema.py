"""Convert table schemas to Arrow and back, parse types, and find the nearest types to store.

Schemas of tables:

1. Types are text as Arrow prints them; only this module parses them, with a small recursive
   grammar, so that the log can be read without Arrow.
2. A type that text cannot represent exactly (dictionary, extension, union) is refused when the
   table is created.

Schemas of users, such as ``"carrier string, time_hour timestamp[us, tz=UTC] not null"``:

3. A type is Arrow's, as ``segtable table describe`` prints it, or else SQL's: ``bigint``,
   ``varchar(20)``, ``decimal(10, 2)``, ``timestamp with time zone``, ``array<bigint>``.
4. A nested type needs no names for its elements: ``list<bigint>`` is Arrow's
   ``list<item: int64>``. ``float[768]`` is a list of fixed size.
5. Where the two differ Arrow's meaning counts: ``float`` has 32 bits.

The nearest type that a table stores, for the types of users' files:

6. A type that differs from a stored one only in its form in memory becomes the stored one:
   dictionaries and run-end encodings become the type of their values, views text and bytes,
   extension types their storage type.
7. A column without any value (``null``) becomes text.
8. A type that has no near one stays as it is: the table refuses it by name.
"""

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import lru_cache
from zoneinfo import ZoneInfo

import pyarrow as pa

from airflow_provider_segtable.core.column_types import type_named, words
from airflow_provider_segtable.core.errors import SchemaMismatch
from airflow_provider_segtable.core.schema import Column, Schema
from airflow_provider_segtable.core.tables.table_kind import TableKind

# Schemas of tables
_HOURS, _MINUTES = 24, 60
_KNOWN = 64
"""Schemas that are kept: a read asks for its table's several times."""
FIELD_ID = b"PARQUET:field_id"
"""The key in a field's metadata under which pyarrow reads and writes the id of a column."""


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


@lru_cache(maxsize=_KNOWN)
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
    found = type_named(text)
    if found and text in found.texts:
        return pa.type_for_alias(text)
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


# Schemas of users
EXAMPLE = '"user string, amount double, at timestamp[us, tz=UTC] not null"'


def parse_schema(text: str) -> pa.Schema:
    """Parse comma-separated ``name type [not null]``.

    Raises:
        SchemaMismatch: a column cannot be parsed; the message names it.
    """
    fields = [_given_field(part) for part in _columns(text) if part]
    names = [field.name for field in fields]
    twice = sorted({name for name in names if names.count(name) > 1})
    if twice:
        raise SchemaMismatch(f"schema names column {twice[0]!r} twice: names must differ")
    if not fields:
        raise SchemaMismatch(f"schema {text!r} has no columns: write e.g. {EXAMPLE}")
    return pa.schema(fields)


def _given_field(text: str) -> pa.Field:
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
        known = ", ".join(sorted(words()))
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
        return parse_type(words().get(text.lower(), plain))
    except SchemaMismatch:
        for pattern, build in _GIVEN_PARAMETRIC:
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
        return _given_field(text if named else f"item {text}")
    return pa.field("item", _type(text))


def _given_map(inside: str) -> pa.DataType:
    key, _, item = inside.partition(",")  # keys are plain
    return pa.map_(_type(key), _type(item))


def _struct(inside: str) -> pa.DataType:
    return pa.struct([_given_field(part) for part in _columns(inside)])


def _zoned(unit: str, zone: str) -> pa.DataType:
    return pa.timestamp(unit.lower(), zone)


_GIVEN_PARAMETRIC: tuple[tuple[str, Callable[..., pa.DataType]], ...] = (
    (r"(?:decimal|numeric|decimal128) ?\( ?(\d+) ?(?:, ?(\d+) ?)?\)", _decimal),
    (r"(?:varchar|char|character varying|character) ?\(\d+\)", lambda: _type("string")),
    (r"(timestamp|time|timestamptz) ?\([0-6]\)((?: with.*)?)", lambda t, zone: _type(t + zone)),
    (r"timestamp\[(s|ms|us|ns), ?([^=\]]+)\]", _zoned),
    (r"(?:list|array) ?<(.+)>", _list),
    (r"large_list ?<(.+)>", _large_list),
    (r"fixed_size_list ?<(.+)> ?\[(\d+)\]", _fixed_list),
    (r"(.+?) ?\[(\d+)\]", _fixed_list),
    (r"(.+?) ?\[\]", _list),
    (r"map ?<(.+)>", _given_map),
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


# Types of one nature
def is_text(kind: pa.DataType) -> bool:
    """Return whether values are texts."""
    of = pa.types
    return bool(of.is_string(kind) or of.is_large_string(kind) or of.is_string_view(kind))


def of_any_length(kind: pa.DataType) -> bool:
    """Return whether values are texts or bytes of any length, as tables store them."""
    of = pa.types
    texts = of.is_string(kind) or of.is_large_string(kind)
    return bool(texts or of.is_binary(kind) or of.is_large_binary(kind))


def is_numeric(kind: pa.DataType) -> bool:
    """Return whether values are numbers of up to 64 bits, or stored as such: times, booleans."""
    of = pa.types
    numbers = of.is_integer(kind) or of.is_floating(kind)
    return bool(numbers or of.is_boolean(kind) or of.is_temporal(kind))


def is_list(kind: pa.DataType) -> bool:
    """Return whether values are lists, of any length or of a fixed one."""
    of = pa.types
    return bool(of.is_list(kind) or of.is_large_list(kind) or of.is_fixed_size_list(kind))


# Types within nested types
def inner_fields(kind: pa.DataType) -> "list[pa.Field[pa.DataType]]":
    """Return the fields of a list, struct or map; none of another type."""
    if pa.types.is_map(kind):
        return [kind.key_field, kind.item_field]
    return [kind.field(at) for at in range(kind.num_fields)]


def with_fields(kind: pa.DataType, fields: "Sequence[pa.Field[pa.DataType]]") -> pa.DataType:
    """Return a nested type with other fields; a type that is not nested as it is."""
    if pa.types.is_map(kind):
        return pa.map_(*fields, keys_sorted=kind.keys_sorted)
    if pa.types.is_struct(kind):
        return pa.struct(fields)
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(fields[0], kind.list_size)
    if pa.types.is_large_list(kind):
        return pa.large_list(fields[0])
    return pa.list_(fields[0]) if pa.types.is_list(kind) else kind


# The nearest types that a table stores
_DIGITS = 38
"""The digits that a decimal of a table has at most."""


def storable(field: "pa.Field[pa.DataType]") -> "pa.Field[pa.DataType]":
    """Return the column with the nearest type that a table stores."""
    return pa.field(field.name, storable_type(field.type), field.nullable)


def storable_type(kind: pa.DataType) -> pa.DataType:
    """Return the nearest type that a table stores; the type itself if there is none."""
    is_ = pa.types
    if isinstance(kind, pa.BaseExtensionType):
        return storable_type(kind.storage_type)
    if is_.is_dictionary(kind) or is_.is_run_end_encoded(kind):
        return storable_type(kind.value_type)
    if is_.is_null(kind) or is_.is_string_view(kind):
        return pa.string()
    if is_.is_binary_view(kind):
        return pa.binary()
    if is_.is_decimal(kind) and kind.precision <= _DIGITS:
        return pa.decimal128(kind.precision, kind.scale)
    if is_.is_map(kind):  # keys are not sorted, and values may be null
        return pa.map_(storable_type(kind.key_type), storable_type(kind.item_type))
    return with_fields(kind, [storable(each) for each in inner_fields(kind)])
