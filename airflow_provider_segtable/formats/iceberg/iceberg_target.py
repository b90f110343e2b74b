"""Apache Iceberg, version 2, as a format: put versions into the table in a table's root.

1. A version is ``vN.metadata.json``, created by put-if-absent after all files that it names. If the
   reply is lost, the stored bytes show its author: they have the snapshot's random id.
2. The hint is brought to the newest version afterwards: by ``put``, and by ``holds`` if another
   publisher has put one meanwhile. Readers that use the hint alone may be one version behind for a
   moment, or until the next put if the hint could not be written.
3. Files have ids of all columns and of all fields within them, or none and the columns of schema
   0: Iceberg's readers use either ids alone, or names alone. Others are refused, and so are files
   where pyiceberg fails: with columns that the table never had, or with dictionaries of Arrow.
"""

import json
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any, ClassVar

from airflow_provider_segtable.core.errors import (
    AlreadyExists,
    CorruptTable,
    NotFound,
    OutcomeUnknown,
    PublishingRefused,
    StorageError,
)
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.formats.format import (
    Contents,
    NewFile,
    Published,
    PublishedFile,
    Revision,
)
from airflow_provider_segtable.formats.iceberg import names
from airflow_provider_segtable.formats.iceberg import versions as keeping
from airflow_provider_segtable.formats.iceberg.catalog import register
from airflow_provider_segtable.formats.iceberg.entries import (
    Spec,
    Stamp,
    data_entry,
    deletes_entry,
    encode_positions,
    spec_of,
)
from airflow_provider_segtable.formats.iceberg.manifest import (
    SMALL,
    Changed,
    Manifest,
    Part,
    encode_list,
    encode_manifest,
    manifest_record,
    revised,
    totals,
)
from airflow_provider_segtable.formats.iceberg.metadata import (
    Place,
    nested,
    next_metadata,
    refusals,
    schema_json,
    simple_types,
    types_of,
)
from airflow_provider_segtable.formats.iceberg.versions import Chain, Versions
from airflow_provider_segtable.formats.published_files import PublishedFiles
from airflow_provider_segtable.planning.properties import PublishSettings
from airflow_provider_segtable.ports.clock import Randomness
from airflow_provider_segtable.ports.storage import Storage
from airflow_provider_segtable.storage.local import SystemRandomness
from airflow_provider_segtable.storage.together import for_each, found_together, together

Json = dict[str, Any]
_AT_ONCE = 8
_SNAPSHOTS = 1 << 62
"""Number of ids that a snapshot may have: positive numbers of 63 bits, as readers expect them."""
_READS = 3
"""Most reads of a version with missing files: later versions may have been put meanwhile."""
_NOTHING = Chain(metadata=None, manifests=(), snapshot=None, sequence=0, oldest=1)


class IcebergTarget:
    """``formats.format.Target`` for Apache Iceberg."""

    def __init__(self, storage: Storage, randomness: Randomness | None = None) -> None:
        """Publish below the storage's root."""
        self._storage = storage
        self._random = randomness or SystemRandomness()
        self._versions = Versions(storage)
        self._root = self._versions.root

    @property
    def address(self) -> str:
        """Return the URI of the table; the newest version's metadata is found by the hint."""
        return self._root.at(names.FOLDER)

    def load(self, known: Published | None = None) -> Published | None:
        """Return the newest published version; None if there is none."""
        if known is not None and self._versions.newest(known):
            return known
        gone = 0
        stored, versions = self._looked(known)
        while stored:
            try:
                return versions.load(max(stored), min(stored), known)
            except NotFound as error:  # swept or removed meanwhile, unless it is still stored
                gone += max(stored) in self._versions.stored()
                if gone == _READS:
                    raise CorruptTable(
                        f"version {max(stored)} in {self.address} is not whole ({error}): "
                        f"{names.WAY_OUT}"
                    ) from error
                stored, versions = self._versions.stored(), self._versions
        return None

    def _looked(self, known: Published | None) -> tuple[dict[int, Instant], Versions]:
        """Return the stored versions, and a reader that has read what a known one consists of.

        Both are requested together: mostly the known version is the newest one.
        """
        chain: Chain | None = known.own if known else None
        if known is None or chain is None or chain.metadata is None or not self._storage.remote:
            return self._versions.stored(), self._versions
        paths = [names.version_path(known.number), self._root.path(_list_of(known))]
        stored, found = together(
            self._storage,
            self._versions.stored,
            lambda: found_together(self._storage, paths),
        )
        return stored, Versions(self._storage, self._root, read=found)

    def remains(self) -> Published | None:
        """Return the remains of any target, for a version with all files to follow; or None."""
        return self._versions.remains()

    def holds(self, put: Published) -> bool:
        """Return whether all its files exist, and it follows the version before it.

        After a removal another version may have the number of the one before.
        """
        snapshot, paths = put.own.metadata["snapshots"][-1], self._needs(put)
        here, next_ = (names.version_path(put.number + more) for more in (0, 1))
        exists, overtaken, follows, present = together(
            self._storage,
            lambda: self._storage.exists(here),
            lambda: self._storage.exists(next_),
            lambda: self._versions.follows(put.number, snapshot, put.own.before),
            lambda: self._present(paths),
        )
        holds = bool(follows and present)
        if exists and not overtaken:
            return holds
        newest = max(self._versions.stored_anyhow(), default=0)
        if newest > put.number:
            with suppress(StorageError):  # it is a hint; rule 2
                self._hint(newest)
        if not exists:
            return newest > put.number
        return holds

    def _needs(self, put: Published) -> set[str]:
        """Return the paths of the files that a version names, except data files."""
        named = {_list_of(put), *(each.uri for each in put.own.manifests)}
        return {*map(self._root.path, named), *put.own.written}

    def _present(self, paths: Collection[str]) -> bool:
        """Return whether all of some written files exist."""
        if not self._storage.remote or len(paths) <= _AT_ONCE:
            return all(for_each(self._storage, self._storage.exists, paths))
        there = for_each(self._storage, self._paths, names.WRITTEN)
        return set(paths) <= set[str]().union(*there)

    def _paths(self, folder: str) -> set[str]:
        return {each.path for each in self._storage.list(folder)}

    def take_back(self, put: Published) -> None:
        """Delete the files of a version that this process put, unless another one follows it."""
        path = names.version_path(put.number)
        if (
            max(self._versions.stored_anyhow(), default=0) > put.number
            or self._stored_bytes(path) != put.own.data
        ):
            return
        self._storage.delete(path)
        stored = self._versions.stored_anyhow()
        if stored:
            self._storage.replace(names.HINT, str(max(stored)).encode())
        else:
            self._storage.delete(names.HINT)
        attempt = names.of_attempt(_list_of(put))
        for folder in names.WRITTEN:
            for each in self._storage.list(folder):
                if each.path.startswith(f"{folder}/{attempt}"):
                    self._storage.delete(each.path)

    def put(self, known: Published | None, revision: Revision) -> Published | None:
        """Put a version after ``known``; None if another publisher took its number."""
        _check_ids(revision)
        attempt = _Attempt(self._storage, self._versions, known, revision, self._random)
        made = attempt.written()
        path, data = names.version_path(made.number), made.own.data
        if not self._created(path, data):
            return None
        with suppress(StorageError):  # it is a hint; rule 2
            self._storage.replace(names.HINT, str(made.number).encode())
        return made

    def contents(self, head: Published) -> Mapping[str, Contents]:
        """Return the rows of each data file and its hidden ones, from manifests and positions."""
        return self._versions.contents(head.own.manifests)

    def needed(self, since: Instant) -> frozenset[str]:
        """Return the paths of data files that readers may need."""
        return keeping.needed(self._versions, since)

    def sweep(self, since: Instant, *, dry_run: bool = False) -> tuple[str, ...]:
        """Delete own files that no version needs any more."""
        return keeping.swept(self._versions, self._storage, since, dry_run=dry_run)

    def _created(self, path: str, data: bytes) -> bool:
        """Create a version's metadata; return whether the stored one is ours."""
        try:
            self._storage.create(path, data)
        except (AlreadyExists, OutcomeUnknown) as error:
            found = self._stored_bytes(path)
            if found is None and isinstance(error, OutcomeUnknown):
                raise
            if found != data:
                return False
            self._storage.flush(names.METADATA)
        return True

    def _stored_bytes(self, path: str) -> bytes | None:
        try:
            return self._storage.read(path)
        except NotFound:
            return None

    def _hint(self, number: int) -> None:
        """Bring the hint to the newest version, even if another one is put meanwhile."""
        written = 0
        while written < number:
            self._storage.replace(names.HINT, str(number).encode())
            written, number = number, max(self._versions.stored(), default=0)


class _Attempt:
    """One attempt to put a version: its files have unique names."""

    def __init__(
        self,
        storage: Storage,
        versions: Versions,
        known: Published | None,
        revision: Revision,
        randomness: Randomness,
    ) -> None:
        """Prepare the version after ``known``."""
        self._storage = storage
        self._versions = versions
        self._root = versions.root
        self._revision = revision
        self._token = randomness.token()
        self._number = known.number + 1 if known else 1
        self._written: tuple[str, ...] = ()
        self._old: Chain = known.own if known else _NOTHING
        self._known: Mapping[str, PublishedFile] = known.files if known else {}
        self._anew = known is None or known.table_id != revision.table.table_id
        self._schema = known.schema if known else 0
        snapshot = int(randomness.token(), 16) % _SNAPSHOTS + 1
        self._stamp = Stamp(snapshot=snapshot, sequence=self._old.sequence + 1)

    def written(self) -> Published:
        """Write all files of the version except its metadata, which is in the result."""
        changed = self._changed()
        found = revised(
            self._old.manifests, changed, self._stamp, self._root, self._versions.entries
        )
        made = self._manifests(found.parts)
        manifests = [*found.kept, *(each for each, _ in made)]
        path = names.list_path(self._number, self._token)
        parent = None if self._anew else self._old.snapshot
        files = [(self._root.path(each.uri), data) for each, data in made]
        files.append((path, encode_list(manifests, self._stamp, parent)))
        self._results(lambda file: self._storage.create(*file), files)
        metadata = self._metadata(path, manifests, found.parts, changed.spec)
        return self._published(metadata, manifests, changed)

    def _changed(self) -> Changed:
        table, shown = self._revision.table, self._revision.shown
        gone = {*self._revision.gone, *(self._known if self._anew else ())} - {*shown}
        kinds = simple_types(table.schema)
        time_id = next(c.id for c in table.schema.numbered if c.name == table.time_column)
        spec = spec_of(table, kinds, time_id)
        return Changed(
            gone=gone,
            keys={path: new.shown.key for path, new in shown.items()},
            data=[
                data_entry(new, self._root.at(path), kinds, spec, time_id, self._stamp)
                for path, new in shown.items()
                if path not in self._known
            ],
            deletes=self._positions([new for new in shown.values() if new.hidden]),
            time_id=time_id,
            spec=spec,
            anew=self._anew,
            kinds=kinds if self._widened(kinds) else None,
        )

    def _widened(self, kinds: Mapping[int, str]) -> bool:
        """Return whether a column has another type than in the version before."""
        old = types_of(self._old.metadata, self._schema) if self._old.metadata else {}
        return any(old.get(number, kind) != kind for number, kind in kinds.items())

    def _positions(self, files: Sequence[NewFile]) -> list[Json]:
        """Write a file of deleted positions for each file; return their entries."""

        def write(numbered: tuple[int, NewFile]) -> Json:
            at, new = numbered
            path, uri = names.deletes_path(self._number, self._token, at), new.shown.path
            data = encode_positions(self._root.at(uri), new.hidden)
            self._storage.create(path, data)
            span = range(new.hidden.min(), new.hidden.max())
            return deletes_entry(
                self._root.at(path),
                self._root.at(uri),
                span,
                len(new.hidden),
                len(data),
                self._stamp,
            )

        self._written = tuple(
            names.deletes_path(self._number, self._token, at) for at in range(len(files))
        )
        return self._results(write, list(enumerate(files)))

    def _manifests(self, parts: Sequence[Part]) -> list[tuple[Manifest, bytes]]:
        """Return the manifests to write, with their bytes."""
        schema = schema_json(self._revision.table.schema)
        made: list[tuple[Manifest, bytes]] = []
        for at, part in enumerate(parts):
            uri = self._root.at(names.manifest_path(self._number, self._token, at))
            data = encode_manifest(part.entries, part.content, part.spec, schema, part.keys)
            record = manifest_record(
                part.entries, part.content, part.spec, uri, len(data), self._stamp
            )
            held = part.entries if len(part.keys) < SMALL else ()
            made.append((Manifest(record=record, keys=part.keys, entries=held), data))
        return made

    def _results(self, act: Callable[[Any], Any], items: Sequence[Any]) -> list[Any]:
        """Return the results of an action for all items, in parallel if that pays."""
        if len(items) <= _AT_ONCE:
            return for_each(self._storage, act, items)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            return list(pool.map(act, items))

    def _metadata(
        self, path: str, manifests: Sequence[Manifest], parts: Sequence[Part], spec: Spec
    ) -> Json:
        old = None if self._anew else self._old.metadata
        snapshots = old["snapshots"] if old else []
        size = int(snapshots[-1]["summary"].get("total-files-size", 0)) if snapshots else 0
        place = Place(
            number=self._number,
            location=self._root.at(names.FOLDER),
            manifests=self._root.at(path),
            before=self._root.at(names.version_path(self._number - 1)),
            after=self._old.snapshot,
            oldest=self._old.oldest,
        )
        counts = totals([each.record for each in manifests], parts, size)
        return next_metadata(old, self._revision, place, self._stamp, counts, spec)

    def _published(
        self, metadata: Json, manifests: Sequence[Manifest], changed: Changed
    ) -> Published:
        shown = {path: PublishedFile(path=path, key=key) for path, key in changed.keys.items()}
        files = PublishedFiles.of(self._known).changed({**dict.fromkeys(changed.gone), **shown})
        revision = self._revision
        return Published(
            number=self._number,
            event=revision.event,
            commit=revision.commit,
            time=revision.time,
            table_id=revision.table.table_id,
            schema=revision.table.schema.number,
            files=files,
            address=self._root.at(names.FOLDER),
            rules=revision.rules,
            own=Chain(
                metadata=metadata,
                manifests=manifests,
                snapshot=self._stamp.snapshot,
                sequence=self._stamp.sequence,
                oldest=self._old.oldest,
                written=self._written,
                data=_json(metadata),
                before=self._old.data,
            ),
        )


def _list_of(put: Published) -> str:
    """Return the URI of the list of manifests of a version that this process put."""
    return str(put.own.metadata["snapshots"][-1]["manifest-list"])


def _check_ids(revision: Revision) -> None:
    """Refuse files that some of Iceberg's readers would misread; rule 3."""
    for path, new in revision.shown.items():
        if new.stats.odd:
            raise PublishingRefused(
                f"{path}, of another program, has {new.stats.odd}, where pyiceberg fails: write it "
                "anew (segtable compact TABLE --kind major), then publish again"
            )
    within = nested(revision.table.schema)
    bare = [
        path
        for path, new in revision.shown.items()
        if not new.stats.numbered and (within or new.shown.segment.schema)
    ]
    if bare:
        columns = f", none within {within[0]!r}" if within else ""
        raise PublishingRefused(
            f"{len(bare)} files, {bare[0]} among them, are of an older segtable or another program "
            f"and lack some ids of columns, by which Iceberg's readers go{columns}: write them "
            "anew (segtable compact TABLE --kind major), then publish again"
        )


def _json(metadata: Json) -> bytes:
    return json.dumps(metadata, indent=None, separators=(",", ":")).encode()


class IcebergFormat:
    """``formats.format.Format`` for Apache Iceberg."""

    name: ClassVar[str] = "iceberg"
    title: ClassVar[str] = "Apache Iceberg"
    folders: ClassVar[tuple[str, ...]] = (names.FOLDER,)

    def target(self, storage: Storage, randomness: Randomness | None = None) -> IcebergTarget:
        """Return the target in a table's root."""
        return IcebergTarget(storage, randomness)

    def refusal(self, table: TableDefinition, schemas: Collection[int]) -> str:
        """Return the reason if a version cannot be published, with the way out, else empty."""
        return next(refusals(table, schemas), "")

    def register(self, published: Published, properties: Mapping[str, str]) -> str:
        """Register a version in the catalog of the properties; return the error, else empty."""
        settings = PublishSettings.read(properties)
        if not settings.iceberg_catalog or published.own.metadata is None:
            return ""
        return register(published, settings.iceberg_catalog, settings.iceberg_table)

    def is_own(self, path: str) -> bool:
        """Return whether a target gives such a name to its files."""
        return names.is_own(path)
