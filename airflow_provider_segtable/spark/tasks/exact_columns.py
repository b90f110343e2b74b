"""Carry values through Spark that Spark cannot hold exactly: nanoseconds, as whole numbers.

1. Spark holds microseconds. A change that writes a row again must not lose the last three digits of
   columns that it does not set. So a task that reads adds a copy of each such column (``copies``):
   its nanoseconds as 64-bit integers, at any depth.
2. A task that writes puts the copies in place of what Spark held (``restored``). A row without a
   copy, such as a new one of a merge, keeps what Spark held.
3. Spark sees times rounded down, so that an event time stays in its time chunk.
"""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.data.jobs.segment_writer import conformed

PREFIX = "__segtable_exact_"
"""Before the name of a column, the name of its copy."""

_TIMED = (pa.types.is_timestamp, pa.types.is_duration, pa.types.is_time64)


def copied(field: "pa.Field[Any]") -> "pa.Field[Any]":
    """Return the column that holds a copy of ``field``."""
    return pa.field(PREFIX + field.name, _copied(field.type))


def inexact(field: "pa.Field[Any]") -> bool:
    """Return whether Spark cannot hold all values of a column."""
    return bool(_copied(field.type) != field.type)


def _copied(kind: pa.DataType) -> pa.DataType:
    """Return a type with whole numbers in place of nanoseconds, at any depth."""
    if any(of(kind) for of in _TIMED) and kind.unit == "ns":
        return pa.int64()
    if pa.types.is_struct(kind):
        return pa.struct([each.with_type(_copied(each.type)) for each in kind])
    if pa.types.is_map(kind):
        return pa.map_(_copied(kind.key_type), _copied(kind.item_type))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(_within(kind), kind.list_size)
    if pa.types.is_large_list(kind):
        return pa.large_list(_within(kind))
    return pa.list_(_within(kind)) if pa.types.is_list(kind) else kind


def _within(kind: pa.DataType) -> "pa.Field[Any]":
    return kind.value_field.with_type(_copied(kind.value_type))


def copies(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return rows with a copy of each of the named columns."""
    for name in names:
        copy = copied(rows.schema.field(name))
        rows = rows.append_column(copy, rows.column(name).cast(copy.type))
    return rows


def floored(rows: pa.Table, name: str) -> pa.Table:
    """Return rows with a column of times rounded down to microseconds, if it is there."""
    if name not in rows.column_names or not inexact(rows.schema.field(name)):
        return rows
    at = rows.column_names.index(name)
    return rows.set_column(at, name, pc.floor_temporal(rows.column(at), unit="microsecond"))


def restored(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows without their copies, whose values are back in the columns of ``schema``."""
    for name in [name for name in rows.column_names if name.startswith(PREFIX)]:
        field = schema.field(name.removeprefix(PREFIX))
        exact = rows.column(name).cast(_copied(field.type)).cast(field.type)
        near = conformed(rows.select([field.name]), pa.schema([field])).column(0)
        at = rows.column_names.index(field.name)
        rows = rows.set_column(at, field, pc.coalesce(exact, near)).drop_columns([name])
    return rows
