"""Checks of a new table's definition."""

import pyarrow as pa

from airflow_provider_segtable.core.errors import InvalidName, SchemaMismatch
from airflow_provider_segtable.core.tables.schema import Schema
from airflow_provider_segtable.core.time.interval import Granularity
from airflow_provider_segtable.data.arrow.arrow_schema import from_arrow
from airflow_provider_segtable.data.arrow.event_times import is_time


def known_granularity(value: str | Granularity) -> Granularity:
    """Return a granularity by its name.

    Raises:
        InvalidName: there is none.
    """
    try:
        return Granularity(value)
    except ValueError:
        choices = ", ".join(Granularity)
        raise InvalidName(f"granularity {value!r} is unknown: choose one of {choices}") from None


def checked_schema(schema: pa.Schema, time_column: str) -> Schema:
    """Return a new table's schema.

    Raises:
        SchemaMismatch: a type cannot be stored, or the time column is missing or not a time.
    """
    if time_column not in schema.names:
        raise SchemaMismatch(
            f"time column {time_column!r} is not in the schema: it has {', '.join(schema.names)}"
        )
    if not is_time(schema.field(time_column).type):
        raise SchemaMismatch(
            f"time column {time_column!r} has type {schema.field(time_column).type}: "
            "it must be a timestamp or a date"
        )
    return from_arrow(schema)
