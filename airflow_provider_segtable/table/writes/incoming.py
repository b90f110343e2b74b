"""Incoming rows: split by time chunk and written as one new segment each."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

import pyarrow as pa

from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import Segment, SegmentId
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.data.arrow.time_chunks import split_by_chunk
from airflow_provider_segtable.data.jobs.row_checks import check_rows
from airflow_provider_segtable.data.jobs.segment_writer import write_segment
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The rows of one file, and entries of its footer besides the segment's and the table's."""

    rows: pa.Table
    entries: Mapping[bytes, bytes]


Parts: TypeAlias = Mapping[Interval, Part]
"""The rows of an append by time chunk."""


def incoming(ports: TableContext, rows: pa.Table, seen: State) -> Prepare:
    """Return the ``Prepare`` that splits rows by time chunk and writes one segment each.

    Args:
        ports: the table's ports.
        rows: checked rows in the table's stored form, in memory.
        seen: the version whose columns the rows have; a later alteration does not change them.
    """

    def prepare(state: State) -> tuple[Mapping[Interval, int], Write]:
        split = split_by_chunk(rows, state.table.time_column, state.layout)
        return parted(
            ports, {chunk: Part(rows=some, entries={}) for chunk, some in split.items()}, seen
        )

    return prepare


def parted(ports: TableContext, parts: Parts, seen: State) -> tuple[Mapping[Interval, int], Write]:
    """Return the segment count per time chunk, and the writer of their files.

    Args:
        ports: the table's ports.
        parts: the rows by time chunk.
        seen: the version whose columns they have.
    """
    return dict.fromkeys(parts, 1), partial(_written, ports, parts, seen)


def _written(ports: TableContext, parts: Parts, seen: State, ticket: AppendTicket) -> list[Segment]:
    definition = encode_definition(seen.table, seen.base_version)

    def one(interval: Interval, segment_id: SegmentId) -> Segment:
        part = parts[interval]
        return write_segment(
            ports.files,
            part.rows,
            segment_id=segment_id,
            time_column=seen.table.time_column,
            created=ticket.created,
            token=ports.randomness.token(),
            definition=definition,
            commit=ticket.files.commit,
            describe=lambda segment: (segment, part.entries),
        )

    return [one(interval, ids[0]) for interval, ids in ticket.ids.items()]
