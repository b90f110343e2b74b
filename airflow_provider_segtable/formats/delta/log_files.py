"""The files of a Delta log: their names, schemas and deletion vectors.

Names and listings:

1. ``_delta_log/<n, 20 digits>.json`` is version n, a line for each action. Versions have no gaps.
2. ``_delta_log/<n>.checkpoint.parquet`` is the state in version n. With it, older versions are not
   needed to read n and later ones. ``_last_checkpoint`` is a hint that names one of them.
3. ``dv/deletion_vector_<uuid>.bin`` has all vectors of one version.
4. Checkpoints in parts or with other names, which other writers make, are neither read nor deleted.

Schemas in Delta's form:

5. Types that all readers read right are published; a table with another one is refused.
6. Readers find a column in a file by its name alone. Column mapping would add ids, but some readers
   refuse it and others silently ignore the ids of columns. So a version is refused while it shows
   files in which a column has another name or type, or in which its name is another column's.
   Files that lack a column are right if its value there is null.
7. Once these files are compacted, they have the present columns, and the table is published again.

Deletion vectors in Delta's form:

8. The file begins with the byte 1. Each vector is its length (4 bytes, big-endian), its data, and
   the CRC-32 of the data.
9. The data are a magic number, the number of bitmaps of 32 bits (one), its number (0), and the
   bitmap in the portable serialization.
10. A descriptor names the file by its UUID in base 85, behind the name of its folder (storage type
    ``u``, the one that all readers take), and the place of the vector in it.
"""

import json
import re
import struct
import zlib
from collections.abc import Collection, Mapping
from typing import Any
from uuid import UUID

import pyarrow as pa
import pyarrow.types as is_
from pyroaring import BitMap

from airflow_provider_segtable.core.column_types import type_named
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import CorruptTable, NotFound
from airflow_provider_segtable.core.schema import Column, Schema
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.data.arrow_schema import inner_fields, parse_type
from airflow_provider_segtable.ports.storage import Entry, Storage

LOG = "_delta_log"
VECTORS = "dv"
HINT = f"{LOG}/_last_checkpoint"

Json = dict[str, Any]

_OBJECT = (dict, type(None))
_READ: Mapping[str, Mapping[str, Any]] = {
    "add": {"path": str, "size": int, "tags": _OBJECT, "deletionVector": _OBJECT},
    "remove": {"path": str},
    "txn": {"appId": str, "version": int},
    "metaData": {"configuration": _OBJECT},
    "protocol": {"readerFeatures": (list, type(None))},
}
_NUMBER = r"0000\d{16}"
_COMMIT = re.compile(rf"{LOG}/({_NUMBER})\.json")
_CHECKPOINT = re.compile(rf"{LOG}/({_NUMBER})\.checkpoint\.parquet")
_NUMBERED = re.compile(rf"{LOG}/({_NUMBER})\..+")
_VECTORS = re.compile(
    rf"{VECTORS}/deletion_vector_[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}\.bin"
)


# Names and listings
def written(value: Json) -> str:
    """Return a value as JSON of one line.

    Characters are not escaped: readers that use Arrow's parser take the escapes of those above
    U+FFFF, which are pairs, for other characters, and then skip files by wrong bounds.
    """
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def commit_path(number: int) -> str:
    """Return the path of a version."""
    return f"{LOG}/{number:020d}.json"


def checkpoint_path(number: int) -> str:
    """Return the path of the checkpoint of a version."""
    return f"{LOG}/{number:020d}.checkpoint.parquet"


def is_own(path: str) -> bool:
    """Return whether this format gives such a path."""
    return path == HINT or any(each.fullmatch(path) for each in (_COMMIT, _CHECKPOINT, _VECTORS))


def is_vectors(path: str) -> bool:
    """Return whether a path is that of a file of vectors."""
    return _VECTORS.fullmatch(path) is not None


@dataclass(frozen=True, slots=True)
class Listing:
    """The listed versions and checkpoints, ascending."""

    commits: Mapping[int, Entry]
    checkpoints: tuple[int, ...]

    @property
    def checkpoint(self) -> int:
        """Return the newest checkpoint; -1 if there is none."""
        return self.checkpoints[-1] if self.checkpoints else -1

    @property
    def newest(self) -> int:
        """Return the newest version; -1 if there is none."""
        return max(self.checkpoint, *self.commits, -1)

    def through(self, number: int) -> "Listing":
        """Return the part up to a version."""
        return Listing(
            {n: entry for n, entry in self.commits.items() if n <= number},
            tuple(n for n in self.checkpoints if n <= number),
        )

    def gap(self, number: int) -> int:
        """Return the first missing version between one and later ones; -1 if there is none."""
        later = (n for n in self.commits if n > number)
        return next((at for at, n in enumerate(later, start=number + 1) if at != n), -1)

    def after(self, number: int, uri: str) -> tuple[int, ...]:
        """Return the versions after a given one.

        Raises:
            Disordered: one of them is missing.
        """
        missing = self.gap(number)
        if missing >= 0:
            raise Disordered(
                f"{uri}/{commit_path(missing)} is missing, but later versions are there: "
                f"{way_out()}"
            )
        return tuple(n for n in self.commits if n > number)


def highest(storage: Storage) -> int:
    """Return the highest version in the name of any writer's file; -1 if there is none."""
    found = (_NUMBERED.fullmatch(entry.path) for entry in storage.list(LOG))
    return max((int(match[1]) for match in found if match), default=-1)


def has_number(storage: Storage, number: int) -> bool:
    """Return whether any writer's file has a version in its name."""
    listed = storage.list(LOG, after=f"{LOG}/{number:020d}")
    first = next(iter(listed), None)
    return first is not None and first.path.startswith(f"{LOG}/{number:020d}.")


def listed(storage: Storage, since: int = 0) -> Listing:
    """List the versions and checkpoints from a version on."""
    after = f"{LOG}/{since:020d}" if since else None
    commits: dict[int, Entry] = {}
    checkpoints = []
    for entry in storage.list(LOG, after=after):
        if found := _COMMIT.fullmatch(entry.path):
            commits[int(found[1])] = entry
        elif found := _CHECKPOINT.fullmatch(entry.path):
            checkpoints.append(int(found[1]))
    return Listing(commits, tuple(checkpoints))


def listed_from_checkpoint(storage: Storage) -> Listing:
    """List the files that are needed to read the newest version, and perhaps more."""
    hinted = hint(storage)
    if hinted > 0:
        found = listed(storage, hinted)
        if hinted in found.checkpoints:
            return found
    return listed(storage)


def hint(storage: Storage) -> int:
    """Return the version of the checkpoint that the hint names; -1 if it names none."""
    try:
        found = json.loads(storage.read(HINT))
        return int(found["version"])
    except (NotFound, ValueError, KeyError, TypeError):
        return -1


def decoded(data: bytes, where: str) -> list[Json]:
    """Return the actions of a version.

    Raises:
        CorruptTable: its lines are not actions.
    """
    try:
        actions = [json.loads(line) for line in data.split(b"\n") if line.strip()]
        if all(map(_is_action, actions)):
            return actions
    except ValueError:
        pass
    raise CorruptTable(f"{where} is not a version of a Delta table: {way_out()}")


def _is_action(found: Any) -> bool:
    """Return whether all used fields of an action have the right types."""
    if not isinstance(found, dict):
        return False
    return all(
        isinstance(body, dict)
        and all(isinstance(body.get(name), types) for name, types in _READ.get(kind, {}).items())
        for kind, body in found.items()
    )


class Disordered(CorruptTable):
    """A log whose newest version does not follow from the ones before it: removed meanwhile."""


def way_out() -> str:
    """Return the way to repair a damaged target."""
    return (
        "publish it anew: segtable publish TABLE --format delta --full; or remove it: segtable "
        "publish TABLE --format delta --remove"
    )


NAIVE = "timestamp_ntz"


# Schemas, and tables that Delta Lake cannot express
def schema_json(schema: Schema) -> str:
    """Return a schema as Delta's JSON; ``refusal`` has accepted its types."""
    fields = [_field(c.name, parse_type(c.type), c.nullable) for c in schema.columns]
    return written({"type": "struct", "fields": fields})


def has_naive_times(schema: Schema) -> bool:
    """Return whether a column has times without a zone, which need a feature of readers."""
    return f'"{NAIVE}"' in schema_json(schema)


def refusal(table: TableDefinition, schemas: Collection[int]) -> str:
    """Return the reason if a version cannot be published, with the way out, else empty."""
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
    """Return the difference of a column in files of an older schema; empty if there is none."""
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
    """Return the wrong content that readers find for a column that files lack; empty for null."""
    if any(each.name.lower() == column.name.lower() for each in older.columns):
        return "is another column"
    return f"(default {column.default}) is missing" if column.default is not None else ""


def _field(name: str, kind: pa.DataType, nullable: bool) -> Json:  # noqa: FBT001
    return {"name": name, "type": _delta_type(kind), "nullable": nullable, "metadata": {}}


def _simple(kind: pa.DataType) -> str:
    found = type_named(str(kind))
    return found.delta if found else ""


def _delta_type(kind: pa.DataType) -> Any:
    """Return a type as Delta's JSON."""
    if name := _simple(kind):
        return name
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
    """Return the type, or one inside of it, that Delta does not have; empty if there is none."""
    if _simple(kind):
        return ""
    if is_.is_timestamp(kind):
        return str(kind) if kind.unit == "ns" else ""
    if is_.is_decimal128(kind):
        return "" if 0 <= kind.scale <= kind.precision else str(kind)
    inner = inner_fields(kind)
    if is_.is_fixed_size_list(kind) or not (inner or is_.is_struct(kind)):
        return str(kind)
    return next(filter(None, (_unknown(each.type) for each in inner)), "")


_MAGIC = 1_681_511_377
_HEAD = struct.calcsize("<IqI")
_ALPHABET = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


# Deletion vectors
def vectors_path(attempt: UUID) -> str:
    """Return the path of a file of vectors."""
    return f"{VECTORS}/deletion_vector_{attempt}.bin"


def encoded_vectors(
    hidden: Mapping[str, BitMap], attempt: UUID
) -> tuple[bytes, Mapping[str, Json]]:
    """Return a file of vectors, and the descriptor of each by the path of its data file.

    Data files without hidden rows have none; the file is empty if no data file has one.
    """
    held = bytearray(b"\x01")
    descriptors: dict[str, Json] = {}
    for path, rows in hidden.items():
        if rows:
            data = struct.pack("<IqI", _MAGIC, 1, 0) + rows.serialize()
            descriptors[path] = {
                "storageType": "u",
                "pathOrInlineDv": VECTORS + _base85(attempt.bytes),
                "offset": len(held),
                "sizeInBytes": len(data),
                "cardinality": len(rows),
            }
            held += struct.pack(">I", len(data)) + data + struct.pack(">I", zlib.crc32(data))
    return (bytes(held) if descriptors else b""), descriptors


def decoded_vector(data: bytes, descriptor: Json) -> BitMap:
    """Return a vector in a file of vectors.

    Raises:
        ValueError: the file does not have it there, or it is broken.
    """
    at, size = int(descriptor["offset"]), int(descriptor["sizeInBytes"])
    end = at + 4 + size
    if data[:1] != b"\x01" or data[at : at + 4] != struct.pack(">I", size):
        raise ValueError(f"no vector of {size} bytes begins at {at}")
    held = data[at + 4 : end]
    if data[end : end + 4] != struct.pack(">I", zlib.crc32(held)):
        raise ValueError(f"the checksum of the vector at {at} differs")
    if held[:_HEAD] != struct.pack("<IqI", _MAGIC, 1, 0):
        raise ValueError(f"the vector at {at} is not one bitmap")
    found = BitMap.deserialize(held[_HEAD:])
    if len(found) != descriptor["cardinality"]:
        raise ValueError(f"the vector at {at} has {len(found)} rows")
    return found


def named_file(descriptor: Json | None) -> str:
    """Return the path of the file that a descriptor names; empty if it is another writer's."""
    if not descriptor or descriptor.get("storageType") != "u":
        return ""
    name = str(descriptor["pathOrInlineDv"])
    if name[:-_WIDTH] != VECTORS or any(each not in _ALPHABET for each in name[-_WIDTH:]):
        return ""
    return vectors_path(UUID(bytes=_from_base85(name[-_WIDTH:])))


_WIDTH = 20
"""Characters of a UUID in base 85."""


def _base85(data: bytes) -> str:
    """Return bytes as text in the alphabet of Z85, five characters for four bytes."""
    text = []
    for (word,) in struct.iter_unpack(">I", data):
        text += [_ALPHABET[word // 85**place % 85] for place in (4, 3, 2, 1, 0)]
    return "".join(text)


def _from_base85(text: str) -> bytes:
    words = (text[at : at + 5] for at in range(0, len(text), 5))
    return b"".join(
        (
            sum(_ALPHABET.index(each) * 85 ** (4 - at) for at, each in enumerate(word)) % 2**32
        ).to_bytes(4, "big")
        for word in words
    )
