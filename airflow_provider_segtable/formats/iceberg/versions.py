"""Read the versions of a published Iceberg table, and find the files that its readers need.

Reading:

1. The newest version is the highest number with stored metadata.
2. A version is read from its list of manifests; known manifests are not read again.
3. If another writer put the newest snapshot, the newest snapshot of ours is returned without its
   commit. Its publisher then takes it for a version that the log does not have, and publishes
   anew. If the table was moved, so that its files lie elsewhere, the version is also returned
   without its files.
4. In a damaged table, the newest decodable metadata record its owner, and the least sequence number
   of the next version (``remains``), which begins anew.
5. A version names the snapshot of the version before it. If that one has another snapshot, the
   target was removed and put anew while the version's publisher slept. The version is *disordered*,
   as it may show an earlier event: it is taken back, or published over.

Retention: data files that readers need, and own files that are swept:

6. The version before N was replaced when N's metadata was stored, by the store's clock.
7. Paths are relative to the root where a version was put, which may have another URI here.
8. The version that removed a data file has it as deleted in its manifests. So data files are needed
   if the newest version has them, or if a version that was stored after the time deleted them. The
   metadata of a version has the snapshots of many before it, so few metadata files are read. A
   version that began anew, such as after a move, deletes nothing: all files of the one before are
   needed.
9. If metadata files of the newest version are missing, no reader opens it: it needs no files. Then
   the newest whole version is needed: if the target was removed and put anew meanwhile, the
   publisher of the newest version takes it back. Likewise, the version before a disordered one is
   needed. A version that cannot be decoded, and was published over, needs no files either.
10. Swept are the versions that were replaced before the time, and all files that were written for
    the oldest remaining version or for earlier ones, and that neither it nor the newest one names.
    Files that a version between them names existed before, or were written later.
"""

import json
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from itertools import pairwise
from typing import Any

import pyarrow as pa
from pyroaring import BitMap

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import CorruptTable, ForeignTable, NotFound
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.formats.format import Contents, Published, PublishedFile
from airflow_provider_segtable.formats.iceberg import names
from airflow_provider_segtable.formats.iceberg.entries import (
    DATA,
    DELETED,
    DELETES,
    decode_positions,
    live,
    uri_of,
)
from airflow_provider_segtable.formats.iceberg.manifest import (
    Manifest,
    Root,
    decode_entries,
    decode_list,
    decode_manifest,
)
from airflow_provider_segtable.formats.iceberg.metadata import (
    COMMIT,
    EVENT,
    RULES,
    TABLE_ID,
    TIME,
    VERSION,
    check_whole,
    own_snapshot,
    put_after,
)
from airflow_provider_segtable.formats.published_files import PublishedFiles
from airflow_provider_segtable.ports.storage import Storage
from airflow_provider_segtable.storage.together import found_together, together

Json = dict[str, Any]
_AT_ONCE = 8


# Versions, read from storage
@dataclass(frozen=True, slots=True, kw_only=True)
class Chain:
    """A publisher's knowledge of a version for putting the next one.

    Attributes:
        metadata: its metadata; None if the next version begins anew.
        manifests: its manifests.
        snapshot: the id of the snapshot that it shows; None if that is not known.
        sequence: its sequence number.
        oldest: the oldest version that still exists.
        written: paths of the files of deleted positions that were written for it, if this process
            put it.
        data: the bytes of its metadata, if this process put or read it; empty if they are unknown.
        before: those of the version before.
    """

    metadata: Json | None
    manifests: Sequence[Manifest]
    snapshot: int | None
    sequence: int
    oldest: int
    written: tuple[str, ...] = ()
    data: bytes = field(default=b"", repr=False, compare=False)
    before: bytes = field(default=b"", repr=False, compare=False)


class Versions:
    """The versions in the root of a table."""

    def __init__(
        self,
        storage: Storage,
        root: Root | None = None,
        *,
        read: Mapping[str, bytes] | None = None,
    ) -> None:
        """Read below the storage's root.

        Args:
            storage: the storage.
            root: its URI when versions were put; that of the storage by default.
            read: files that have just been read, by path.
        """
        self._storage = storage
        self._read_before = read or {}
        self.root = root or Root(uri=storage.uri)

    def where(self, metadata: Json) -> "Versions":
        """Return the versions with the URIs of the place where a version was put."""
        return Versions(self._storage, Root(uri=metadata["location"].removesuffix(names.FOLDER)))

    def stored(self) -> dict[int, Instant]:
        """Return the times at which each version's metadata was stored, ascending by version.

        Raises:
            ForeignTable: there is metadata, but neither segtable's nor that of a catalog in which
                an earlier table of segtable was registered.
        """
        entries = list(self._storage.list(names.METADATA))
        found = {
            number: entry.modified
            for entry in entries
            if (number := names.version_of(entry.path)) is not None
        }
        others = [e.path for e in entries if e.path.endswith(".metadata.json")]
        if others and not found:
            self._read(others[-1])
        return dict(sorted(found.items()))

    def newest(self, known: Published) -> Published | None:
        """Return a known version with what is stored now, if it still is the newest one; or None.

        The next version has the next number, so no listing is needed, however many versions the
        retention keeps.
        """
        chain: Chain = known.own
        if not chain.data or chain.metadata is None:
            return None
        numbers = known.number, known.number + 1, chain.oldest
        path, next_, oldest = map(names.version_path, numbers)
        named = self.root.path(str(known.own.metadata["snapshots"][-1]["manifest-list"]))
        found, overtaken, *whole = together(
            self._storage,
            lambda: found_together(self._storage, [path]),
            lambda: self._storage.exists(next_),
            lambda: self._storage.exists(oldest),
            lambda: self._storage.exists(named),
        )
        same = found.get(path) == chain.data
        return known if same and all(whole) and not overtaken else None

    def metadata(self, number: int) -> Json:
        """Return the metadata of a version.

        Raises:
            ForeignTable: segtable did not write it.
            CorruptTable: it cannot be decoded.
            NotFound: it was swept.
        """
        return self._read(names.version_path(number))

    def _bytes(self, path: str) -> bytes:
        data = self._read_before.get(path)
        return self._storage.read(path) if data is None else data

    def _read(self, path: str) -> Json:
        return self._decoded(path, self._bytes(path))

    def _decoded(self, path: str, data: bytes) -> Json:
        with self._decoding(path):
            found = json.loads(data)
            _ = found["format-version"]  # without it, it is not an Iceberg table
            if TABLE_ID not in found.get("properties", {}):
                raise self.foreign(path)
            return {**found}

    def remains(self) -> Published | None:
        """Return the remains of any target, for a version with all files to follow; or None."""
        stored = self.stored_anyhow()
        if not stored:
            return None
        event, sequence, current = -1, max(stored), None
        for number in sorted(stored, reverse=True):
            with suppress(CorruptTable, NotFound), self._decoding(names.version_path(number)):
                metadata = self.metadata(number)
                summary = (own_snapshot(metadata) or {}).get("summary", {})
                sequence = max(sequence, int(metadata["last-sequence-number"]))
                current = metadata.get("current-snapshot-id") if number == max(stored) else None
                event = int(summary.get(EVENT, 0))
                break
        return Published(
            number=max(stored),
            event=event,
            commit="",
            time=0,
            table_id="",
            schema=-1,
            files={},
            address=self.root.at(names.FOLDER),
            own=Chain(
                metadata=None,
                manifests=(),
                snapshot=current,
                sequence=sequence,
                oldest=min(stored),
            ),
        )

    def stored_anyhow(self) -> dict[int, Instant]:
        """Return ``stored``, or nothing if there are only broken metadata of other writers."""
        try:
            return self.stored()
        except CorruptTable:
            return {}

    def load(self, number: int, oldest: int, known: Published | None) -> Published:
        """Return a version, read from a known one on."""
        path = names.version_path(number)
        data = self._bytes(path)
        metadata = self._decoded(path, data)
        with self._decoding(path):
            check_whole(metadata)
            snapshot = own_snapshot(metadata)
            if metadata["location"] != self.root.at(names.FOLDER) or snapshot is None:
                return self._published(number, oldest, metadata, snapshot, {}, None)
            same = known is not None and known.own.snapshot == snapshot["snapshot-id"]
            if not same and not self.follows(number, snapshot):
                raise CorruptTable(
                    f"{self.root.at(names.version_path(number))} does not follow the version "
                    f"{number - 1} that is there: {names.WAY_OUT}"
                )
            manifests = self.manifests(snapshot, known)
            files = _files(manifests, known)
            found = self._published(number, oldest, metadata, snapshot, files, manifests)
            return replace(found, own=replace(found.own, data=data))

    def follows(self, number: int, snapshot: Json, before: bytes = b"") -> bool:
        """Return whether the version before has the snapshot that this one follows.

        True if either is unknown.

        Args:
            number: the number of the version.
            snapshot: its newest snapshot of ours.
            before: the bytes of the version before when this one was put, if they are known.
        """
        after = put_after(snapshot)
        if after is None or snapshot["summary"].get(VERSION) != str(number):
            return True
        with suppress(NotFound):
            if before and self._bytes(names.version_path(number - 1)) == before:
                return True
        with suppress(CorruptTable, ForeignTable, NotFound):  # swept, or published over
            current = self.metadata(number - 1).get("current-snapshot-id")
            return current in (None, after)
        return True

    def manifests(self, snapshot: Json, known: Published | None = None) -> list[Manifest]:
        """Return the manifests of a snapshot."""
        path = self.root.path(snapshot["manifest-list"])
        have = {each.uri: each for each in known.own.manifests} if known else {}
        with self._decoding(path):
            records = decode_list(self._bytes(path))
        return [have.get(record["manifest_path"]) or self._manifest(record) for record in records]

    def contents(self, manifests: Collection[Manifest]) -> Mapping[str, Contents]:
        """Return the rows of each data file that manifests name, and its deleted positions.

        Raises:
            CorruptTable: a manifest, or a file of deleted positions, is missing or broken.
        """
        rows: dict[str, int] = {}
        hidden: dict[str, BitMap] = {}
        deletes: list[tuple[str, Json]] = []
        for manifest in manifests:
            for entry in live(self.entries(manifest)):
                file, path = entry["data_file"], self.root.path(uri_of(entry))
                if manifest.content == DATA:
                    rows[path] = int(file["record_count"])
                else:
                    deletes.append((path, file))
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            positions = pool.map(self._positions, [file for _, file in deletes])
            for (path, _), some in zip(deletes, positions, strict=True):
                hidden[path] = hidden.get(path, BitMap()) | some
        return {p: Contents(rows=n, hidden=hidden.get(p, BitMap())) for p, n in rows.items()}

    def _positions(self, file: Json) -> BitMap:
        """Return the positions in a file that a manifest names."""
        path = self.root.path(file["file_path"])
        wrong: object = ""
        try:
            data = self._storage.read(path)
            found = decode_positions(data, uri_of({"data_file": file}))
        except (NotFound, pa.ArrowException, OSError, ValueError, KeyError) as error:
            wrong = error
        else:
            if (len(data), len(found)) == (file["file_size_in_bytes"], file["record_count"]):
                return found
            wrong = f"it has {len(data)} bytes and {len(found)} positions"
        raise CorruptTable(f"{self.root.at(path)}, of deleted positions: {wrong}: {names.WAY_OUT}")

    def entries(self, manifest: Manifest) -> list[Json]:
        """Return the entries of a manifest."""
        if manifest.entries:
            return [*manifest.entries]
        path = self.root.path(manifest.uri)
        with self._decoding(path):
            return decode_entries(self._storage.read(path))

    def _manifest(self, record: Json) -> Manifest:
        path = self.root.path(record["manifest_path"])
        with self._decoding(path):
            return decode_manifest(self._storage.read(path), record, self.root)

    def _published(
        self,
        number: int,
        oldest: int,
        metadata: Json,
        snapshot: Json | None,
        files: Mapping[str, PublishedFile],
        manifests: Sequence[Manifest] | None,
    ) -> Published:
        summary = (snapshot or {}).get("summary", {})
        current = snapshot is not None and snapshot["snapshot-id"] == metadata.get(
            "current-snapshot-id"
        )
        return Published(
            number=number,
            event=int(summary.get(EVENT, 0)),
            commit=summary[COMMIT] if current and manifests is not None else "",
            time=int(summary.get(TIME, 0)),
            table_id=metadata["properties"][TABLE_ID],
            schema=int((snapshot or {}).get("schema-id", 0)),
            files=files,
            address=self.root.at(names.FOLDER),
            rules=int(summary.get(RULES, 0)),
            own=Chain(
                metadata=metadata if manifests is not None else None,
                manifests=manifests or (),
                snapshot=metadata.get("current-snapshot-id"),
                sequence=metadata["last-sequence-number"],
                oldest=oldest,
            ),
        )

    def foreign(self, path: str) -> ForeignTable:
        """Return the error of another writer's table."""
        return ForeignTable(
            f"{self.root.at(path)} is an Iceberg table that segtable did not write: move the "
            f"folder {names.FOLDER} away, or set publish.iceberg to off"
        )

    @contextmanager
    def _decoding(self, path: str) -> Iterator[None]:
        try:
            yield
        except (ValueError, KeyError, TypeError, AttributeError, EOFError, LookupError) as error:
            raise CorruptTable(
                f"{self.root.at(path)} is not a file of a published table ({error!r:.200}): "
                f"{names.WAY_OUT}"
            ) from error


def _files(manifests: Collection[Manifest], known: Published | None) -> Mapping[str, PublishedFile]:
    """Return the files of a version, from a known one for manifests that are the same."""
    changes: dict[str, PublishedFile | None] = {}
    data = {each.uri: each for each in manifests if not each.content}
    old = {each.uri: each for each in known.own.manifests if not each.content} if known else {}
    for uri in old.keys() - data.keys():
        changes.update(dict.fromkeys(old[uri].keys))
    for uri in data.keys() - old.keys():
        found = data[uri].keys.items()
        changes.update((path, PublishedFile(path=path, key=key)) for path, key in found)
    return PublishedFiles.of(known.files if known else {}).changed(changes)


# Needed data files, and own files to sweep
def needed(versions: Versions, since: Instant) -> frozenset[str]:
    """Return the paths of data files that readers may need."""
    stored = versions.stored()
    if not stored:
        return frozenset()
    oldest = _oldest(stored, since)
    shown = _current_data_files(versions, stored)
    left = {
        path
        for there, snapshot in _snapshots(versions, {n for n in stored if n > oldest})
        for path in (
            *_deleted_data_files(there, snapshot),
            *_data_files_before(versions, snapshot, stored),
        )
    }
    return frozenset({*shown, *left})


def _current_data_files(versions: Versions, stored: Mapping[int, Instant]) -> tuple[str, ...]:
    """Return the data files of the newest whole version (rule 9)."""
    shown: list[str] = []
    for number in sorted(stored, reverse=True):
        try:
            shown += _data_files(versions, number)
            if _follows(versions, number):
                break
        except NotFound:
            if max(versions.stored(), default=0) != max(stored):
                raise  # it was replaced, and swept, meanwhile
        except CorruptTable:
            if number == max(stored):
                raise
    return (*shown,)


def _follows(versions: Versions, number: int) -> bool:
    """Return whether a version follows the one before, or that is unknown."""
    snapshot = own_snapshot(versions.metadata(number))
    return snapshot is None or versions.follows(number, snapshot)


def swept(
    versions: Versions, storage: Storage, since: Instant, *, dry_run: bool
) -> tuple[str, ...]:
    """Delete own files that no version needs any more; return their paths."""
    stored = versions.stored()
    if not stored:
        return ()
    oldest, newest = _oldest(stored, since), max(stored)
    try:
        named = {path for number in {oldest, newest} for path in _own_files(versions, number)}
    except (NotFound, CorruptTable):  # its names are not known, so all files may be needed
        return ()
    old = [names.version_path(number) for number in stored if number < oldest]
    written = [
        entry.path
        for folder in names.WRITTEN
        for entry in storage.list(folder)
        if (names.written_for(entry.path) or newest + 1) <= oldest and entry.path not in named
    ]
    for path in () if dry_run else (*old, *written):
        storage.delete(path)
    return (*old, *written)


def _oldest(stored: dict[int, Instant], since: Instant) -> int:
    """Return the oldest version that was replaced after a time; the newest if there is none."""
    late = (number for number, following in pairwise(stored) if stored[following] > since)
    return min(late, default=max(stored))


def _data_files(versions: Versions, number: int) -> Iterator[str]:
    """Yield the paths of a version's data files."""
    metadata = versions.metadata(number)
    snapshot = own_snapshot(metadata)
    if snapshot is None:
        raise versions.foreign(names.version_path(number))
    for manifest in versions.where(metadata).manifests(snapshot):
        yield from manifest.keys


def _snapshots(versions: Versions, numbers: set[int]) -> Iterator[tuple[Versions, Json]]:
    """Yield the snapshots of some versions: each version's metadata has those of many others."""
    while numbers:
        last = max(numbers)
        try:
            metadata = versions.metadata(last)
        except CorruptTable:
            if last == max(versions.stored()):
                raise
            numbers.discard(last)  # it was published over
            continue
        for snapshot in metadata["snapshots"]:
            number = int(snapshot["summary"].get(VERSION, 0))
            if number in numbers:
                numbers.discard(number)
                yield versions.where(metadata), snapshot
        numbers.discard(last)


def _data_files_before(
    versions: Versions, snapshot: Json, stored: Mapping[int, Instant]
) -> Iterator[str]:
    """Yield the data files of the version before, if a snapshot began anew and deleted none."""
    number = int(snapshot["summary"][VERSION]) - 1
    if "parent-snapshot-id" not in snapshot and number in stored:
        with suppress(NotFound, CorruptTable):  # it was published over
            yield from _data_files(versions, number)


def _deleted_data_files(versions: Versions, snapshot: Json) -> Iterator[str]:
    """Yield the paths of the data files that a snapshot deleted."""
    if not int(snapshot["summary"].get("deleted-data-files", 0)):
        return
    with suppress(NotFound, CorruptTable):  # the newest version is whole, so no reader opens this
        for manifest in versions.manifests(snapshot):
            record = manifest.record
            own = record["added_snapshot_id"] == snapshot["snapshot-id"]
            if own and manifest.content == DATA and record["deleted_files_count"]:
                for entry in versions.entries(manifest):
                    if entry["status"] == DELETED:
                        yield versions.root.path(entry["data_file"]["file_path"])


def _own_files(versions: Versions, number: int) -> Iterator[str]:
    """Yield the paths of a version's own files."""
    metadata = versions.metadata(number)
    snapshot = own_snapshot(metadata)
    if snapshot is None:
        return
    versions = versions.where(metadata)
    yield versions.root.path(snapshot["manifest-list"])
    for manifest in versions.manifests(snapshot):
        yield versions.root.path(manifest.uri)
        if manifest.content == DELETES:
            for entry in versions.entries(manifest):
                yield versions.root.path(entry["data_file"]["file_path"])
