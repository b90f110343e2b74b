"""Manifests and lists of them: Avro files of entries, and how versions share them.

1. A manifest has entries of data files, or of files of deleted positions. A version's list names
   its manifests; versions share those that did not change.
2. A manifest of data files has the keys of its files (``ShownFile.key``) in its header, where Avro
   has room for anything: a key is known though no row of its file is hidden.
3. Manifests have up to ``MOST`` files in order of time. A version writes those anew that lost a
   file or have one of which other rows are hidden, together with small ones and the files that it
   adds. If over ``MANY`` others are less than half full, it joins these, too. So a file that is
   added costs a few entries, and a table of n files has about n / ``MOST`` manifests.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from io import BytesIO
from itertools import pairwise
from typing import Any

from fastavro import reader, writer

from airflow_provider_segtable.formats.iceberg.manifests.avro_schemas import (
    MANIFEST,
    PATHS,
    entry_schema,
)
from airflow_provider_segtable.formats.iceberg.manifests.entries import (
    ADDED,
    DATA,
    DELETED,
    EXISTING,
    Stamp,
    live,
    uri_of,
    within,
)
from airflow_provider_segtable.formats.iceberg.manifests.partition import Spec, decoded, summary

Json = dict[str, Any]
MOST = 500
SMALL = 50
MANY = 20
_KEYS = "segtable.keys"
_COUNTED = {ADDED: "added", EXISTING: "existing", DELETED: "deleted"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """A manifest that a version names.

    Attributes:
        record: its record in lists.
        keys: the keys of its data files, or of those that its deletes are of, by path; a file of
            deleted positions has none.
    """

    record: Json
    keys: Mapping[str, str]

    @property
    def uri(self) -> str:
        """Return its URI."""
        return str(self.record["manifest_path"])

    @property
    def content(self) -> int:
        """Return what its entries are: data files, or files of deleted positions."""
        return int(self.record["content"])


@dataclass(frozen=True, slots=True, kw_only=True)
class Root:
    """A table's root: paths below it have URIs."""

    uri: str

    @property
    def prefix(self) -> str:
        """Return what the URIs of all paths begin with."""
        return self.uri if self.uri.endswith("/") else f"{self.uri}/"

    def at(self, path: str) -> str:
        """Return the URI of a path."""
        return f"{self.prefix}{path}"

    def path(self, uri: str) -> str:
        """Return the path of a URI; the URI itself if it is elsewhere."""
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
    """Return the manifests that a version keeps, and those that it writes anew; rule 3.

    Args:
        manifests: those of the version before, of one content.
        touched: paths of the files that are gone, or changed.
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
