"""Match rows in a snapshot by values or addresses, compute new values, and join a merge's source.

Rows by a condition or by their addresses:

1. Rows are read batch by batch, with only the columns that the condition needs; only the matching
   addresses are kept, as bitmaps. If the condition bounds the event time, time chunks outside the
   bounds are not read.
2. Only rows visible in the snapshot are found. So a deletion vector made from them names existing
   rows that are not deleted yet, as the balance check requires.

New values of updated rows:

3. A new value is a plain value, SQL, or an Arrow expression over the old row.

Merges, which join an in-memory source to the table by equality of key columns:

4. Keys are compared as SQL compares them: null equals nothing.
5. The table's key columns are read as in rule 1; matching rows are then read in full.
6. New values (``set``) are computed over the matched row and its source row. The source may have
   columns that the table lacks.
7. An inserted row has the defaults of columns that the source lacks, null if they have none, as in
   any append. A null of the source stays null.
8. The log does not enforce unique keys: two concurrent merges may both insert a key that neither
   found.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyroaring import BitMap

from airflow_provider_segtable.core.errors import CorruptTable, InvalidInput, SchemaMismatch
from airflow_provider_segtable.core.requests.change_request import Matched, Merge, Sql, Unmatched
from airflow_provider_segtable.core.schema import no_column
from airflow_provider_segtable.core.segment import ROOT, ROW, SegmentId
from airflow_provider_segtable.core.time import ALL_TIME, Instant
from airflow_provider_segtable.data.conditions import Condition
from airflow_provider_segtable.data.parquet.table_file import default_of
from airflow_provider_segtable.data.row_checks import conformed
from airflow_provider_segtable.data.row_filter import hidden_of
from airflow_provider_segtable.data.rows import Keys, Numbers, instants, is_time
from airflow_provider_segtable.data.vector_file import Rows
from airflow_provider_segtable.table.definition import given_schema
from airflow_provider_segtable.table.parts import addresses
from airflow_provider_segtable.table.snapshot import Snapshot

_MOST_ROWS = 2**32


def given_columns(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows cast to the types of the table's columns, all nullable.

    Raises:
        SchemaMismatch: a column is not in the table, occurs twice, or has another type.
        InvalidInput: the rows have no columns.
    """
    if not rows.column_names:
        raise InvalidInput("the given rows have no columns to compare with: give rows with columns")
    if not set(rows.column_names) <= set(schema.names):
        return conformed(rows, schema)  # raises, naming the missing column
    given = {*rows.column_names}
    fields = [field.with_nullable(True) for field in schema if field.name in given]
    return conformed(rows, pa.schema(fields))


def when(rows: pa.Table, time_column: str) -> tuple[Instant, Instant]:
    """Return the time range of matching rows."""
    everywhere = (ALL_TIME.start, ALL_TIME.end - 1)
    if time_column not in rows.column_names or not is_time(rows.schema.field(time_column).type):
        return everywhere
    bounds = pc.min_max(instants(rows.column(time_column)))
    first, last = bounds["min"].as_py(), bounds["max"].as_py()
    return (everywhere[1], everywhere[0]) if first is None else (first, last)


def found(snapshot: Snapshot, wanted: Condition) -> Rows:
    """Return the addresses of the rows that match the condition."""
    batches = snapshot.addressed(columns=wanted.columns, where=wanted)
    return addresses(wanted.keep(batch) for batch in batches)


def given_addresses(table: pa.Table) -> Rows:
    """Return user-supplied addresses by root, without null roots and impossible row numbers.

    Raises:
        InvalidInput: a column is missing or has another type, or a root is not a segment id.
    """
    try:
        plain = table.select([ROOT, ROW])
        kinds = pa.schema([(ROOT, pa.string()), (ROW, pa.int64())])
        rows = plain.cast(kinds).combine_chunks()
        numbers = rows.column(ROW)
        possible = pc.and_(pc.greater_equal(numbers, 0), pc.less(numbers, _MOST_ROWS))
        known = rows.filter(pc.and_(possible, rows.column(ROOT).is_valid()))
        return addresses([known])
    except CorruptTable as error:
        raise InvalidInput(f"{error}: take addresses from Snapshot.addressed()") from None
    except (KeyError, pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise InvalidInput(
            f"addresses need the columns {ROOT} (text) and {ROW} (whole numbers), as "
            f"Snapshot.addressed() gives them, but {error}"
        ) from None


def present(snapshot: Snapshot, wanted: Rows) -> Rows:
    """Return the addresses of rows that are visible in the snapshot."""
    return addresses(_rows_at(snapshot, wanted, []))


def in_full(snapshot: Snapshot, wanted: Rows) -> pa.Table:
    """Return the rows at these addresses with all their columns, in memory."""
    batches = (batch.select(snapshot.schema.names) for batch in _rows_at(snapshot, wanted, None))
    return pa.Table.from_batches(batches, snapshot.schema)


def _rows_at(
    snapshot: Snapshot, wanted: Rows, columns: list[str] | None
) -> Iterator[pa.RecordBatch]:
    known = {str(root): np.asarray(rows.to_array(), np.int64) for root, rows in wanted.items()}
    for batch in snapshot.addressed(columns=columns, roots=wanted):
        names, codes, numbers = hidden_of(batch)
        chosen = np.zeros(batch.num_rows, np.bool_)
        for code in np.unique(codes):
            here = codes == code
            chosen[here] = np.isin(numbers[here], known.get(names[code], _NONE))
        if chosen.any():
            yield batch.filter(pa.array(chosen))


_NONE = np.zeros(0, np.int64)


NewValue: TypeAlias = Callable[[pa.Table], pa.ChunkedArray]
"""Returns a column's new values for rows."""


def new_values(
    given: Mapping[str, Any], schema: pa.Schema, source: Mapping[str, str] | None = None
) -> dict[str, NewValue]:
    """Return the new values of a request by column; SQL is read once.

    Args:
        given: the values of a request: plain ones, ``Sql``, or Arrow expressions.
        schema: the table's columns.
        source: in a merge, the names of the source's columns in the rows.

    Raises:
        SchemaMismatch: a column is missing.
        InvalidInput: a text cannot be parsed as SQL.
    """
    known = {*schema.names}
    for name in given:
        if name not in known:
            raise no_column(name, schema.names, "to set")
    return {
        name: _new_value(schema.field(name), value, schema, source) for name, value in given.items()
    }


def assigned(rows: pa.Table, values: Mapping[str, NewValue]) -> pa.Table:
    """Return rows with new values in some columns.

    Raises:
        SchemaMismatch: a value does not fit its column.
        InvalidInput: only Spark computes a value.
    """
    given = {name: value(rows) for name, value in values.items()}
    columns = [given.get(name, rows.column(name)) for name in rows.column_names]
    return pa.table(columns, names=rows.column_names)


def _new_value(
    field: pa.Field, value: Any, schema: pa.Schema, source: Mapping[str, str] | None
) -> NewValue:
    if not isinstance(value, Sql):
        return partial(_plain, field, value)
    from airflow_provider_segtable.data.sql.sql_conditions import AssignedSql  # slow to import

    return AssignedSql.read(field, value.text, schema.names, source).over


def _plain(field: pa.Field, value: Any, rows: pa.Table) -> pa.ChunkedArray:
    """Return a plain value, or an Arrow expression's, cast to the column's type."""
    kind = field.type
    try:
        if isinstance(value, pc.Expression):
            return _evaluated(rows, value).cast(kind)
        one = pa.array([value]).cast(kind) if _may_lose(value, kind) else pa.array([value], kind)
        return pa.chunked_array([pa.repeat(one[0], rows.num_rows)], kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise SchemaMismatch(
            f"column {field.name!r} is {kind} and cannot be set to {value}: {error}"
        ) from None


def _may_lose(value: Any, kind: pa.DataType) -> bool:
    """Return whether Arrow would silently truncate a Python value; its casts raise instead."""
    number = isinstance(value, float | Decimal) and pa.types.is_integer(kind)
    return number or (isinstance(value, datetime) and pa.types.is_temporal(kind))


def _evaluated(rows: pa.Table, value: pc.Expression) -> pa.ChunkedArray:
    from pyarrow import acero  # slow to import

    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(rows))
    project = acero.Declaration("project", acero.ProjectNodeOptions([value], ["value"]))
    plan = acero.Declaration.from_sequence([source, project])
    return plan.to_table(use_threads=False).column("value")  # one thread keeps the order


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
    names = {*schema.names}
    known = given_columns(
        source.select([name for name in source.column_names if name in names]), schema
    )
    columns = [(known if name in names else source).column(name) for name in source.column_names]
    return pa.table(columns, names=source.column_names)


def check_set(request: Merge, schema: pa.Schema, source: pa.Schema | None) -> None:
    """Refuse new values that only Spark computes.

    Raises:
        SchemaMismatch: a column is missing.
        InvalidInput: only Spark computes a value.
    """
    if request.set is None or source is None:
        return
    known = {field.name: field for field in schema}
    fields = [known.get(each.name, each) for each in source]
    joined = _with_source(schema.empty_table(), pa.schema(fields).empty_table())
    assigned(joined, new_values(request.set, schema, _source_names(source.names)))


def _joined(
    snapshot: Snapshot, keys: Keys, source: pa.Table
) -> tuple[dict[SegmentId, BitMap], np.ndarray]:
    """Return the addresses of rows with a source key, and a mask of the keys found."""
    met = np.zeros(keys.count, np.bool_)

    of_keys = source.select(list(keys.columns))
    span = when(of_keys, snapshot.state.table.time_column)
    wanted = Condition(columns=keys.columns, keep=keys.among, when=span)
    if wanted.interval is None or not keys.count:
        return {}, met
    batches = snapshot.addressed(columns=keys.columns, interval=wanted.interval)
    return addresses(_with_keys_recorded(map(wanted.keep, batches), keys, met)), met


def _with_keys_recorded(
    rows: Iterable[pa.RecordBatch], keys: Keys, met: np.ndarray
) -> Iterator[pa.RecordBatch]:
    """Yield rows with source keys, and record their keys in a mask."""
    for batch in rows:
        met[keys.find(batch)] = True
        yield batch


def refuse_doubles(source: pa.Table, numbers: Numbers, met: np.ndarray, on: Sequence[str]) -> None:
    """Refuse a source with several rows for one key of the table.

    Raises:
        InvalidInput: with the key and its number of rows.
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
    """Return rows of the table with new values, by default the values of their source rows."""
    place = np.zeros(keys.count, np.int64)
    known = numbers >= 0
    place[numbers[known]] = np.flatnonzero(known)
    taken = source.take(pa.array(place[keys.find(rows)]))
    if given is not None:
        values = new_values(given, rows.schema, _source_names(source.column_names))
        return assigned(_with_source(rows, taken), values).select(rows.column_names)
    fresh = {*source.column_names}.difference(keys.columns)
    columns = [(taken if name in fresh else rows).column(name) for name in rows.column_names]
    return pa.table(columns, names=rows.column_names)


def _with_source(rows: pa.Table, source: pa.Table) -> pa.Table:
    """Return rows with the columns of their source rows, under distinct names."""
    names = [*rows.column_names, *_source_names(source.column_names).values()]
    return pa.table([*rows.columns, *source.columns], names=names)


def _source_names(source: Sequence[str]) -> dict[str, str]:
    """Return the names of a source's columns beside those of the table."""
    return {name: f"source.{name}" for name in source}


def _widened(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows to insert in a table's columns; missing columns have their defaults.

    Args:
        rows: source rows.
        schema: the table's columns, with their defaults (``given_schema``).
    """
    given = {*rows.column_names}
    columns = [
        rows.column(field.name)
        if field.name in given
        else pa.chunked_array([pa.repeat(default_of(field), rows.num_rows)], field.type)
        for field in schema
    ]
    return pa.table(columns, names=schema.names)
