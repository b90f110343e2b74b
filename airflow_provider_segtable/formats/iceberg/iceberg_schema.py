"""A table's schema as Iceberg's: types, ids, and the names of columns in files without ids.

1. A column has its own id, a field within it the id that files have (``data.parquet.file_ids``).
   So renamed, dropped, reordered and widened columns need no more than another schema.
2. The number of a table's schema is the id of Iceberg's.
3. ``LAST_ID`` is above all ids of fields, hidden columns' included: some readers refuse a file with
   an id above it. Iceberg reserves the 200 below 2,147,483,647.
4. A type is published if every reader that was tried reads it right. Unsigned integers,
   nanoseconds, times in seconds and lists of a fixed size are refused; also in columns that were
   dropped, while files have them: pyiceberg reads no such file. Nor does it read one with a
   timestamp of another zone than UTC, which is published all the same, since the event time may
   be one: files have instants, and other readers show them in UTC.
5. Files without ids have the columns of schema 0 by their names, hidden ones by their own. The
   *name mapping* names all of these, and nothing else: a column that was added later under the
   name of a dropped one must not be found in them.
6. Version 2 of the format has no values for rows written before a column was added, besides null.
"""

from collections.abc import Collection, Iterator, Mapping
from typing import Any

import pyarrow as pa

from airflow_provider_segtable.core.log.families.table_events import TableCreated
from airflow_provider_segtable.core.schema import HIDDEN, Schema
from airflow_provider_segtable.core.tables.field_ids import field_ids
from airflow_provider_segtable.data.parquet.table_file import id_of, inner_fields, stored_columns

LAST_ID = 2_147_480_000
Json = dict[str, Any]

_SIMPLE: Mapping[Any, str] = {
    pa.bool_(): "boolean",
    pa.int8(): "int",
    pa.int16(): "int",
    pa.int32(): "int",
    pa.int64(): "long",
    pa.float32(): "float",
    pa.float64(): "double",
    pa.string(): "string",
    pa.large_string(): "string",
    pa.binary(): "binary",
    pa.large_binary(): "binary",
    pa.date32(): "date",
    pa.time64("us"): "time",
}

_REWRITE = "write them anew (segtable compact TABLE --kind major), then publish again"


def schema_json(schema: Schema) -> Json:
    """Return a schema as Iceberg's JSON; its columns have types that can be published."""
    fields = [_field(field) for field in stored_columns(schema)]
    return {"type": "struct", "schema-id": schema.number, "fields": fields}


def simple_types(schema: Schema) -> Mapping[int, str]:
    """Return the types of the columns that have no fields within them, by id."""
    fields = {id_of(field): _type(field.type) for field in stored_columns(schema)}
    return {number: kind for number, kind in fields.items() if number and isinstance(kind, str)}


def nested(schema: Schema) -> tuple[str, ...]:
    """Return the names of columns that have fields within them."""
    return tuple(field.name for field in stored_columns(schema) if inner_fields(field.type))


def name_mapping(table: TableCreated) -> list[Json]:
    """Return the ids of the columns of files without ids, by their names; rule 5."""
    first = table.schema_of(0)
    hidden = {
        name: number
        for kind in (table.kind_of(0), table.kind)
        for name, number in field_ids(first, kind).items()
        if name.startswith(HIDDEN)
    }
    columns = [_mapped(field) for field in stored_columns(first)]
    return [*columns, *({"field-id": number, "names": [name]} for name, number in hidden.items())]


def refusals(table: TableCreated, schemas: Collection[int]) -> Iterator[str]:
    """Yield what keeps a table from being published, each with the way out."""
    for field in stored_columns(table.schema):
        if wrong := _unknown(field.type):
            way = "drop the column, or add one of another type and update it"
            if field.name == table.time_column:
                way = "make a table whose event time is in microseconds, and append the rows to it"
            yield (
                f"column {field.name!r} is {field.type}, and Iceberg's readers do not all read "
                f"{wrong}: {way}"
            )
    older = [table.schema_of(number) for number in schemas]
    present = {column.id for column in table.schema.numbered}
    for field in (each for schema in older for each in stored_columns(schema)):
        if id_of(field) not in present and (wrong := _unknown(field.type)):
            yield (
                f"column {field.name!r} was dropped, and files still have it as {wrong}, which "
                f"Iceberg's readers do not all read: {_REWRITE}"
            )
    for column in table.schema.numbered:
        lacking = [s for s in older if column.id not in {each.id for each in s.numbered}]
        if column.default is not None and lacking:
            yield (
                f"column {column.name!r} was added with the value {column.default} for earlier "
                "rows, which Iceberg's version 2 cannot say of files that lack the column: "
                f"{_REWRITE}"
            )


def _field(field: "pa.Field[Any]") -> Json:
    return {
        "id": id_of(field),
        "name": field.name,
        "required": not field.nullable,
        "type": _type(field.type),
    }


def _type(kind: Any) -> str | Json:
    """Return a type as Iceberg's JSON; a refused one as its own text, which no schema gets."""
    if pa.types.is_timestamp(kind):
        return "timestamptz" if kind.tz else "timestamp"
    if pa.types.is_decimal128(kind):
        return f"decimal({kind.precision}, {kind.scale})"
    if pa.types.is_fixed_size_binary(kind):
        return f"fixed[{kind.byte_width}]"
    if pa.types.is_struct(kind):
        return {"type": "struct", "fields": [_field(each) for each in inner_fields(kind)]}
    if pa.types.is_map(kind):
        return _map(*inner_fields(kind))
    if inner := inner_fields(kind):
        return {
            "type": "list",
            "element-id": id_of(inner[0]),
            "element": _type(inner[0].type),
            "element-required": not inner[0].nullable,
        }
    return _SIMPLE.get(kind, str(kind))


def _map(key: "pa.Field[Any]", value: "pa.Field[Any]") -> Json:
    return {
        "type": "map",
        "key-id": id_of(key),
        "key": _type(key.type),
        "value-id": id_of(value),
        "value": _type(value.type),
        "value-required": not value.nullable,
    }


def _unknown(kind: Any) -> str:
    """Return the text of a type, or of one within it, that is not published; empty if all are."""
    if inner := inner_fields(kind):
        if pa.types.is_fixed_size_list(kind):
            return str(kind)
        if any(id_of(each) is None for each in inner):
            return "over 1,000 fields in a column"
        return next(filter(None, (_unknown(each.type) for each in inner)), "")
    known = (
        kind in _SIMPLE
        or (pa.types.is_timestamp(kind) and kind.unit != "ns")
        or (pa.types.is_decimal128(kind) and kind.scale >= 0)
        or pa.types.is_fixed_size_binary(kind)
    )
    return "" if known else str(kind)


def _mapped(field: "pa.Field[Any]") -> Json:
    inner = [_mapped(each) for each in inner_fields(field.type)]
    if pa.types.is_map(field.type):
        inner = [{**inner[0], "names": ["key"]}, {**inner[1], "names": ["value"]}]
    elif inner and not pa.types.is_struct(field.type):
        inner = [{**inner[0], "names": ["element"]}]
    return {
        "field-id": id_of(field),
        "names": [field.name],
        **({"fields": inner} if inner else {}),
    }
