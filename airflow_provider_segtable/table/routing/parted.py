"""Correct records of keys that a finer granularity parts, when log files come late.

1. A major compaction that cuts a time chunk into several merges the records of each key before it
   divides them (``data.keyed.division``), so its outputs have one row for a key of the old chunk.
2. A log file that came meanwhile has further records of these keys. It is divided, and may then lie
   in another of the new chunks than what it hid, or was hidden by. What loses is *corrected*, as if
   the chunks had been new ones before: by tombstones right above it, in its place, in the event of
   the compaction (``data.indexes.records.decision`` has the rules).
3. The old chunk decides, as its readers see it. Other chunks need nothing: whoever wrote the late
   file has corrected what loses there (``table.routing.router``).
4. Corrections are no ingested rows, so they do not count in the compaction's balance.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from airflow_provider_segtable.core.indexes.index_state import IndexDefinition
from airflow_provider_segtable.core.indexes.record_index import RecordIndex
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import ChunkKey, Segment
from airflow_provider_segtable.core.time import Layout
from airflow_provider_segtable.data.arrow.equality import Keys
from airflow_provider_segtable.data.indexes.entries import entries
from airflow_provider_segtable.data.indexes.records.decision import decided, places_of, tops
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.routing.corrections import Target, corrections
from airflow_provider_segtable.table.routing.facts import among


def parted_corrections(
    ports: TableContext, state: State, target: Target, late: Sequence[Segment]
) -> Iterator[Segment]:
    """Write the corrections of records that late log files part from others of their keys.

    Args:
        ports: the table's ports.
        state: the version that has the late files, divided as before.
        target: the time chunks, and the version, that come after the compaction.
        late: the late files; they are divided into the new chunks.

    Yields:
        The log files, with provisional ids.

    Raises:
        SegtableError: a file could not be read or written.
    """
    indexes = (each.definition for each in state.indexes.values())
    index = next((each for each in indexes if isinstance(each.kind, RecordIndex)), None)
    if index is None:
        return
    chunks = dict.fromkeys(s.id.chunk for s in late if _cut(s.id.chunk, target.layout))
    for chunk in chunks:
        mine = [segment for segment in late if segment.id.chunk == chunk]
        facts = _facts(ports, state, index, mine)
        decision = decided(facts, places_of(facts, target.layout)[0], index.kind.divided_by)
        yield from corrections(ports, state, index, facts, decision, target)


def _cut(chunk: ChunkKey, layout: Layout) -> bool:
    return layout.holds(chunk.interval.start, chunk.interval.end - 1) is None


def _facts(
    ports: TableContext, state: State, index: IndexDefinition, late: Sequence[Segment]
) -> pa.Table:
    """Return the facts of late files, and of each of their keys the one that was on top before."""
    (chunk,) = {segment.id.chunk for segment in late}
    names = {segment.id for segment in late}
    before = [
        segment
        for segment in state.timeline.visible_among({chunk})
        if segment.path and segment.id not in names
    ]
    new = entries(index, state.table, late, ports.files)
    keys = Keys.of(new, index.kind.divided_by, nulls=False)
    old = [among(keys, entries(index, state.table, [each], ports.files)) for each in before]
    known = pa.concat_tables([new.slice(0, 0), *old]).combine_chunks()
    top = tops(known, np.zeros(known.num_rows, np.int64), index.kind.divided_by)
    return pa.concat_tables([new, known.take(pa.array(top))]).combine_chunks()
