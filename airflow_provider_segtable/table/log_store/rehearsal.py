"""A checkpoint that stays in this process: the version that it would commit, and nothing stored.

1. The checkpoint is a real one (``checkpointing.commit_cut``), over ports that read the table and
   write to memory: its files, its event, and what it brings to indexes. So a read of the result is
   what a read of the table would be after that checkpoint, by the same code.
2. The log below ends with the version it begins from: later events of others are hidden.
3. Ids are allocated by a coordinator in memory, and clocks are compared with themselves. Neither
   leaves this process, and nothing is published in other formats.
"""

from dataclasses import replace

from airflow_provider_segtable.coordination.memory.memory_coordinator import (
    MemoryCoordinator,
    MemoryService,
)
from airflow_provider_segtable.core.log.events import Event, TableAltered
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.data.files.layered_files import LayeredFiles
from airflow_provider_segtable.ports.log_store import Cut
from airflow_provider_segtable.storage.layered_storage import LayeredStorage
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.clocks import ClockCheck
from airflow_provider_segtable.table.log.event_log import TIMELINE, event_path
from airflow_provider_segtable.table.log_store.checkpointing import commit_cut
from airflow_provider_segtable.table.log_store.log_schema import deleted_column, log_schema


def rehearsed(ports: TableContext, state: State, cut: Cut) -> tuple[TableContext, State]:
    """Return the version that a checkpoint of a cut would commit, and the ports to read it.

    Args:
        ports: the table's ports.
        state: the version before.
        cut: the records, from the committed end of that version on.

    Raises:
        Fenced, OffsetGap: the cut does not follow the version.
        SchemaMismatch, TimeOutOfRange, InvalidInput: its records do not fit the table.
    """
    own = over(ports, state)
    own.log.remember(state)
    columns = written_with(ports, state, cut)
    done = commit_cut(own, cut, deleted=deleted_column(columns), columns=columns)
    return own, state if done is None else done.state


def written_with(ports: TableContext, state: State, cut: Cut) -> State:
    """Return the newest version whose columns the records have; the given one if none has.

    A store goes on with the columns that it was started with after the table was altered.
    """
    found = {batch.content.schema for each in cut.buckets.values() for batch in each.batches[:1]}
    version, n = state, state.n
    while not all(schema.equals(log_schema(version)) for schema in found):
        while n > state.retained_from and not _alters(ports.log.event(n)):
            n -= 1
        if n <= state.retained_from:
            return state
        n -= 1
        version = ports.log.version(n, state)
    return version


def _alters(event: Event | None) -> bool:
    return event is not None and isinstance(event.action, TableAltered)


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
        formats={},
    )
