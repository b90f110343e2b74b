"""The files of one file group as runs to be merged.

The runs share the rows that are held at once, in proportion to their own rows. So a window of keys
takes about one batch of each run (``merge_runs``), and memory does not grow with their number.
"""

from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from itertools import groupby

import pyarrow as pa

from airflow_provider_segtable.core.log.families.table_events import TableCreated
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.timeline import sorted_run
from airflow_provider_segtable.data.arrow.conditions import Condition
from airflow_provider_segtable.data.files.segment_files import OpenedOnce, SegmentFiles
from airflow_provider_segtable.data.keyed.keyed_files import roots_in, run_of
from airflow_provider_segtable.data.keyed.part import Part
from airflow_provider_segtable.data.keyed.record_columns import record_columns
from airflow_provider_segtable.data.parquet.segment_scan import BATCH_ROWS, SegmentRead
from airflow_provider_segtable.data.parquet.table_file import plain_columns
from airflow_provider_segtable.ports.files import DataFiles

_ROWS_HELD = 262_144
_BYTES_HELD = 32 << 20
_LEAST = 1_024


@dataclass(frozen=True, slots=True)
class GroupReader:
    """Reads file groups of a table; ``checked`` compares bytes with their checksums.

    Files are opened for each use, unless the reader is one of ``opened``.
    """

    files: DataFiles
    table: TableCreated
    checked: bool = True

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of the records, with the hidden columns."""
        return plain_columns(record_columns(self.table))

    @contextmanager
    def opened(self, segments: Iterable[Segment]) -> Iterator["GroupReader"]:
        """Return a reader that opens each file of the segments once, and checks it then."""
        with ExitStack() as until:
            files = SegmentFiles(self.files, segments) if self.checked else self.files
            yield replace(self, files=OpenedOnce(files, until), checked=False)

    def roots(self, segments: Iterable[Segment]) -> pa.Table:
        """Return the roots of the records in files, as a table of ``root_orders.SCHEMA``."""
        return roots_in(self.files, segments)

    def runs(
        self,
        segments: Iterable[Segment],
        columns: Sequence[str] | None = None,
        where: Condition | None = None,
        part: Part | None = None,
    ) -> list[Iterator[pa.Table]]:
        """Return the sorted runs of the segments.

        Args:
            segments: segments of one file group, or with a part, of several.
            columns: the columns to read, hidden ones among them; all if None.
            where: only rows that match; its columns are among those read.
            part: only rows of this part; all rows if None.
        """
        return [self._run(group, part) for group in self.reads(segments, columns, where)]

    def reads(
        self,
        segments: Iterable[Segment],
        columns: Sequence[str] | None = None,
        where: Condition | None = None,
    ) -> list[list[SegmentRead]]:
        """Return the reads of the files with rows, by run; arguments as for ``runs``."""
        filled = (segment for segment in segments if segment.rows)
        ordered = sorted(filled, key=lambda s: (s.id.chunk, -s.shard.base, s.shard.group, s.id))
        groups = groupby(ordered, key=lambda s: (s.id.chunk, sorted_run(s)))
        share, schema = _share(ordered), record_columns(self.table)
        return [
            [
                SegmentRead(
                    self.files,
                    segment,
                    schema=schema,
                    time_column=self.table.time_column,
                    columns=columns,
                    checked=self.checked,
                    where=where,
                    batch_rows=min(BATCH_ROWS, max(_LEAST, held)),
                )
                for segment in group
            ]
            for group in ([*some] for _, some in groups)
            for held in [int(share * sum(segment.rows for segment in group))]
        ]

    def _run(self, group: Sequence[SegmentRead], part: Part | None) -> Iterator[pa.Table]:
        run = run_of(group)
        if part is None or all(part.encloses(read.segment) for read in group):
            return run
        time_column = self.table.time_column
        return (rows.filter(pa.array(part.of(rows, time_column))) for rows in run)


def _share(segments: Sequence[Segment]) -> float:
    """Return the share of their rows that may be held at once."""
    rows = sum(segment.rows for segment in segments)
    size = sum(segment.size for segment in segments)
    return min(_ROWS_HELD / max(1, rows), _BYTES_HELD / max(1, size))
