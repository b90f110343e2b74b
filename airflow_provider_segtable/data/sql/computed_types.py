"""Types that SQL is computed in: columns and literals on their way into an expression.

Texts are large strings, bytes large binaries; times count microseconds and have the zone UTC;
unsigned integers are the next wider signed ones.
"""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from airflow_provider_segtable.data.sql import arrow_numbers as numbers
from airflow_provider_segtable.data.sql.sql_text import Kind, Literal, instant
from airflow_provider_segtable.data.sql.text_values import as_day

SIGNED = {
    pa.uint8(): pa.int16(),
    pa.uint16(): pa.int32(),
    pa.uint32(): pa.int64(),
    pa.uint64(): pa.decimal128(20, 0),
}
TEXT = pa.large_string()
BINARY = pa.large_binary()
TIME = pa.timestamp("us", "UTC")
_BINARIES = (pa.types.is_binary, pa.types.is_large_binary, pa.types.is_fixed_size_binary)


def constant(found: Literal) -> pa.Scalar:
    """Return a literal in the type that Spark gives it.

    Raises:
        ValueError: it is no time, or no number.
        OnlySpark: Spark may read it as a time.
    """
    match found.kind:
        case Kind.NULL:
            return pa.scalar(None)
        case Kind.BOOLEAN:
            return pa.scalar(found.text == "True")
        case Kind.NUMBER:
            return numbers.number(found.text)
        case Kind.TEXT:
            return pa.scalar(found.text, TEXT)
        case Kind.DATE:
            return pa.scalar(as_day(found.text), pa.int32()).cast(pa.date32())
        case Kind.TIME | Kind.LOCAL_TIME:
            return pa.scalar(instant(found), TIME)


def constants(kind: Kind, texts: Sequence[str]) -> "pa.Array | None":
    """Return many plain literals as ``constant`` does, as a whole; None if they need it each."""
    if kind is Kind.TEXT:
        return pa.array(texts, TEXT)
    if kind is not Kind.NUMBER:
        return None
    try:
        whole = np.array(list(map(int, texts)), np.int64)
    except (ValueError, OverflowError):
        return None
    fits = int(whole.min()) >= -(2**31) and int(whole.max()) < 2**31
    return pa.array(whole, pa.int32()) if fits else None


def normal(values: pa.Array) -> pa.Array:
    """Return a column in the types that are computed with: signed, decoded, times in UTC."""
    kind = values.type
    if pa.types.is_dictionary(kind):
        return normal(values.cast(kind.value_type))
    if is_text(kind):
        return values.cast(TEXT)
    if pa.types.is_timestamp(kind):
        return values.cast(pa.timestamp("ns" if kind.unit == "ns" else "us", "UTC"))
    if pa.types.is_date64(kind):
        return values.cast(pa.date32())
    if pa.types.is_float16(kind):
        return values.cast(pa.float32())
    if any(each(kind) for each in _BINARIES):
        return values.cast(BINARY)
    return values.cast(SIGNED.get(kind, kind))


def is_text(kind: pa.DataType) -> bool:
    """Return whether values of a type are texts."""
    texts = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
    return any(each(kind) for each in texts)
