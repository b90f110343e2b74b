"""Published versions, decoded from the bytes of each format as its readers do.

1. A decoder says which version readers see now, and which files may change that.
2. It reads nothing but what the format's readers read, and shares no code with the writers.
3. A version that readers cannot open, because what it relies on is gone, is none. That may be so
   for a while, beside a removal or a drop.
"""

import json
import struct
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from io import BytesIO
from typing import Any, Protocol, TypeAlias
from uuid import UUID

import pyarrow.parquet as pq
from fastavro import reader
from pyroaring import BitMap64

from airflow_provider_segtable.core.errors import NotFound
from airflow_provider_segtable.ports.storage import Storage
from tests.unit.publishing.plain_format import FOLDER as PLAIN

Read: TypeAlias = Callable[[str], bytes]
Files: TypeAlias = Mapping[str, frozenset[int]]
"""The positions of the hidden rows of each data file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Version:
    """A published version: its file, its number, the event that it shows, and its data files.

    ``mark`` tells it from any other one; ``whole`` if it has all files itself; ``after`` is the
    mark of the one that it changes, empty if readers need none. No reader looks at these three. In
    a Delta log with other versions, one that has all files changes another one, too, until its
    checkpoint is there; put over damage it does not say which one, and changes ``nothing``.
    """

    path: str
    number: int
    event: int
    files: Files
    mark: str
    after: str
    whole: bool


class Decoder(Protocol):
    """A reader of one format."""

    def concerns(self, path: str) -> bool:
        """Return whether a file says which version is the newest."""
        ...

    def newest(self, storage: Storage) -> Version | None:
        """Return the newest version; None if there is none that readers can open."""
        ...


class PlainDecoder:
    """A reader of the plain format."""

    def concerns(self, path: str) -> bool:
        """Return whether a file is a version."""
        return path.startswith(f"{PLAIN}/")

    def newest(self, storage: Storage) -> Version | None:
        """Return the version in the last file."""
        path = max((each.path for each in storage.list(PLAIN)), default="")
        if not path:
            return None
        said = json.loads(storage.read(path))
        files = {name: frozenset(each["own"]["hidden"]) for name, each in said["files"].items()}
        return Version(
            path=path,
            number=int(path.removeprefix(f"{PLAIN}/").removesuffix(".json")),
            event=said["event"],
            files=files,
            mark=said["mark"],
            after=said["after"],
            whole=not said["after"],
        )


class DeltaDecoder:
    """A reader of Delta Lake: the newest checkpoint, and all versions after it, without a gap."""

    def concerns(self, path: str) -> bool:
        """Return whether a file is a version or a checkpoint."""
        return path.startswith("_delta_log/0") and path.endswith((".json", ".parquet"))

    def newest(self, storage: Storage) -> Version | None:
        """Read the log anew."""
        try:
            return self._newest(storage)
        except NotFound:
            return None

    def _newest(self, storage: Storage) -> Version | None:
        paths = [e.path for e in storage.list("_delta_log") if e.path.startswith("_delta_log/0")]
        commits = [int(each[11:31]) for each in paths if each.endswith(".json")]
        base = max([int(each[11:31]) for each in paths if each.endswith(".parquet")], default=-1)
        later = [number for number in commits if number > base]
        if later != [*range(base + 1, base + 1 + len(later))] or not (later or base >= 0):
            return None
        adds, event = self._checkpoint(storage, base) if base >= 0 else ({}, -1)
        for number in later:
            event = self._apply(adds, storage.read(f"_delta_log/{number:020d}.json"))
        number = later[-1] if later else base
        path = f"_delta_log/{number:020d}.json"
        alone = number == max(base, 0)
        info = json.loads(storage.read(path).partition(b"\n")[0])["commitInfo"]
        whole = info["operation"].startswith("CREATE ")
        return Version(
            path=path,
            number=number,
            event=event,
            files={name: _vector(each, storage.read) for name, each in adds.items()},
            mark=info["txnId"],
            after="" if whole and alone else info["segtable"].get("after", "") or "nothing",
            whole=whole,
        )

    def _checkpoint(self, storage: Storage, number: int) -> tuple[dict[str, Any], int]:
        data = storage.read(f"_delta_log/{number:020d}.checkpoint.parquet")
        rows = pq.read_table(BytesIO(data)).to_pylist()
        (event,) = (each["txn"]["version"] for each in rows if each["txn"])
        found = (each["add"] for each in rows if each["add"])
        return {each["path"]: each["deletionVector"] for each in found}, event

    def _apply(self, adds: dict[str, Any], data: bytes) -> int:
        """Apply the actions of a version, removes first; return its event."""
        actions: list[dict[str, Any]] = [json.loads(line) for line in data.splitlines()]
        for remove in (each["remove"] for each in actions if "remove" in each):
            adds.pop(remove["path"], None)
        for add in (each["add"] for each in actions if "add" in each):
            adds[add["path"]] = add.get("deletionVector")
        (event,) = (each["txn"]["version"] for each in actions if "txn" in each)
        return int(event)


class IcebergDecoder:
    """A reader of Apache Iceberg."""

    def concerns(self, path: str) -> bool:
        """Return whether a file is a version's metadata."""
        return path.endswith(".metadata.json")

    def newest(self, storage: Storage) -> Version | None:
        """Return the current snapshot of the last version's metadata."""
        found = (each.path for each in storage.list("_iceberg/metadata"))
        path = max((each for each in found if self.concerns(each)), key=_number, default="")
        try:
            return self._decoded(path, storage.read) if path else None
        except NotFound:
            return None

    def _decoded(self, path: str, read: Read) -> Version:
        metadata = json.loads(read(path))
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
        after = str(snapshot.get("parent-snapshot-id", ""))
        return Version(
            path=path,
            number=_number(path),
            event=int(snapshot["summary"]["segtable.event"]),
            files={uri.removeprefix(root): frozenset(rows) for uri, (_, rows) in files.items()},
            mark=str(current),
            after=after,
            whole=not after,
        )


_GONE = 2
"""The status of an entry that left with the snapshot of its manifest."""
_BASE85 = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ.-:+=^!/*?&<>()[]{}@%$#"


def _number(path: str) -> int:
    """Return the number of the version whose metadata a file has."""
    return int(path.rsplit("/v", 1)[1].removesuffix(".metadata.json"))


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
