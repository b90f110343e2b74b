"""Event times of Arrow columns as instants.

1. An event time is a timestamp of any unit and zone (naive means UTC) or a date (its midnight).
2. Its instant is floored to the microsecond. A time that does not fit 64 bits saturates, so that a
   range check finds it; it never wraps into a plausible time.
"""

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.time import DAY_US

_MAX = 2**63 - 1
_US_PER_UNIT = {"s": 1_000_000, "ms": 1_000, "us": 1}


def is_time(kind: pa.DataType) -> bool:
    """Return whether a column of this type can be the event time."""
    return bool(pa.types.is_timestamp(kind) or pa.types.is_date(kind))


def is_date(kind: pa.DataType) -> bool:
    """Return whether a column of this type has dates, without a time of the day."""
    return bool(pa.types.is_date(kind))


def instants(column: pa.Array | pa.ChunkedArray) -> pa.Int64Array:
    """Return event times as microseconds since the epoch, UTC; null stays null."""
    array = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
    kind = array.type
    if pa.types.is_date32(kind):
        return _scaled(array.cast(pa.int32()).cast(pa.int64()), DAY_US)
    if pa.types.is_date64(kind):
        return _scaled(array.cast(pa.int64()), _US_PER_UNIT["ms"])
    if kind.unit == "ns":
        return _floored(array.cast(pa.int64()), 1_000)
    return _scaled(array.cast(pa.int64()), _US_PER_UNIT[kind.unit])


def _scaled(values: pa.Int64Array, factor: int) -> pa.Int64Array:
    if factor == 1:
        return values
    limit = pa.scalar(_MAX // factor, pa.int64())
    lowest = pa.scalar(-(_MAX // factor), pa.int64())
    inside = pc.min_element_wise(values, limit, skip_nulls=False)
    return pc.multiply(pc.max_element_wise(inside, lowest, skip_nulls=False), factor)


def _floored(values: pa.Int64Array, divisor: int) -> pa.Int64Array:
    quotient = pc.divide(values, divisor)  # truncates towards zero
    above = pc.greater(pc.multiply(quotient, divisor), values)
    return pc.subtract(quotient, above.cast(pa.int64()))
