"""Union reads: a version of a table and the live tail of its log stores, as one scan.

1. The tail is the next checkpoint's content. So the checkpoint is rehearsed, and the scan reads the
   result: conditions, intervals, deletes and merges hold for uncommitted records as for all others.
2. A rehearsal (``rehearsed``) is a real checkpoint (``checkpointing.commit_cut``), over ports that
   read the table and write to memory: its files, its event, and its entries of indexes. So a read
   of the result is a read of the table after that checkpoint, by the same code.
3. The rehearsal's log ends with the version that it begins from: later events of others are hidden.
4. Its ids are allocated by a coordinator in memory, and clocks are compared with themselves.
   Neither leaves this process, and nothing is published in other formats.
5. The tail is read when the scan is made, and is in memory as long as the scan is used. All reads
   of one scan show the same rows.
6. The newest version is read, whole: without windows, and without ``base_only``.
"""

from dataclasses import replace

from airflow_provider_segtable.coordination.memory import MemoryCoordinator, MemoryService
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.log.events import Event, encode_file
from airflow_provider_segtable.core.log.families.table_events import TableAltered
from airflow_provider_segtable.core.log.log_paths import TIMELINE, event_path
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.reads.selection import ReadPlan
from airflow_provider_segtable.core.requests.read_request import ReadRequest
from airflow_provider_segtable.data.open_files import LayeredFiles
from airflow_provider_segtable.ports.log_store import Cut
from airflow_provider_segtable.storage.memory_storage import LayeredStorage
from airflow_provider_segtable.table.context import ClockCheck, TableContext
from airflow_provider_segtable.table.log_store.checkpointing import (
    commit_cut,
    deleted_column,
    log_schema,
)
from airflow_provider_segtable.table.log_store.tail import Finder, LiveTail, live_tail
from airflow_provider_segtable.table.scan import Scan


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
    state = own.log.remember(replace(state, joined=None))
    columns = written_with(ports, state, cut)
    done = commit_cut(own, cut, deleted=deleted_column(columns), columns=columns)
    return own, state if done is None else done.state


def written_with(ports: TableContext, state: State, cut: Cut) -> State:
    """Return the newest version with the columns of the records; by default the given one.

    A store keeps its initial columns after the table was altered.
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
    """Return ports that read the table as of a version, and write to memory.

    If the version is within a file of several events, the file has those up to it alone.
    """
    last = event_path(state.n)

    def later(path: str) -> bool:
        return path.startswith(f"{TIMELINE}/") and path > last

    storage = LayeredStorage(ports.storage, ports.clock, later)
    if state.joined:
        events = ports.log.file(state.joined[0]) or ()
        upto = [event for event in events if event.n <= state.n]
        if upto:
            storage.replace(event_path(upto[0].n), encode_file(upto))
    return replace(
        ports,
        storage=storage,
        files=LayeredFiles(ports.files),
        optional_coordinator=MemoryCoordinator(ports.clock, MemoryService()),
        clock_check=ClockCheck(),
        formats={},
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class UnionScan(Scan):
    """A read of the newest version and of a live tail; ``version`` is that of the table."""

    tail: LiveTail

    @property
    def version(self) -> int:
        """Return the number of the last event that the scan sees."""
        return self.tail.state.n

    def explain(self) -> ReadPlan:
        """Return how the rows are read; records of the tail are files in memory."""
        return replace(Scan.explain(self), log_notes=self.tail.notes)


def union_scan(ports: TableContext, find: Finder, request: ReadRequest) -> UnionScan:
    """Return a scan of the newest version and the live tail.

    Raises:
        LogStoreUnavailable: see ``live_tail``.
        SchemaMismatch, TimeOutOfRange, InvalidInput: the tail has records that a checkpoint cannot
            commit; or the request does not fit the table.
    """
    tail = live_tail(ports, find)
    own, state = rehearsed(ports, tail.state, tail.cut)
    return UnionScan(ports=own, state=state, request=request, tail=tail)
