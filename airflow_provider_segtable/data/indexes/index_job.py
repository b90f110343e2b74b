"""Computing entries of an index: a job for some files, in this process or in a Spark task.

1. A job is plain data, and returns the entries; it writes no file.
2. A file that is gone needs no entry: it was cleaned while the index was being built. If it is lost
   instead, readers find out. A damaged file fails the job, with its path.
3. Jobs are bounded by the size of their files (``JOB_BYTES``), and so is what they return.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.errors import NotFound
from airflow_provider_segtable.core.indexes.index_state import IndexDefinition
from airflow_provider_segtable.core.log.families.table_events import TableCreated
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.data.files.open_files import open_files
from airflow_provider_segtable.data.indexes.entries import entries
from airflow_provider_segtable.ports.files import DataFiles

FILE_COST = 1 << 20
"""The cost of opening one more file, in bytes."""

JOB_BYTES = 256 << 20
"""The cost from which on a job takes no further file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexJob:
    """Compute the entries of an index about some files.

    Attributes:
        uri: the table.
        storage_options: keys of the object store.
        index: the index.
        table: the table's definition.
        segments: the files.
        attempt: 16 hex digits; the job names no file by them.
    """

    uri: str
    storage_options: Mapping[str, str]
    index: IndexDefinition
    table: TableCreated
    segments: tuple[Segment, ...]
    attempt: str

    @property
    def cost(self) -> int:
        """Return the approximate number of bytes it handles."""
        return sum(map(_cost, self.segments))

    @property
    def title(self) -> str:
        """Return the job's title in the Spark UI."""
        return f"index {self.index.name}: {counted(len(self.segments), 'file')}"

    def run(self, files: DataFiles | None = None) -> pa.Table:
        """Return the entries, in the columns of the index's table.

        Raises:
            CorruptTable, ChecksumMismatch: a file is damaged, or differs from its entry in the log.
        """
        files = open_files(self.uri, self.storage_options) if files is None else files
        parts = [self._of(segment, files) for segment in self.segments]
        return pa.concat_tables([self._about((), files), *parts])

    def _of(self, segment: Segment, files: DataFiles) -> pa.Table:
        try:
            return self._about((segment,), files)
        except NotFound:
            return self._about((), files)

    def _about(self, segments: Sequence[Segment], files: DataFiles) -> pa.Table:
        return entries(self.index, self.table, segments, files)


def in_jobs(segments: Iterable[Segment]) -> Iterator[tuple[Segment, ...]]:
    """Yield files in their order, as many at a time as one job takes."""
    held: list[Segment] = []
    cost = 0
    for segment in segments:
        if held and cost + _cost(segment) > JOB_BYTES:
            yield tuple(held)
            held, cost = [], 0
        held.append(segment)
        cost += _cost(segment)
    if held:
        yield tuple(held)


def _cost(segment: Segment) -> int:
    return segment.size + FILE_COST
