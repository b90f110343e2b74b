"""Scans: the rows of a table that a read request asks for, as Arrow.

1. Only segments that may have such rows are opened: by the interval, and by the event times for
   which the condition can hold. Of an opened file, row groups in which no row can match are
   skipped by their statistics (``data.parquet.row_groups``).
2. Deleted rows are left out before the condition is evaluated, and hidden columns are read only
   where needed, whatever columns are requested.
3. Rows are read segment by segment, in root order within a chunk. If a higher version hides part
   of a chunk, the chunk is read with its event times clipped. Tombstones are not shown.
"""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import pyarrow as pa

from airflow_provider_segtable.core.deletes.deletion import holds_any
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.requests.read_request import ReadRequest, columns_read
from airflow_provider_segtable.core.segments.segment import Segment, SegmentId
from airflow_provider_segtable.core.segments.timeline import Visible
from airflow_provider_segtable.core.time.interval import ALL_TIME, Interval
from airflow_provider_segtable.data.arrow.arrow_schema import physical_schema, to_arrow
from airflow_provider_segtable.data.arrow.conditions import Condition
from airflow_provider_segtable.data.arrow.frames import pandas_frame, polars_frame
from airflow_provider_segtable.data.arrow.where import condition
from airflow_provider_segtable.data.deletes.row_filter import RowFilter
from airflow_provider_segtable.data.deletes.segment_filters import row_filters
from airflow_provider_segtable.data.parquet.segment_scan import read_segment
from airflow_provider_segtable.data.parquet.table_file import stored_columns
from airflow_provider_segtable.data.rollup.rollup_rows import visible
from airflow_provider_segtable.data.table_kinds.arrow_kinds import arrow_kind_of
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.versions.tags import known_tag


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A segment to read, with its row filter, and the interval to clip it to, if any."""

    segment: Segment
    row_filter: RowFilter
    clip: Interval | None

    @property
    def known_rows(self) -> int | None:
        """Return the number of rows; None if files have to be read for it."""
        if self.clip is not None or self.row_filter.reads:
            return None
        gone = 0 if self.row_filter.passes_all else self.row_filter.deleted_rows()
        return self.segment.rows - gone


def visible_groups(state: State, interval: Interval | None) -> tuple[Visible, ...]:
    """Return the visible groups that have rows, clipped to an interval."""
    found = state.timeline.lookup(interval)
    return tuple(each for each in found if any(segment.rows for segment in each.segments))


@dataclass(frozen=True, slots=True, kw_only=True)
class Scan:
    """A read of one version; nothing is read before a method asks for it.

    Attributes:
        ports: the table's ports.
        state: the version.
        request: what to read of it.
        where: its condition, over the table's columns.

    Raises:
        SchemaMismatch: the table has no such column.
        InvalidInput: the condition is not parsable, or names a missing column.
    """

    ports: TableContext
    state: State
    request: ReadRequest
    where: Condition | None = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        """Compare the request with the table."""
        known, where = self._known, self.request.where
        columns_read(self.request, known.names)
        found = None if where is None else condition(where, known, self.state.table.time_column)
        object.__setattr__(self, "where", found)

    def __repr__(self) -> str:
        """Return the table, the version, and what is read of it."""
        of = self.request
        asked = {"columns": of.columns, "where": of.where, "interval": of.interval}
        said = [f"{name}={value!s}" for name, value in asked.items() if value is not None]
        return f"Scan({', '.join([repr(self.ports.uri), f'version={self.version}', *said])})"

    @property
    def version(self) -> int:
        """Return the number of the last event that the scan sees."""
        return self.state.n

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of the rows."""
        known = self._known
        return pa.schema([known.field(name) for name in columns_read(self.request, known.names)])

    def interval(self) -> Interval | None:
        """Return the interval of event times outside which no row is wanted; None if empty."""
        asked = self.request.interval or ALL_TIME
        if self.where is None:
            return asked
        return self.where.interval and asked.clip(self.where.interval)

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        """Yield the rows, batch by batch; only ``rolled_up`` needs all of them in memory."""
        if self.request.rolled_up and self.state.table.kind.merges:
            yield from _batches(self._rolled_up())
            return
        names, where = self.schema.names, self.where
        if where is None:
            read = names
        else:  # a filter needs a column, or a batch would lose its number of rows
            time = [] if names or where.columns else [self.state.table.time_column]
            read = list(dict.fromkeys([*names, *where.columns, *time]))
        for part in self.parts():
            for batch in self.read(part, columns=read, where=where):
                yield batch if where is None else where.keep(batch).select(names)

    def to_arrow(self) -> pa.Table:
        """Read the rows into one Arrow table."""
        return pa.Table.from_batches(self.to_batches(), self.schema)

    def to_reader(self) -> pa.RecordBatchReader:
        """Return a reader of the rows, which are read while it is used."""
        return pa.RecordBatchReader.from_batches(self.schema, self.to_batches())

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a stream of the rows for DuckDB, Polars and others: each call reads anew."""
        return self.to_reader().__arrow_c_stream__(requested_schema)

    def to_pandas(self) -> Any:
        """Read the rows into a pandas DataFrame.

        Raises:
            DependencyMissing: pandas is not installed.
        """
        return pandas_frame(self.to_arrow())

    def to_polars(self) -> Any:
        """Read the rows into a Polars DataFrame.

        Raises:
            DependencyMissing: polars is not installed.
        """
        return polars_frame(self.to_arrow())

    def count(self) -> int:
        """Return the number of rows, reading as little as possible.

        If the log records a segment's root addresses, only deletion vectors are read. Otherwise
        it reads hidden columns, event times of clipped chunks, and columns of predicate deletes
        and of the condition.
        """
        if self.request.where is not None or self.request.rolled_up:
            narrow = replace(self, request=replace(self.request, columns=()))
            return sum(batch.num_rows for batch in narrow.to_batches())
        return sum(self._rows_in(part) for part in self.parts())

    def parts(self, roots: Collection[SegmentId] | None = None) -> Iterator[Part]:
        """Yield the segments to read; with ``roots``, only those that may hold rows of these."""
        interval = self.interval()
        if interval is None:
            return
        where, time_column = self.where, self.state.table.time_column
        wanted = self.request.interval if where is None else interval
        parts = [
            (segment, None if _within(segment, found.interval) else found.interval)
            for found in visible_groups(self.state, wanted)
            for segment in found.segments
            if segment.rows
            and (roots is None or holds_any(segment, roots))
            and (where is None or where.may_hold(time_column, segment.time_min, segment.time_max))
        ]
        filters = row_filters(self.ports.files, self.state, (segment for segment, _ in parts))
        for segment, clip in parts:
            yield Part(segment=segment, row_filter=filters[segment.id], clip=clip)

    def read(
        self,
        part: Part,
        *,
        columns: Sequence[str] | None,
        schema: pa.Schema | None = None,
        where: Condition | None = None,
        addressed: bool = False,
    ) -> Iterator[pa.RecordBatch]:
        """Yield the live rows of a segment; ``where`` skips row groups, and filters nothing."""
        return read_segment(
            self.ports.files,
            part.segment,
            schema=schema or self._stored,
            time_column=self.state.table.time_column,
            columns=columns,
            clip=part.clip,
            row_filter=part.row_filter,
            addressed=addressed,
            checked=self.request.checked,
            where=where,
        )

    @property
    def _known(self) -> pa.Schema:
        return to_arrow(self.state.table.schema)

    @property
    def _stored(self) -> pa.Schema:
        """Return the columns with their ids, by which files of all schemas are read."""
        return stored_columns(self.state.table.schema)

    def _rows_in(self, part: Part) -> int:
        known = part.known_rows
        if known is not None:
            return known
        return sum(batch.num_rows for batch in self.read(part, columns=[]))

    def _rolled_up(self) -> pa.Table:
        """Return the rows with those of equal keys merged; the condition filters the result.

        Raises:
            InvalidInput: the table has sketches, which only Spark can merge.
        """
        table, where = self.state.table, self.where
        kind = arrow_kind_of(table.kind)
        kind.check_readable()
        physical = physical_schema(self._known, table.kind)
        batches = (
            batch
            for part in self.parts()
            for batch in self.read(part, columns=None, schema=physical)
        )
        rows = pa.Table.from_batches(batches, physical)
        merged = visible(kind.merged(rows, table.time_column))
        if where is not None:
            kept = (where.keep(batch) for batch in merged.to_batches())
            merged = pa.Table.from_batches(kept, merged.schema)
        return merged.select(self.schema.names)


def _batches(rows: pa.Table) -> Iterator[pa.RecordBatch]:
    """Yield a table's batches; a table without columns keeps its number of rows."""
    if rows.column_names:
        yield from rows.to_batches()
    elif rows.num_rows:
        one = pa.record_batch([pa.nulls(rows.num_rows)], names=["none"])
        yield one.select([])


def version_read(log: EventLog, request: ReadRequest) -> State:
    """Return the version that a request names, the newest by default.

    Raises:
        VersionExpired: it is no longer kept.
        InvalidInput: the tag does not exist.
    """
    if request.tag is not None:
        newest = log.load()
        return log.version(known_tag(newest, request.tag), newest)
    if request.version is not None:
        return log.at(request.version)
    return log.load() if request.as_of is None else log.as_of(request.as_of)


def _within(segment: Segment, interval: Interval) -> bool:
    return interval.holds(segment.time_min) and interval.holds(segment.time_max)
