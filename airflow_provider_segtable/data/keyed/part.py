"""Parts: the rows of one place, among rows that were divided in another way.

1. A row belongs to the time chunk of its event time, and to the bucket of its key among as many as
   that chunk has.
2. Rows of bucket ``b`` of ``m`` can be in bucket ``c`` of ``n`` only if ``b`` and ``c`` are equal
   modulo the greatest common divisor of ``m`` and ``n``. So twice the buckets read each file twice.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from airflow_provider_segtable.core.segment import Place, Segment
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.data.arrow.event_times import instants
from airflow_provider_segtable.data.merge.bucketing import buckets_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """The rows of a place.

    Attributes:
        place: the time chunk and the bucket.
        buckets: the number of buckets of the chunk.
        standard: the table's number of buckets, by which most files were divided.
        key: the columns that decide the bucket.
    """

    place: Place
    buckets: int
    standard: int
    key: tuple[str, ...]

    @property
    def own_buckets(self) -> int:
        """Return the number of buckets as a segment names it: 0 for the table's."""
        return 0 if self.buckets == self.standard else self.buckets

    def reaches(self, segment: Segment) -> bool:
        """Return whether a file may have rows of the part."""
        interval, shared = self.place.interval, gcd(self.buckets, self._divided_by(segment))
        near = segment.time_min < interval.end and interval.start <= segment.time_max
        return near and (segment.id.bucket - self.place.bucket) % shared == 0

    def encloses(self, segment: Segment) -> bool:
        """Return whether all rows of a file that the part reaches are in the part."""
        interval = self.place.interval
        inside = interval.holds(segment.time_min) and interval.holds(segment.time_max)
        return inside and self._divided_by(segment) % self.buckets == 0

    def of(self, rows: pa.Table | pa.RecordBatch, time_column: str) -> npt.NDArray[np.bool_]:
        """Return which rows are in the part."""
        times = np.asarray(instants(rows.column(time_column)))
        interval = self.place.interval
        inside = (times >= interval.start) & (times < interval.end)
        same: npt.NDArray[np.bool_] = buckets_of(rows, self.key, self.buckets) == self.place.bucket
        return inside & same

    def _divided_by(self, segment: Segment) -> int:
        return segment.buckets or self.standard


def rows_in_parts(
    parts: Sequence[Part], rows: pa.Table | pa.RecordBatch, time_column: str
) -> npt.NDArray[np.int64]:
    """Return the number of rows in each part, with one look at each row.

    Args:
        parts: parts of one layout, with one key: their time chunks are equal or apart.
        rows: rows with the key and the event time.
        time_column: the event time.
    """
    times = np.asarray(instants(rows.column(time_column)))
    chunks = sorted({part.place.interval for part in parts})
    starts = np.array([chunk.start for chunk in chunks], np.int64)
    ends = np.array([chunk.end for chunk in chunks], np.int64)
    at = np.searchsorted(starts, times, side="right") - 1
    inside = (at >= 0) & (times < ends[at])
    found: dict[tuple[int, Interval, int], int] = {}
    for number in {part.buckets for part in parts}:
        buckets = buckets_of(rows, parts[0].key, number)
        pairs = np.stack([at[inside], buckets[inside].astype(np.int64)])
        places, counts = np.unique(pairs, axis=1, return_counts=True)
        for (chunk, bucket), count in zip(places.T.tolist(), counts.tolist(), strict=True):
            found[number, chunks[chunk], bucket] = count
    keys = ((part.buckets, part.place.interval, part.place.bucket) for part in parts)
    return np.array([found.get(key, 0) for key in keys], np.int64)
