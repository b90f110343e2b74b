"""Metadata of a published Iceberg table: its schemas, properties and snapshots.

Versions and snapshots:

1. A version has one snapshot more than the one before. Its summary records the event that it
   shows, and the version's own number.
2. A version carries the newest ``KEPT`` snapshots of versions that still exist: those before
   ``oldest`` were swept.
3. Another table, or one that was moved, begins anew, without snapshots: paths in Iceberg are
   absolute. The sequence numbers continue.
4. The table's id in the properties marks a table written by segtable. A snapshot without an event
   is another writer's: the newest one with an event is the published one (``versions``).
5. Times rise, whatever the clocks of the events' authors.
6. ``gc.enabled`` is false: other tools delete no files.

Schemas:

7. A column has its own id, a field within it the id that files have
   (``data.parquet.table_file``). So renamed, dropped, reordered and widened columns need no more
   than another schema.
8. The number of a table's schema is the id of Iceberg's.
9. ``LAST_ID`` is above all ids of fields, hidden columns' included: some readers refuse a file
   with an id above it. Iceberg reserves the 200 below 2,147,483,647.
10. A type is published if every reader that was tried reads it right. Unsigned integers,
    nanoseconds, times of day in seconds and lists of a fixed size are refused; also in dropped
    columns, while files have them: pyiceberg reads no such file. Nor does it read a file with a
    timestamp of another zone than UTC. Such a type is published nevertheless, since the event time
    may have it: files have instants, and other readers show them in UTC.
    Timestamps in seconds and milliseconds are refused, because Iceberg's own library takes the
    bounds of a row group for microseconds and skips rows that match a filter, without an error
    (apache/iceberg#18173). Files of both units have milliseconds.
11. Files without ids have the columns of schema 0 by their names, hidden ones by their own. The
    *name mapping* names all of these, and nothing else: a column that was added later under the
    name of a dropped one must not be found in them.
12. In version 2 of the format, rows written before a column was added can only be null in it.
"""

import json
from collections.abc import Collection, Iterator, Mapping
from typing import Any
from uuid import UUID, uuid5

import pyarrow as pa

from airflow_provider_segtable.core.column_types import type_named
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.schema import HIDDEN, Schema
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.tables.field_ids import field_ids
from airflow_provider_segtable.data.arrow_schema import inner_fields
from airflow_provider_segtable.data.parquet.table_file import id_of, stored_columns
from airflow_provider_segtable.formats.format import Revision
from airflow_provider_segtable.formats.iceberg.entries import FIELD_ID, PLAIN, Spec, Stamp

LAST_ID = 2_147_480_000
Json = dict[str, Any]

_REWRITE = "write them anew (segtable compact TABLE --kind major), then publish again"


# Schemas: types, ids and the name mapping
def schema_json(schema: Schema) -> Json:
    """Return a schema as Iceberg's JSON; its columns have types that can be published."""
    fields = [_field(field) for field in stored_columns(schema)]
    return {"type": "struct", "schema-id": schema.number, "fields": fields}


def simple_types(schema: Schema) -> Mapping[int, str]:
    """Return the types of the columns without inner fields, by id."""
    fields = {id_of(field): _type(field.type) for field in stored_columns(schema)}
    return {number: kind for number, kind in fields.items() if number and isinstance(kind, str)}


def nested(schema: Schema) -> tuple[str, ...]:
    """Return the names of columns with inner fields."""
    return tuple(field.name for field in stored_columns(schema) if inner_fields(field.type))


def name_mapping(table: TableDefinition) -> list[Json]:
    """Return the ids of the columns of files without ids, by their names; rule 11."""
    first = table.schema_of(0)
    hidden = {
        name: number
        for kind in (table.kind_of(0), table.kind)
        for name, number in field_ids(first, kind).items()
        if name.startswith(HIDDEN)
    }
    columns = [_mapped(field) for field in stored_columns(first)]
    return [*columns, *({"field-id": number, "names": [name]} for name, number in hidden.items())]


def refusals(table: TableDefinition, schemas: Collection[int]) -> Iterator[str]:
    """Yield the reasons that a table cannot be published, each with the way out."""
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
    stored = [{column.id for column in schema.numbered} for schema in older]
    for column in table.schema.numbered:
        if column.default is not None and any(column.id not in ids for ids in stored):
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
    """Return a type as Iceberg's JSON; a refused type as its text, which no schema contains."""
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
    return _simple(kind) or str(kind)


def _simple(kind: Any) -> str:
    found = type_named(str(kind))
    return found.iceberg if found else ""


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
    """Return the text of a refused type, or of one within it; empty if none is refused."""
    if inner := inner_fields(kind):
        if pa.types.is_fixed_size_list(kind):
            return str(kind)
        if any(id_of(each) is None for each in inner):
            return "over 1,000 fields in a column"
        return next(filter(None, (_unknown(each.type) for each in inner)), "")
    known = (
        bool(_simple(kind))
        or (pa.types.is_timestamp(kind) and kind.unit == "us")
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


KEPT = 100
TABLE_ID = "segtable.table-id"
EVENT, COMMIT, TIME = "segtable.event", "segtable.commit", "segtable.time"
VERSION = "segtable.version"
RULES = "segtable.rules"
AFTER = "segtable.after"
"""The id of the snapshot of the version before, even if this one begins anew."""
_PARTS: Mapping[str, type] = {
    **dict.fromkeys(("location", "table-uuid"), str),
    **dict.fromkeys(("last-sequence-number", "last-updated-ms", "current-schema-id"), int),
    **dict.fromkeys(("schemas", "snapshots", "snapshot-log", "metadata-log"), list),
    "properties": dict,
}
_NAMESPACE = UUID("5e67ab1e-0000-4000-8000-000000000000")


# Versions, with their properties and snapshots
@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """The place of a version to put.

    Attributes:
        number: the number of the version.
        location: the URI of the folder.
        manifests: the URI of its list of manifests.
        before: the URI of the metadata of the version before.
        after: the id of the snapshot that the version before shows; None if that is not known.
        oldest: the oldest version that still exists.
    """

    number: int
    location: str
    manifests: str
    before: str
    after: int | None
    oldest: int


def next_metadata(
    known: Json | None,
    revision: Revision,
    place: Place,
    stamp: Stamp,
    counts: Mapping[str, int],
    spec: Spec,
) -> Json:
    """Return the metadata of the version after ``known``; anew if that is None (rule 3)."""
    old = known or _begun(revision.table)
    schema = schema_json(revision.table.schema)
    at = max(revision.time // 1000, old["last-updated-ms"] + 1)
    snapshots = [s for s in old["snapshots"] if int(s["summary"].get(VERSION, 0)) >= place.oldest]
    made = _snapshot(old, revision, place, stamp, counts) | {"timestamp-ms": at}
    snapshots = [*snapshots[1 - KEPT :], made]
    log = [*old["metadata-log"], _logged(old, place.before)] if known else []
    ids = {each["snapshot-id"] for each in snapshots}
    history = [each for each in old["snapshot-log"] if each["snapshot-id"] in ids]
    return {
        **old,
        "location": place.location,
        "last-sequence-number": stamp.sequence,
        "last-updated-ms": at,
        "current-schema-id": schema["schema-id"],
        "schemas": [*(s for s in old["schemas"] if s["schema-id"] != schema["schema-id"]), schema],
        "default-spec-id": spec.number,
        "partition-specs": [
            {"spec-id": each.number, "fields": each.fields} for each in dict.fromkeys((PLAIN, spec))
        ],
        "last-partition-id": FIELD_ID if spec.number else FIELD_ID - 1,
        "properties": _properties(revision.table),
        "current-snapshot-id": stamp.snapshot,
        "refs": {"main": {"snapshot-id": stamp.snapshot, "type": "branch"}},
        "snapshots": snapshots,
        "snapshot-log": [*history, {"timestamp-ms": at, "snapshot-id": stamp.snapshot}],
        "metadata-log": log[-KEPT:],
    }


def check_whole(metadata: Json) -> None:
    """Check that metadata have all parts that the next version needs.

    Raises:
        KeyError, TypeError, ValueError: a part is missing, or of another type.
    """
    for name, kind in _PARTS.items():
        if not isinstance(metadata[name], kind):
            raise TypeError(f"{name} is {metadata[name]!r:.50}")
    for name in ("schemas", "snapshots", "snapshot-log", "metadata-log"):
        if not all(isinstance(each, dict) for each in metadata[name]):
            raise TypeError(f"{name} are not all objects")
    for each in metadata["snapshots"]:
        _ = each["snapshot-id"], int(each["sequence-number"]), each["manifest-list"]
        _ = int(each["summary"].get(VERSION, 0))
    _ = [each["schema-id"] for each in metadata["schemas"]]
    _ = [each["snapshot-id"] for each in metadata["snapshot-log"]]


def own_snapshot(metadata: Json) -> Json | None:
    """Return the newest snapshot that segtable put, or None."""
    own = [each for each in metadata.get("snapshots", ()) if EVENT in each["summary"]]
    return max(own, key=lambda each: int(each["sequence-number"]), default=None)


def put_after(snapshot: Json) -> int | None:
    """Return the id of the snapshot of the version before; None if that is not known.

    Snapshots of an older segtable name it only if it is their parent.
    """
    found = snapshot["summary"].get(AFTER, snapshot.get("parent-snapshot-id"))
    return None if found is None else int(found)


def types_of(metadata: Json, number: int) -> Mapping[int, Any]:
    """Return the types of the columns of a schema, by id; empty if there is no such schema."""
    found = (each for each in metadata["schemas"] if each["schema-id"] == number)
    return {field["id"]: field["type"] for field in next(found, {"fields": []})["fields"]}


def _begun(table: TableDefinition) -> Json:
    return {
        "format-version": 2,
        "table-uuid": str(uuid5(_NAMESPACE, table.table_id)),
        "location": "",
        "last-sequence-number": 0,
        "last-updated-ms": 0,
        "last-column-id": LAST_ID,
        "current-schema-id": 0,
        "schemas": [],
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {},
        "snapshots": [],
        "snapshot-log": [],
        "metadata-log": [],
    }


def _properties(table: TableDefinition) -> Mapping[str, str]:
    return {
        TABLE_ID: table.table_id,
        "comment": f"Table {table.name} of segtable, which alone writes it.",
        "gc.enabled": "false",
        "schema.name-mapping.default": json.dumps(name_mapping(table)),
    }


def _logged(old: Json, uri: str) -> Json:
    return {"timestamp-ms": old["last-updated-ms"], "metadata-file": uri}


def _snapshot(
    old: Json, revision: Revision, place: Place, stamp: Stamp, counts: Mapping[str, int]
) -> Json:
    parent = old.get("current-snapshot-id") if old["snapshots"] else None
    summary = {
        "operation": _operation(revision, counts),
        EVENT: revision.event,
        COMMIT: revision.commit,
        TIME: revision.time,
        VERSION: place.number,
        RULES: revision.rules,
        **({} if place.after is None else {AFTER: place.after}),
        **counts,
        "total-equality-deletes": 0,
    }
    return {
        "snapshot-id": stamp.snapshot,
        **({} if parent is None else {"parent-snapshot-id": parent}),
        "sequence-number": stamp.sequence,
        "manifest-list": place.manifests,
        "summary": {name: str(value) for name, value in summary.items()},
        "schema-id": revision.table.schema.number,
    }


def _operation(revision: Revision, counts: Mapping[str, int]) -> str:
    """Return the snapshot's kind: ``replace`` changes no row, ``append`` only adds files."""
    if not revision.data_change:
        return "replace"
    takes = counts["deleted-data-files"] or counts["added-delete-files"]
    if takes and not counts["added-data-files"]:
        return "delete"
    return "overwrite" if takes else "append"
