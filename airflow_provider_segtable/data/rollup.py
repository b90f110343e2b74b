"""Rolling up rows: given ones into rolled-up ones, and those again into fewer.

1. *Physical* rows are what files hold: the stored schema and the hidden columns of
   ``core.rollup``. ``from_input`` makes them of given rows, ``rolled_up`` of physical rows; both
   give one row a group, sorted by dimensions, then time, nulls first.
2. However rows are split, rolled up and joined, the end is the same (but for the last digits of
   floating sums), and the sum of ``__segtable_events`` is the number of given rows.
3. Sketches are Spark's and stay opaque here: tables that have them roll up by ``spark.rollup``.
4. Dictionaries stay dictionaries; nothing is needed but Arrow and numpy.

Source of the idea: Druid's IncrementalIndex and its combining aggregator factories.
"""

import pyarrow as pa

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.rollup import EVENTS, HIDDEN, Metric, MetricKind, Rollup
from airflow_provider_segtable.core.schema import Column, Schema
from airflow_provider_segtable.data.ingest import check_times
from airflow_provider_segtable.data.rollup_codes import (
    Groups,
    Longs,
    coded,
    combined,
    cut_times,
    grouped,
    plain,
)
from airflow_provider_segtable.data.rollup_metrics import REDUCED, sizes, summed, timed
from airflow_provider_segtable.data.schema import parse_type, to_arrow
from airflow_provider_segtable.data.times import instants

Columns = dict[str, pa.Array]
_ALL_EVENTS = Metric(name=EVENTS, kind=MetricKind.COUNT)


def physical_schema(table_schema: pa.Schema, rollup: Rollup) -> pa.Schema:
    """Return what files hold: the stored schema, then the hidden columns."""
    return pa.schema([*table_schema, *to_arrow(Schema(rollup.hidden))])


def visible(rows: pa.Table) -> pa.Table:
    """Return the rows without hidden columns."""
    return rows.select([name for name in rows.column_names if not name.startswith(HIDDEN)])


def from_input(rows: pa.Table, rollup: Rollup, *, time_column: str) -> pa.Table:
    """Roll up given rows.

    Args:
        rows: in the input schema.
        rollup: of the table.
        time_column: the event time.

    Returns:
        Physical rows, one a group, sorted by dimensions, then time.

    Raises:
        InvalidInput: the rollup has sketches, or a sum does not fit.
        TimeOutOfRange: an event time is null or absurd.
    """
    check_arrow(rollup)
    check_times(rows.column(time_column), time_column)
    at = plain(instants(combined(rows.column(time_column))))
    groups, columns = _grouped(rows, rollup, time_column)
    hidden = {EVENTS: sizes(groups)}
    for metric in rollup.metrics:
        if metric.source is None:
            columns[metric.name] = hidden[EVENTS]
        elif metric.kind.timed:
            source = rows.column(metric.source)
            columns[metric.name], hidden[metric.at] = timed(metric, source, at, groups)
        else:
            columns[metric.name] = REDUCED[metric.kind](metric, rows.column(metric.source), groups)
    return _table(columns | hidden, _made_schema(rows.schema, rollup, time_column))


def rolled_up(rows: pa.Table, rollup: Rollup, *, time_column: str) -> pa.Table:
    """Roll up physical rows, of any mixture of generations, perfectly.

    Args:
        rows: with the columns of ``physical_schema``.
        rollup: of the table.
        time_column: the event time.

    Returns:
        Physical rows, one a group, sorted by dimensions, then time.

    Raises:
        InvalidInput: the rollup has sketches, or a sum does not fit.
    """
    check_arrow(rollup)
    groups, columns = _grouped(rows, rollup, time_column)
    hidden = {EVENTS: summed(_ALL_EVENTS, rows.column(EVENTS), groups)}
    for metric in rollup.metrics:
        values = rows.column(metric.name)
        if metric.kind.timed:
            at = _exact(rows, metric)
            columns[metric.name], hidden[metric.at] = timed(metric, values, at, groups)
        else:
            columns[metric.name] = REDUCED[metric.kind](metric, values, groups)
    return _table(columns | hidden, rows.schema)


def check_arrow(rollup: Rollup) -> None:
    """Refuse a rollup that only Spark can do.

    Raises:
        InvalidInput: it has sketches.
    """
    if rollup.sketches:
        raise InvalidInput(
            f"metric {rollup.sketches[0]} is a sketch, which only Spark can make and merge: "
            "append by spark.ingest, read by spark.scan(..., rolled_up=True), compact in Spark"
        )


def _grouped(rows: pa.Table, rollup: Rollup, time_column: str) -> tuple[Groups, Columns]:
    """Return the groups and their time and dimensions."""
    steps = cut_times(rows.column(time_column), rollup.query_granularity)
    keys = {name: coded(rows.column(name)) for name in rollup.dimensions}
    groups = grouped([*keys.values(), steps.codes], rows.num_rows)
    columns = {time_column: steps.column(groups.a_row)}
    return groups, columns | {name: codes.taken(groups.a_row) for name, codes in keys.items()}


def _exact(rows: pa.Table, metric: Metric) -> Longs:
    return plain(combined(rows.column(metric.at)))


def _made_schema(given: pa.Schema, rollup: Rollup, time_column: str) -> pa.Schema:
    """Return the physical schema of what is made of rows with the given schema."""
    fields = [given.field(name) for name in (time_column, *rollup.dimensions)]
    for metric in rollup.metrics:
        source = None
        if metric.source is not None:
            kind = given.field(metric.source).type
            value = kind.value_type if pa.types.is_dictionary(kind) else kind
            source = Column(name=metric.source, type=str(value))
        stored = metric.stored(source)
        fields.append(pa.field(stored.name, parse_type(stored.type), stored.nullable))
    return physical_schema(pa.schema(fields), rollup)


def _table(columns: Columns, schema: pa.Schema) -> pa.Table:
    arrays = [_as(columns[field.name], field.type) for field in schema]
    return pa.table(arrays, schema=schema.remove_metadata())


def _as(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if array.type == kind:
        return array
    words = pa.types.is_dictionary(kind) and not pa.types.is_dictionary(array.type)
    return (array.dictionary_encode() if words else array).cast(kind)
