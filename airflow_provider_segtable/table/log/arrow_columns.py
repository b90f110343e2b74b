"""Arrow columns from Python values and back, by their buffers.

Arrow's own conversion of a list imports pandas first, which takes a second of processor time, and
converts values one by one. A short-lived process that appends or writes a checkpoint needs neither.
"""

from array import array
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate
from typing import Any, Literal

import numpy as np
import pyarrow as pa

_CODES: dict[pa.DataType, Literal["i", "q"]] = {pa.int32(): "i", pa.int64(): "q"}
"""The codes of ``array`` and ``memoryview`` for the types of integer columns."""


def table_of(rows: Iterable[Mapping[str, Any]], schema: pa.Schema) -> pa.Table:
    """Return rows as a table; each row has a value or None for every column."""
    some = list(rows)
    columns = [column([row[field.name] for row in some], field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def column(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Return values as a column of integers, booleans or strings; None is null.

    Raises:
        TypeError, OverflowError, AttributeError: a value does not fit the type.
    """
    missing = None in values
    valid = _bits([value is not None for value in values]) if missing else None
    if kind in _CODES:
        filled = [0 if value is None else value for value in values] if missing else values
        buffers = [valid, pa.py_buffer(array(_CODES[kind], filled))]
    elif kind == pa.bool_():
        buffers = [valid, _bits([bool(value) for value in values])]
    else:
        texts = [b"" if value is None else value.encode() for value in values]
        ends = array("i", accumulate(map(len, texts), initial=0))
        buffers = [valid, pa.py_buffer(ends), pa.py_buffer(b"".join(texts))]
    return pa.Array.from_buffers(kind, len(values), buffers)


def in_columns(rows: pa.Table, schema: pa.Schema, missing: Mapping[str, Any]) -> pa.Table:
    """Return rows with the columns of a schema, in its order; ``missing`` has values of others."""
    columns = [
        rows.column(field.name)
        if field.name in rows.column_names
        else column([missing[field.name]] * rows.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def values_of(column: pa.ChunkedArray) -> list[Any]:
    """Return a column as Python values."""
    if column.null_count == len(column):
        return [None] * len(column)
    if column.null_count or column.type not in _CODES:
        return list(column.to_pylist())
    found: list[Any] = []
    for piece in column.chunks:
        if len(piece):
            numbers = memoryview(piece.buffers()[1]).cast(_CODES[column.type])
            found += numbers[piece.offset : piece.offset + len(piece)].tolist()
    return found


def _bits(flags: Sequence[bool]) -> pa.Buffer:
    return pa.py_buffer(np.packbits(np.array(flags, bool), bitorder="little"))
