"""Find the tables of a fleet: read its file, and list the folders that its globs name.

1. A table is a folder with a folder ``_segtable``. Nothing below it is looked at.
2. Only folders are listed that may have a table of the fleet below them. One listing names all
   folders of one, however many objects they hold. In an object store a level is listed at once.
3. The tables that were found some minutes ago are not searched again (``tables_again``).
4. The search is bounded: after ``MOST_LISTINGS`` it ends, and says that it is incomplete.
5. A folder that cannot be listed, such as a bucket that is gone, is reported and left out: it hides
   no other table. Only a search of which nothing can be listed is an error.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

from airflow_provider_segtable.core.errors import InvalidInput, NotFound, SegtableError
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.planning.fleet.fleet import Fleet
from airflow_provider_segtable.planning.fleet.fleet_file import read_fleet
from airflow_provider_segtable.planning.fleet.fleet_memory import (
    FoundTables,
    globs_of,
    listed_already,
)
from airflow_provider_segtable.ports.storage import Storage
from airflow_provider_segtable.storage import open_storage

LOG_FOLDER = "_segtable"
MOST_LISTINGS = 20_000
AT_ONCE = 16

Opened = Callable[[str], Storage]
"""Opens the storage of a URI; of the fleet's root if it is empty."""


def load_fleet(file: str, options: dict[str, str] | None = None) -> Fleet:
    """Read a fleet file from a path or a URI.

    Raises:
        InvalidFleet: it has faults.
        InvalidInput: it is not there, or no text.
    """
    return read_fleet(fleet_text(file, options), file)


def fleet_text(file: str, options: dict[str, str] | None = None) -> str:
    """Return the text of a fleet file.

    Raises:
        InvalidInput: it is not there, or no text.
    """
    folder, _, name = file.replace("\\", "/").rpartition("/")
    try:
        if "://" in file:
            return open_storage(folder, options).read(name).decode()
        return Path(file).read_text(encoding="utf-8")
    except (NotFound, FileNotFoundError, IsADirectoryError):
        raise InvalidInput(f"there is no fleet file {file}: give its path or URI") from None
    except UnicodeDecodeError:
        raise InvalidInput(f"{file} is not a text in UTF-8, so not a fleet file") from None


def find_tables(fleet: Fleet, opened: Opened, most: int = MOST_LISTINGS) -> FoundTables:
    """Find the tables of a fleet.

    Args:
        fleet: the file.
        opened: opens the storage of the root, and of each URI that the file names.
        most: how many folders are listed at most.

    Raises:
        SegtableError, OSError: no folder can be listed; the error of the first.
    """
    search = _Search(fleet, most)
    for prefix in fleet.prefixes():
        search.below(prefix, opened)
    if search.unread and len(search.unread) == search.listings:
        raise next(iter(search.unread.values()))
    return FoundTables(
        names=tuple(sorted(search.found)),
        listings=search.listings,
        complete=search.listings < most,
        unread={at: f"{type(error).__name__}: {error}" for at, error in search.unread.items()},
    )


def tables_again(
    fleet: Fleet, opened: Opened, before: FoundTables | None, now: Instant
) -> FoundTables:
    """Return the tables of the last search if it is recent, or else search again.

    Args:
        fleet: the file.
        opened: as ``find_tables``.
        before: the last search.
        now: the wall clock.

    Raises:
        SegtableError, OSError: as ``find_tables``.
    """
    globs = globs_of(fleet)
    if before is not None and listed_already(before, globs, now):
        return before
    return replace(find_tables(fleet, opened), at=now, globs=globs)


_Failure = SegtableError | OSError


class _Search:
    """A search under way."""

    def __init__(self, fleet: Fleet, most: int) -> None:
        self.found: set[str] = set()
        self.unread: dict[str, _Failure] = {}
        self.listings = 0
        self._fleet = fleet
        self._most = most

    def below(self, prefix: str, opened: Opened) -> None:
        """Search a folder and what is below it, level by level."""
        base, start = (prefix, "") if "://" in prefix else ("", prefix)
        try:
            storage = opened(base)
        except (SegtableError, OSError) as error:
            self.listings += 1
            self.unread[prefix] = error
            return
        with ThreadPoolExecutor(AT_ONCE if storage.remote else 1) as pool:
            level: Sequence[str] = (start,)
            while level and self.listings < self._most:
                level = level[: self._most - self.listings]
                self.listings += len(level)
                listed = pool.map(lambda at: _listed(storage, at), level)
                pairs = zip(level, listed, strict=True)
                level = [each for at, names in pairs for each in self._seen(base, at, names)]

    def _seen(self, base: str, at: str, names: Sequence[str] | _Failure) -> Iterator[str]:
        """Keep a table, or the error of a listing; yield the folders to look at next."""
        if isinstance(names, SegtableError | OSError):
            self.unread[_joined(base, at) or "."] = names
            return
        if LOG_FOLDER in names:
            table = _joined(base, at)
            if self._fleet.holds(table):
                self.found.add(table)
            return
        for name in names:
            below = _joined(at, name)
            if self._leads_to_tables(_joined(base, below)) and name[0] not in "._":
                yield below

    def _leads_to_tables(self, path: str) -> bool:
        return self._fleet.holds(path) or self._fleet.may_hold_below(path)


def _listed(storage: Storage, folder: str) -> Sequence[str] | _Failure:
    try:
        return storage.folders(folder)
    except (SegtableError, OSError) as error:
        return error


def _joined(*parts: str) -> str:
    return "/".join(part for part in parts if part)
