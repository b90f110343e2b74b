"""The log of a Delta table in storage: its versions, its checkpoints, and its sweeps.

Reading the log:

1. A version is read from the newest checkpoint and the versions after it.
2. It is read from a known version, too, if that one and all after it are still there: a version
   that has its number and another content is of another log.
3. The newest version itself records its event and table, also behind a checkpoint.
4. Storage may be swept meanwhile: if files are missing, the log is listed again (``again``).
5. In a damaged log, only the decodable part is read (``remains``): the newest decodable checkpoint,
   and all decodable versions after it. A table is another tool's if some of its versions can be
   decoded, and none of these is segtable's.

Checkpoints (a version as one Parquet file; pure functions):

6. A checkpoint has a row for each action that still counts: protocol, metadata, transactions and
   added files. It has no removed files: a tool that deletes files by these would delete files that
   the table's own log still needs.
7. Files stay columns of Arrow from one checkpoint to the next one: only files that changed in
   between are Python values.

Retention: which files readers of the published versions may need, and which are swept:

8. A version is replaced when the next one was put: the storage's time of that file, or the time of
   the event if it is later. If clocks differ, more is kept.
9. Needed are the files of the newest version, and all files that a version put after ``since``
   added or removed: these are the files of each version that was replaced after ``since``.
10. A sweep keeps all files for ``ATTEMPT_US`` longer. So no attempt to put a version finds its
    number free again because that version was swept, nor its file of vectors missing.
11. The log is swept below a checkpoint from which all these versions can be read. Later versions
    and checkpoints stay. A file of vectors is swept if no readable version names it.
12. A version that cannot be decoded, and has been published over, needs no further files: its
    readers fail.
"""

import io
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import repeat
from typing import Any, TypeVar
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import CorruptTable, ForeignTable, NotFound
from airflow_provider_segtable.core.time import DAY_US, Instant
from airflow_provider_segtable.formats.delta.log_files import (
    HINT,
    LOG,
    VECTORS,
    Disordered,
    Json,
    Listing,
    checkpoint_path,
    commit_path,
    decoded,
    decoded_vector,
    highest,
    hint,
    is_vectors,
    listed,
    listed_from_checkpoint,
    named_file,
    way_out,
)
from airflow_provider_segtable.formats.delta.published_version import (
    KEY,
    UNKNOWN,
    Base,
    Changes,
    Placed,
    Seen,
    encoded_path,
    is_misplaced,
    is_segtables,
    marked,
    published,
    remains_of,
    ruined,
)
from airflow_provider_segtable.formats.format import Contents, Published, PublishedFile
from airflow_provider_segtable.ports.storage import Storage
from airflow_provider_segtable.storage.together import together

_TEXTS = pa.map_(pa.string(), pa.string())
_VECTOR = pa.struct(
    [
        ("storageType", pa.string()),
        ("pathOrInlineDv", pa.string()),
        ("offset", pa.int32()),
        ("sizeInBytes", pa.int32()),
        ("cardinality", pa.int64()),
    ]
)
_ADD = pa.struct(
    [
        ("path", pa.string()),
        ("partitionValues", _TEXTS),
        ("size", pa.int64()),
        ("modificationTime", pa.int64()),
        ("dataChange", pa.bool_()),
        ("stats", pa.string()),
        ("tags", _TEXTS),
        ("deletionVector", _VECTOR),
    ]
)
_OTHERS = {
    "protocol": pa.struct(
        [
            ("minReaderVersion", pa.int32()),
            ("minWriterVersion", pa.int32()),
            ("readerFeatures", pa.list_(pa.string())),
            ("writerFeatures", pa.list_(pa.string())),
        ]
    ),
    "metaData": pa.struct(
        [
            ("id", pa.string()),
            ("name", pa.string()),
            ("description", pa.string()),
            ("format", pa.struct([("provider", pa.string()), ("options", _TEXTS)])),
            ("schemaString", pa.string()),
            ("partitionColumns", pa.list_(pa.string())),
            ("configuration", _TEXTS),
            ("createdTime", pa.int64()),
        ]
    ),
    "txn": pa.struct(
        [("appId", pa.string()), ("version", pa.int64()), ("lastUpdated", pa.int64())]
    ),
}
_LOADED = [*_OTHERS, *(f"add.{name}" for name in ("path", "size", "tags", "deletionVector"))]
"""The columns that loading needs: the statistics of many files take long to read."""
_REMOVE = pa.struct(
    [
        ("path", pa.string()),
        ("deletionTimestamp", pa.int64()),
        ("dataChange", pa.bool_()),
        ("extendedFileMetadata", pa.bool_()),
        ("partitionValues", _TEXTS),
        ("size", pa.int64()),
        ("deletionVector", _VECTOR),
    ]
)


# Checkpoints
class Checkpoint:
    """A checkpoint that was read."""

    def __init__(self, data: bytes, number: int, where: str, *, whole: bool = False) -> None:
        """Read the checkpoint of version ``number``: the columns for loading, or all of them.

        Raises:
            CorruptTable: it is not a checkpoint.
        """
        self.number = number
        try:
            with pq.ParquetFile(
                io.BytesIO(data), page_checksum_verification=True, pre_buffer=False
            ) as file:
                self._rows = file.read(columns=None if whole else _LOADED)
            self.rows = self._rows.num_rows
            self.adds = _adds(self._rows.column("add"))
        except (pa.ArrowException, OSError, KeyError) as error:
            raise CorruptTable(
                f"{where} is not a checkpoint of a Delta table ({error}): {way_out()}"
            ) from None

    @property
    def base(self) -> Base:
        """Return the version as the base of later changes."""
        return Base(
            files=self._files(),
            protocol=self.last("protocol"),
            metadata=self.last("metaData"),
            transactions={each["appId"]: each for each in self.all("txn")},
            checkpoint=self.number,
        )

    def last(self, kind: str) -> Json | None:
        """Return the only action of a kind; None if there is none."""
        found = self.all(kind)
        return found[-1] if found else None

    def all(self, kind: str) -> list[Json]:
        """Return the actions of a kind, in the form of versions."""
        column = self._rows.column(kind).drop_null()
        return [_plain(each, column.type) for each in column.to_pylist()]

    @property
    def vectors(self) -> list[Json]:
        """Return the descriptors of the vectors."""
        return list(self.adds.field("deletionVector").drop_null().to_pylist())

    def _files(self) -> Mapping[str, PublishedFile]:
        keys = pc.map_lookup(self.adds.field("tags"), KEY, "first").fill_null(UNKNOWN)
        vectors = self.adds.field("deletionVector")
        files = zip(
            map(unquote, self.adds.field("path").to_pylist()),
            keys.to_pylist(),
            self.adds.field("size").to_pylist(),
            vectors.to_pylist() if vectors.null_count < len(vectors) else repeat(None),
            strict=False,
        )
        return {
            path: PublishedFile(path=path, key=key, own=Placed(size, vector))
            for path, key, size, vector in files
        }


def encoded_checkpoint(before: Checkpoint | None, changes: Changes) -> tuple[bytes, int]:
    """Return a checkpoint and its number of rows: an earlier one, and the changes since."""
    adds = _changed(before.adds if before else pa.array([], _ADD), changes)
    transactions = {each["appId"]: each for each in before.all("txn")} if before else {}
    others: dict[str, list[Json | None]] = {
        "protocol": [changes.protocol or (before.last("protocol") if before else None)],
        "metaData": [changes.metadata or (before.last("metaData") if before else None)],
        "txn": [*(transactions | changes.transactions).values()],
    }
    rows = sum(map(len, others.values())) + len(adds)
    columns: dict[str, Any] = {}
    at = 0
    for name, kind in _OTHERS.items():
        columns[name] = _placed(pa.array(others[name], kind), at, rows)
        at += len(others[name])
    columns["add"] = _placed(adds, at, rows)
    columns["remove"] = pa.nulls(rows, _REMOVE)
    held = io.BytesIO()
    pq.write_table(pa.table(columns), held, compression="zstd", write_page_checksum=True)
    return held.getvalue(), rows


def _changed(adds: pa.StructArray, changes: Changes) -> pa.StructArray:
    """Return the unchanged added files, then the changed ones."""
    touched = pa.array([encoded_path(path) for path in changes.files], pa.string())
    kept = adds.filter(pc.invert(pc.is_in(adds.field("path"), touched)))
    new = pa.array([each for each in changes.files.values() if each is not None], _ADD)
    return pa.concat_arrays([kept, new])


def _placed(values: pa.Array, at: int, rows: int) -> pa.Array:
    """Return values as rows of a column that is null elsewhere."""
    after = rows - at - len(values)
    return pa.concat_arrays([pa.nulls(at, values.type), values, pa.nulls(after, values.type)])


def _adds(column: pa.ChunkedArray) -> pa.StructArray:
    """Return the added files of a checkpoint, which may be another writer's, in our columns."""
    found = column.drop_null().combine_chunks()
    names = {found.type.field(at).name for at in range(found.type.num_fields)}
    arrays = [
        found.field(field.name).cast(field.type)
        if field.name in names
        else pa.nulls(len(found), field.type)
        for field in _ADD.fields
    ]
    return pa.StructArray.from_arrays(arrays, fields=_ADD.fields)


def _plain(value: Any, kind: pa.DataType) -> Any:
    """Return a value in the form of versions: maps as objects, without nulls."""
    if pa.types.is_map(kind):
        return dict(value)
    if pa.types.is_struct(kind):
        return {
            field.name: _plain(value[field.name], field.type)
            for field in kind.fields
            if value[field.name] is not None
        }
    return value


_ATTEMPTS = 4
_OF_TABLES = {"metaData", "protocol", "add", "remove"}
"""Actions that only versions of a Delta table have."""
_Read = TypeVar("_Read")


# The log, read from a checkpoint or from a known version
@dataclass(frozen=True, slots=True)
class DeltaLog:
    """The log of a Delta table."""

    storage: Storage

    def newest(self, known: Published | None = None) -> Published | None:
        """Return the newest version; None if there is none."""
        return again(
            lambda: (self._from_known(known) if known else None) or self._from_checkpoint()
        )

    def remains(self) -> Published | None:
        """Return the decodable part, under the highest number; None if there are no files."""
        with suppress(CorruptTable, NotFound):
            if (found := self.newest()) and found.number == highest(self.storage):
                return remains_of(found)
        return self._decodable()

    def _decodable(self) -> Published | None:
        number, listing = highest(self.storage), listed(self.storage)
        base, changes, known = self._readable_base(listing), Changes(), False
        for n in (n for n in listing.commits if n > base.checkpoint):
            with suppress(CorruptTable, NotFound):
                actions = self.actions(n)
                changes.apply(actions)
                known = known or any(action.keys() & _OF_TABLES for action in actions)
        if number < 0:
            return None
        if (known or base.metadata) and not is_segtables(base, changes):
            raise ForeignTable(
                f"{self.storage.uri}/{LOG} has versions of a Delta table that segtable did not "
                "write: move it away, or set publish.delta to off"
            )
        attempt = self.attempt((number + 1,))
        return ruined(base, changes, number, attempt, self.storage.uri)

    def contents(self, head: Published) -> dict[str, Contents]:
        """Return the rows of each file of the newest version, and its hidden ones.

        Raises:
            CorruptTable: a part of the log, or a file of vectors, is missing or broken.
        """
        listing = listed_from_checkpoint(self.storage).through(head.number)
        adds: dict[str, Json | None] = {}
        if listing.checkpoints:
            found = self.checkpoint(listing.checkpoint, whole=True).adds.to_pylist()
            adds = {unquote(each["path"]): each for each in found}
        adds |= self.changes(listing.after(listing.checkpoint, self.storage.uri)).files
        vectors: dict[str, bytes] = {}
        return {path: self._contents(add, vectors) for path, add in adds.items() if add}

    def _contents(self, add: Json, vectors: dict[str, bytes]) -> Contents:
        """Return the rows of a file; each file of vectors is read once."""
        name = named_file(add.get("deletionVector"))
        try:
            rows = int(json.loads(add["stats"])["numRecords"])
            if not name:
                return Contents(rows=rows)
            if name not in vectors:
                vectors[name] = self.storage.read(name)
            return Contents(rows=rows, hidden=decoded_vector(vectors[name], add["deletionVector"]))
        except (NotFound, ValueError, KeyError, TypeError) as error:
            raise CorruptTable(
                f"{self._uri(name or LOG)}, of the rows of {add['path']}: {error}: {way_out()}"
            ) from error

    def named(self) -> frozenset[str]:
        """Return the paths of all data files that the decodable part names.

        A disordered log may be whole again soon, when its misplaced version is taken back.
        """
        listing = listed(self.storage)
        paths = {*self._readable_base(listing).files}
        for number in listing.commits:
            with suppress(CorruptTable, NotFound):
                changes = Changes()
                changes.apply(self.actions(number))
                paths |= changes.files.keys()
        return frozenset(paths)

    def _readable_base(self, listing: Listing) -> Base:
        for number in reversed(listing.checkpoints):
            with suppress(CorruptTable, NotFound):
                return self.checkpoint(number).base
        return Base()

    def checkpoint(self, number: int, *, whole: bool = False) -> Checkpoint:
        """Read a checkpoint: the columns for loading, or all of them."""
        path = checkpoint_path(number)
        return Checkpoint(self.storage.read(path), number, self._uri(path), whole=whole)

    def changes(self, numbers: Sequence[int], before: str = "") -> Changes:
        """Read the changes of versions, one after another.

        Args:
            numbers: those of the versions, without gaps.
            before: the attempt that put the version before them; by default it is read.

        Raises:
            Disordered: one of them changes another version than the one before it.
        """
        changes = Changes(attempt=before or self.attempt(numbers))
        for number in numbers:
            self.append(changes, number, self.actions(number))
        return changes

    def append(self, changes: Changes, number: int, actions: Sequence[Json]) -> None:
        """Apply a version to the changes of those before it.

        Raises:
            Disordered: it changes another version than the one before it.
        """
        if is_misplaced(actions, number, changes.attempt):
            raise Disordered(
                f"{self._uri(commit_path(number))} does not follow the version {number - 1} that "
                f"is there: {way_out()}"
            )
        changes.apply(actions)

    def attempt(self, numbers: Sequence[int]) -> str:
        """Return the attempt that put the version before the given ones; empty if unknown."""
        with suppress(CorruptTable):  # a checkpoint stands for it
            if numbers and numbers[0] > 0:
                return str(self.info(numbers[0] - 1).get("txnId", ""))
        return ""

    def actions(self, number: int) -> list[Json]:
        """Read the actions of a version."""
        path = commit_path(number)
        return decoded(self.storage.read(path), self._uri(path))

    def info(self, number: int) -> Json:
        """Read the ``commitInfo`` of a version, its first action; empty if it does not exist."""
        path = commit_path(number)
        try:
            first, _, _ = self.storage.read(path).partition(b"\n")
        except NotFound:
            return {}
        actions = decoded(first, self._uri(path))
        found: Json = actions[0].get("commitInfo", {}) if actions else {}
        return found

    def _uri(self, path: str) -> str:
        return f"{self.storage.uri}/{path}"

    def _from_checkpoint(self) -> Published | None:
        listing = listed_from_checkpoint(self.storage)
        start = listing.checkpoint
        later = listing.after(start, self.storage.uri)
        if start < 0:
            return self._version(Base(), listing, later) if later else None
        return self._version(self.checkpoint(start).base, listing, later)

    def _from_known(self, known: Published) -> Published | None:
        """Return the newest version if it follows a known one, else None.

        A version with all files follows none: readers start from its checkpoint.
        """
        unseen = known.own.seen is None
        listing, attempt = together(
            self.storage,
            lambda: listed(self.storage, known.number),
            lambda: self.info(known.number).get("txnId") if unseen else known.own.attempt,
        )
        entry = listing.commits.get(known.number)
        if entry is None or listing.gap(known.number) >= 0:
            return None
        if attempt != known.own.attempt or (
            known.own.seen and known.own.seen != (entry.size, entry.modified)
        ):
            return None
        if later := listing.after(known.number, self.storage.uri):
            with suppress(Disordered):
                return self._version(Base.of(known), listing, later, known.own.attempt)
            return None
        return replace(known, own=replace(known.own, seen=Seen(entry.size, entry.modified)))

    def _version(
        self, base: Base, listing: Listing, later: tuple[int, ...], before: str = ""
    ) -> Published:
        """Return a base, put by the attempt ``before``, with the changes of later versions."""
        changes = self.changes(later, before)
        number = later[-1] if later else listing.checkpoint
        if not later:
            changes.note(self.info(number))
        entry = listing.commits.get(number)
        seen = Seen(entry.size, entry.modified) if entry else None
        if listing.checkpoint > base.checkpoint:
            base = replace(base, checkpoint=listing.checkpoint, changes=0)
        return published(base, changes, number, seen, self.storage.uri)


def again(read: Callable[[], _Read]) -> _Read:
    """Read; repeat if files are swept meanwhile."""
    for _ in range(_ATTEMPTS - 1):
        with suppress(NotFound):
            return read()
    return read()


def hinted(number: int, rows: int) -> bytes:
    """Return the hint that names a checkpoint."""
    return json.dumps({"version": number, "size": rows}).encode()


ATTEMPT_US = DAY_US
"""The longest that an attempt takes from loading a version to putting the next one."""


# Needed files, and files to sweep
@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """The needed files of a target; ``head`` was its newest version."""

    log: DeltaLog
    head: Published
    since: Instant

    def needed_files(self) -> frozenset[str]:
        """Return the paths of data files that readers may need."""
        listing = listed(self.log.storage)
        listing.after(listing.checkpoint, self.log.storage.uri)
        first = self._first_after(self.since, listing)
        touched = {
            unquote(body["path"])
            for number in listing.commits
            if number >= first
            for action in self._readable(number)
            for kind, body in action.items()
            if kind in ("add", "remove")
        }
        return frozenset(touched | self.head.files.keys())

    def swept(self, *, dry_run: bool) -> tuple[str, ...]:
        """Delete the files that are not needed; return the paths."""
        listing = listed(self.log.storage)
        kept = min(self._first_after(self._swept_before, listing) - 1, self.head.number)
        base = listing.through(kept).checkpoint
        gone = [
            *(commit_path(n) for n in listing.commits if n < base),
            *(checkpoint_path(n) for n in listing.checkpoints if n < base),
            *self._unnamed_vectors(listing, base),
        ]
        if not dry_run:
            if hint(self.log.storage) < base:
                rows = self.log.checkpoint(listing.checkpoint).rows
                self.log.storage.replace(HINT, hinted(listing.checkpoint, rows))
            for path in gone:
                self.log.storage.delete(path)
        return tuple(gone)

    @property
    def _swept_before(self) -> Instant:
        return self.since - ATTEMPT_US

    def _first_after(self, since: Instant, listing: Listing) -> int:
        """Return the first version put after a time; the newest plus one if there is none."""
        numbers = sorted(listing.commits)
        first = next(
            (n for n in numbers if listing.commits[n].modified > since),
            max(numbers, default=self.head.number) + 1,
        )
        while first - 1 in listing.commits and self._event_time(first - 1) > since:
            first -= 1
        return first

    def _event_time(self, number: int) -> Instant:
        try:
            mark = marked(self.log.info(number))
        except CorruptTable:  # published over
            return 0
        return Instant(mark["time"]) if mark else 0

    def _readable(self, number: int) -> list[Json]:
        """Return the actions of a version; none if it cannot be decoded, and was replaced."""
        try:
            return self.log.actions(number)
        except CorruptTable:
            if number >= self.head.number:
                raise
            return []

    def _unnamed_vectors(self, listing: Listing, base: int) -> list[str]:
        """Return old files of vectors that no version from a checkpoint on names."""
        old = [
            entry.path
            for entry in self.log.storage.list(VECTORS)
            if is_vectors(entry.path) and entry.modified < self._swept_before
        ]
        if not old:
            return []
        named: set[str] = set()
        with suppress(CorruptTable):  # it was published over
            named |= {*map(named_file, self.log.checkpoint(base).vectors if base >= 0 else ())}
        for number in listing.commits:
            for action in self._readable(number) if number > base else ():
                named.add(named_file(action.get("add", {}).get("deletionVector")))
        return [path for path in old if path not in named]
