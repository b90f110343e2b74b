"""The entries that an index has already, before a time is built.

An entry about a file that the table has no more is *stale*: a build deletes it. The others say
which files are known (``data.indexes.index_view``). Entries about records tell neither.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.indexes.index_kind import FILE, START
from airflow_provider_segtable.core.indexes.index_state import IndexState
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.data.indexes.entries import view_of
from airflow_provider_segtable.data.indexes.entry_kind import TRUST_COLUMNS
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.indexes.index_entries import entries_in


@dataclass(frozen=True, slots=True, kw_only=True)
class KnownEntries:
    """Entries of an index about files of a time: their keys, and what shows how far to trust."""

    index: IndexState
    interval: Interval
    rows: pa.Table

    def missing(self, segments: Iterable[Segment], state: State) -> tuple[Segment, ...]:
        """Return the files that are not known."""
        view = view_of(self.index.definition, state.table, self.rows)
        return tuple(segment for segment in segments if not view.knows(segment))

    def stale(self, state: State) -> pa.Table:
        """Return the entries about files that a state, read later, does not have."""
        if not self.rows.num_rows:
            return self.rows
        near = (path for c in state.timeline.chunks(self.interval) for path in c.paths())
        left = _not_about(near, self.rows)  # a file that was carried over may lie elsewhere
        return _not_about(state.timeline.paths(), left) if left.num_rows else left


def _not_about(paths: Iterable[str], rows: pa.Table) -> pa.Table:
    known = pa.array(paths, pa.string())
    return rows.filter(pc.invert(pc.is_in(rows.column(FILE), known)))


def known_entries(
    ports: TableContext, index: IndexState, interval: Interval, segments: Sequence[Segment]
) -> KnownEntries:
    """Return the entries about files of an interval, and about some segments.

    Raises:
        SegtableError: the entries cannot be read.
    """
    spans = [interval, *(segment.file_id.interval for segment in segments)]
    whole = Interval(min(each.start for each in spans), max(each.end for each in spans))
    kind = index.definition.kind
    columns = dict.fromkeys((*kind.key, START, *TRUST_COLUMNS))
    rows = entries_in(ports, index, whole, [*columns]) if kind.about_files else pa.table({})
    return KnownEntries(index=index, interval=whole, rows=rows)
