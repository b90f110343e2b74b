"""Look up what is known of keys: their facts in an index, and their records in the table itself.

1. ``facts_of`` reads the buckets of the keys in the index's own table, and the feeds that it has
   not got yet. Facts may be about records that are gone.
2. ``records_of`` reads the records themselves, in the places that some facts name. So it tells the
   facts that still hold; it costs a read of the keys' columns in all files of these places.
"""

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.indexes.index_state import IndexState
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.predicate import (
    AllOf,
    Among,
    Compare,
    Compares,
    Day,
    Moment,
    Predicate,
    Value,
)
from airflow_provider_segtable.core.segment import Place, Segment
from airflow_provider_segtable.data.arrow.arrow_schema import to_arrow
from airflow_provider_segtable.data.arrow.conditions import Condition
from airflow_provider_segtable.data.arrow.equality import Keys
from airflow_provider_segtable.data.indexes.entries import entries
from airflow_provider_segtable.data.indexes.records.decision import places_of
from airflow_provider_segtable.data.keyed.part import Part
from airflow_provider_segtable.data.keyed.record_layers import layer_of, rows_of_layers
from airflow_provider_segtable.data.merge.bucketing import buckets_of
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.indexes.index_log import (
    entry_rules,
    index_ports,
    waiting_feeds,
)
from airflow_provider_segtable.table.routing.fact_files import FactFiles

FEW = 256
"""Number of keys up to which row groups are chosen by each single one."""


def among(keys: Keys, rows: pa.Table) -> pa.Table:
    """Return the rows with one of the keys."""
    return rows.filter(pa.array(keys.find(rows.combine_chunks()) >= 0))


def facts_of(ports: TableContext, index: IndexState, wanted: pa.Table) -> pa.Table:
    """Return all facts about the keys of some facts, in all columns.

    Args:
        ports: the indexed table's ports.
        index: the index, in the newest version.
        wanted: facts, or rows with their key columns.

    Raises:
        SegtableError: the index cannot be read.
    """
    own = index_ports(ports, index.definition)
    state = own.log.load()
    key = index.definition.kind.divided_by
    keys = Keys.of(wanted, key, nulls=False)
    schema = to_arrow(state.table.schema)
    buckets = frozenset(buckets_of(wanted, key, state.layout.buckets).tolist())

    def keep(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.filter(pa.array(keys.find(batch) >= 0))

    files = FactFiles(
        own=own,
        state=state,
        cache=ports.entries,
        buckets=buckets,
        wanted=Condition(columns=key, keep=keep, test=_test(wanted, key)),
    )
    found = (files.of_group(group).cast(schema) for group in files.groups())
    base = pa.concat_tables([schema.empty_table(), *found])
    above = [layer for feed in waiting_feeds(index, state) for layer in files.of_feed(feed)]
    if not above:
        return base
    return rows_of_layers(schema, [layer_of(base), *above], entry_rules(own, state))


def _test(wanted: pa.Table, key: Sequence[str]) -> Predicate | None:
    """Return what rows of the keys satisfy, by which row groups are chosen; None if unknown."""
    column = pc.unique(wanted.column(key[0]))
    if len(column) <= FEW:
        values = _values(column)
        return Among(key[0], values) if values else None
    bounds = pc.min_max(column) if not pa.types.is_boolean(column.type) else None
    if bounds is None:
        return None
    least, most = (
        _values(pa.array([bounds[name].as_py()], column.type)) for name in ("min", "max")
    )
    if not least:
        return None
    return AllOf(
        (
            Compare(key[0], Compares.AT_LEAST, least[0]),
            Compare(key[0], Compares.AT_MOST, most[0]),
        )
    )


def _values(column: pa.Array) -> tuple[Value, ...]:
    """Return values as predicates have them; none if they have no such."""
    kind = column.type
    if pa.types.is_date32(kind):
        return tuple(map(Day, column.cast(pa.int32()).to_pylist()))
    if pa.types.is_timestamp(kind):
        micros = column.cast(pa.timestamp("us", kind.tz)).cast(pa.int64())
        return tuple(map(Moment, micros.to_pylist()))
    if pa.types.is_signed_integer(kind) or pa.types.is_string(kind):
        return tuple(column.to_pylist())
    return ()


def records_of(ports: TableContext, state: State, index: IndexState, facts: pa.Table) -> pa.Table:
    """Return the facts about the records that a version has in the places of some facts.

    Args:
        ports: the indexed table's ports.
        state: the version.
        index: the index.
        facts: the facts; only records of their keys are returned.

    Raises:
        SegtableError: a file of the table cannot be read.
    """
    keys = Keys.of(facts, index.definition.kind.divided_by, nulls=False)
    found = [facts.slice(0, 0)]
    for part in _parts(state, index, facts):
        segments = _files(state, part)
        rows = among(keys, entries(index.definition, state.table, segments, ports.files))
        numbers, chunks = places_of(rows, state.layout)
        inside = np.asarray([chunk == part.place.interval for chunk in chunks], bool)
        found.append(rows.filter(pa.array(inside[numbers])))
    return pa.concat_tables(found).group_by(facts.column_names).aggregate([])


def _parts(state: State, index: IndexState, facts: pa.Table) -> Iterator[Part]:
    """Yield the places of facts."""
    key = index.definition.kind.divided_by
    numbers, chunks = places_of(facts, state.layout)
    for number, chunk in enumerate(chunks):
        count = state.layout.buckets_at(chunk.start)
        some = facts.filter(pa.array(numbers == number))
        for bucket in np.unique(buckets_of(some, key, count)).tolist():
            yield Part(
                place=Place(chunk, bucket), buckets=count, standard=state.layout.buckets, key=key
            )


def _files(state: State, part: Part) -> list[Segment]:
    visible = state.timeline.visible_segments(part.place.interval)
    return [segment for segment in visible if segment.path and part.reaches(segment)]
