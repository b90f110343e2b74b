"""Which records of the log store a data file has: an entry of its footer.

1. A file of an append table has the rows of one time chunk, of one checkpoint: of each bucket some
   records of its range, in the order of their offsets, bucket after bucket. The entry has these
   offsets as a roaring bitmap, counted from the start of the range.
2. A file of a primary-key table has merged records of one bucket, sorted by key. A record that
   another one of the same checkpoint replaced is in no file, so the entry names the bucket alone.
3. Compactions write files without the entry: readers of offsets read the files of the checkpoint.
4. Spark's tasks read entries, and have no library for bitmaps: ``bitmap_numbers`` reads their
   portable serialization by numpy. Writers have one (``data.written_offsets``).

Of 100,000 rows that fall into 24 time chunks at random, the entries have 267 kB, in order 0.5 kB.

Source of the format: github.com/RoaringBitmap/RoaringFormatSpec.
"""

import base64
import json
from collections.abc import Iterator, Mapping

import numpy as np
import numpy.typing as npt

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import CorruptTable
from airflow_provider_segtable.core.log_store.manifest import Offset

KEY = b"segtable.log"

Offsets = npt.NDArray[np.int64]

_ARRAYS, _RUNS = 12346, 12347
"""Cookies of bitmaps without and with containers of runs."""
_LOCATED = 4
"""Number of containers from which on a bitmap with runs has their places, too."""
_LARGEST_ARRAY = 4096


@dataclass(frozen=True, slots=True, kw_only=True)
class FileOffsets:
    """Records of one bucket in a file: their offsets, in order; None if records were merged."""

    bucket: int
    offsets: Offsets | None = None


def decode_offsets(metadata: Mapping[bytes, bytes]) -> tuple[FileOffsets, ...]:
    """Return the records that a file has by its key-value metadata; none without the entry.

    Raises:
        CorruptTable: the entry is no bitmap.
    """
    return tuple(map(_decoded, json.loads(metadata.get(KEY, b"[]"))))


def _decoded(body: dict[str, object]) -> FileOffsets:
    bucket, text = int(str(body["bucket"])), body.get("offsets")
    if text is None:
        return FileOffsets(bucket=bucket)
    found = bitmap_numbers(base64.b64decode(str(text)))
    start: Offset = int(str(body["start"]))
    return FileOffsets(bucket=bucket, offsets=found + start)


# Roaring bitmaps
def bitmap_numbers(data: bytes) -> Offsets:
    """Return the ascending numbers of a roaring bitmap in its portable serialization.

    Raises:
        CorruptTable: the bytes are no such bitmap.
    """
    try:
        return np.concatenate([np.zeros(0, np.int64), *_containers(data)])
    except (ValueError, IndexError) as error:
        raise CorruptTable(f"offsets of {len(data)} bytes are no roaring bitmap: {error}") from None


def _containers(data: bytes) -> Iterator[Offsets]:
    """Yield the numbers of each container, of 65,536 possible ones."""
    cookie, at = int(np.frombuffer(data, "<u4", 1)[0]), 4
    with_runs = cookie & 0xFFFF == _RUNS
    if with_runs:
        count = (cookie >> 16) + 1
        flags = np.unpackbits(np.frombuffer(data, np.uint8, -(-count // 8), at), bitorder="little")
        at += -(-count // 8)
    elif cookie == _ARRAYS:
        count, at = int(np.frombuffer(data, "<u4", 1, at)[0]), at + 4
        flags = np.zeros(count, np.uint8)
    else:
        raise ValueError(f"unknown cookie {cookie}")
    header = np.frombuffer(data, "<u2", 2 * count, at).astype(np.int64).reshape(count, 2)
    at += 4 * count + (0 if with_runs and count < _LOCATED else 4 * count)
    for (key, least), is_run in zip(header.tolist(), flags, strict=False):
        found, at = _container(data, at, least + 1, is_run=bool(is_run))
        yield found + (key << 16)


def _container(data: bytes, at: int, count: int, *, is_run: bool) -> tuple[Offsets, int]:
    """Return the numbers of a container, and the place after it."""
    if is_run:
        runs = int(np.frombuffer(data, "<u2", 1, at)[0])
        pairs = np.frombuffer(data, "<u2", 2 * runs, at + 2).astype(np.int64).reshape(runs, 2)
        lengths = pairs[:, 1] + 1
        before = np.repeat(np.cumsum(lengths) - lengths, lengths)
        found = np.repeat(pairs[:, 0], lengths) + np.arange(len(before)) - before
        return found, at + 2 + 4 * runs
    if count <= _LARGEST_ARRAY:
        return np.frombuffer(data, "<u2", count, at).astype(np.int64), at + 2 * count
    bits = np.unpackbits(np.frombuffer(data, np.uint8, 8192, at), bitorder="little")
    return np.flatnonzero(bits), at + 8192
