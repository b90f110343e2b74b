"""The targets in a table's root: the files that readers need, obsolete ones, and their removal.

1. All formats are asked, whether or not the table publishes in them now: readers may still open a
   version that was published before.
2. A target that cannot be read is an error, because its readers may need any file. So is one that
   another tool wrote: a table that was converted in place names the same data files.
3. *Read the targets after the event that gives files up.* A publisher puts a version, then checks
   that the log still keeps its event (``table.publishing.publisher``). So either the reader of
   the targets finds that version, or its publisher finds the event, and publishes a newer one.
4. The files of a target belong to the table and are dropped with it, except those of another tool's
   table.

Removal of a format's target, without the table itself and its data files:

5. Only files with names that a target gives, in the folders of the format, are deleted; and none if
   another tool's table is there. A damaged target is removed like a whole one.
6. The newest files are deleted first. So after an interruption the rest is a version that was
   published, or nothing. Then remove it again.
7. Files are listed until there are none: a publisher may have put a version meanwhile. If it puts
   one after the last listing, it finds that the versions before are gone, and takes it back.
"""

from collections.abc import Iterator, Mapping

from airflow_provider_segtable.core.errors import ForeignTable
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.formats.format import Format
from airflow_provider_segtable.ports.storage import Entry, Storage
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.event_log import EventLog


def published_paths(ports: TableContext, since: Instant) -> frozenset[str]:
    """Return the data files of each newest published version, and of those replaced ``since``.

    Raises:
        ForeignTable, CorruptTable, StorageError: a target cannot be read: delete nothing.
    """
    needed: frozenset[str] = frozenset()
    for each in ports.formats.values():
        try:
            needed |= each.target(ports.storage).needed(since)
        except ForeignTable as error:
            raise ForeignTable(
                f"{ports.uri}: nothing was deleted, because that table's readers may need it: "
                f"{error}"
            ) from error
    return needed


def sweep_targets(
    ports: TableContext, since: Instant, *, dry_run: bool
) -> Mapping[str, tuple[str, ...]]:
    """Delete obsolete files of all targets; return the paths by format, if there are any."""
    swept = {
        name: each.target(ports.storage).sweep(since, dry_run=dry_run)
        for name, each in ports.formats.items()
    }
    return {name: paths for name, paths in swept.items() if paths}


def target_files(ports: TableContext) -> Iterator[tuple[Entry, bool]]:
    """Yield the files in the folders of targets, each with whether segtable wrote it.

    Raises:
        StorageError: a target cannot be read.
    """
    for each in ports.formats.values():
        entries = [entry for folder in each.folders for entry in ports.storage.list(folder)]
        foreign = bool(entries) and _is_foreign(each, ports.storage)
        yield from ((entry, not foreign and each.is_own(entry.path)) for entry in entries)


def target_folders(ports: TableContext) -> tuple[str, ...]:
    """Return the folders of all formats' targets below a table's root."""
    return tuple(folder for each in ports.formats.values() for folder in each.folders)


def own_paths(storage: Storage, each: Format, folder: str) -> list[str]:
    """Return the paths of segtable's own files in one folder of a target, ascending."""
    return [entry.path for entry in storage.list(folder) if each.is_own(entry.path)]


def withdraw(ports: TableContext, each: Format) -> None:
    """Delete the target of a dropped table, as its drop does, unless a new table replaced it.

    Files are listed before the log is read, so none of a new table is among them.
    """
    own = [path for folder in each.folders for path in own_paths(ports.storage, each, folder)]
    if EventLog(ports.storage).end() is not None:
        for path in own:
            ports.storage.delete(path)


def _is_foreign(each: Format, storage: Storage) -> bool:
    try:
        each.target(storage).remains()  # files of a damaged target are known by their names
    except ForeignTable:
        return True
    return False


LOOKS = 100
"""Most listings of files, if publishers put versions meanwhile."""


def remove_published(
    ports: TableContext, form: Format, *, dry_run: bool = False
) -> tuple[str, ...]:
    """Delete all files of a target; return their paths, relative to the table's root.

    Raises:
        ForeignTable: another tool's table is there; nothing was deleted.
        StorageError: remove it again.
    """
    form.target(ports.storage).remains()
    ports.publications.forget(form.name)
    if dry_run:
        return tuple(_own(ports, form))
    deleted: dict[str, None] = {}
    for _ in range(LOOKS):
        found = [*_own(ports, form)]
        if not found:
            break
        for path in found:
            ports.storage.delete(path)
        deleted |= dict.fromkeys(found)
    for folder in form.folders:
        ports.storage.prune(folder)
    return tuple(deleted)


def _own(ports: TableContext, form: Format) -> Iterator[str]:
    for folder in form.folders:
        yield from reversed(own_paths(ports.storage, form, folder))
