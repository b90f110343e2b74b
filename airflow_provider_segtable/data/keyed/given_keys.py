"""Keys as users give them, as rows in the types of a table's key.

1. Accepted are one key, a list of keys, or anything that speaks Arrow. A key of several columns is
   a tuple in the order of the primary key; in Arrow it is the columns of these names, among others.
2. Values are converted to the types of the key without loss: a number from text, a time from a
   ``datetime`` or text, a date from text.
3. A key that is given twice counts once, at its first place. Null is no key.
"""

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.data.keyed.keyed_rows import check_keys
from airflow_provider_segtable.data.rows import arrow_table

_PLACE = "place"
_ARROW = ("__arrow_c_stream__", "__arrow_c_array__")


def key_rows(keys: Any, schema: pa.Schema) -> pa.Table:
    """Return keys as rows of the columns of a schema, each once, in their order.

    Args:
        keys: the keys.
        schema: the columns of the primary key, in its order.

    Raises:
        InvalidInput: a key lacks a column, is null, or is no value of its column.
    """
    columns = _columns(keys, schema)
    rows = pa.table([_typed(*each) for each in zip(columns, schema, strict=True)], schema=schema)
    check_keys(rows, schema.names)
    if rows.num_rows <= 1:
        return rows
    places = rows.append_column(_PLACE, pa.array(range(rows.num_rows), pa.int64()))
    firsts = places.group_by(schema.names, use_threads=False).aggregate([(_PLACE, "min")])
    if firsts.num_rows == rows.num_rows:
        return rows
    return rows.take(firsts.column(f"{_PLACE}_min").sort())


def _columns(keys: Any, schema: pa.Schema) -> list[Any]:
    """Return the values of each column of the key."""
    if isinstance(keys, pa.Array | pa.ChunkedArray):
        if len(schema) > 1:
            raise _shape_error(schema)
        return [keys]
    if isinstance(keys, pa.Table | pa.RecordBatch) or any(hasattr(keys, n) for n in _ARROW):
        given = arrow_table(keys)
        found = {*given.column_names}
        missing = [name for name in schema.names if name not in found]
        if missing:
            raise InvalidInput(
                f"the keys have no column {', '.join(missing)}: the primary key is "
                f"{', '.join(schema.names)}"
            )
        return [given.column(name) for name in schema.names]
    several = _several(keys, schema)
    if len(schema) == 1:
        return [[key[0] if isinstance(key, tuple) and len(key) == 1 else key for key in several]]
    if any(not isinstance(key, tuple | list) or len(key) != len(schema) for key in several):
        raise _shape_error(schema)
    return [[key[at] for key in several] for at in range(len(schema))]


def _several(keys: Any, schema: pa.Schema) -> Sequence[Any]:
    """Return keys as a sequence: one key is a value, or a tuple of the key's columns."""
    is_plain = isinstance(keys, str | bytes) or not isinstance(keys, Iterable)
    if is_plain or (isinstance(keys, tuple) and not _holds_keys(keys, schema)):
        return [keys]
    return [*keys]


def _holds_keys(keys: tuple[Any, ...], schema: pa.Schema) -> bool:
    return len(schema) == 1 or any(isinstance(key, tuple | list) for key in keys)


def _shape_error(schema: pa.Schema) -> InvalidInput:
    return InvalidInput(
        f"the primary key has the columns {', '.join(schema.names)}: give each key as a tuple of "
        "them, or keys as an Arrow table with these columns"
    )


def _typed(values: Any, field: "pa.Field[Any]") -> pa.Array | pa.ChunkedArray:
    """Return the values of a column in its type.

    Raises:
        InvalidInput: a value does not fit.
    """
    kind = field.type
    try:
        if isinstance(values, pa.Array | pa.ChunkedArray):
            return values.cast(kind)
        texts = not pa.types.is_string(kind) and any(isinstance(each, str) for each in values)
        return pa.array(values).cast(kind) if texts else pa.array(values, kind)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise InvalidInput(
            f"a key is not a value of column {field.name!r}, {kind}: {error}"
        ) from None
