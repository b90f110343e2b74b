"""The table that keeps the entries of an index.

1. It is a primary-key table like any other, in a folder of its own below the table's log
   (``folder``). So it is compacted, cleaned and verified by the same services.
2. Its columns, key, buckets and granularity are the kind's (``index_kind``). The event time of an
   entry about a file is the start of the time chunk that the file was written for, which never
   changes; chunks are wider, so that there are few files.
3. It follows the log of the table that it indexes: an entry is named by an event of that log
   (``core.indexes.index_state``), and is copied into its own log later. So nothing is lost if its
   own log lags behind.
4. Its properties suit its rows: small files, joined early (``PROPERTIES``). A cleaning of this
   table alone takes no file for an orphan, because the indexed table's log names files that its own
   does not. The indexed table's cleaning does it.
"""

from collections.abc import Mapping

from airflow_provider_segtable.core.indexes.index_kind import START
from airflow_provider_segtable.core.indexes.index_state import IndexDefinition
from airflow_provider_segtable.core.schema import Schema
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey

INDEXES = "_segtable/indexes"

PROPERTIES: Mapping[str, str] = {
    "compaction.target_size": str(16 << 20),
    "compaction.min_segments": "8",
    "retention.hours": "6",
    "retention.tombstone_hours": "24",
    "retention.orphan_hours": "1e9",
}
"""The properties of the table of an index."""


def folder(index: str) -> str:
    """Return the folder of an index, by its id, relative to its table's root."""
    return f"{INDEXES}/{index}"


def name_of(index: str) -> str:
    """Return the name of an index, by its id."""
    return index.rpartition("-")[0] or index


def index_table(index: IndexDefinition, table: TableDefinition) -> TableDefinition:
    """Return the definition of the table of an index."""
    wanted = index.kind
    granularity = wanted.granularity(table)
    kind, schema = PrimaryKey(
        key=wanted.key, buckets=wanted.buckets, divided_by=wanted.divided_by
    ).bound(
        Schema((*wanted.common, *wanted.entry_columns(table))),
        time_column=START,
        granularity=granularity,
    )
    return TableDefinition(
        table_id=index.id,
        name=f"{table.name}.{index.name}",
        schema=schema,
        time_column=START,
        granularity=granularity,
        properties={**PROPERTIES, **kind.properties},
        kind=kind,
    )
