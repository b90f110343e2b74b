"""Write the entry of a file's footer with its records of the log store (``data.file_offsets``)."""

import base64
import json
from collections.abc import Iterable, Mapping

import numpy as np
from pyroaring import BitMap

from airflow_provider_segtable.core.log_store.manifest import Offset
from airflow_provider_segtable.data.file_offsets import KEY, FileOffsets, Offsets

RUN = 16
"""Average length from which on runs of offsets are added as such."""


def encode_offsets(some: Iterable[FileOffsets], starts: Mapping[int, Offset]) -> dict[bytes, bytes]:
    """Return the entry of a file whose rows are these records, one bucket after another.

    Args:
        some: the records; each bucket once.
        starts: the start of the range of each bucket.
    """
    body = [_encoded(each, starts.get(each.bucket, 0)) for each in some]
    return {KEY: json.dumps(body, separators=(",", ":")).encode()}


def _encoded(one: FileOffsets, start: Offset) -> dict[str, object]:
    if one.offsets is None:
        return {"bucket": one.bucket}
    bitmap = _bitmap(one.offsets - start)
    bitmap.run_optimize()
    text = base64.b64encode(bitmap.serialize()).decode()
    return {"bucket": one.bucket, "start": start, "offsets": text}


def _bitmap(numbers: Offsets) -> BitMap:
    """Return ascending numbers as a bitmap; long runs are added at once."""
    ends = np.flatnonzero(np.diff(numbers) != 1) + 1
    if len(ends) * RUN > len(numbers):
        return BitMap(numbers.astype(np.uint32))
    bitmap = BitMap()
    starts = [0, *ends.tolist()]
    for start, end in zip(starts, [*starts[1:], len(numbers)], strict=True):
        bitmap.add_range(int(numbers[start]), int(numbers[end - 1]) + 1)
    return bitmap
