"""Which columns of numbers are stored without compression, and how Parquet's writer is told so.

1. Random numbers (measurements, hashes) hardly shrink, and a reader pays for it with each page: a
   page of them is decompressed in three times the time that all else takes. So a column is
   compressed only if a sample loses an eighth of its bytes, as blocks of RocksDB are.
2. The sample is two pieces of the first row group: a column may begin with values that repeat.
3. Few values prove nothing: none of them shrinks. So a small row group, or a column that is mostly
   null, is compressed.
"""

from collections.abc import Callable, Collection, Iterable, Sequence
from typing import Any

import pyarrow as pa

CODEC, LEVEL = "zstd", 1
PIECE = 2_048
"""Values in a piece of the sample."""
_LEAST_VALUES = PIECE // 2
_LEAST_GAIN = 8
"""A column is compressed if that takes off one byte in so many."""
_LEAST_BITS = 32


def incompressible(rows: pa.Table, columns: Iterable[str]) -> frozenset[str]:
    """Return the columns of which no sample shrinks enough.

    Args:
        rows: the first row group.
        columns: columns of numbers or times, without dictionaries.
    """
    codec = pa.Codec(CODEC, LEVEL)
    starts = (0, rows.num_rows // 2)
    found = {name: rows.column(name) for name in columns}
    return frozenset(
        name
        for name, column in found.items()
        if _as_stored(column.type) and not any(_shrinks(column, at, codec) for at in starts)
    )


def _as_stored(kind: pa.DataType) -> bool:
    """Return whether a value has as many bytes in Parquet: shorter ones become 32 bits."""
    return bool(kind.bit_width >= _LEAST_BITS)


def _shrinks(column: pa.ChunkedArray, start: int, codec: pa.Codec) -> bool:
    """Return whether a piece of a column shrinks, or has too few values to tell."""
    values = column.slice(start, PIECE).drop_null()
    if len(values) < _LEAST_VALUES:
        return True
    plain = b"".join(_bytes(chunk) for chunk in values.chunks)
    stored = len(codec.compress(plain, asbytes=True))
    return stored * _LEAST_GAIN <= len(plain) * (_LEAST_GAIN - 1)


def _bytes(chunk: pa.Array) -> memoryview:
    """Return the values of an array of numbers without nulls."""
    width = chunk.type.bit_width // 8
    first = chunk.offset * width
    return memoryview(chunk.buffers()[1])[first : first + len(chunk) * width]


def codec_options(
    stored_plain: Collection[str], paths: Callable[[], Sequence[str]]
) -> dict[str, Any]:
    """Return the options of Parquet's writer.

    Args:
        stored_plain: the columns that are not compressed.
        paths: returns the paths of all columns of the file; asked only if there are such.
    """
    if not stored_plain:
        return {"compression": CODEC, "compression_level": LEVEL}
    other = [path for path in paths() if path not in stored_plain]
    return {
        "compression": dict.fromkeys(other, CODEC) | dict.fromkeys(stored_plain, "none"),
        "compression_level": dict.fromkeys(other, LEVEL),
    }
