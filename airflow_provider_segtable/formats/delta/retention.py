"""What readers of the published versions may need, and what is swept.

1. A version is replaced when the next one was put: the storage's time of that file, or the time of
   the event if it is later. If clocks differ, more is kept.
2. Needed are the files of the newest version, and all that a version put after ``since`` added or
   removed: these are the files of each version that was replaced after ``since``.
3. A sweep leaves everything for ``ATTEMPT_US`` longer. So no attempt to put a version finds its
   number free again because that version was swept, nor its file of vectors gone.
4. The log is swept below a checkpoint from which all these versions can be read. Later versions and
   checkpoints stay. A file of vectors is swept if no version that can be read names it.
5. A version that cannot be decoded, and has been published over, needs nothing that is not known
   by other versions: its readers fail.
"""

from contextlib import suppress
from dataclasses import dataclass
from urllib.parse import unquote

from airflow_provider_segtable.core.errors import CorruptTable
from airflow_provider_segtable.core.time import DAY_US, Instant
from airflow_provider_segtable.formats.delta.delta_log import DeltaLog, hinted
from airflow_provider_segtable.formats.delta.log_files import (
    HINT,
    VECTORS,
    Json,
    Listing,
    checkpoint_path,
    commit_path,
    hint,
    is_vectors,
    listed,
)
from airflow_provider_segtable.formats.delta.published_version import marked
from airflow_provider_segtable.formats.delta.vectors import named_file
from airflow_provider_segtable.formats.format import Published

ATTEMPT_US = DAY_US
"""The longest that an attempt takes from loading a version to putting the next one."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Retention:
    """What is needed of a target; ``head`` was its newest version."""

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
        """Delete what is not needed; return the paths."""
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
        """Return the first version put after a time; the one after the newest if none was."""
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
