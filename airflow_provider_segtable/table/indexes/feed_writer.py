"""Write entries of an index as a feed, to be named by an event.

1. Entries of at most ``MOST_INLINE`` bytes are the feed themselves: nothing is written, and the
   index's own table is not looked at. So a small commit pays little for an index.
2. More of them become log files of the index's table. The files get provisional ids, as those of
   any upsert. Until an event names them they are orphans, which cleaning removes when they are old.
3. Records of feeds count in the order of the events that bring them, not of the authors' clocks.
"""

from collections.abc import Iterable
from contextlib import suppress

import numpy as np
import pyarrow as pa

from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.indexes.index_state import Feed, IndexDefinition
from airflow_provider_segtable.core.indexes.index_table import folder
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.data.arrow.arrow_schema import to_arrow
from airflow_provider_segtable.data.keyed.keyed_files import IN_ORDER
from airflow_provider_segtable.data.keyed.log_files import LogWriter, Records
from airflow_provider_segtable.data.keyed.record_bytes import encode_records
from airflow_provider_segtable.data.keyed.record_layers import joined_records
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.indexes.fed_entries import feed_records
from airflow_provider_segtable.table.indexes.index_log import entry_rules, index_ports

MOST_INLINE = 8 << 10
"""Bytes of entries, as an event has them, from which on they are written to files."""
_PACKED = 16
"""Entries shrink less than this, so that larger ones need not be encoded to be measured."""


def write_feed(
    ports: TableContext,
    index: IndexDefinition,
    entries: pa.Table,
    gone: pa.Table | None = None,
) -> Feed:
    """Return a feed with entries, and tombstones of entries, to name in an event.

    Args:
        ports: the indexed table's ports.
        index: the index.
        entries: in the columns of the index's table.
        gone: the keys of entries to delete; columns that are no part of them may be left out.

    Raises:
        SegtableError: the files could not be written.
    """
    rows = pa.concat_tables([entries, *(() if gone is None else [_filled(gone, entries.schema)])])
    records = Records(rows=rows, deleted=np.arange(rows.num_rows) >= entries.num_rows)
    if not rows.num_rows:
        return Feed(index=index.id)
    if rows.nbytes <= MOST_INLINE * _PACKED:
        data = encode_records(records)
        if len(data) <= MOST_INLINE:
            return Feed(index=index.id, entries=data)
    return _in_files(ports, index, records)


def write_joined(ports: TableContext, index: IndexDefinition, feeds: Iterable[Feed]) -> Feed:
    """Write the entries and tombstones of several feeds, oldest first, as one feed with files.

    Raises:
        SegtableError: the index's table cannot be read or written.
    """
    own = index_ports(ports, index)
    table = own.log.load().table
    schema = to_arrow(table.schema)
    layers = [feed_records(own, table, feed, schema.names) for feed in feeds]
    return _in_files(ports, index, joined_records(schema, layers))


def _in_files(ports: TableContext, index: IndexDefinition, records: Records) -> Feed:
    own = index_ports(ports, index)
    state = own.log.load()
    instant: Instant = max(ports.checked_now(), state.time + 1)
    writer = LogWriter(
        files=own.files,
        table=state.table,
        rules=entry_rules(own, state),
        layout=state.layout,
        base_version=state.base_version,
        instant=instant,
        token=ports.randomness.token,
        order=IN_ORDER,
    )
    return Feed(index=index.id, segments=tuple(writer.written(records)))


def _filled(keys: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return keys in all columns, the others null."""
    known, count = set(keys.column_names), keys.num_rows
    columns = (
        keys.column(each.name) if each.name in known else pa.nulls(count, each.type)
        for each in schema
    )
    return pa.Table.from_arrays([*columns], schema=schema)


def discard_feed(ports: TableContext, feed: Feed) -> None:
    """Delete the files of a feed that no event names, and none ever will."""
    own = ports.within(folder(feed.index))
    for segment in feed.segments:
        with suppress(SegtableError):  # an orphan, which cleaning removes
            own.files.delete(segment.path)
