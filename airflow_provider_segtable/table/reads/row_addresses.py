"""The root addresses of the rows of a part, as one bitmap per root.

Where the log records the addresses of a segment that is not clipped, no file is opened. Otherwise
the hidden columns are read.
"""

from collections.abc import Iterable, Iterator

import numpy as np
import pyarrow as pa
from pyroaring import BitMap

from airflow_provider_segtable.core.segment import SegmentId
from airflow_provider_segtable.data.deletes.row_filter import hidden_of
from airflow_provider_segtable.table.reads.parts import Part, PartReader


def addresses_among(reader: PartReader, parts: Iterable[Part]) -> dict[SegmentId, BitMap]:
    """Return the addresses of the rows of all these parts.

    Raises:
        NotFound: a file is missing.
    """
    found: dict[SegmentId, BitMap] = {}
    for part in parts:
        if part.clip is None and part.segment.traced:
            here = _of_runs(part)
        else:
            here = addresses(reader.read(part, columns=[], addressed=True))
        for root, rows in here.items():
            found.setdefault(root, BitMap()).update(rows)
    return found


def addresses(batches: Iterable[pa.Table | pa.RecordBatch]) -> dict[SegmentId, BitMap]:
    """Return the addresses in the hidden columns of rows, as one bitmap per root.

    Raises:
        CorruptTable: a root is not a segment id.
    """
    gathered: dict[str, BitMap] = {}
    for batch in batches:
        for root, rows in _by_root(batch):
            gathered.setdefault(root, BitMap()).update(rows)
    return {SegmentId.parse(root): rows for root, rows in gathered.items()}


def _by_root(batch: pa.Table | pa.RecordBatch) -> Iterator[tuple[str, BitMap]]:
    names, codes, numbers = hidden_of(batch)
    order = np.argsort(codes, kind="stable")
    used, starts = np.unique(codes[order], return_index=True)
    for code, some in zip(used, np.split(order, starts[1:]), strict=False):
        yield names[code], BitMap(numbers[some].astype(np.uint32))


def _of_runs(part: Part) -> dict[SegmentId, BitMap]:
    """Return the addresses of a segment's live rows, as the log records them."""
    found: dict[SegmentId, BitMap] = {}
    gone = None if part.row_filter.passes_all else part.row_filter.gone()
    at = 0
    for run in part.segment.runs:
        rows = BitMap(range(run.start, run.start + run.rows))
        if gone is not None:
            rows -= BitMap(np.flatnonzero(gone[at : at + run.rows]).astype(np.uint32) + run.start)
        found.setdefault(run.root, BitMap()).update(rows)
        at += run.rows
    return found
