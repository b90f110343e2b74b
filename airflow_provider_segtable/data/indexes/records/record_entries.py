"""Entries of the index ``record_index``: a fact about each record of a file.

1. The root of a record says which log file it came from, and with that its order
   (``data.keyed.keyed_files``). So the fact is the same, whichever file the record is read from.
2. No entry names a file, so none tells whether a file is known, or what is in it.
"""

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.indexes.index_kind import START
from airflow_provider_segtable.core.indexes.record_index import (
    DELETED,
    INSTANT,
    LOG_VERSION,
    ORDERING,
    TOKEN,
    RecordIndex,
    key_column,
    rules_of,
)
from airflow_provider_segtable.core.log.families.table_events import TableCreated
from airflow_provider_segtable.core.predicate import Predicate
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.tables.merge_rules import DELETE, OP, ROOT_PARTITION
from airflow_provider_segtable.data.arrow.event_times import instants
from airflow_provider_segtable.data.keyed.group_reader import GroupReader
from airflow_provider_segtable.ports.files import DataFiles

_ORDER = {INSTANT: "instant", LOG_VERSION: "log_version", TOKEN: "write_token"}
"""The columns of facts that a root has, by the name that it has there."""


class RecordEntries:
    """Makes one entry a record."""

    def entries(
        self, kind: RecordIndex, table: TableCreated, segment: Segment, files: DataFiles
    ) -> pa.Table:
        """Return the facts about the records of a file."""
        rules = rules_of(table)
        named = {
            key_column(number): name for number, name in zip(kind.columns, rules.key, strict=True)
        }
        if rules.ordering:
            named[ORDERING] = rules.ordering
        columns = list(dict.fromkeys([*named.values(), table.time_column, OP, ROOT_PARTITION]))
        with GroupReader(files, table).opened((segment,)) as reader:
            roots = reader.roots((segment,))
            (run,) = reader.runs((segment,), columns)
            rows = pa.concat_tables([*run])
        found = {name: rows.column(source) for name, source in named.items()}
        found[START] = pc.cast(instants(rows.column(table.time_column)), pa.int64()).cast(
            pa.timestamp("us", "UTC")
        )
        places = pc.index_in(rows.column(ROOT_PARTITION), roots.column("partition"))
        found |= {name: roots.column(source).take(places) for name, source in _ORDER.items()}
        found[DELETED] = pc.equal(rows.column(OP), DELETE)
        return pa.table(found)

    def columns_for(
        self, kind: RecordIndex, table: TableCreated, test: Predicate
    ) -> tuple[str, ...]:
        """Return none: facts do not tell what is in a file."""
        del kind, table, test
        return ()

    def view(self, kind: RecordIndex, table: TableCreated, entries: pa.Table) -> "RecordView":
        """Return a view that knows no file."""
        del kind, table, entries
        return RecordView()


class RecordView:
    """Facts, for readers of files: they tell nothing."""

    def knows(self, segment: Segment) -> bool:
        """Return False: no fact names a file."""
        del segment
        return False

    def may_hold(self, segment: Segment, test: Predicate) -> bool:
        """Return True."""
        del segment, test
        return True
