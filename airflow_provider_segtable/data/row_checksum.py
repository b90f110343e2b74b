"""Checksums over rows, independent of the order of the rows and of files.

1. A row's hash mixes the hashes of its values, in column order; null has a hash of its own.
2. The checksum is the sum of the rows' hashes modulo 2^64, so order and batches do not matter. A
   lost, duplicated or changed row changes it (except with probability 2^-64). The sum of each
   column's hashes shows in which columns two sets of rows differ.
3. Values are hashed by their type's canonical form (integers and times as 64 bits, floats as
   doubles, text by BLAKE2 of each distinct value), so checksums are comparable between runs and
   machines. All NaN are one value, and so are both zeros. These are not the hashes of
   ``data.sketches``, which cover fewer types.
4. A checksum detects accidental errors, not deliberate manipulation.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import field
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.data.sort_keys import spread

RowHashes = np.ndarray[Any, np.dtype[np.uint64]]

_NULL = np.uint64(0x9E3779B97F4A7C15)
_STEP = np.uint64(0x100000001B3)


@dataclass(frozen=True, slots=True, kw_only=True)
class Checksum:
    """Rows and the sum of their hashes; ``columns`` has the sum of each column's hashes."""

    rows: int = 0
    total: int = 0
    columns: Mapping[str, int] = field(default_factory=dict, compare=False)

    @property
    def hex(self) -> str:
        """Return the checksum as 16 hexadecimal digits."""
        return f"{self.total:016x}"

    def __add__(self, other: "Checksum") -> "Checksum":
        """Return the checksum of the union of both sets of rows."""
        total = (self.total + other.total) % 2**64
        sums = {
            name: (self.columns.get(name, 0) + other.columns.get(name, 0)) % 2**64
            for name in {**self.columns, **other.columns}
        }
        return Checksum(rows=self.rows + other.rows, total=total, columns=sums)

    def differing(self, other: "Checksum") -> tuple[str, ...]:
        """Return the columns whose values differ; empty if only their combination does."""
        names = {**self.columns, **other.columns}
        return tuple(n for n in names if self.columns.get(n, 0) != other.columns.get(n, 0))


def checksum_of(batches: Iterable[pa.RecordBatch]) -> Checksum:
    """Return the checksum of all rows."""
    total = Checksum()
    for batch in batches:
        total += _of_batch(batch)
    return total


def _of_batch(batch: pa.RecordBatch) -> Checksum:
    rows: RowHashes = np.zeros(batch.num_rows, dtype=np.uint64)
    sums = {}
    for name, column in zip(batch.schema.names, batch.columns, strict=True):
        values = _value_hashes(column)
        rows = spread(rows * _STEP + values)
        sums[name] = int(values.sum(dtype=np.uint64))
    return Checksum(rows=batch.num_rows, total=int(rows.sum(dtype=np.uint64)), columns=sums)


def _value_hashes(column: pa.Array) -> RowHashes:
    kind = column.type
    if pa.types.is_integer(kind) or pa.types.is_temporal(kind) or pa.types.is_boolean(kind):
        bits = _sixty_four_bits(column)
    elif pa.types.is_floating(kind):
        floats = column.cast(pa.float64()).fill_null(0.0).to_numpy(zero_copy_only=False)
        bits = np.where(np.isnan(floats), np.nan, floats + 0.0).view(np.uint64)  # -0.0 equals 0.0
    else:
        return _by_distinct_value(column)
    hashes = spread(bits + np.uint64(1))
    hashes[column.is_null().to_numpy(zero_copy_only=False)] = _NULL
    return hashes


def _sixty_four_bits(column: pa.Array) -> RowHashes:
    if pa.types.is_uint64(column.type):
        return np.array(column.fill_null(0).to_numpy(zero_copy_only=False))
    if pa.types.is_temporal(column.type) and column.type.bit_width == 32:
        column = column.cast(pa.int32())
    whole = column.cast(pa.int64()).fill_null(0).to_numpy(zero_copy_only=False)
    return np.array(whole).view(np.uint64)


def _by_distinct_value(column: pa.Array) -> RowHashes:
    try:
        coded = pc.dictionary_encode(column)
        values, indices = coded.dictionary.to_pylist(), coded.indices
    except pa.ArrowNotImplementedError:  # nested values have no dictionary
        values, indices = column.to_pylist(), pa.array(range(len(column)), type=pa.int64())
    known = np.array([*map(_digest, values), _NULL], dtype=np.uint64)
    hashes: RowHashes = known[indices.fill_null(len(values)).to_numpy(zero_copy_only=False)]
    return hashes


def _digest(value: object) -> int:
    if value is None:
        return int(_NULL)
    data = value if isinstance(value, bytes) else str(value).encode()
    return int.from_bytes(hashlib.blake2b(data, digest_size=8).digest(), "little")
