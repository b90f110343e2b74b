"""The entries that an index has already, before a time is built.

1. A file is *known* if its entries are there, about the very file (the checksum of its footer) and
   about all of its rows.
2. An entry about a file that the table has no more is *stale*: a build deletes it.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.indexes.index_kind import CHECKSUM, FILE, ROWS, START
from airflow_provider_segtable.core.indexes.index_state import IndexState
from airflow_provider_segtable.core.segments.segment import Segment
from airflow_provider_segtable.core.segments.timeline import Timeline
from airflow_provider_segtable.core.time.interval import Interval
from airflow_provider_segtable.data.indexes.entry_kind import footer_checksum
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.indexes.lookup import entries_in


@dataclass(frozen=True, slots=True)
class KnownEntries:
    """Entries of an index about files of a time: their keys, and what shows how far to trust."""

    interval: Interval
    rows: pa.Table

    def missing(self, segments: Iterable[Segment]) -> tuple[Segment, ...]:
        """Return the files that are not known."""
        counts: Counter[tuple[str, str]] = Counter()
        columns = (self.rows.column(name).to_pylist() for name in (FILE, CHECKSUM, ROWS))
        for path, checksum, rows in zip(*columns, strict=True):
            counts[path, checksum] += rows or 0
        return tuple(s for s in segments if counts.get((s.path, footer_checksum(s))) != s.rows)

    def stale(self, timeline: Timeline) -> pa.Table:
        """Return the entries about files that are not in a timeline that is read later."""
        present = (path for chunk in timeline.chunks(self.interval) for path in chunk.paths())
        paths = pa.array(present, pa.string())
        return self.rows.filter(pc.invert(pc.is_in(self.rows.column(FILE), paths)))


def known_entries(
    ports: TableContext, index: IndexState, interval: Interval, segments: Sequence[Segment]
) -> KnownEntries:
    """Return the entries about files of an interval, and of the time chunks of some segments.

    Raises:
        SegtableError: the entries cannot be read.
    """
    spans = [interval, *(segment.id.interval for segment in segments)]
    whole = Interval(min(each.start for each in spans), max(each.end for each in spans))
    columns = dict.fromkeys((*index.definition.kind.key, START, CHECKSUM, ROWS))
    return KnownEntries(whole, entries_in(ports, index, whole, [*columns]))
