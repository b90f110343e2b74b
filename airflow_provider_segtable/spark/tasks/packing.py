"""Packing addresses, inside a task: batches of names and row numbers in, bits out.

1. Each name becomes one row, its numbers as packed bits (``data.deletes.row_bits``), by Arrow and
   numpy. No row is ever a Python object.
2. Nothing here needs a library for bitmaps, which executors do not have.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from airflow_provider_segtable.data.deletes.row_bits import bits_of
from airflow_provider_segtable.data.deletes.row_filter import hidden_of

PACKED = pa.schema([("name", pa.string()), ("rows", pa.int64()), ("bits", pa.binary())])
"""A name, how many rows it came with (doubles counted), and which."""


def packed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield each root's row numbers as bits, one row a root."""
    held: dict[str, list[np.ndarray]] = {}
    for batch in batches:
        names, codes, numbers = hidden_of(batch)
        order = np.argsort(codes, kind="stable")
        edges = np.searchsorted(codes[order], np.arange(len(names) + 1))
        for at, name in enumerate(names):
            mine = numbers[order[edges[at] : edges[at + 1]]]
            held.setdefault(name, []).append(mine.astype(np.uint32))
    for name, parts in held.items():
        rows = np.concatenate(parts)
        found = {"name": name, "rows": len(rows), "bits": bits_of(np.unique(rows))}
        yield pa.RecordBatch.from_pylist([found], schema=PACKED)
