"""Check an index of records against the records themselves: none is unknown, no key has two rows.

1. Both hold only while the index lacks nothing: so it is checked only then.
2. A live record on top of its time chunk has a fact. Else a writer may leave two rows of its key.
3. A key whose facts are of several time chunks is looked up in the table.
"""

from collections.abc import Iterator

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.catch_up import files_in
from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.errors import NotFound
from airflow_provider_segtable.core.indexes.index_state import IndexState
from airflow_provider_segtable.core.indexes.record_index import DELETED
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.recovery.diagnosis import Finding, Severity
from airflow_provider_segtable.data.indexes.entries import entries
from airflow_provider_segtable.data.indexes.records import decided, places_of
from airflow_provider_segtable.data.rows import Keys
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.indexes.facts import records_of


def check_records(
    ports: TableContext, state: State, index: IndexState, found: pa.Table
) -> Iterator[Finding]:
    """Yield what is wrong with the facts of an index; reads the keys of all visible files.

    Args:
        ports: the table's ports.
        state: the version to verify.
        index: the index of records.
        found: its facts.
    """
    if not index.current:
        return
    command = f"TABLE {index.definition.name}"
    again = f"segtable index rebuild {command}, and segtable index run {command}"
    unknown = _unknown(ports, state, index, found)
    if unknown:
        yield Finding(
            code="unknown-records",
            severity=Severity.WARNING,
            where=f"index {index.definition.name}",
            what=f"it does not know {counted(unknown, 'row')} of the table",
            why="their keys may get second rows in other time chunks",
            do=again,
        )
    doubled = _doubled(ports, state, index, found)
    if doubled:
        yield Finding(
            code="doubled-keys",
            severity=Severity.WARNING,
            where=f"index {index.definition.name}",
            what=f"{counted(doubled, 'row')} of keys that have another one in another time chunk",
            why="no run of the index has settled them",
            do=again,
        )


def _unknown(ports: TableContext, state: State, index: IndexState, found: pa.Table) -> int:
    """Return the number of live records that have no fact."""
    kind = index.definition.kind
    known = Keys.of(found, kind.key, nulls=False)
    count = 0
    for chunk in sorted({each.interval for each in state.timeline.visible_chunks()}):
        try:
            facts = entries(index.definition, state.table, files_in(state, chunk), ports.files)
        except NotFound:
            continue  # the check of the files says so
        numbers, chunks = places_of(facts, state.layout)
        inside = np.asarray([each == chunk for each in chunks], bool)
        facts = facts.filter(pa.array(inside[numbers]))
        same = np.zeros(facts.num_rows, np.int64)
        tops = facts.take(pa.array(np.unique(decided(facts, same, kind.divided_by).winner_of)))
        live = tops.filter(pc.invert(tops.column(DELETED)))
        count += int((known.find(live.combine_chunks()) < 0).sum())
    return count


def _doubled(ports: TableContext, state: State, index: IndexState, found: pa.Table) -> int:
    """Return the number of rows whose keys have other, later ones."""
    key = index.definition.kind.divided_by
    losers = decided(found, places_of(found, state.layout)[0], key).losers
    if not len(losers):
        return 0
    of_keys = Keys.of(found.take(pa.array(losers)), key, nulls=False)
    facts = found.filter(pa.array(of_keys.find(found.combine_chunks()) >= 0))
    there = records_of(ports, state, index, facts)
    return len(decided(there, places_of(there, state.layout)[0], key).losers)
