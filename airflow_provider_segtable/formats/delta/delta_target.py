"""Delta Lake as a format: a log of actions in ``_delta_log`` of a table's root, and vectors.

1. *Put*: first the file of vectors, then the version, by put-if-absent. If the outcome is unknown,
   or the number is taken, the content of the stored version shows its author.
2. A checkpoint follows a version from time to time: after some versions, more if there are many
   files, or after many changes. It saves time only: if it cannot be written, the next version is
   followed by one.
3. A version after another table's, or after a damaged log, is followed by a checkpoint of itself
   alone at once: readers then need no earlier file.
"""

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import ClassVar
from uuid import UUID

from airflow_provider_segtable.core.errors import (
    AlreadyExists,
    CorruptTable,
    NotFound,
    OutcomeUnknown,
    StorageError,
)
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.formats.delta.delta_commit import Commit, commit_of
from airflow_provider_segtable.formats.delta.delta_log import (
    Checkpoint,
    DeltaLog,
    Retention,
    again,
    encoded_checkpoint,
    hinted,
)
from airflow_provider_segtable.formats.delta.log_files import (
    HINT,
    LOG,
    VECTORS,
    Disordered,
    checkpoint_path,
    commit_path,
    has_number,
    is_own,
    listed,
    listed_from_checkpoint,
    refusal,
    vectors_path,
)
from airflow_provider_segtable.formats.delta.published_version import (
    Base,
    Changes,
    Own,
    published,
)
from airflow_provider_segtable.formats.format import Contents, Published, Revision, Target
from airflow_provider_segtable.ports.clock import Randomness
from airflow_provider_segtable.ports.storage import Storage
from airflow_provider_segtable.storage.local import SystemRandomness
from airflow_provider_segtable.storage.together import together

FEWEST, MOST = 10, 100
"""Versions from one checkpoint to the next one."""
FILES = 1000
"""Files that add one version between checkpoints, and least changes that call for a checkpoint."""


class DeltaTarget:
    """``formats.format.Target`` of Delta Lake."""

    def __init__(self, storage: Storage, randomness: Randomness | None = None) -> None:
        """Open the target in a table's root; nothing is read."""
        self._storage = storage
        self._log = DeltaLog(storage)
        self._random = randomness or SystemRandomness()

    @property
    def address(self) -> str:
        """Return the table's root: readers open it."""
        return self._storage.uri

    def load(self, known: Published | None = None) -> Published | None:
        """Return the newest published version; None if there is none."""
        return self._log.newest(known)

    def put(self, known: Published | None, revision: Revision) -> Published | None:
        """Put a version after ``known``; None if another publisher took its number."""
        attempt = UUID(self._random.token() + self._random.token())
        commit = commit_of(known, revision, attempt)
        if commit.vectors:
            with suppress(AlreadyExists):  # an earlier request of the same attempt
                self._storage.create(vectors_path(attempt), commit.vectors)
        if not self._created(commit):
            return None
        changes = Changes()
        changes.apply(commit.actions)
        base = Base.of(known) if known else Base()
        made = published(base, changes, commit.number, None, self.address)
        made = replace(made, own=replace(made.own, vectors=bool(commit.vectors)))
        if known is not None and known.table_id != revision.table.table_id:
            made = replace(made, own=replace(made.own, before=known.own.attempt))
            if not (has_number(self._storage, known.number) and self._follows(made)):
                return made  # removed meanwhile: it does not hold
            kept = self._write_checkpoint(commit, None, changes)
            return _checkpointed(made) if kept else made
        if known is not None:
            made = replace(made, own=replace(made.own, before=known.own.attempt))
        return self._with_checkpoint(made, commit) if _due(made) else made

    def remains(self) -> Published | None:
        """Return the remains of any target, for a version with all files to follow; or None."""
        return self._log.remains()

    def holds(self, put: Published) -> bool:
        """Return whether the vectors, and the version before or a checkpoint, are present.

        After a removal another version may have the number of the one before.
        """
        before = put.number - 1
        own, named = vectors_path(UUID(put.own.attempt)), put.own.vectors
        there, follows, vectors = together(
            self._storage,
            lambda: listed(self._storage, max(before, 0)),
            lambda: self._follows(put),
            lambda: {each.path for each in self._storage.list(VECTORS)} if named else {own},
        )
        whole = before < 0 or before in there.commits or there.checkpoint >= before
        if not whole or (put.number not in there.commits and there.checkpoint < put.number):
            return False
        return follows and own in vectors

    def _follows(self, put: Published) -> bool:
        """Return whether the version before is the one that this one follows, or is unknown."""
        before = put.own.before
        return not before or self._log.attempt((put.number,)) in ("", before)

    def take_back(self, put: Published) -> None:
        """Delete a version that this process put, with its vectors, unless another follows it."""
        number, attempt = put.number, put.own.attempt
        own = self._log.info(number).get("txnId") == attempt
        if own and listed(self._storage, number).newest <= number:
            self._storage.delete(commit_path(number))
            if put.own.checkpoint == number:
                self._storage.delete(HINT)
                self._storage.delete(checkpoint_path(number))
            self._storage.delete(vectors_path(UUID(attempt)))

    def contents(self, head: Published) -> Mapping[str, Contents]:
        """Return the rows of each data file and its hidden ones, from the log and the vectors."""
        return again(lambda: self._log.contents(head))

    def needed(self, since: Instant) -> frozenset[str]:
        """Return the paths of data files that readers may need."""
        return again(lambda: self._needed(since))

    def sweep(self, since: Instant, *, dry_run: bool = False) -> tuple[str, ...]:
        """Delete files that only versions replaced before ``since`` reference."""
        return again(lambda: self._swept(since, dry_run=dry_run))

    def _needed(self, since: Instant) -> frozenset[str]:
        try:
            retention = self._retention(since)
            return retention.needed_files() if retention else frozenset()
        except Disordered:
            self.remains()  # another tool's table is refused
            return self._log.named()

    def _swept(self, since: Instant, *, dry_run: bool) -> tuple[str, ...]:
        try:
            retention = self._retention(since)
        except Disordered:
            return ()
        return retention.swept(dry_run=dry_run) if retention else ()

    def _retention(self, since: Instant) -> Retention | None:
        """Return the retention; None if there is no version."""
        try:
            head = self.load()
        except CorruptTable as error:
            if isinstance(error, Disordered):
                raise
            head = self.load()  # it may have been published over meanwhile
        return Retention(log=self._log, head=head, since=since) if head else None

    def _created(self, commit: Commit) -> bool:
        """Create a version; return whether it is this attempt's.

        Raises:
            OutcomeUnknown: it does not exist, but may still be created.
        """
        path, data = commit_path(commit.number), commit.data
        try:
            self._storage.create(path, data)
        except AlreadyExists:
            return self._has_content(path, data)
        except OutcomeUnknown:
            try:
                return self._storage.read(path) == data
            except NotFound:
                pass
            raise
        return True

    def _has_content(self, path: str, data: bytes) -> bool:
        try:
            return self._storage.read(path) == data
        except NotFound:  # swept
            return False

    def _with_checkpoint(self, made: Published, commit: Commit) -> Published:
        """Write the checkpoint of a version, if it can be written."""
        try:
            kept = self._write_next_checkpoint(commit)
        except (StorageError, CorruptTable):
            return made
        return _checkpointed(made) if kept else made

    def _write_next_checkpoint(self, commit: Commit) -> bool:
        number = commit.number
        listing = listed_from_checkpoint(self._storage).through(number - 1)
        if listing.newest != number - 1:
            raise NotFound(f"{self.address}: version {number - 1} is not listed")
        before = (
            self._log.checkpoint(listing.checkpoint, whole=True) if listing.checkpoints else None
        )
        changes = self._log.changes(listing.after(listing.checkpoint, self.address))
        changes.attempt = changes.attempt or self._log.attempt((number,))
        self._log.append(changes, number, commit.actions)
        return self._write_checkpoint(commit, before, changes)

    def _write_checkpoint(
        self, commit: Commit, before: Checkpoint | None, changes: Changes
    ) -> bool:
        """Write the checkpoint of a version; return whether the version still exists afterwards.

        Otherwise the version was removed meanwhile, and readers of its successors would take the
        checkpoint for the newest version: it is deleted.
        """
        number = commit.number
        data, rows = encoded_checkpoint(before, changes)
        path = checkpoint_path(number)
        with suppress(AlreadyExists):
            self._storage.create(path, data)
        if self._still_exists(commit):
            self._storage.replace(HINT, hinted(number, rows))
            if self._still_exists(commit):
                return True
            self._storage.delete(HINT)  # some readers fail if it names a missing checkpoint
        if self._has_content(path, data):  # not that of another publisher
            self._storage.delete(path)
        return False

    def _still_exists(self, commit: Commit) -> bool:
        """Return whether a version that was put still exists."""
        return self._log.info(commit.number).get("txnId") == str(commit.attempt)


def _checkpointed(made: Published) -> Published:
    return replace(made, own=replace(made.own, checkpoint=made.number, changes=0))


def _due(made: Published) -> bool:
    """Return whether a checkpoint pays."""
    own: Own = made.own
    few = min(max(FEWEST, len(made.files) // FILES), MOST)
    return made.number - own.checkpoint >= few or own.changes >= max(FILES, len(made.files))


class DeltaFormat:
    """``formats.format.Format`` of Delta Lake."""

    name: ClassVar[str] = "delta"
    title: ClassVar[str] = "Delta Lake"
    folders: ClassVar[tuple[str, ...]] = (LOG, VECTORS)

    def target(self, storage: Storage, randomness: Randomness | None = None) -> Target:
        """Return the target in a table's root."""
        return DeltaTarget(storage, randomness)

    def refusal(self, table: TableDefinition, schemas: Collection[int]) -> str:
        """Return the reason if a version cannot be published, with the way out, else empty."""
        return refusal(table, schemas)

    def register(self, published: Published, properties: Mapping[str, str]) -> str:  # noqa: ARG002
        """Return nothing: readers open the table by its address."""
        return ""

    def is_own(self, path: str) -> bool:
        """Return whether a target gives such a name to its files."""
        return is_own(path)
