"""Entries of an index as readers use them: which files may hold rows that match a condition.

1. A reader loads the columns of entries that its condition needs (``entry_columns_for``), for the
   files that it is about to read, and compares them (``view_of``).
2. A file that has no trusted entry is read: the log decides which files there are, and an index
   only which of them need not be opened.
"""

import pyarrow as pa

from airflow_provider_segtable.core.deletes.predicate import Predicate
from airflow_provider_segtable.core.indexes.index_kinds import IndexDefinition
from airflow_provider_segtable.core.log.families.table_events import TableCreated
from airflow_provider_segtable.data.indexes.entry_kind import IndexView
from airflow_provider_segtable.data.indexes.entry_kinds import ENTRY_KINDS

__all__ = ["IndexView", "entry_columns_for", "view_of"]


def entry_columns_for(
    index: IndexDefinition, table: TableCreated, test: Predicate
) -> tuple[str, ...]:
    """Return the columns of entries that a condition needs; none if the index cannot help.

    Args:
        index: the index.
        table: the indexed table, in the version that is read.
        test: the condition.
    """
    return tuple(ENTRY_KINDS[index.kind.name].columns_for(index.kind, table, test))


def view_of(index: IndexDefinition, table: TableCreated, entries: pa.Table) -> IndexView:
    """Return entries, to compare with conditions.

    Args:
        index: the index.
        table: the indexed table, in the version that is read.
        entries: the entries, in all columns or in those of ``entry_columns_for``.
    """
    return ENTRY_KINDS[index.kind.name].view(index.kind, table, entries)
