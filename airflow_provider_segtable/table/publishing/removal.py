"""Removal of what is published in a format: the table itself and its data files stay.

1. Only files with names that a target gives, in the folders of the format, are deleted; and none if
   another tool's table is there. A damaged target is removed like a whole one.
2. The newest are deleted first: so whatever stays, if the removal is interrupted, is a version that
   was published, or nothing. Then remove it again.
3. Files are listed until there are none: a publisher may have put a version meanwhile. If it puts
   one after the last listing, it finds that the versions before are gone, and takes it back.
"""

from collections.abc import Iterator

from airflow_provider_segtable.formats.format import Format
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.publishing.targets import own_paths

LOOKS = 100
"""How often files are listed at most, if publishers put versions all the while."""


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
