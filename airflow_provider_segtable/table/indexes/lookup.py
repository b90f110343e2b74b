"""Look up the entries of an index."""

from collections.abc import Sequence

import pyarrow as pa

from airflow_provider_segtable.core.indexes.index_state import IndexState
from airflow_provider_segtable.core.requests.read_request import read_request
from airflow_provider_segtable.core.time.interval import Interval
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.indexes.index_log import index_entries_state, index_ports
from airflow_provider_segtable.table.reads.scan import Scan


def entries_in(
    ports: TableContext,
    index: IndexState,
    interval: Interval | None = None,
    columns: Sequence[str] | None = None,
) -> pa.Table:
    """Return the entries about files of the time chunks that begin in an interval.

    Args:
        ports: the indexed table's ports.
        index: the index, in the version of the table that is read.
        interval: all time if left out.
        columns: all columns if left out.

    Raises:
        SegtableError: the entries cannot be read: the index must not be used.
    """
    request = read_request(columns=columns, interval=interval)
    state = index_entries_state(ports, index)
    return Scan(ports=index_ports(ports, index.definition), state=state, request=request).to_arrow()
