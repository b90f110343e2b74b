"""Find the time chunks of a file's rows, where its first and last event do not tell them.

Only the column of event times is read. Rows that are deleted count, too: their chunks get no rows.
"""

from collections.abc import Mapping
from dataclasses import dataclass

from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.time import Interval, Layout
from airflow_provider_segtable.data.arrow.time_chunks import chunks_of
from airflow_provider_segtable.data.files.open_files import open_files
from airflow_provider_segtable.data.parquet.metadata.descriptor import decode_definition
from airflow_provider_segtable.data.parquet.segment_scan import SegmentRead
from airflow_provider_segtable.data.parquet.table_file import stored_columns
from airflow_provider_segtable.ports.files import DataFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunksJob:
    """Find the time chunks of a file's rows in a layout."""

    uri: str
    storage_options: Mapping[str, str]
    segment: Segment
    layout: Layout
    definition: bytes
    attempt: str

    @property
    def cost(self) -> int:
        """Return the approximate number of bytes it handles."""
        return self.segment.size

    @property
    def title(self) -> str:
        """Return the job's title in the Spark UI."""
        return f"find time chunks: {self.segment.id.chunk}"

    def run(self, files: DataFiles | None = None) -> tuple[Interval, ...]:
        """Return the time chunks.

        Raises:
            CorruptTable: the file differs from its entry in the log.
        """
        if not self.segment.rows:
            return (self.layout.chunk(self.segment.time_min),)
        files = open_files(self.uri, self.storage_options) if files is None else files
        table, _ = decode_definition(self.definition, "the job's definition")
        found: set[Interval] = set()
        for batch in SegmentRead(
            files,
            self.segment,
            schema=stored_columns(table.schema),
            time_column=table.time_column,
            columns=[table.time_column],
        ).batches():
            found.update(chunks_of(batch, table.time_column, self.layout))
        return tuple(sorted(found))
