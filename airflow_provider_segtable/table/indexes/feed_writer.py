"""Write entries of an index as log files of its table, to be named by an event.

The files get provisional ids, as those of any upsert. Until an event names them they are orphans,
which cleaning of the index removes when they are old.
"""

from contextlib import suppress

import numpy as np
import pyarrow as pa

from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.indexes.feed import Feed
from airflow_provider_segtable.core.indexes.index_kinds import IndexDefinition
from airflow_provider_segtable.core.indexes.index_table import folder
from airflow_provider_segtable.core.time.interval import Instant
from airflow_provider_segtable.data.keyed.log_files import LogWriter, Records
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.indexes.index_log import entry_rules, index_ports


def write_feed(
    ports: TableContext,
    index: IndexDefinition,
    entries: pa.Table,
    gone: pa.Table | None = None,
) -> Feed:
    """Write entries, and tombstones of entries; return the feed to name in an event.

    Args:
        ports: the indexed table's ports.
        index: the index.
        entries: in the columns of the index's table.
        gone: the keys of entries to delete; columns that are no part of them may be left out.
    """
    own = index_ports(ports, index)
    state = own.log.load()
    rules = entry_rules(own, state)
    rows = pa.concat_tables([entries, *(() if gone is None else [_filled(gone, entries.schema)])])
    deleted = np.arange(rows.num_rows) >= entries.num_rows
    if not rows.num_rows:
        return Feed(index=index.id)
    instant: Instant = max(ports.checked_now(), state.time + 1)
    writer = LogWriter(
        files=own.files,
        table=state.table,
        rules=rules,
        layout=state.layout,
        base_version=state.base_version,
        instant=instant,
        token=ports.randomness.token,
    )
    return Feed(
        index=index.id,
        segments=tuple(writer.written(Records(rows=rows, deleted=deleted))),
    )


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
