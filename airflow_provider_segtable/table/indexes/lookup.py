"""Look up the entries of an index."""

from collections.abc import Sequence

import pyarrow as pa

from airflow_provider_segtable.core.indexes.index_state import IndexState
from airflow_provider_segtable.core.time.interval import ALL_TIME, Interval
from airflow_provider_segtable.data.arrow.arrow_schema import to_arrow
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.indexes.index_log import (
    entry_rules,
    index_entries_state,
    index_ports,
)
from airflow_provider_segtable.table.reads.merged_scan import MergedScan, groups_to_read


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
    own = index_ports(ports, index.definition)
    state = index_entries_state(ports, index)
    known = to_arrow(state.table.schema)
    schema = known if columns is None else pa.schema([known.field(name) for name in columns])
    found = MergedScan(
        files=own.files,
        table=state.table,
        rules=entry_rules(own, state),
        columns=schema.names,
        found=groups_to_read(state, interval or ALL_TIME),
    )
    return pa.Table.from_batches(found.batches(), schema)
