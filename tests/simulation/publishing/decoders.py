"""Published versions, decoded from the bytes of each format as its readers do.

1. A decoder is given each file as it is created, and says which version readers see from then on.
2. It reads nothing but what the format's readers read, and shares no code with the writers.
"""

import json
import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from io import BytesIO
from typing import Any, Protocol, TypeAlias
from uuid import UUID

import pyarrow.parquet as pq
from fastavro import reader
from pyroaring import BitMap64

from tests.unit.publishing.plain_format import FOLDER as PLAIN

Read: TypeAlias = Callable[[str], bytes]
Files: TypeAlias = Mapping[str, frozenset[int]]
"""The positions of the hidden rows of each data file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A published version: its number, the event that it shows, and its files."""

    number: int
    event: int
    files: Files


class Decoder(Protocol):
    """A reader of one format."""

    def take(self, path: str, data: bytes, read: Read) -> Version | None:
        """Return the version that a new file makes the newest one; None for other files."""
        ...


class PlainDecoder:
    """A reader of the plain format."""

    def take(self, path: str, data: bytes, read: Read) -> Version | None:  # noqa: ARG002
        """Return the version in a file."""
        if not path.startswith(f"{PLAIN}/"):
            return None
        said = json.loads(data)
        files = {name: frozenset(each["own"]["hidden"]) for name, each in said["files"].items()}
        number = int(path.removeprefix(f"{PLAIN}/").removesuffix(".json"))
        return Version(number=number, event=said["event"], files=files)


@dataclass(slots=True)
class DeltaDecoder:
    """A reader of Delta Lake that has followed the log from its first version on."""

    files: dict[str, frozenset[int]] = field(default_factory=dict)
    number: int = -1

    def take(self, path: str, data: bytes, read: Read) -> Version | None:
        """Apply the actions of a version, removes first."""
        if not (path.startswith("_delta_log/") and path.endswith(".json")):
            return None
        actions: list[dict[str, Any]] = [json.loads(line) for line in data.splitlines()]
        number = int(path.removeprefix("_delta_log/").removesuffix(".json"))
        assert number == self.number + 1, f"Delta version {number} follows {self.number}"
        self.number = number
        for remove in (each["remove"] for each in actions if "remove" in each):
            del self.files[remove["path"]]
        for add in (each["add"] for each in actions if "add" in each):
            assert add["path"] not in self.files, f"{add['path']} is added twice"
            self.files[add["path"]] = _vector(add.get("deletionVector"), read)
        (event,) = (each["txn"]["version"] for each in actions if "txn" in each)
        return Version(number=number, event=event, files=dict(self.files))


class IcebergDecoder:
    """A reader of Apache Iceberg."""

    def take(self, path: str, data: bytes, read: Read) -> Version | None:
        """Return the current snapshot of a version's metadata."""
        if not path.endswith(".metadata.json"):
            return None
        metadata = json.loads(data)
        root = metadata["location"].removesuffix("_iceberg")
        current = metadata["current-snapshot-id"]
        (snapshot,) = (s for s in metadata["snapshots"] if s["snapshot-id"] == current)

        def opened(uri: str) -> BytesIO:
            assert uri.startswith(root), f"{uri} is not below {root}"
            return BytesIO(read(uri.removeprefix(root)))

        entries = [
            (entry["data_file"], entry["sequence_number"] or manifest["sequence_number"])
            for manifest in reader(opened(snapshot["manifest-list"]))
            for entry in reader(opened(manifest["manifest_path"]))
            if entry["status"] != _GONE
        ]
        files = {each["file_path"]: (at, set()) for each, at in entries if each["content"] == 0}
        for each, at in entries:
            rows = pq.read_table(opened(each["file_path"])).to_pylist() if each["content"] else []
            for row in rows:
                begun, hidden = files.get(row["file_path"], (at + 1, set()))
                if begun <= at:
                    hidden.add(row["pos"])
        return Version(
            number=int(path.rsplit("/v", 1)[1].removesuffix(".metadata.json")),
            event=int(snapshot["summary"]["segtable.event"]),
            files={uri.removeprefix(root): frozenset(rows) for uri, (_, rows) in files.items()},
        )


_GONE = 2
"""The status of an entry that left with the snapshot of its manifest."""
_BASE85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def _vector(descriptor: Mapping[str, Any] | None, read: Read) -> frozenset[int]:
    """Return the positions in a deletion vector."""
    if descriptor is None:
        return frozenset()
    assert descriptor["storageType"] == "u"
    text = descriptor["pathOrInlineDv"]
    folder, digits = text[:-20], text[-20:]
    words = [
        sum(
            _BASE85.index(each) * 85 ** (4 - at)
            for at, each in enumerate(digits[start : start + 5])
        )
        for start in range(0, 20, 5)
    ]
    file = UUID(bytes=struct.pack(">4I", *words))
    held = read(f"{folder}/deletion_vector_{file}.bin")
    at, size = descriptor["offset"], descriptor["sizeInBytes"]
    (length,) = struct.unpack_from(">I", held, at)
    data = held[at + 4 : at + 4 + size]
    assert length == size == len(data)
    assert struct.unpack_from(">I", held, at + 4 + size) == (zlib.crc32(data),)
    assert struct.unpack_from("<I", data) == (1_681_511_377,)
    rows = frozenset(BitMap64.deserialize(data[4:]))
    assert len(rows) == descriptor["cardinality"]
    return rows
