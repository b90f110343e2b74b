"""Union reads: a version of a table and the live tail of its log stores, as one scan.

1. The tail is what a checkpoint at this moment would commit. So it is rehearsed as one
   (``rehearsal``), and the scan reads the result: conditions, intervals, deletes and merges hold
   for records that are not committed as for all others.
2. The tail is read when the scan is made, and is in memory as long as the scan is used. All reads
   of one scan show the same rows.
3. The newest version is read, whole: without windows, and without ``base_only``.
"""

from dataclasses import dataclass, replace

from airflow_provider_segtable.core.reads.selection import ReadPlan
from airflow_provider_segtable.core.requests.read_request import ReadRequest
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log_store.live_tail import Finder, LiveTail, live_tail
from airflow_provider_segtable.table.log_store.rehearsal import rehearsed
from airflow_provider_segtable.table.reads.scan import Scan


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
        SchemaMismatch, TimeOutOfRange, InvalidInput: the tail has records that no checkpoint can
            commit; or the request does not fit the table.
    """
    tail = live_tail(ports, find)
    own, state = rehearsed(ports, tail.state, tail.cut)
    return UnionScan(ports=own, state=state, request=request, tail=tail)
