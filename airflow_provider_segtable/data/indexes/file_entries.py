"""Entries of the index ``files``: what the log knows of a file, without opening it."""

import pyarrow as pa

from airflow_provider_segtable.core.indexes.file_list import BYTES, END, FileList
from airflow_provider_segtable.core.log.families.table_events import TableCreated
from airflow_provider_segtable.core.segments.segment import Segment
from airflow_provider_segtable.ports.files import DataFiles


class FileEntries:
    """Makes one entry a file."""

    def entries(
        self, kind: FileList, table: TableCreated, segment: Segment, files: DataFiles
    ) -> pa.Table:
        """Return the end of the file's time chunk, and its size."""
        del kind, table, files
        end = pa.scalar(segment.id.interval.end, pa.timestamp("us", "UTC"))
        return pa.table({END: [end], BYTES: pa.array([segment.size], pa.int64())})
