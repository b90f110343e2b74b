"""Read segments with pyarrow in a task: segment numbers in, rows out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.data.files.open_files import LayeredFiles, open_files
from airflow_provider_segtable.data.parquet.segment_scan import SegmentRead
from airflow_provider_segtable.data.row_filter import RowFilter
from airflow_provider_segtable.ports.files import DataFiles
from airflow_provider_segtable.spark.tasks.exact_columns import copies, floored


class Broadcast(Protocol):
    """Segments and their row filters, sent to each executor once."""

    @property
    def value(self) -> Sequence[tuple[Segment, RowFilter]]:
        """Return the segments and their row filters."""
        ...


class Held(Protocol):
    """Data files that are not stored, sent to each executor once."""

    @property
    def value(self) -> Mapping[str, bytes]:
        """Return their bytes, by path."""
        ...


def task_files(uri: str, options: Mapping[str, str], held: Held | None) -> DataFiles:
    """Return the data files of a table, with those that the driver holds."""
    stored = open_files(uri, options)
    return stored if held is None else LayeredFiles(stored, held.value)


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTask:
    """Read some of ``segments`` with the columns of ``schema``, cast to ``target``.

    Attributes:
        carried: columns of which a copy is added (``exact_columns``).
        held: files that are not stored; None if all are.
    """

    uri: str
    storage_options: Mapping[str, str]
    segments: Broadcast
    schema: pa.Schema
    target: pa.Schema
    time_column: str
    addressed: bool
    carried: tuple[str, ...] = ()
    checked: bool = True
    held: Held | None = None

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the segments numbered in the first column."""
        files = task_files(self.uri, self.storage_options, self.held)
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            segment, row_filter = self.segments.value[number]
            for rows in SegmentRead(
                files,
                segment,
                schema=self.schema,
                time_column=self.time_column,
                row_filter=row_filter,
                addressed=self.addressed,
                checked=self.checked,
            ).batches():
                table = copies(pa.Table.from_batches([rows]), self.carried)
                yield from near(table, self.target, self.time_column).to_batches()


def near(rows: pa.Table, target: pa.Schema, time_column: str) -> pa.Table:
    """Return rows in the columns of ``target``, with the nearest values that Spark can hold."""
    return floored(rows, time_column).select(target.names).cast(target, safe=False)
