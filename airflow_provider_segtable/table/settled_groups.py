"""Find the settlements that a version uses, and load their vectors.

1. A settlement of the version is used iff its files are all visible in the group
   (``core.settlement``).
2. Vectors are kept in memory as plain data (``table.entry_cache``), the vector files of a read are
   loaded in parallel from an object store.
3. No read depends on a settlement. If its vectors cannot be read, one warning says so, and all
   files of the group are merged.
"""

import logging
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pyarrow as pa

from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.settlement import Settlement, usable
from airflow_provider_segtable.data.keyed.file_groups import FileGroup
from airflow_provider_segtable.data.keyed.row_fates import Fates
from airflow_provider_segtable.data.keyed.settled_file import fates_in, read_settled
from airflow_provider_segtable.data.open_files import is_remote
from airflow_provider_segtable.data.vector_file import AT_ONCE
from airflow_provider_segtable.table.context import TableContext

_LOG = logging.getLogger(__name__)


def used_settlement(state: State, group: FileGroup) -> Settlement | None:
    """Return the settlement of a file group that a version uses; None without one."""
    chunk = group.segments[0].id.chunk
    found = state.settled.get(chunk)
    if found is None:
        return None
    visible = (s for each in state.timeline.visible_groups(chunk) for s in each.segments)
    return found if usable(found.group, visible) else None


def with_settlements(
    ports: TableContext, state: State, groups: Iterable[FileGroup]
) -> tuple[FileGroup, ...]:
    """Return file groups of a version with the fates of their settled rows."""
    found = [(group, used_settlement(state, group)) for group in groups]
    used = {each.path: each for _, each in found if each is not None}
    if len(used) > 1 and is_remote(ports.files):
        with ThreadPoolExecutor(AT_ONCE, "segtable-settled") as pool:
            list(pool.map(lambda each: _table(ports, each), used.values()))
    return tuple(
        group if each is None else replace(group, settled=_fates(ports, each))
        for group, each in found
    )


def _fates(ports: TableContext, settlement: Settlement) -> Fates | None:
    """Return the fates of a group's rows; None if its vectors cannot be read."""
    table = _table(ports, settlement)
    if table is None:
        return None

    def made() -> tuple[Fates | None, int]:
        try:
            rows = fates_in(table, settlement.group.chunk)
        except SegtableError as error:
            _warn(ports, settlement, error)
            return None, 0
        found = {partition: each.packed() for partition, each in rows.items()}
        size = sum(len(e.unshown) + len(e.lost) + len(e.open) + 64 for e in found.values())
        return (found if found.keys() == {*settlement.group.files} else None), size

    return ports.entries.view((settlement.path, settlement.group.chunk), made)


def _table(ports: TableContext, settlement: Settlement) -> pa.Table | None:
    def made() -> tuple[pa.Table, int]:
        table = read_settled(ports.files, settlement.path, settlement.checksum)
        return table, table.nbytes

    try:
        return ports.entries.view((settlement.path,), made)
    except (SegtableError, OSError) as error:
        _warn(ports, settlement, error)
        return None


def _warn(ports: TableContext, settlement: Settlement, error: Exception) -> None:
    if ports.entries.warns(settlement.path):
        _LOG.warning("%s: settled rows are not used: %s", ports.uri, error)
