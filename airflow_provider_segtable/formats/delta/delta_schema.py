"""Schemas in Delta's form, and what of a table Delta Lake cannot express.

1. Types that all readers read right are published; a table with another one is refused.
2. Readers find a column in a file by its name alone. Column mapping would tell them more, but some
   refuse it and others ignore the ids of columns without a word. So a version is refused while it
   shows files in which a column has another name or type, or in which its name is another column's.
   Files that lack a column are right if its value there is null.
3. Once these files are compacted, they have the present columns, and the table is published again.
"""

from collections.abc import Collection
from typing import Any

import pyarrow as pa
import pyarrow.types as is_

from airflow_provider_segtable.core.log.families.table_events import TableCreated
from airflow_provider_segtable.core.schema import Column, Schema
from airflow_provider_segtable.data.arrow_schema import parse_type
from airflow_provider_segtable.formats.delta.log_files import Json, written

NAIVE = "timestamp_ntz"

_SIMPLE = {
    pa.bool_(): "boolean",
    pa.int8(): "byte",
    pa.int16(): "short",
    pa.int32(): "integer",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.date32(): "date",
}


def schema_json(schema: Schema) -> str:
    """Return a schema whose types ``refusal`` has not refused, as Delta's JSON."""
    fields = [_field(c.name, parse_type(c.type), c.nullable) for c in schema.columns]
    return written({"type": "struct", "fields": fields})


def has_naive_times(schema: Schema) -> bool:
    """Return whether a column has times without a zone, which readers have to know."""
    return f'"{NAIVE}"' in schema_json(schema)


def refusal(table: TableCreated, schemas: Collection[int]) -> str:
    """Return why a version cannot be published, with the way out; empty if it can."""
    for column in table.schema.columns:
        if unknown := _unknown(parse_type(column.type)):
            way = "add a column of another type, fill it by an update, and drop this one"
            if column.name == table.time_column:
                way = "make a table whose event time is in microseconds, and append the rows to it"
            return (
                f"column {column.name!r} has type {unknown}, which not all readers of Delta Lake "
                f"read right: {way}"
            )
    lower = [name.lower() for name in table.schema.names]
    for column in table.schema.columns:
        if lower.count(column.name.lower()) > 1:
            return (
                f"columns of Delta Lake are the same if only upper and lower case differ: rename "
                f"column {column.name!r}"
            )
    for number in sorted(schemas):
        if found := _differs(table.schema, table.schema_of(number)):
            return (
                f"{found} in older files (schema {number}), which readers of Delta Lake read by "
                "names and types alone: write these anew (segtable compact TABLE --kind major), "
                "then publish again"
            )
    return ""


def _differs(schema: Schema, older: Schema) -> str:
    """Return how a column differs in files of an older schema; empty if it does not."""
    by_id = {column.id: column for column in older.numbered}
    for column in schema.numbered:
        before = by_id.get(column.id)
        if before is None:
            found = _unlike_missing(column, older)
        elif before.name != column.name:
            found = f"is named {before.name!r}"
        else:
            found = f"has type {before.type}" if before.type != column.type else ""
        if found:
            return f"column {column.name!r} {found}"
    return ""


def _unlike_missing(column: Column, older: Schema) -> str:
    """Return what readers find in place of a column that files lack; empty for null."""
    if any(each.name.lower() == column.name.lower() for each in older.columns):
        return "is another column"
    return f"(default {column.default}) is missing" if column.default is not None else ""


def _field(name: str, kind: pa.DataType, nullable: bool) -> Json:  # noqa: FBT001
    return {"name": name, "type": _delta_type(kind), "nullable": nullable, "metadata": {}}


def _delta_type(kind: pa.DataType) -> Any:
    """Return a type as Delta's JSON."""
    if kind in _SIMPLE:
        return _SIMPLE[kind]
    if is_.is_timestamp(kind):
        return NAIVE if kind.tz is None else "timestamp"
    if is_.is_decimal128(kind):
        return f"decimal({kind.precision},{kind.scale})"
    if is_.is_struct(kind):
        inner = [_field(each.name, each.type, each.nullable) for each in kind.fields]
        return {"type": "struct", "fields": inner}
    if is_.is_map(kind):
        return {
            "type": "map",
            "keyType": _delta_type(kind.key_type),
            "valueType": _delta_type(kind.item_type),
            "valueContainsNull": kind.item_field.nullable,
        }
    inside = kind.value_field
    return {
        "type": "array",
        "elementType": _delta_type(inside.type),
        "containsNull": inside.nullable,
    }


def _unknown(kind: pa.DataType) -> str:
    """Return a type, or one inside of it, that Delta does not have; empty if it has all."""
    if kind in _SIMPLE:
        return ""
    if is_.is_timestamp(kind):
        return str(kind) if kind.unit == "ns" else ""
    if is_.is_decimal128(kind):
        return "" if 0 <= kind.scale <= kind.precision else str(kind)
    if is_.is_struct(kind):
        return next(filter(None, (_unknown(each.type) for each in kind.fields)), "")
    if is_.is_map(kind):
        return _unknown(kind.key_type) or _unknown(kind.item_type)
    if is_.is_list(kind) or is_.is_large_list(kind):
        return _unknown(kind.value_type)
    return str(kind)
