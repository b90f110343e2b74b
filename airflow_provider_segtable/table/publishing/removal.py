"""Removal of what is published in a format: the table itself and its data files stay.

1. Only files with names that a target gives, in the folders of the format, are deleted; and none if
   another tool's table is there.
2. The newest are deleted first: so whatever stays, if the removal is interrupted, is a version that
   was published, or nothing. Then remove it again.
"""

from airflow_provider_segtable.formats.format import Format
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.publishing.targets import own_paths


def remove_published(
    ports: TableContext, form: Format, *, dry_run: bool = False
) -> tuple[str, ...]:
    """Delete all files of a target; return their paths, relative to the table's root.

    Raises:
        ForeignTable: another tool's table is there; nothing was deleted.
        CorruptTable: it cannot be read, so it may be another tool's; nothing was deleted.
        StorageError: remove it again.
    """
    form.target(ports.storage).load()
    ports.publications.forget(form.name)
    own = [
        path for folder in form.folders for path in reversed(own_paths(ports.storage, form, folder))
    ]
    if dry_run:
        return tuple(own)
    for path in own:
        ports.storage.delete(path)
    for folder in form.folders:
        ports.storage.prune(folder)
    return tuple(own)
