"""The log of a Delta table, as it is in storage: read from a checkpoint, or from a known version.

1. A version is read from the newest checkpoint and the versions after it.
2. It is read from a known version, too, if that one and all after it are still there: a version
   that has its number and another content is of another log.
3. Whose event the newest version shows is said by that version itself, also behind a checkpoint.
4. Storage may be swept meanwhile: what is gone is listed again (``again``).
5. Of a damaged log, what can be decoded is read on its own (``remains``): the newest checkpoint
   that can, and all versions after it. A table of whose versions some can be decoded, and none
   of these is segtable's, is another tool's.
"""

import json
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import TypeVar
from urllib.parse import unquote

from airflow_provider_segtable.core.errors import CorruptTable, ForeignTable, NotFound
from airflow_provider_segtable.formats.delta.checkpoint import Checkpoint
from airflow_provider_segtable.formats.delta.log_files import (
    LOG,
    Disordered,
    Json,
    Listing,
    checkpoint_path,
    commit_path,
    decoded,
    highest,
    listed,
    listed_from_checkpoint,
    way_out,
)
from airflow_provider_segtable.formats.delta.published_version import (
    Base,
    Changes,
    Own,
    Seen,
    is_misplaced,
    is_segtables,
    published,
    remains_of,
    ruined,
)
from airflow_provider_segtable.formats.delta.vectors import decoded_vector, named_file
from airflow_provider_segtable.formats.format import Contents, Published
from airflow_provider_segtable.ports.storage import Entry, Storage

_ATTEMPTS = 4
_OF_TABLES = {"metaData", "protocol", "add", "remove"}
"""Actions by which a version is one of a Delta table."""
_Read = TypeVar("_Read")


@dataclass(frozen=True, slots=True)
class DeltaLog:
    """The log of a Delta table."""

    storage: Storage

    def newest(self, known: Published | None = None) -> Published | None:
        """Return the newest version; None if there is none."""
        return again(lambda: (self._later(known) if known else None) or self._anew())

    def remains(self) -> Published | None:
        """Return what can be decoded, under the highest number; None if nothing is there."""
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
            CorruptTable: a part of the log, or a file of vectors, is gone or broken.
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
        """Return the paths of all data files that anything says which can be decoded.

        A disordered log may be whole again soon, when the version is taken back that is misplaced.
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
        """Read a checkpoint: what loading needs, or the whole of it."""
        path = checkpoint_path(number)
        return Checkpoint(self.storage.read(path), number, self._uri(path), whole=whole)

    def changes(self, numbers: Sequence[int], before: str = "") -> Changes:
        """Read what versions change, one after another.

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
        """Return the attempt that put the version before some; empty if that is not known."""
        with suppress(CorruptTable):  # a checkpoint stands for it
            if numbers and numbers[0] > 0:
                return str(self.info(numbers[0] - 1).get("txnId", ""))
        return ""

    def actions(self, number: int) -> list[Json]:
        """Read the actions of a version."""
        path = commit_path(number)
        return decoded(self.storage.read(path), self._uri(path))

    def info(self, number: int) -> Json:
        """Read what a version says of itself in its first action; empty if it is not there."""
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

    def _anew(self) -> Published | None:
        listing = listed_from_checkpoint(self.storage)
        start = listing.checkpoint
        later = listing.after(start, self.storage.uri)
        if start < 0:
            return self._version(Base(), listing, later) if later else None
        return self._version(self.checkpoint(start).base, listing, later)

    def _later(self, known: Published) -> Published | None:
        """Return the newest version, if it follows a known one.

        One with all files does not: readers start from its checkpoint.
        """
        listing = listed(self.storage, known.number)
        entry = listing.commits.get(known.number)
        if entry is None or listing.gap(known.number) >= 0 or not self._same(known, entry):
            return None
        if later := listing.after(known.number, self.storage.uri):
            with suppress(Disordered):
                return self._version(Base.of(known), listing, later, known.own.attempt)
            return None
        return replace(known, own=replace(known.own, seen=Seen(entry.size, entry.modified)))

    def _same(self, known: Published, entry: Entry) -> bool:
        own: Own = known.own
        if own.seen:
            return own.seen == (entry.size, entry.modified)
        return self.info(known.number).get("txnId") == own.attempt

    def _version(
        self, base: Base, listing: Listing, later: tuple[int, ...], before: str = ""
    ) -> Published:
        """Return a base, which the attempt ``before`` put, with the changes of later versions."""
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
    """Read, and read again if files are swept meanwhile."""
    for _ in range(_ATTEMPTS - 1):
        with suppress(NotFound):
            return read()
    return read()


def hinted(number: int, rows: int) -> bytes:
    """Return the hint that names a checkpoint."""
    return json.dumps({"version": number, "size": rows}).encode()
