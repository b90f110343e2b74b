"""Entries of the index ``files``: what the log knows of a file, without opening it."""

import pyarrow as pa

from airflow_provider_segtable.core.indexes.index_kind import BYTES, END, FileList
from airflow_provider_segtable.core.log.families.table_events import TableCreated
from airflow_provider_segtable.core.predicate import Predicate
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.data.indexes.known_files import KnownFiles
from airflow_provider_segtable.ports.files import DataFiles


class FileEntries:
    """Makes one entry a file."""

    def entries(
        self, kind: FileList, table: TableCreated, segment: Segment, files: DataFiles
    ) -> pa.Table:
        """Return the end of the file's time chunk, and its size."""
        del kind, table, files
        end = pa.scalar(segment.file_id.interval.end, pa.timestamp("us", "UTC"))
        return pa.table({END: [end], BYTES: pa.array([segment.size], pa.int64())})

    def columns_for(self, kind: FileList, table: TableCreated, test: Predicate) -> tuple[str, ...]:
        """Return none: files are listed, and not compared."""
        del kind, table, test
        return ()

    def view(self, kind: FileList, table: TableCreated, entries: pa.Table) -> "FileView":
        """Return the files that are listed."""
        del kind, table
        return FileView(entries)


class FileView:
    """The files that are listed; their rows are not known."""

    def __init__(self, entries: pa.Table) -> None:
        """Find the files."""
        self._known = KnownFiles(entries)

    def knows(self, segment: Segment) -> bool:
        """Return whether a file is listed."""
        return bool(self._known.places(segment))

    def may_hold(self, segment: Segment, test: Predicate) -> bool:
        """Return True."""
        del segment, test
        return True
