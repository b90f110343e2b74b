"""Ids of the fields of files: of columns, and of the fields within lists, structs and maps.

1. Parquet has a field's id in its schema; Arrow keeps it in the field's metadata (``FIELD_ID``).
2. Fields within a column are numbered from its own id (``core.tables.field_ids``), each before
   those within it: a list's element, a struct's fields in order, a map's key and then its value.
3. Types are equal whatever ids are in them, so rows need no cast to be written with ids.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from airflow_provider_segtable.core.tables.field_ids import nested_ids
from airflow_provider_segtable.data.arrow.arrow_schema import FIELD_ID


def identified(field: "pa.Field[Any]", column_id: int) -> "pa.Field[Any]":
    """Return a column's field with its id and those within it, and no other metadata."""
    own = {FIELD_ID: str(column_id).encode()}
    ids = nested_ids(column_id)
    if not 0 < fields_within(field.type) <= len(ids):
        return field.with_metadata(own)
    return field.with_type(_numbered(field.type, iter(ids))).with_metadata(own)


def id_of(field: "pa.Field[Any]") -> int | None:
    """Return a field's id; None if it has none."""
    found = (field.metadata or {}).get(FIELD_ID)
    return None if found is None else int(found)


def all_identified(field: "pa.Field[Any]") -> bool:
    """Return whether a field and all within it have ids."""
    return id_of(field) is not None and all(map(all_identified, inner_fields(field.type)))


def fields_within(kind: pa.DataType) -> int:
    """Return the number of fields within a type, at any depth."""
    return sum(1 + fields_within(each.type) for each in inner_fields(kind))


def inner_fields(kind: Any) -> "list[pa.Field[Any]]":
    """Return the fields of a list, struct or map; none of another type."""
    if pa.types.is_map(kind):
        return [kind.key_field, kind.item_field]
    return [kind.field(at) for at in range(kind.num_fields)]


def _numbered(kind: Any, ids: Iterator[int]) -> Any:
    fields = []
    for field in inner_fields(kind):
        own = {FIELD_ID: str(next(ids)).encode()}
        fields.append(field.with_type(_numbered(field.type, ids)).with_metadata(own))
    if pa.types.is_map(kind):
        return pa.map_(*fields, keys_sorted=kind.keys_sorted)
    if pa.types.is_struct(kind):
        return pa.struct(fields)
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(fields[0], kind.list_size)
    if pa.types.is_large_list(kind):
        return pa.large_list(fields[0])
    return pa.list_(fields[0]) if fields else kind
