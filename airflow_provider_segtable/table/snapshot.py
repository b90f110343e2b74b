"""Snapshots: the table at one event, resolved to files, readable as Arrow.

1. A snapshot is a prefix of the log; it never changes, whatever is committed later.
2. Rows that were deleted are not shown, wherever they are now.
3. Rows come segment by segment in root order within a chunk; a chunk that a higher version hides
   in part is read with its event times clipped. Tombstones are not shown.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa

from airflow_provider_segtable.core.interval import Interval
from airflow_provider_segtable.core.overshadow import Visible
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.state import State
from airflow_provider_segtable.data.deletions import sieves
from airflow_provider_segtable.data.rollup import (
    check_arrow,
    physical_schema,
    rolled_up,
    visible,
)
from airflow_provider_segtable.data.scan import read_segment
from airflow_provider_segtable.data.schema import to_arrow
from airflow_provider_segtable.table.ports import TablePorts


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One version of a table."""

    ports: TablePorts
    state: State

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
        """Return the visible segments that may hold rows of ``interval``, each once, in order."""
        segments = self.state.timeline.visible_segments(interval)
        return tuple(segment for segment in segments if not segment.tombstone)

    def count(self) -> int:
        """Return the number of rows; from the log alone, where nothing was deleted."""
        whole = all(found.interval == found.chunk.interval for found in self.visible())
        if whole and not self.state.vectors and not self.state.erasures:
            return sum(segment.rows for segment in self.segments())
        return sum(batch.num_rows for batch in self.batches(columns=[]))

    def batches(
        self, *, columns: Sequence[str] | None = None, interval: Interval | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows, optionally of some columns and event times only."""
        return self._read(self.schema, columns, interval)

    def addressed(
        self, *, columns: Sequence[str] | None = None, interval: Interval | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows with their root addresses, as the last two columns (``ROOT``, ``ROW``).

        An address names a row for ever, whatever is compacted; ``Table.delete`` takes it.
        """
        return self._read(self.schema, columns, interval, addressed=True)

    def _read(
        self,
        schema: pa.Schema,
        columns: Sequence[str] | None,
        interval: Interval | None,
        *,
        addressed: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        sieve = sieves(self.ports.files, self.state, self.segments(interval))
        for found in self.visible(interval):
            for segment in (segment for segment in found.segments if segment.rows):
                yield from read_segment(
                    self.ports.files,
                    segment,
                    schema=schema,
                    time_column=self.state.table.time_column,
                    columns=columns,
                    clip=found.interval,
                    sieve=sieve[segment.id],
                    addressed=addressed,
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
        """Read a rollup table with one row a group, whatever was compacted; others as they are.

        Raises:
            InvalidInput: the table has sketches, which only Spark can merge.
        """
        rollup, time_column = self.state.table.rollup, self.state.table.time_column
        if rollup is None:
            return self.to_arrow(columns=columns, interval=interval)
        check_arrow(rollup)
        physical = physical_schema(self.schema, rollup)
        rows = pa.Table.from_batches(self._read(physical, None, interval), physical)
        merged = visible(rolled_up(rows, rollup, time_column=time_column))
        return merged if columns is None else merged.select(list(columns))
