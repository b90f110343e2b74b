"""Merges: join an in-memory source to the table by equality of key columns.

1. Keys are compared as SQL compares them: null equals nothing.
2. The table's key columns are read batch by batch; matching rows are then read in full. The source
   is in memory.
3. New values (``set``) are computed over the matched row with the columns of its source row beside
   it, also those that the table lacks.
4. An inserted row has the defaults of columns that the source lacks, null if they have none, as
   every row that is appended without a column. A null of the source is a null.
5. The log does not enforce unique keys: two concurrent merges may both insert a key that neither
   found.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.requests.change_request import Matched, Merge, Unmatched
from airflow_provider_segtable.core.segment import SegmentId
from airflow_provider_segtable.data.arrow.conditions import Condition
from airflow_provider_segtable.data.arrow.equality import Keys, Numbers
from airflow_provider_segtable.data.parquet.table_file import default_of
from airflow_provider_segtable.table.changes.matching import given_columns, in_full, when
from airflow_provider_segtable.table.changes.updating import assigned, new_values
from airflow_provider_segtable.table.lifetime.definition import given_schema
from airflow_provider_segtable.table.reads.row_addresses import addresses
from airflow_provider_segtable.table.reads.snapshot import Snapshot


def merged(
    snapshot: Snapshot, request: Merge, source: pa.Table
) -> tuple[Mapping[SegmentId, BitMap], int, pa.Table]:
    """Return the rows that a merge deletes, the number of matches, and the rows to append.

    Args:
        snapshot: the table at one version.
        request: the merge, by key columns.
        source: its source (``source_columns``).

    Raises:
        InvalidInput: several source rows would update one row.
    """
    keys = Keys.of(source, request.keys, nulls=False)
    rows, met = _joined(snapshot, keys, source)
    matched = sum(map(len, rows.values()))
    numbers = keys.find(source)
    coming = []
    if request.matched is Matched.UPDATE and matched:
        refuse_doubles(source, numbers, met, request.keys)
        coming.append(updated(in_full(snapshot, rows), source, keys, numbers, request.set))
    if request.unmatched is Unmatched.INSERT:
        met_rows = np.append(met, False)[numbers]  # null keys have index -1: the last
        new = source.filter(pa.array(~met_rows))
        coming.append(_widened(new, given_schema(snapshot.state.table)))
    every = pa.concat_tables(coming) if coming else snapshot.schema.empty_table()
    return {} if request.matched is Matched.IGNORE else rows, matched, every


def source_columns(source: pa.Table, schema: pa.Schema, request: Merge) -> pa.Table:
    """Return a source in the types of the table's columns; with ``set`` it may have others.

    Raises:
        SchemaMismatch: a column has another type, or is unknown without ``set``.
    """
    if request.set is None:
        return given_columns(source, schema)
    known = given_columns(
        source.select([name for name in source.column_names if name in schema.names]), schema
    )
    columns = [
        (known if name in schema.names else source).column(name) for name in source.column_names
    ]
    return pa.table(columns, names=source.column_names)


def check_set(request: Merge, schema: pa.Schema, source: pa.Schema | None) -> None:
    """Refuse new values that only Spark computes.

    Raises:
        SchemaMismatch: a column is missing.
        InvalidInput: only Spark computes a value.
    """
    if request.set is None or source is None:
        return
    fields = [schema.field(each.name) if each.name in schema.names else each for each in source]
    joined = _beside(schema.empty_table(), pa.schema(fields).empty_table())
    assigned(joined, new_values(request.set, schema, _names(source.names)))


def _joined(
    snapshot: Snapshot, keys: Keys, source: pa.Table
) -> tuple[dict[SegmentId, BitMap], np.ndarray]:
    """Return the addresses of rows with a source key, and a mask of the keys found."""
    met = np.zeros(keys.count, np.bool_)

    def keep(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.filter(pa.array(keys.find(batch) >= 0))

    of_keys = source.select(list(keys.columns))
    span = when(of_keys, snapshot.state.table.time_column)
    wanted = Condition(columns=keys.columns, keep=keep, when=span)
    if wanted.interval is None or not keys.count:
        return {}, met
    batches = snapshot.addressed(columns=keys.columns, interval=wanted.interval)
    return addresses(_noted(map(wanted.keep, batches), keys, met)), met


def _noted(rows: Iterable[pa.RecordBatch], keys: Keys, met: np.ndarray) -> Iterator[pa.RecordBatch]:
    """Yield rows with source keys, and note their keys in a mask."""
    for batch in rows:
        met[keys.find(batch)] = True
        yield batch


def refuse_doubles(source: pa.Table, numbers: Numbers, met: np.ndarray, on: Sequence[str]) -> None:
    """Refuse a source of which several rows have a key that the table has.

    Raises:
        InvalidInput: with the key and its number.
    """
    counts = np.bincount(numbers[numbers >= 0], minlength=len(met))
    doubles = np.flatnonzero(met & (counts > 1))
    if len(doubles):
        row = int(np.flatnonzero(numbers == doubles[0])[0])
        key = source.select(list(on)).slice(row, 1).to_pylist()[0]
        shown = ", ".join(f"{name} = {value!r}" for name, value in key.items())
        raise InvalidInput(
            f"{counts[doubles[0]]} rows of the source have {shown}, and a row of the table has it, "
            "too: the merge is ambiguous; keep one of them"
        )


def updated(
    rows: pa.Table,
    source: pa.Table,
    keys: Keys,
    numbers: Numbers,
    given: Mapping[str, Any] | None,
) -> pa.Table:
    """Return rows of the table with their new values, by default those of their source rows."""
    place = np.zeros(keys.count, np.int64)
    known = numbers >= 0
    place[numbers[known]] = np.flatnonzero(known)
    taken = source.take(pa.array(place[keys.find(rows)]))
    if given is not None:
        values = new_values(given, rows.schema, _names(source.column_names))
        return assigned(_beside(rows, taken), values).select(rows.column_names)
    fresh = [name for name in source.column_names if name not in keys.columns]
    columns = [(taken if name in fresh else rows).column(name) for name in rows.column_names]
    return pa.table(columns, names=rows.column_names)


def _beside(rows: pa.Table, source: pa.Table) -> pa.Table:
    """Return rows with the columns of their source rows, under names of their own."""
    names = [*rows.column_names, *_names(source.column_names).values()]
    return pa.table([*rows.columns, *source.columns], names=names)


def _names(source: Sequence[str]) -> dict[str, str]:
    """Return the names of a source's columns beside those of the table."""
    return {name: f"source.{name}" for name in source}


def _widened(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows to insert in a table's columns; those that they lack have their defaults.

    Args:
        rows: source rows.
        schema: the table's columns, with their defaults (``given_schema``).
    """
    columns = [
        rows.column(field.name)
        if field.name in rows.column_names
        else pa.chunked_array([pa.repeat(default_of(field), rows.num_rows)], field.type)
        for field in schema
    ]
    return pa.table(columns, names=schema.names)
