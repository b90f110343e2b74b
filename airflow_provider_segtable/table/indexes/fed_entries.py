"""The entries that feeds bring: of one feed, and of all events after a version.

1. A feed is a layer of records over those of earlier events (``data.keyed.record_layers``): events
   count in their order, whenever their authors began.
2. The feeds of ``fed_entries`` are those that the state carries, and for older events those that
   the log names. So they are known without reading the index's own table, however large it is.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import takewhile

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.indexes.index_state import Feed, IndexState
from airflow_provider_segtable.core.log.families.table_events import TableCreated
from airflow_provider_segtable.core.tables.merge_rules import DELETE, OP
from airflow_provider_segtable.data.arrow.arrow_schema import to_arrow
from airflow_provider_segtable.data.keyed.group_reader import GroupReader
from airflow_provider_segtable.data.keyed.log_files import Records
from airflow_provider_segtable.data.keyed.record_bytes import decode_records
from airflow_provider_segtable.data.keyed.record_layers import joined_records, rows_of_layers
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.indexes.index_log import entry_rules, index_ports


def feed_records(
    own: TableContext, table: TableCreated, feed: Feed, columns: Sequence[str]
) -> Records:
    """Return the entries and tombstones that a feed brings.

    Args:
        own: the ports of the index's own table.
        table: its definition.
        feed: the feed.
        columns: the columns of the entries.

    Raises:
        SegtableError: a file of the feed cannot be read, or its bytes are broken.
    """
    if feed.inline:
        found = decode_records(feed.entries, own.uri)
        return replace(found, rows=found.rows.select([*columns]))
    known = to_arrow(table.schema)
    schema = pa.schema([known.field(name) for name in columns])
    with GroupReader(own.files, table).opened(feed.segments) as reader:
        runs = reader.runs(feed.segments, [*columns, OP])
        return joined_records(schema, [_records(rows) for run in runs for rows in run])


def fed_entries(ports: TableContext, index: IndexState, after: int) -> pa.Table:
    """Return the entries that events after version ``after`` have brought, in all columns.

    Of equal keys the entry of the later event is returned; none if that is a tombstone. Entries of
    somewhat older events may be among them.

    Args:
        ports: the indexed table's ports.
        index: the index, in a version after ``after``: only its events count.
        after: a version of the indexed table.

    Raises:
        SegtableError: events or entries cannot be read.
    """
    own = index_ports(ports, index.definition)
    state = own.log.load()
    schema = to_arrow(state.table.schema)
    feeds = [*_copied(ports, index, after), *(feed for n, feed in index.feeds if n > after)]
    layers = [feed_records(own, state.table, feed, schema.names) for feed in feeds]
    return rows_of_layers(schema, layers, entry_rules(own, state))


def _copied(ports: TableContext, index: IndexState, after: int) -> Iterator[Feed]:
    """Yield the feeds of events after a version that the state does not carry any more."""
    if after >= index.forwarded:
        return
    events = takewhile(lambda each: each.n <= index.forwarded, ports.log.events(after + 1))
    yield from _of(index, (feed for event in events for feed in event.feeds))


def _of(index: IndexState, feeds: Iterable[Feed]) -> Iterator[Feed]:
    return (feed for feed in feeds if feed.index == index.definition.id)


def _records(rows: pa.Table) -> Records:
    deleted = np.asarray(pc.equal(rows.column(OP), DELETE))
    return Records(rows=rows, deleted=deleted)
