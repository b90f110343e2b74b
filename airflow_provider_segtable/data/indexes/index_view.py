"""Entries of an index as readers use them: which files may hold rows that match a condition.

1. A reader loads the columns of entries that its condition needs (``entry_columns_for``), for the
   files that it is about to read, and compares them (``view_of``).
2. A file that has no trusted entry is read: the log decides which files there are, and an index
   only which of them need not be opened.
3. Entries may be kept in layers (``LayeredView``). All entries about a file come in one layer, and
   of several the newest counts. Entries that a newer layer deletes are of files that are gone, so
   nothing asks for them.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from airflow_provider_segtable.core.indexes.index_state import IndexDefinition
from airflow_provider_segtable.core.log.families.table_events import TableCreated
from airflow_provider_segtable.core.predicate import Predicate
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.data.indexes.entry_kind import IndexView
from airflow_provider_segtable.data.indexes.entry_kinds import ENTRY_KINDS

__all__ = ["IndexView", "LayeredView", "entry_columns_for", "view_of"]


@dataclass(frozen=True, slots=True)
class LayeredView:
    """Entries of several ages: of each file, those of the first layer that knows it."""

    newest_first: Sequence[IndexView]

    def knows(self, segment: Segment) -> bool:
        """Return whether a layer has the entries about a file."""
        return any(layer.knows(segment) for layer in self.newest_first)

    def may_hold(self, segment: Segment, test: Predicate) -> bool:
        """Return whether a row of a file may match; True if no layer knows it."""
        knowing = (layer for layer in self.newest_first if layer.knows(segment))
        found = next(knowing, None)
        return found is None or found.may_hold(segment, test)


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
