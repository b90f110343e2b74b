"""The indexes of a stress run: what they are, who builds them, and what must be left of them.

The indexer builds what is lacking, and now and then begins an index anew, beside everybody, who
brings entries with each commit. In the end every entry must be what its file gives.
"""

from collections.abc import Iterator, Mapping

from airflow_provider_segtable.core.indexes.index_kind import (
    BloomFilter,
    ColumnStats,
    FileList,
    IndexKind,
    column_ids,
)
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.index_run import IndexRun, run_index
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.index_lifecycle import rebuild_index, request_index
from tests.simulation.indexes.index_oracle import wrong_indexes

REBUILD_EVERY = 7
"""Runs after which an index is begun anew."""
PAUSED_EVERY = 3
"""Runs of which one stops after its first piece."""
KIND = "index"


def request_indexes(ports: TableContext, column: str) -> None:
    """Ask for an index of each kind."""
    columns = column_ids([column], ports.log.load().table)
    kinds: Mapping[str, IndexKind] = {
        "files": FileList(),
        "stats": ColumnStats(columns=columns),
        "bloom": BloomFilter(columns=columns),
    }
    for name, kind in kinds.items():
        request_index(ports, name, kind)


def run_once(ports: TableContext, turn: int) -> IndexRun:
    """Build one of the indexes, by turns, or begin it anew."""
    names = sorted(ports.log.load().indexes)
    name = names[turn % len(names)]
    if turn % REBUILD_EVERY == 0:
        rebuild_index(ports, name)
    timeout_s = 0.0 if turn % PAUSED_EVERY == 0 else None
    return run_index(ports, name, in_process(ports.files), timeout_s=timeout_s)


def finish_indexes(ports: TableContext) -> Iterator[str]:
    """Build what is left; yield what is lacking even then, and every wrong entry."""
    for name in ports.log.load().indexes:
        run_index(ports, name, in_process(ports.files))
    state = ports.log.load()
    for name, index in state.indexes.items():
        if not index.current:
            yield f"index {name} lacks {index.lacks}"
    yield from wrong_indexes(state, ports)
