"""Checks of rows before they are written: columns, types and event times.

1. Columns and types must match the table's. Errors name the column or row, the value and the
   expectation.
2. A type that differs only in width or representation (timestamp unit, large strings, a
   dictionary) is cast if the cast is lossless; anything else is a mismatch. Floating numbers may be
   rounded to a narrower type, but none becomes infinite.
3. A column that was added to the table may be left out: it has its default.
4. Event times must be in range, never null.
"""

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.counted import numbered_row
from airflow_provider_segtable.core.errors import SchemaMismatch, TimeOutOfRange
from airflow_provider_segtable.core.time import ALL_TIME, Instant
from airflow_provider_segtable.data.arrow_schema import is_list, is_text
from airflow_provider_segtable.data.parquet.table_file import default_of, may_be_left_out
from airflow_provider_segtable.data.rows import instants, is_time


def check_rows(rows: pa.Table, schema: pa.Schema, time_column: str) -> pa.Table:
    """Return the rows in the table's types and column order.

    Raises:
        SchemaMismatch: naming the column, the expected and the found type.
        TimeOutOfRange: naming the row and its event time.
    """
    once = rows.column_names.count(time_column) == 1
    as_given = once and is_time(rows.schema.field(time_column).type)
    if as_given:
        check_times(rows.column(time_column), time_column)  # before a cast could overflow
    made = conformed(rows, schema)
    if not as_given and time_column in schema.names:  # nulls without a type, encoded times
        check_times(made.column(time_column), time_column)
    return made


def conformed(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return the rows in the types and column order of ``schema``.

    Raises:
        SchemaMismatch: naming the column, the expected and the found type.
    """
    places = {name: at for at, name in enumerate(rows.column_names)}
    _check_names(rows, schema)
    columns = [
        _column(rows.column(places[field.name]), field)
        if field.name in places
        else _default(rows, field)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def _check_names(rows: pa.Table, schema: pa.Schema) -> None:
    """Refuse columns that the table lacks, and names that several columns have."""
    counts, known = Counter(rows.column_names), {*schema.names}
    for at, (name, count) in enumerate(counts.items()):
        if name not in known:
            raise SchemaMismatch(
                f"column {name!r} ({rows.schema.field(at).type}) is not in the "
                f"table, which has {', '.join(schema.names)}: leave it out (ingest: --columns), "
                "rename it, or add it to the table first (table alter --add)"
            )
        if count > 1:
            raise SchemaMismatch(f"column {name!r} occurs {count} times: rename one")


def _default(rows: pa.Table, field: pa.Field) -> pa.ChunkedArray:
    """Return a column that the rows leave out."""
    if may_be_left_out(field):
        return pa.chunked_array([pa.repeat(default_of(field), rows.num_rows)])
    raise SchemaMismatch(f"column {field.name!r} is missing: the table has it as {field.type}")


def _column(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    if column.type != field.type:
        column = _cast(column, field)
    if not field.nullable and column.null_count:
        row = pc.index(pc.is_null(column), True).as_py()
        raise SchemaMismatch(
            f"column {field.name!r} is not null in the table, but {numbered_row(row)} is"
        )
    return column


def _cast(column: pa.ChunkedArray, field: pa.Field) -> pa.ChunkedArray:
    expected = f"column {field.name!r}: expected {field.type}, found {column.type}"
    if not _akin(column.type, field.type):
        raise SchemaMismatch(f"{expected}: cast it first")
    try:
        if pa.types.is_dictionary(field.type):
            return column.cast(field.type.value_type).dictionary_encode()
        made = column.cast(field.type)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaMismatch(f"{expected}, and casting would lose data ({error})") from None
    if pa.types.is_floating(field.type) and pa.types.is_floating(column.type):
        _check_finite(column, made, expected)
    return made


def _check_finite(column: pa.ChunkedArray, made: pa.ChunkedArray, expected: str) -> None:
    """Refuse a number that became infinite in a narrower type."""
    endless = pc.is_inf(made.cast(pa.float64()))
    lost = pc.and_(endless, pc.invert(pc.is_inf(column.cast(pa.float64()))))
    row = pc.index(lost, True).as_py()
    if row >= 0:
        raise SchemaMismatch(
            f"{expected}, which is too small for {column[row]} in {numbered_row(row)}"
        )


def _akin(found: pa.DataType, expected: pa.DataType) -> bool:
    """Return whether two types differ in representation at most."""
    if isinstance(found, pa.BaseExtensionType):
        return _akin(found.storage_type, expected)
    if pa.types.is_dictionary(found):
        return _akin(found.value_type, expected)
    if pa.types.is_dictionary(expected):
        return _akin(found, expected.value_type)
    if pa.types.is_null(found):
        return True
    if pa.types.is_uint64(expected) and pa.types.is_decimal(found):
        return bool(found.scale == 0)  # as Spark holds them
    if pa.types.is_nested(found):
        return _akin_nested(found, expected)
    return any(kind(found) and kind(expected) for kind in _KINDS) or found == expected


def _akin_nested(found: pa.DataType, expected: pa.DataType) -> bool:
    if is_list(found) and is_list(expected):
        return _akin(found.value_type, expected.value_type)
    if pa.types.is_struct(found) and pa.types.is_struct(expected):
        return [f.name for f in found] == [f.name for f in expected] and all(
            _akin(f.type, e.type) for f, e in zip(found, expected, strict=True)
        )
    if pa.types.is_map(found) and pa.types.is_map(expected):
        return _akin(found.key_type, expected.key_type) and _akin(
            found.item_type, expected.item_type
        )
    return bool(found == expected)


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_binary(kind)
        or pa.types.is_large_binary(kind)
        or pa.types.is_binary_view(kind)
        or pa.types.is_fixed_size_binary(kind)
    )


_KINDS = (
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_decimal,
    pa.types.is_timestamp,
    pa.types.is_date,
    pa.types.is_time,
    pa.types.is_duration,
    is_text,
    _is_bytes,
)


def check_times(
    column: pa.Array | pa.ChunkedArray, name: str, first_row: int = 0
) -> tuple[Instant, Instant] | None:
    """Return the first and last event time, or None for no rows.

    Args:
        column: the time column.
        name: its name, for messages.
        first_row: the number of its first row, for messages.

    Raises:
        TimeOutOfRange: if one is null or outside the range of a table.
    """
    if not len(column):
        return None
    times = instants(column)
    bounds = pc.min_max(times)
    first, last = bounds["min"].as_py(), bounds["max"].as_py()
    if not times.null_count and first >= ALL_TIME.start and last < ALL_TIME.end:
        return first, last
    row = pc.index(impossible_times(column), True).as_py()
    found = column.cast(column.type).slice(row, 1)
    value = found.cast(_plain(found.type))[0].as_py()
    shown = "null" if value is None else f"{value} ({found.type})"
    raise TimeOutOfRange(
        f"{numbered_row(first_row + row)}: event time {name} is {shown}: it must lie in "
        f"{ALL_TIME}; drop such rows, or check the unit"
    )


def impossible_times(column: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """Return which event times are null, or outside the range of a table."""
    times = instants(column)
    inside = pc.and_(pc.greater_equal(times, ALL_TIME.start), pc.less(times, ALL_TIME.end))
    return pc.invert(inside).fill_null(True)


def _plain(kind: pa.DataType) -> pa.DataType:
    return pa.int32() if pa.types.is_date32(kind) else pa.int64()
