"""Snapshots: the table at one event, resolved to files, readable as Arrow.

1. A snapshot is a prefix of the log; it never changes, whatever is committed later.
2. Deleted rows are not shown, even after a compaction moved them to another segment.
3. Rows are read segment by segment, in root order within a chunk. If a higher version hides part
   of a chunk, the chunk is read with its event times clipped. Tombstones are not shown.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from airflow_provider_segtable.core.deletes.deletion import holds_any
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segments.segment import Segment, SegmentId
from airflow_provider_segtable.core.segments.timeline import Visible
from airflow_provider_segtable.core.time.interval import Interval
from airflow_provider_segtable.data.arrow.arrow_schema import physical_schema, to_arrow
from airflow_provider_segtable.data.deletes.row_filter import RowFilter
from airflow_provider_segtable.data.deletes.segment_filters import row_filters
from airflow_provider_segtable.data.parquet.segment_scan import read_segment
from airflow_provider_segtable.data.rollup.rollup_rows import visible
from airflow_provider_segtable.data.table_kinds.arrow_kinds import arrow_kind_of
from airflow_provider_segtable.table.context import TableContext


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One version of a table; reads verify checksums unless ``checked`` is False."""

    ports: TableContext
    state: State
    checked: bool = True

    @property
    def version(self) -> int:
        """Return the number of the last event in the snapshot."""
        return self.state.n

    @property
    def schema(self) -> pa.Schema:
        """Return the Arrow schema."""
        return to_arrow(self.state.table.schema)

    def visible(self, interval: Interval | None = None) -> tuple[Visible, ...]:
        """Return the visible groups, clipped to ``interval``."""
        found = self.state.timeline.lookup(interval)
        return tuple(each for each in found if any(segment.rows for segment in each.segments))

    def segments(self, interval: Interval | None = None) -> tuple[Segment, ...]:
        """Return the visible segments that may have rows in ``interval``, each once, in order."""
        segments = self.state.timeline.visible_segments(interval)
        return tuple(segment for segment in segments if not segment.tombstone)

    def count(self) -> int:
        """Return the number of rows, reading as little as possible.

        If the log records a segment's root addresses, only deletion vectors are read. Otherwise
        it reads hidden columns, event times of partly hidden chunks, and columns of predicate
        deletes.
        """
        return sum(
            _known_rows(segment, row_filter)
            if clip is None and not row_filter.reads
            else sum(
                batch.num_rows for batch in self._rows_of(segment, row_filter, clip, columns=[])
            )
            for segment, row_filter, clip in self._parts(None)
        )

    def batches(
        self, *, columns: Sequence[str] | None = None, interval: Interval | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows, optionally restricted to some columns and event times."""
        return self._read(self.schema, columns, interval)

    def addressed(
        self,
        *,
        columns: Sequence[str] | None = None,
        interval: Interval | None = None,
        roots: Collection[SegmentId] | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows with their root addresses, as the last two columns (``ROOT``, ``ROW``).

        An address identifies a row permanently, across compactions; ``Table.delete`` accepts it.
        If ``roots`` is given, only segments that may hold rows of these roots are read.
        """
        for segment, row_filter, clip in self._parts(interval, roots):
            yield from self._rows_of(segment, row_filter, clip, columns=columns, addressed=True)

    def _read(
        self,
        schema: pa.Schema,
        columns: Sequence[str] | None,
        interval: Interval | None,
    ) -> Iterator[pa.RecordBatch]:
        for segment, row_filter, clip in self._parts(interval):
            yield from self._rows_of(segment, row_filter, clip, schema=schema, columns=columns)

    def _parts(
        self, interval: Interval | None, roots: Collection[SegmentId] | None = None
    ) -> Iterator[tuple[Segment, RowFilter, Interval | None]]:
        """Yield the segments to read, each with its row filter and optional clip interval."""
        parts = [
            (segment, None if _within(segment, found.interval) else found.interval)
            for found in self.visible(interval)
            for segment in found.segments
            if segment.rows and (roots is None or holds_any(segment, roots))
        ]
        row_filter = row_filters(self.ports.files, self.state, (segment for segment, _ in parts))
        for segment, clip in parts:
            yield segment, row_filter[segment.id], clip

    def _rows_of(
        self,
        segment: Segment,
        row_filter: RowFilter,
        clip: Interval | None,
        *,
        schema: pa.Schema | None = None,
        columns: Sequence[str] | None = None,
        addressed: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        return read_segment(
            self.ports.files,
            segment,
            schema=schema or self.schema,
            time_column=self.state.table.time_column,
            columns=columns,
            clip=clip,
            row_filter=row_filter,
            addressed=addressed,
            checked=self.checked,
        )

    def to_arrow(
        self, *, columns: Sequence[str] | None = None, interval: Interval | None = None
    ) -> pa.Table:
        """Read the rows into one Arrow table."""
        schema = self.schema
        if columns is not None:
            schema = pa.schema([schema.field(name) for name in columns])
        return pa.Table.from_batches(self.batches(columns=columns, interval=interval), schema)

    def rolled_up(
        self, *, columns: Sequence[str] | None = None, interval: Interval | None = None
    ) -> pa.Table:
        """Read the rows with those of equal keys merged: of a rollup table, one row per group.

        Tables that merge no rows are read as ``to_arrow`` does.

        Raises:
            InvalidInput: the table has sketches, which only Spark can merge.
        """
        table = self.state.table
        if not table.kind.merges:
            return self.to_arrow(columns=columns, interval=interval)
        kind = arrow_kind_of(table.kind)
        kind.check_readable()
        physical = physical_schema(self.schema, table.kind)
        rows = pa.Table.from_batches(self._read(physical, None, interval), physical)
        merged = visible(kind.merged(rows, table.time_column))
        return merged if columns is None else merged.select(list(columns))


def _within(segment: Segment, interval: Interval) -> bool:
    return interval.holds(segment.time_min) and interval.holds(segment.time_max)


def _known_rows(segment: Segment, row_filter: RowFilter) -> int:
    return segment.rows - (0 if row_filter.passes_all else row_filter.deleted_rows())
