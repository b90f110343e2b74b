"""Read the records of committed ranges of a log store from the data files that have them.

1. A checkpoint writes the records of each bucket into files, whose footers have their offsets
   (``data.file_offsets``). Several buckets may share a file.
2. In an append table each offset is one row. In a primary-key table a range is one step: for each
   key the merge of the range's records, sorted by key.
3. Deletes do not apply: the records are those that were written.
4. One range is in memory at a time; it was in the memory of its writer, too.
"""

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import numpy as np
import pyarrow as pa

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import CorruptTable
from airflow_provider_segtable.core.log_store.manifest import LogRange
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.tables.merge_rules import DELETE, OP
from airflow_provider_segtable.data.file_offsets import FileOffsets, decode_offsets
from airflow_provider_segtable.data.keyed.group_reader import GroupReader
from airflow_provider_segtable.data.keyed.key_groups import Flags
from airflow_provider_segtable.data.parquet.descriptor import SegmentFiles
from airflow_provider_segtable.data.parquet.footer import read_footer
from airflow_provider_segtable.data.parquet.segment_scan import SegmentRead
from airflow_provider_segtable.data.parquet.table_file import stored_columns
from airflow_provider_segtable.data.row_filter import RowFilter
from airflow_provider_segtable.ports.files import DataFiles

Offsets: TypeAlias = tuple[FileOffsets, ...]
"""The offsets in a file, of each bucket that has records in it."""


def files_of_bucket(
    files: DataFiles, segments: Sequence[Segment], bucket: int
) -> Iterator[tuple[Segment, Offsets]]:
    """Yield the segments with records of a bucket, each with the offsets in its file."""
    opened = SegmentFiles(files, segments)
    for segment in segments:
        with opened.open(segment.path) as source:
            offsets = decode_offsets(read_footer(source).metadata)
        if any(each.bucket == bucket for each in offsets):
            yield segment, offsets


@dataclass(frozen=True, slots=True, kw_only=True)
class RangeReader:
    """Reads the records of committed ranges.

    Attributes:
        files: the table's data files.
        table: its definition.
        place: the table, for messages.
    """

    files: DataFiles
    table: TableDefinition
    place: str

    def records(
        self, found: LogRange, segments: Sequence[Segment]
    ) -> tuple[pa.Table, Flags | None]:
        """Return the rows of a range; of a primary-key table, also which ones delete their keys.

        Args:
            found: the range.
            segments: what its event published; those without records of the bucket are left out.

        Raises:
            CorruptTable: the files have other offsets than the range.
            NotFound: a file is missing.
        """
        mine = tuple(files_of_bucket(self.files, segments, found.bucket))
        if self.table.kind.rules is None:
            return self._rows(found, mine), None
        merged = self._merged([segment for segment, _ in mine])
        rows = merged.select([column.name for column in self.table.schema.columns])
        return rows, np.asarray(merged.column(OP).to_numpy()) == DELETE

    def _rows(self, found: LogRange, files: Sequence[tuple[Segment, Offsets]]) -> pa.Table:
        """Return the rows of a range, one for each offset, in order."""
        rows, offsets = [], [np.empty(0, np.int64)]
        for segment, some in files:
            whole, first = self._whole(segment), 0
            for each in some:
                mine = np.empty(0, np.int64) if each.offsets is None else each.offsets
                if each.bucket == found.bucket:
                    rows.append(whole.slice(first, len(mine)))
                    offsets.append(mine)
                first += len(mine)
        every = np.concatenate(offsets)
        order = np.argsort(every, kind="stable")
        if not np.array_equal(every[order], np.arange(found.start, found.end)):
            raise CorruptTable(
                f"{self.place}: the files of {found} have {len(every)} records, or other offsets: "
                "read a version of the table instead (Table.scan), and verify the table"
            )
        return pa.concat_tables(rows).take(pa.array(order))

    def _whole(self, segment: Segment) -> pa.Table:
        """Return all rows of a segment, deleted ones, too."""
        reading = SegmentRead(
            self.files,
            segment,
            schema=stored_columns(self.table.schema),
            time_column=self.table.time_column,
            row_filter=RowFilter.idle(segment),
        )
        return pa.Table.from_batches(reading.batches())

    def _merged(self, segments: Sequence[Segment]) -> pa.Table:
        """Return the records of log files, one file after another."""
        reader = GroupReader(self.files, self.table)
        found = [reader.schema.empty_table()]
        with reader.opened(segments) as opened:
            for segment in segments:
                for run in opened.runs([segment]):
                    found += run
        return pa.concat_tables(found)


__all__ = ["RangeReader", "files_of_bucket"]
