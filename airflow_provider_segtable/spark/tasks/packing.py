"""Pack row addresses in a task: batches of names and row numbers in, packed bits out.

1. Each name becomes one row with its numbers as packed bits (``data.deletes.row_bits``). Arrow and
   numpy do the work; no row becomes a Python object.
2. It needs no bitmap library, because executors have none.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa

from airflow_provider_segtable.data.row_filter import bits_of, hidden_of

PACKED = pa.schema([("name", pa.string()), ("rows", pa.int64()), ("bits", pa.binary())])
"""A name, the number of its row numbers (duplicates included), and the packed row numbers."""


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
