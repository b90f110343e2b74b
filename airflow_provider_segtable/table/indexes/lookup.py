"""Look up the entries of an index.

1. The rows of the index's own table are the lowest layer. The feeds that its log has not got yet
   lie above it, in the order of their events (``data.keyed.record_layers``).
2. A reader that keeps entries in memory keeps the two apart (``table_entries``,
   ``waiting_entries``): what is in the table changes seldom, and what waits is little.
"""

from collections.abc import Sequence

import pyarrow as pa

from airflow_provider_segtable.core.indexes.index_kind import START
from airflow_provider_segtable.core.indexes.index_state import IndexState
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.time import ALL_TIME, Interval
from airflow_provider_segtable.data.arrow.arrow_schema import to_arrow
from airflow_provider_segtable.data.keyed.file_groups import within
from airflow_provider_segtable.data.keyed.record_layers import layer_of, rows_of_layers
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.indexes.fed_entries import feed_records
from airflow_provider_segtable.table.indexes.index_log import (
    entry_rules,
    index_ports,
    waiting_feeds,
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
    state = own.log.load()
    names = [*(state.table.schema.names if columns is None else columns)]
    feeds = waiting_feeds(index, state)
    if not feeds:
        return _in_table(own, state, interval, names)
    wanted = [*dict.fromkeys([*names, *index.definition.kind.key, START])]
    base = _in_table(own, state, interval, wanted)
    above = [feed_records(own, state.table, feed, wanted) for feed in feeds]
    found = rows_of_layers(base.schema, [layer_of(base), *above], entry_rules(own, state))
    return within(found, START, interval).select(names)


def table_entries(
    ports: TableContext, index: IndexState, interval: Interval, columns: Sequence[str]
) -> pa.Table:
    """Return the entries that the index's own table has; arguments and errors as ``entries_in``."""
    own = index_ports(ports, index.definition)
    return _in_table(own, own.log.load(), interval, columns)


def waiting_entries(ports: TableContext, index: IndexState, columns: Sequence[str]) -> pa.Table:
    """Return the entries of the feeds that a version carries; otherwise as ``table_entries``."""
    own = index_ports(ports, index.definition)
    state = own.log.load()
    wanted = [*dict.fromkeys([*columns, *index.definition.kind.key])]
    known = to_arrow(state.table.schema)
    schema = pa.schema([known.field(name) for name in wanted])
    layers = [feed_records(own, state.table, feed, wanted) for _, feed in index.feeds]
    return rows_of_layers(schema, layers, entry_rules(own, state)).select(list(columns))


def _in_table(
    own: TableContext, state: State, interval: Interval | None, columns: Sequence[str]
) -> pa.Table:
    known = to_arrow(state.table.schema)
    schema = pa.schema([known.field(name) for name in columns])
    found = MergedScan(
        files=own.files,
        table=state.table,
        rules=entry_rules(own, state),
        columns=schema.names,
        found=groups_to_read(state, interval or ALL_TIME),
    )
    return pa.Table.from_batches(found.batches(), schema)
