"""A client of a Trino server: a program for ``trino_reader.py``.

    python -m tests.neighbours.trino_program PORT

The rows have the columns of the request's ``schema``, Arrow's as hexadecimal digits; without one,
pyarrow infers them.
"""

import sys
from functools import partial
from typing import Any

import pyarrow as pa
import trino

from tests.neighbours.answers import serve


def rows_of(connection: Any, asked: dict[str, Any]) -> pa.Table:
    """Run a statement, and return its rows."""
    cursor = connection.cursor()
    cursor.execute(asked["sql"])
    rows = cursor.fetchall()
    names = [column.name for column in cursor.description or ()]
    if "schema" not in asked:
        return pa.Table.from_pylist([dict(zip(names, row, strict=True)) for row in rows])
    schema = pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(asked["schema"])))
    columns = dict(zip(names, zip(*rows, strict=True) if rows else ((),) * len(names), strict=True))
    arrays = [pa.array([value(v, f.type) for v in columns[f.name]], f.type) for f in schema]
    return pa.Table.from_arrays(arrays, names=schema.names)


def value(found: Any, kind: pa.DataType) -> Any:
    """Return a value as pyarrow takes it: Trino's rows are tuples, its maps are dictionaries."""
    if found is None:
        return None
    if pa.types.is_struct(kind):
        return {f.name: value(v, f.type) for f, v in zip(kind, found, strict=True)}
    if pa.types.is_map(kind):
        return [(key, value(item, kind.item_type)) for key, item in found.items()]
    if pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [value(each, kind.value_type) for each in found]
    return found


if __name__ == "__main__":
    client = trino.dbapi.connect(
        host="127.0.0.1", port=int(sys.argv[1]), user="neighbour", timezone="UTC"
    )
    serve(partial(rows_of, client))
