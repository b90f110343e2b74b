"""Split rows by time chunk."""

from collections.abc import Collection

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.time import Interval, Layout
from airflow_provider_segtable.data.arrow.event_times import instants

Places = npt.NDArray[np.int64]


def split_by_chunk(rows: pa.Table, time_column: str, layout: Layout) -> dict[Interval, pa.Table]:
    """Split rows by time chunk, each part sorted by event time (stable)."""
    times = _times(rows, time_column)
    order = pc.sort_indices(times)
    ordered = rows.take(order)
    parts = _spans(_numbers(times.take(order)), layout)
    return {
        chunk: pa.concat_tables([ordered.slice(start, end - start) for start, end in spans])
        for chunk, spans in parts.items()
    }


def places_by_chunk(rows: pa.Table, time_column: str, layout: Layout) -> dict[Interval, Places]:
    """Return the places of each time chunk's rows, in their order; no row is moved."""
    times = _numbers(_times(rows, time_column))
    first = int(times.min())
    if int(times.max()) < layout.edge(first):
        return {layout.chunk(first): np.arange(len(times))}
    order = np.argsort(times, kind="stable")
    return {
        chunk: np.sort(np.concatenate([order[start:end] for start, end in spans]))
        for chunk, spans in _spans(times[order], layout).items()
    }


def chunks_of(rows: pa.RecordBatch, time_column: str, layout: Layout) -> Collection[Interval]:
    """Return the time chunks that rows lie in."""
    return _spans(np.sort(np.asarray(instants(rows.column(time_column)))), layout)


def _times(rows: pa.Table, time_column: str) -> pa.Array:
    if rows.num_rows == 0:
        raise InvalidInput("there are no rows to append")
    return instants(rows.column(time_column).combine_chunks())


def _numbers(times: pa.Array) -> Places:
    """Return times as numbers, without pandas."""
    return np.frombuffer(times.buffers()[1], np.int64, len(times), 8 * times.offset)


def _spans(ascending: Places, layout: Layout) -> dict[Interval, list[tuple[int, int]]]:
    """Return where each time chunk's times begin and end."""
    spans: dict[Interval, list[tuple[int, int]]] = {}
    start = 0
    while start < len(ascending):
        first = int(ascending[start])
        end = int(np.searchsorted(ascending, layout.edge(first)))
        spans.setdefault(layout.chunk(first), []).append((start, end))
        start = end
    return spans
