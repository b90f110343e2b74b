"""Snapshots: the table at one event, resolved to files, readable as Arrow.

1. A snapshot is a prefix of the log; it never changes, whatever is committed later.
2. Deleted rows are not shown, even after a compaction moved them to another segment.
3. ``scan`` reads its rows (``table.scan``); the other methods are short forms of it.
"""

from collections.abc import Collection, Iterator, Sequence

import pyarrow as pa

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.requests.change_request import Where
from airflow_provider_segtable.core.requests.read_request import read_request
from airflow_provider_segtable.core.segment import Segment, SegmentId
from airflow_provider_segtable.core.time import TimeRange, as_interval
from airflow_provider_segtable.core.timeline import Visible
from airflow_provider_segtable.data.arrow_schema import to_arrow
from airflow_provider_segtable.data.conditions import Condition
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.min_max import MinMax
from airflow_provider_segtable.table.parts import PartReader, visible_groups
from airflow_provider_segtable.table.scan import Scan


@dataclass(frozen=True, slots=True, kw_only=True)
class Snapshot:
    """One version of a table; reads verify checksums unless ``checked`` is False."""

    ports: TableContext
    state: State
    checked: bool = True

    def __repr__(self) -> str:
        """Return the table and the version."""
        return f"Snapshot({self.ports.uri!r}, version={self.version})"

    @property
    def version(self) -> int:
        """Return the number of the last event in the snapshot."""
        return self.state.n

    @property
    def reader(self) -> PartReader:
        """Return the reader of the snapshot's parts."""
        return PartReader(files=self.ports.files, table=self.state.table, checked=self.checked)

    @property
    def schema(self) -> pa.Schema:
        """Return the Arrow schema."""
        return to_arrow(self.state.table.schema)

    def visible(self, interval: TimeRange | None = None) -> tuple[Visible, ...]:
        """Return the visible groups, clipped to ``interval``."""
        return visible_groups(self.state, None if interval is None else as_interval(interval))

    def segments(self, interval: TimeRange | None = None) -> tuple[Segment, ...]:
        """Return the visible segments that may have rows in ``interval``, each once, in order."""
        wanted = None if interval is None else as_interval(interval)
        segments = self.state.timeline.visible_segments(wanted)
        return tuple(segment for segment in segments if not segment.tombstone)

    def scan(
        self,
        *,
        columns: Sequence[str] | None = None,
        where: Where | None = None,
        interval: TimeRange | None = None,
        rolled_up: bool = False,
        limit: int | None = None,
    ) -> Scan:
        """Return a scan of the snapshot; arguments and errors as for ``Table.scan``."""
        request = read_request(
            columns=columns,
            where=where,
            interval=interval,
            rolled_up=rolled_up,
            checked=self.checked,
            limit=limit,
        )
        return Scan(ports=self.ports, state=self.state, request=request)

    def count(self) -> int:
        """Return the number of rows, reading as little as possible (``Scan.count``)."""
        return self.scan().count()

    def min_max(self, column: str) -> MinMax:
        """Return the least and the greatest value of a column (``Scan.min_max``)."""
        return self.scan().min_max(column)

    def batches(
        self, *, columns: Sequence[str] | None = None, interval: TimeRange | None = None
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows, optionally restricted to some columns and event times."""
        return self.scan(columns=columns, interval=interval).to_batches()

    def addressed(
        self,
        *,
        columns: Sequence[str] | None = None,
        interval: TimeRange | None = None,
        roots: Collection[SegmentId] | None = None,
        where: Condition | None = None,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the rows with their root addresses, as the last two columns (``ROOT``, ``ROW``).

        An address identifies a row permanently, across compactions; ``Table.delete`` accepts it.
        If ``roots`` is given, only segments that may hold rows of these roots are read. ``where``
        skips files and row groups without matching rows; it filters nothing else.
        """
        scan = self.scan(interval=interval, where=where)
        reader = self.reader
        readings = (
            (part, reader.reading(part, columns=columns, where=where, addressed=True))
            for part in scan.parts(roots)
        )
        for _, batches in scan.batches_of(readings):
            yield from batches

    def to_arrow(
        self, *, columns: Sequence[str] | None = None, interval: TimeRange | None = None
    ) -> pa.Table:
        """Read the rows into one Arrow table."""
        return self.scan(columns=columns, interval=interval).to_arrow()

    def rolled_up(
        self, *, columns: Sequence[str] | None = None, interval: TimeRange | None = None
    ) -> pa.Table:
        """Read the rows with equal keys merged: in a rollup table, one row per group.

        Tables that merge no rows are read as ``to_arrow`` does.

        Raises:
            InvalidInput: the table has sketches, which only Spark can merge.
        """
        return self.scan(columns=columns, interval=interval, rolled_up=True).to_arrow()
