"""Manifests of a published Iceberg table: Avro files of entries, and how versions share them.

Files:

1. A manifest has entries of data files, or of files of deleted positions. A version's list names
   its manifests; versions share those that did not change.
2. A manifest of data files has the keys of its files (``ShownFile.key``) in its header, where Avro
   has room for anything: a key is known though no row of its file is hidden.
3. Manifests have up to ``MOST`` files in order of time. A version rewrites manifests that lost a
   file or have a file with other hidden rows, together with small ones and the files that it
   adds. If over ``MANY`` others are less than half full, it joins these, too. So an added file
   costs a few entries, and a table of n files has about n / ``MOST`` manifests.
4. The Avro schemas are those of version 2 of the format. The ids of fields are those of Iceberg's
   specification, which readers use.

The manifests of a version, from those of the version before and its changes:

5. A data file that stays keeps its entry, even if its hidden rows change: only its key changes, in
   its manifest's header.
6. Then a new file of deleted positions has all hidden positions, and replaces the older one.
7. A manifest has one partition spec. A file of deleted positions is in the partition of its data
   file's entry.
8. A version that widens a column rewrites all manifests, with bounds of the new type. So does
   a version after another table's, which may have other partitions: its deletions have none.
"""

import json
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import field
from functools import lru_cache
from io import BytesIO
from itertools import pairwise
from typing import Any

from fastavro import parse_schema, reader, writer

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.formats.iceberg.entries import (
    ADDED,
    DATA,
    DELETED,
    DELETES,
    EXISTING,
    PLAIN,
    Spec,
    Stamp,
    decoded,
    deleted,
    earliest,
    existing,
    live,
    summary,
    uri_of,
    within,
)

Json = dict[str, Any]


# Avro schemas
def _optional(name: str, number: int, kind: Any) -> Json:
    return {"name": name, "field-id": number, "type": ["null", kind], "default": None}


def _required(name: str, number: int, kind: Any) -> Json:
    return {"name": name, "field-id": number, "type": kind}


def _by_column(name: str, number: int, key: int, kind: str) -> Json:
    """Return a map from ids of columns in Avro's form, a list of pairs."""
    fields = [_required("key", key, "int"), _required("value", key + 1, kind)]
    pair = {"type": "record", "name": f"k{key}_v{key + 1}", "fields": fields}
    return _optional(name, number, {"type": "array", "items": pair, "logicalType": "map"})


def _list(name: str, number: int, element: int) -> Json:
    return _optional(name, number, {"type": "array", "element-id": element, "items": "long"})


def entry_schema(partition: list[Json]) -> Any:
    """Return the schema of a manifest's entries, with the fields of its partitions."""
    return _entry_schema(json.dumps(partition))


@lru_cache(maxsize=16)
def _entry_schema(encoded: str) -> Any:
    partition = json.loads(encoded)
    data_file = [
        _required("content", 134, "int"),
        _required("file_path", 100, "string"),
        _required("file_format", 101, "string"),
        _required("partition", 102, {"type": "record", "name": "r102", "fields": partition}),
        _required("record_count", 103, "long"),
        _required("file_size_in_bytes", 104, "long"),
        _by_column("column_sizes", 108, 117, "long"),
        _by_column("value_counts", 109, 119, "long"),
        _by_column("null_value_counts", 110, 121, "long"),
        _by_column("nan_value_counts", 137, 138, "long"),
        _by_column("lower_bounds", 125, 126, "bytes"),
        _by_column("upper_bounds", 128, 129, "bytes"),
        _optional("key_metadata", 131, "bytes"),
        _list("split_offsets", 132, 133),
        _list("equality_ids", 135, 136),
        _optional("sort_order_id", 140, "int"),
        _optional("referenced_data_file", 143, "string"),
    ]
    fields = [
        _required("status", 0, "int"),
        _optional("snapshot_id", 1, "long"),
        _optional("sequence_number", 3, "long"),
        _optional("file_sequence_number", 4, "long"),
        _required("data_file", 2, {"type": "record", "name": "r2", "fields": data_file}),
    ]
    return parse_schema({"type": "record", "name": "manifest_entry", "fields": fields})


def _manifest_schema() -> Any:
    summary = [
        _required("contains_null", 509, "boolean"),
        _optional("contains_nan", 518, "boolean"),
        _optional("lower_bound", 510, "bytes"),
        _optional("upper_bound", 511, "bytes"),
    ]
    partitions = {"type": "record", "name": "r508", "fields": summary}
    counts = ("added", "existing", "deleted")
    fields = [
        _required("manifest_path", 500, "string"),
        _required("manifest_length", 501, "long"),
        _required("partition_spec_id", 502, "int"),
        _required("content", 517, "int"),
        _required("sequence_number", 515, "long"),
        _required("min_sequence_number", 516, "long"),
        _required("added_snapshot_id", 503, "long"),
        *(_required(f"{name}_files_count", 504 + at, "int") for at, name in enumerate(counts)),
        *(_required(f"{name}_rows_count", 512 + at, "long") for at, name in enumerate(counts)),
        _optional("partitions", 507, {"type": "array", "element-id": 508, "items": partitions}),
        _optional("key_metadata", 519, "bytes"),
    ]
    return parse_schema({"type": "record", "name": "manifest_file", "fields": fields})


MANIFEST: Any = _manifest_schema()
"""The schema of a list of manifests."""
PATHS: Any = parse_schema(
    {
        "type": "record",
        "name": "manifest_entry",
        "fields": [
            {"name": "status", "type": "int"},
            {
                "name": "data_file",
                "type": {
                    "type": "record",
                    "name": "r2",
                    "fields": [
                        {"name": "file_path", "type": "string"},
                        {
                            "name": "referenced_data_file",
                            "type": ["null", "string"],
                            "default": None,
                        },
                    ],
                },
            },
        ],
    }
)
"""The fields of an entry that loading reads."""


MOST = 500
SMALL = 50
MANY = 20
_KEYS = "segtable.keys"
_COUNTED = {ADDED: "added", EXISTING: "existing", DELETED: "deleted"}


# Manifests and lists of them, encoded and decoded
@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A manifest that a version names.

    Attributes:
        record: its record in lists.
        keys: the keys of its data files, or of the data files of its deletes, by path; empty keys
            in a manifest of deletes.
        entries: its entries, if this process wrote it and the next version rewrites it (rule 3);
            its name is never used for other bytes.
    """

    record: Json
    keys: Mapping[str, str]
    entries: Sequence[Json] = field(default=(), repr=False, compare=False)

    @property
    def uri(self) -> str:
        """Return its URI."""
        return str(self.record["manifest_path"])

    @property
    def content(self) -> int:
        """Return the content of its entries: ``DATA`` or ``DELETES``."""
        return int(self.record["content"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """A table's root: converts paths below it to URIs and back."""

    uri: str

    @property
    def prefix(self) -> str:
        """Return the common start of the URIs of all paths."""
        return self.uri if self.uri.endswith("/") else f"{self.uri}/"

    def at(self, path: str) -> str:
        """Return the URI of a path."""
        return f"{self.prefix}{path}"

    def path(self, uri: str) -> str:
        """Return the path of a URI; the URI itself if it is outside of the root."""
        return uri.removeprefix(self.prefix)


def encode_manifest(
    entries: Sequence[Json], content: int, spec: Spec, schema: Json, keys: Mapping[str, str]
) -> bytes:
    """Return a manifest's bytes."""
    header = {
        "schema": json.dumps(schema),
        "schema-id": str(schema["schema-id"]),
        "partition-spec": json.dumps(spec.fields),
        "partition-spec-id": str(spec.number),
        "format-version": "2",
        "content": "data" if content == DATA else "deletes",
        _KEYS: json.dumps({path: key for path, key in keys.items() if key}),
    }
    return _encoded(entry_schema(spec.avro), entries, header)


def manifest_record(
    entries: Sequence[Json], content: int, spec: Spec, uri: str, length: int, stamp: Stamp
) -> Json:
    """Return the record of a manifest in lists."""
    numbers = [each["sequence_number"] for each in live(entries)]
    record: Json = {
        "manifest_path": uri,
        "manifest_length": length,
        "partition_spec_id": spec.number,
        "content": content,
        "sequence_number": stamp.sequence,
        "min_sequence_number": min(numbers, default=stamp.sequence),
        "added_snapshot_id": stamp.snapshot,
        "partitions": summary(spec, (each["data_file"]["partition"] for each in entries)),
        "key_metadata": None,
    }
    for status, name in _COUNTED.items():
        rows = [e["data_file"]["record_count"] for e in entries if e["status"] == status]
        record |= {f"{name}_files_count": len(rows), f"{name}_rows_count": sum(rows)}
    return record


def encode_list(manifests: Iterable[Manifest], stamp: Stamp, parent: int | None) -> bytes:
    """Return the bytes of a version's list of manifests."""
    header = {
        "snapshot-id": str(stamp.snapshot),
        "parent-snapshot-id": "null" if parent is None else str(parent),
        "sequence-number": str(stamp.sequence),
        "format-version": "2",
    }
    return _encoded(MANIFEST, [each.record for each in manifests], header)


def decode_list(data: bytes) -> list[Json]:
    """Return the records of a list of manifests."""
    return [_record(each) for each in reader(BytesIO(data))]


def decode_entries(data: bytes) -> list[Json]:
    """Return the entries of a manifest."""
    entries = (_record(each) for each in reader(BytesIO(data)))
    return [within(each, decoded(each["data_file"]["partition"])) for each in entries]


def decode_manifest(data: bytes, record: Json, root: Root) -> Manifest:
    """Return a manifest that a list names, with the paths and keys of its files."""
    found = reader(BytesIO(data), reader_schema=PATHS)
    keys = json.loads(found.metadata.get(_KEYS, "{}"))
    paths = (root.path(uri_of(entry)) for entry in live(_record(each) for each in found))
    return Manifest(record=record, keys={path: keys.get(path, "") for path in paths})


def divided(
    manifests: Sequence[Manifest], touched: AbstractSet[str], *, adds: bool
) -> tuple[list[Manifest], list[Manifest]]:
    """Return the manifests that a version keeps, and those that it rewrites; rule 3.

    Args:
        manifests: the manifests of the version before, of one content.
        touched: paths of removed or changed files.
        adds: whether the version adds files.
    """
    hit = [each for each in manifests if not each.keys.keys().isdisjoint(touched)]
    others = [each for each in manifests if each.keys and each.keys.keys().isdisjoint(touched)]
    if not hit and not adds:
        return others, []
    parts = [each for each in others if len(each.keys) < MOST // 2]
    joined = parts if len(parts) > MANY else [each for each in parts if len(each.keys) < SMALL]
    names = {each.uri for each in joined}
    return [each for each in others if each.uri not in names], [*hit, *joined]


def cut(entries: Sequence[Json]) -> Iterator[Sequence[Json]]:
    """Yield entries in even parts of up to ``MOST``."""
    parts = -(-len(entries) // MOST)
    bounds = [len(entries) * at // parts for at in range(parts + 1)] if parts else []
    for first, end in pairwise(bounds):
        yield entries[first:end]


def _encoded(schema: Any, records: Iterable[Json], header: Mapping[str, str]) -> bytes:
    out = BytesIO()
    writer(out, schema, records, codec="deflate", metadata=dict(header))
    return out.getvalue()


def _record(found: Any) -> Json:
    assert isinstance(found, dict)  # noqa: S101 - the schema is of records
    return found


# The manifests of a version
@dataclass(frozen=True, slots=True, kw_only=True)
class Changed:
    """The changes from one version to the next.

    Attributes:
        gone: paths of data files that the version no longer has.
        keys: the keys of new files, and of files with other hidden rows.
        data: entries of data files that it adds.
        deletes: entries of files of deleted positions that it adds.
        time_id: the id of the event time.
        spec: the table's partition spec.
        kinds: the types of columns, by id, if one was widened.
        anew: whether the version before is another table's.
    """

    gone: AbstractSet[str]
    keys: Mapping[str, str]
    data: Sequence[Json]
    deletes: Sequence[Json]
    time_id: int
    spec: Spec = PLAIN
    kinds: Mapping[int, str] | None = None
    anew: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A manifest to write: its entries, and the keys of its files."""

    content: int
    spec: Spec
    entries: Sequence[Json]
    keys: Mapping[str, str]


@dataclass(frozen=True, slots=True, kw_only=True)
class Revised:
    """The manifests of a version: kept ones, and those to write."""

    kept: list[Manifest] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)


def revised(
    manifests: Sequence[Manifest],
    changed: Changed,
    stamp: Stamp,
    root: Root,
    read: Callable[[Manifest], list[Json]],
) -> Revised:
    """Return the manifests of the next version.

    Args:
        manifests: the manifests of the version before.
        changed: the changes.
        stamp: the stamp of the version's own entries.
        root: the table's root.
        read: reads the entries of a manifest.
    """
    found = Revised()
    touched = {*changed.gone, *changed.keys}
    removed = {DATA: changed.gone, DELETES: touched}
    added = {DATA: changed.data, DELETES: changed.deletes}
    places: dict[str, Json] = {}
    for content in (DATA, DELETES):
        mine = [each for each in manifests if each.content == content]
        kept, opened = divided(mine, touched, adds=bool(added[content]))
        if changed.kinds is not None and content == DATA:
            kept, opened = [], mine
        old = (entry for each in opened for entry in live(read(each)))
        carried = _carried(old, removed[content], changed, stamp, root)
        entries = [*carried, *(within(e, places.get(uri_of(e))) for e in added[content])]
        places = {uri_of(entry): entry["data_file"]["partition"] for entry in entries}
        known = {path: key for each in opened for path, key in each.keys.items()}
        known.update(changed.keys)
        found.kept.extend(kept)
        found.parts.extend(_parts(entries, content, known, changed, root))
    return found


def totals(manifests: Iterable[Json], parts: Iterable[Part], size: int) -> Mapping[str, int]:
    """Return the counts of a snapshot's summary.

    Args:
        manifests: the records of all manifests of the version.
        parts: the manifests that it wrote.
        size: the bytes of all files of the version before.
    """
    counts = dict.fromkeys(_NAMES.values(), 0)
    rows = dict.fromkeys(_ROWS.values(), 0)
    for part in parts:
        for entry in part.entries:
            file, place = entry["data_file"], (part.content, entry["status"])
            if place in _NAMES:
                counts[_NAMES[place]] += 1
                rows[_ROWS[place]] += file["record_count"]
                size += file["file_size_in_bytes"] * (1 if entry["status"] == ADDED else -1)
    held = {DATA: [0, 0], DELETES: [0, 0]}
    for record in manifests:
        of = held[record["content"]]
        of[0] += record["added_files_count"] + record["existing_files_count"]
        of[1] += record["added_rows_count"] + record["existing_rows_count"]
    return {
        **counts,
        **rows,
        "total-data-files": held[DATA][0],
        "total-records": held[DATA][1],
        "total-delete-files": held[DELETES][0],
        "total-position-deletes": held[DELETES][1],
        "total-files-size": size,
    }


_NAMES = {
    (DATA, ADDED): "added-data-files",
    (DATA, DELETED): "deleted-data-files",
    (DELETES, ADDED): "added-delete-files",
    (DELETES, DELETED): "removed-delete-files",
}
_ROWS = {
    (DATA, ADDED): "added-records",
    (DATA, DELETED): "deleted-records",
    (DELETES, ADDED): "added-position-deletes",
    (DELETES, DELETED): "removed-position-deletes",
}


def _parts(
    entries: Iterable[Json], content: int, known: Mapping[str, str], changed: Changed, root: Root
) -> Iterator[Part]:
    """Yield manifests with some entries, separately for each partition spec."""
    held: dict[bool, list[Json]] = {True: [], False: []}
    for entry in entries:
        held[bool(entry["data_file"]["partition"])].append(entry)
    for partitioned, mine in held.items():
        mine.sort(key=lambda entry: (earliest(entry, changed.time_id), uri_of(entry)))
        for part in cut(mine):
            yield Part(
                content=content,
                spec=changed.spec if partitioned else PLAIN,
                entries=part,
                keys=_keys(part, known, content, root),
            )


def _carried(
    entries: Iterable[Json], removed: AbstractSet[str], changed: Changed, stamp: Stamp, root: Root
) -> Iterable[Json]:
    for entry in entries:
        if root.path(uri_of(entry)) in removed:
            gone = deleted(entry, stamp)
            yield within(gone, {}) if changed.anew else gone
        else:
            yield existing(entry, changed.kinds)


def _keys(
    entries: Sequence[Json], known: Mapping[str, str], content: int, root: Root
) -> Mapping[str, str]:
    paths = (root.path(uri_of(entry)) for entry in live(entries))
    return {path: known.get(path, "") if content == DATA else "" for path in paths}
