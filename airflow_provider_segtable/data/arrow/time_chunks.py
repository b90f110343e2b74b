"""Split rows by time chunk."""

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.time.interval import Interval
from airflow_provider_segtable.core.time.layout import Layout
from airflow_provider_segtable.data.arrow.event_times import instants


def split_by_chunk(rows: pa.Table, time_column: str, layout: Layout) -> dict[Interval, pa.Table]:
    """Split rows by time chunk, each part sorted by event time (stable)."""
    if rows.num_rows == 0:
        raise InvalidInput("there are no rows to append")
    times = instants(rows.column(time_column).combine_chunks())
    order = pc.sort_indices(times)
    ordered, times = rows.take(order), times.take(order)
    instants_us = np.frombuffer(times.buffers()[1], np.int64, len(times))  # without pandas
    parts: dict[Interval, list[pa.Table]] = {}
    start = 0
    while start < len(instants_us):
        first = int(instants_us[start])
        end = int(np.searchsorted(instants_us, layout.edge(first)))
        parts.setdefault(layout.chunk(first), []).append(ordered.slice(start, end - start))
        start = end
    return {chunk: pa.concat_tables(pieces) for chunk, pieces in parts.items()}
