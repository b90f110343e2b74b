"""Incoming rows: split by time chunk and written as one new segment each."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segments.segment import Segment
from airflow_provider_segtable.core.time.interval import Interval
from airflow_provider_segtable.core.time.layout import Layout
from airflow_provider_segtable.data.arrow.event_times import instants
from airflow_provider_segtable.data.jobs.segment_writer import check_rows, write_segment
from airflow_provider_segtable.data.parquet.metadata.descriptor import encode_definition
from airflow_provider_segtable.data.parquet.table_file import may_be_left_out
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.writes.append import (
    AppendTicket,
    Prepare,
    Write,
)

Check: TypeAlias = Callable[[pa.Table, pa.Schema, str], pa.Table]
"""Returns rows in the types of a schema with an event time, or refuses them."""


def check_filled(rows: pa.Table, schema: pa.Schema, time_column: str) -> pa.Table:
    """Check rows as ``check_rows`` does, with nulls in the nullable columns that they leave out.

    The event time is never left out. Columns that were added later have their own default.
    """
    for field in schema:
        known = field.name in (*rows.column_names, time_column) or may_be_left_out(field)
        if field.nullable and not known:
            rows = rows.append_column(field.name, pa.nulls(rows.num_rows, field.type))
    return check_rows(rows, schema, time_column)


def incoming(ports: TableContext, rows: pa.Table, seen: State) -> Prepare:
    """Return the ``Prepare`` that splits rows by time chunk and writes one segment each.

    Args:
        ports: the table's ports.
        rows: checked rows in the table's stored form, in memory.
        seen: the version whose columns the rows have; a later alteration does not change them.
    """
    definition = encode_definition(seen.table, seen.base_version)

    def prepare(state: State) -> tuple[Mapping[Interval, int], Write]:
        parts = split_by_chunk(rows, state.table.time_column, state.layout)
        return dict.fromkeys(parts, 1), partial(_written, ports, parts, seen, definition)

    return prepare


def _written(
    ports: TableContext,
    parts: Mapping[Interval, pa.Table],
    seen: State,
    definition: bytes,
    ticket: AppendTicket,
) -> list[Segment]:
    return [
        write_segment(
            ports.files,
            parts[interval],
            segment_id=ids[0],
            time_column=seen.table.time_column,
            created=ticket.created,
            token=ports.randomness.token(),
            definition=definition,
            commit=ticket.files.commit,
        )
        for interval, ids in ticket.ids.items()
    ]


def split_by_chunk(rows: pa.Table, time_column: str, layout: Layout) -> dict[Interval, pa.Table]:
    """Split rows by time chunk, each part sorted by event time (stable)."""
    if rows.num_rows == 0:
        raise InvalidInput("there are no rows to append")
    times = instants(rows.column(time_column).combine_chunks())
    order = pc.sort_indices(times)
    ordered, times = rows.take(order), times.take(order)
    instants_us = np.frombuffer(times.buffers()[1], np.int64, len(times))  # without pandas
    parts: dict[Interval, list[pa.Table]] = {}
    start = 0
    while start < len(instants_us):
        first = int(instants_us[start])
        end = int(np.searchsorted(instants_us, layout.edge(first)))
        parts.setdefault(layout.chunk(first), []).append(ordered.slice(start, end - start))
        start = end
    return {chunk: pa.concat_tables(pieces) for chunk, pieces in parts.items()}
