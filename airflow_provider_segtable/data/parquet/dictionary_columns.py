"""Which columns of a new file are written with a dictionary.

1. Text, bytes and nested columns: always. So are all columns of few rows.
2. Numbers and times: if they repeat, by a sample of the first row group. A dictionary of values
   that hardly repeat makes a file larger, takes as long to try as all else, and a reader keeps it
   in memory while it reads the row group.
"""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

FEW = 16_384
"""Up to so many rows a dictionary is small, and the sample would cost more than it saves."""
_SAMPLE = 8_192


def dictionary_columns(rows: pa.Table) -> list[str] | bool:
    """Return the columns, by path, of which a dictionary is written; True for all.

    Args:
        rows: the first row group.
    """
    if rows.num_rows <= FEW:
        return True
    places = pa.array(np.arange(0, rows.num_rows, rows.num_rows // _SAMPLE))
    unlike = {
        field.name
        for number, field in enumerate(rows.schema)
        if _is_plain(field.type) and not _repeats(rows.column(number).take(places))
    }
    return [path for path in _paths(rows.schema) if path not in unlike]


def _is_plain(kind: pa.DataType) -> bool:
    is_ = pa.types
    return bool(is_.is_integer(kind) or is_.is_floating(kind) or is_.is_temporal(kind))


def _repeats(sample: pa.ChunkedArray) -> bool:
    return 2 * len(pc.unique(sample)) <= len(sample)


def _paths(schema: pa.Schema) -> list[str]:
    """Return the paths of a file's columns."""
    if not any(pa.types.is_nested(field.type) for field in schema):
        return list(schema.names)
    stream = pa.BufferOutputStream()
    pq.write_table(schema.empty_table(), stream)
    stored = pq.read_metadata(pa.BufferReader(stream.getvalue())).schema
    return [stored.column(number).path for number in range(len(stored))]
