"""Read parts of a window in a task: their numbers in, rows out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from airflow_provider_segtable.core.reads.effects import ORIGIN_COLUMNS, Origins, RowChange
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.data.files.open_files import open_files
from airflow_provider_segtable.data.parquet.segment_scan import SegmentRead
from airflow_provider_segtable.data.row_filter import RowFilter, read_columns
from airflow_provider_segtable.ports.files import DataFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A segment, the choice of its rows, their origins, and in a change feed their change."""

    segment: Segment
    row_filter: RowFilter
    clip: Interval | None
    change: RowChange | None
    origins: Origins | None = None


class Broadcast(Protocol):
    """Pieces, sent to each executor once."""

    @property
    def value(self) -> Sequence[Piece]:
        """Return the pieces."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class WindowTask:
    """Read some of ``pieces`` with ``columns``, cast to ``target``; ``schema`` is the table's."""

    uri: str
    storage_options: Mapping[str, str]
    pieces: Broadcast
    schema: pa.Schema
    columns: tuple[str, ...]
    target: pa.Schema
    time_column: str
    checked: bool

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the pieces numbered in the first column."""
        files = open_files(self.uri, self.storage_options)
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            for rows in self._read(files, self.pieces.value[number]):
                table = pa.Table.from_batches([rows]).cast(self.target, safe=False)
                yield from table.to_batches()

    def _read(self, files: DataFiles, piece: Piece) -> Iterator[pa.RecordBatch]:
        stored = [name for name in self.columns if name in self.schema.names]
        for rows in SegmentRead(
            files,
            piece.segment,
            schema=self.schema,
            time_column=self.time_column,
            columns=stored,
            clip=piece.clip,
            row_filter=piece.row_filter,
            addressed=piece.origins is not None,
            checked=self.checked,
        ).batches():
            yield read_columns(
                rows, origins=piece.origins, change=piece.change, names=self.hidden
            ).select(list(self.columns))

    @property
    def hidden(self) -> tuple[str, ...]:
        """Return the columns of the rows' origin among those to read."""
        return tuple(n for n in self.columns if n in ORIGIN_COLUMNS and n not in self.schema.names)
