"""Metadata of a published Iceberg table: its schemas, properties, and snapshots.

1. A version has one snapshot more than the one before. Its summary records the event that it
   shows, and the version's own number.
2. A version carries the newest ``KEPT`` snapshots, of versions that are still there: those before
   ``oldest`` were swept.
3. Another table, or one that was moved, begins anew, without snapshots: paths in Iceberg are
   absolute. The sequence numbers go on.
4. The table's id in the properties tells that segtable wrote it. A snapshot without an event is
   another writer's: the newest one with an event is what is published (``versions``).
5. Times rise, whatever the clocks of the events' authors.
6. ``gc.enabled`` is false: tools of others delete no files.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from uuid import UUID, uuid5

from airflow_provider_segtable.core.log.families.table_events import TableCreated
from airflow_provider_segtable.formats.format import Revision
from airflow_provider_segtable.formats.iceberg.iceberg_schema import (
    LAST_ID,
    name_mapping,
    schema_json,
)
from airflow_provider_segtable.formats.iceberg.manifests.entries import Stamp
from airflow_provider_segtable.formats.iceberg.manifests.partition import FIELD_ID, PLAIN, Spec

Json = dict[str, Any]
KEPT = 100
TABLE_ID = "segtable.table-id"
EVENT, COMMIT, TIME = "segtable.event", "segtable.commit", "segtable.time"
VERSION = "segtable.version"
RULES = "segtable.rules"
AFTER = "segtable.after"
"""The id of the snapshot of the version before, whether or not this one goes on from it."""
_PARTS: Mapping[str, type] = {
    **dict.fromkeys(("location", "table-uuid"), str),
    **dict.fromkeys(("last-sequence-number", "last-updated-ms", "current-schema-id"), int),
    **dict.fromkeys(("schemas", "snapshots", "snapshot-log", "metadata-log"), list),
    "properties": dict,
}
_NAMESPACE = UUID("5e67ab1e-0000-4000-8000-000000000000")


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Where a version is put.

    Attributes:
        number: the number of the version.
        location: the URI of the folder.
        manifests: the URI of its list of manifests.
        before: the URI of the metadata of the version before.
        after: the id of the snapshot that the version before shows; None if that is not known.
        oldest: the oldest version that is still there.
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
    """Check that metadata have all that the next version goes on from.

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
    """Return the id of the snapshot that the version before had; None if that is not known.

    Snapshots of an older segtable name it only if they go on from it.
    """
    found = snapshot["summary"].get(AFTER, snapshot.get("parent-snapshot-id"))
    return None if found is None else int(found)


def types_of(metadata: Json, number: int) -> Mapping[int, Any]:
    """Return the types of the columns of a schema, by id; none if it is not there."""
    found = (each for each in metadata["schemas"] if each["schema-id"] == number)
    return {field["id"]: field["type"] for field in next(found, {"fields": []})["fields"]}


def _begun(table: TableCreated) -> Json:
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


def _properties(table: TableCreated) -> Mapping[str, str]:
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
