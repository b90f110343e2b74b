"""A checkpoint that stays in this process: the version that it would commit, and nothing stored.

1. The checkpoint is a real one (``checkpointing.commit_cut``), over ports that read the table and
   write to memory: its files, its event, and what it brings to indexes. So a read of the result is
   what a read of the table would be after that checkpoint, by the same code.
2. The log below ends with the version it begins from: later events of others are hidden.
3. Ids are allocated by a coordinator in memory, and clocks are compared with themselves. Neither
   leaves this process.
"""

from dataclasses import replace

from airflow_provider_segtable.coordination.memory.memory_coordinator import (
    MemoryCoordinator,
    MemoryService,
)
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.data.files.layered_files import LayeredFiles
from airflow_provider_segtable.ports.log_store import Cut
from airflow_provider_segtable.storage.layered_storage import LayeredStorage
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.clocks import ClockCheck
from airflow_provider_segtable.table.log.event_log import TIMELINE, event_path
from airflow_provider_segtable.table.log_store.checkpointing import commit_cut


def rehearsed(
    ports: TableContext, state: State, cut: Cut, *, deleted: str | None = None
) -> tuple[TableContext, State]:
    """Return the version that a checkpoint of a cut would commit, and the ports to read it.

    Args:
        ports: the table's ports.
        state: the version before.
        cut: the records, from the committed end of that version on.
        deleted: as for ``commit_cut``.

    Raises:
        Fenced, OffsetGap: the cut does not follow the version.
        SchemaMismatch, TimeOutOfRange, InvalidInput: its records do not fit the table.
    """
    own = over(ports, state)
    done = commit_cut(own, cut, deleted=deleted, state=state)
    return own, state if done is None else done.state


def over(ports: TableContext, state: State) -> TableContext:
    """Return ports that read the table as of a version, and write to memory."""
    last = event_path(state.n)

    def later(path: str) -> bool:
        return path.startswith(f"{TIMELINE}/") and path > last

    return replace(
        ports,
        storage=LayeredStorage(ports.storage, ports.clock, later),
        files=LayeredFiles(ports.files),
        optional_coordinator=MemoryCoordinator(ports.clock, MemoryService()),
        clock_check=ClockCheck(),
    )
