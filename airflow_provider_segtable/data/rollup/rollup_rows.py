"""Rolling up rows: input rows into physical rows, and physical rows into fewer.

1. *Physical* rows are the rows in files: the stored schema and the hidden columns of
   ``core.tables.rollup_kind``. ``from_input`` makes them from input rows, ``rolled_up`` from
   physical rows; both return one row per group, sorted by dimensions, then time, nulls first.
2. However rows are split, rolled up and joined, the result is the same (except the last digits of
   floating sums), and the sum of ``__segtable_events`` is the number of input rows.
3. Sketches are Spark's and opaque here: tables with sketches are rolled up by
   ``spark.table_kinds``.
4. Dictionaries stay dictionaries; only Arrow and numpy are needed.
5. ``RollupJob`` is minor compaction of a rollup table: adjacent small segments become few, rolled
   up among themselves. Its balance check counts events, less the events of deleted rows. If there
   are fewer groups than outputs, rows are only divided, not rolled up; if deletes leave fewer rows
   than outputs, some outputs are empty.

Source of the idea: Druid's IncrementalIndex and its combining aggregator factories.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import (
    CorruptTable,
    InvalidInput,
    RowsOutOfBalance,
)
from airflow_provider_segtable.core.schema import Column, Schema
from airflow_provider_segtable.core.segment import Segment, SegmentId, Shard, inherited
from airflow_provider_segtable.core.tables.rollup_kind import (
    EVENTS,
    HIDDEN,
    Metric,
    MetricKind,
    Rollup,
)
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.data.arrow_schema import parse_type, physical_schema, to_arrow
from airflow_provider_segtable.data.jobs.segment_writer import (
    SegmentPlacement,
    emptied,
    write_segment,
)
from airflow_provider_segtable.data.open_files import open_files
from airflow_provider_segtable.data.parquet.descriptor import (
    SegmentFiles,
    discard,
    read_definition,
    read_descriptor,
)
from airflow_provider_segtable.data.parquet.source_file import SourceFile, parquet_file
from airflow_provider_segtable.data.rollup.rollup_codes import (
    REDUCED,
    Groups,
    Longs,
    coded,
    cut_times,
    grouped,
    plain,
    sizes,
    summed,
    timed,
)
from airflow_provider_segtable.data.row_checks import check_times, conformed
from airflow_provider_segtable.data.row_filter import RowFilter, row_filter_of
from airflow_provider_segtable.data.rows import instants
from airflow_provider_segtable.data.sort_keys import whole
from airflow_provider_segtable.ports.files import DataFiles

Columns = dict[str, pa.Array]
_ALL_EVENTS = Metric(name=EVENTS, kind=MetricKind.COUNT)


def visible(rows: pa.Table) -> pa.Table:
    """Return the rows without hidden columns."""
    return rows.select([name for name in rows.column_names if not name.startswith(HIDDEN)])


def from_input(rows: pa.Table, rollup: Rollup, *, time_column: str) -> pa.Table:
    """Roll up input rows.

    Args:
        rows: rows in the input schema.
        rollup: the table's rollup.
        time_column: the event time.

    Returns:
        Physical rows, one per group, sorted by dimensions, then time.

    Raises:
        InvalidInput: the rollup has sketches, or a sum does not fit.
        TimeOutOfRange: an event time is null or out of range.
    """
    check_arrow(rollup)
    check_times(rows.column(time_column), time_column)
    at = plain(instants(whole(rows.column(time_column))))
    groups, columns = _grouped(rows, rollup, time_column)
    hidden = {EVENTS: sizes(groups)}
    for metric in rollup.metrics:
        if metric.source is None:
            columns[metric.name] = hidden[EVENTS]
        elif metric.kind.timed:
            source = rows.column(metric.source)
            columns[metric.name], hidden[metric.at] = timed(metric, source, at, groups)
        else:
            columns[metric.name] = REDUCED[metric.kind](metric, rows.column(metric.source), groups)
    return _table(columns | hidden, _made_schema(rows.schema, rollup, time_column))


def rolled_up(rows: pa.Table, rollup: Rollup, *, time_column: str) -> pa.Table:
    """Roll up physical rows of any generations, completely.

    Args:
        rows: rows with the columns of ``physical_schema``.
        rollup: the table's rollup.
        time_column: the event time.

    Returns:
        Physical rows, one per group, sorted by dimensions, then time.

    Raises:
        InvalidInput: the rollup has sketches, or a sum does not fit.
    """
    check_arrow(rollup)
    groups, columns = _grouped(rows, rollup, time_column)
    hidden = {EVENTS: summed(_ALL_EVENTS, rows.column(EVENTS), groups)}
    for metric in rollup.metrics:
        values = rows.column(metric.name)
        if metric.kind.timed:
            at = _exact(rows, metric)
            columns[metric.name], hidden[metric.at] = timed(metric, values, at, groups)
        else:
            columns[metric.name] = REDUCED[metric.kind](metric, values, groups)
    return _table(columns | hidden, rows.schema)


def check_arrow(rollup: Rollup) -> None:
    """Refuse a rollup that requires Spark.

    Raises:
        InvalidInput: it has sketches.
    """
    if rollup.sketches:
        raise InvalidInput(
            f"metric {rollup.sketches[0]} is a sketch, which only Spark can make and merge: "
            "append by spark.ingest, read by spark.scan(..., rolled_up=True), compact in Spark"
        )


def _grouped(rows: pa.Table, rollup: Rollup, time_column: str) -> tuple[Groups, Columns]:
    """Return the groups and their time and dimensions."""
    steps = cut_times(rows.column(time_column), rollup.query_granularity)
    keys = {name: coded(rows.column(name)) for name in rollup.dimensions}
    groups = grouped([*keys.values(), steps.codes], rows.num_rows)
    columns = {time_column: steps.column(groups.a_row)}
    return groups, columns | {name: codes.taken(groups.a_row) for name, codes in keys.items()}


def _exact(rows: pa.Table, metric: Metric) -> Longs:
    return plain(whole(rows.column(metric.at)))


def _made_schema(given: pa.Schema, rollup: Rollup, time_column: str) -> pa.Schema:
    """Return the physical schema of rows rolled up from the given schema."""
    fields = [given.field(name) for name in (time_column, *rollup.dimensions)]
    for metric in rollup.metrics:
        source = None
        if metric.source is not None:
            kind = given.field(metric.source).type
            value = kind.value_type if pa.types.is_dictionary(kind) else kind
            source = Column(name=metric.source, type=str(value))
        stored = metric.stored(source)
        fields.append(pa.field(stored.name, parse_type(stored.type), stored.nullable))
    return physical_schema(pa.schema(fields), rollup)


def _table(columns: Columns, schema: pa.Schema) -> pa.Table:
    arrays = [_as(columns[field.name], field.type) for field in schema]
    return pa.table(arrays, schema=schema.remove_metadata())


def _as(array: pa.Array, kind: pa.DataType) -> pa.Array:
    if array.type == kind:
        return array
    words = pa.types.is_dictionary(kind) and not pa.types.is_dictionary(array.type)
    return (array.dictionary_encode() if words else array).cast(kind)


@dataclass(frozen=True, slots=True, kw_only=True)
class RollupJob:
    """One minor compaction of a rollup table, which can be sent to another process.

    ``inputs``, ``outputs``, ``row_filters`` and ``deletes_applied_through`` are as in
    ``data.jobs.minor_job``; ``schema`` is the table's stored schema; ``attempt`` is 16 hex digits,
    unique to each attempt.
    """

    uri: str
    storage_options: Mapping[str, str]
    inputs: tuple[Segment, ...]
    outputs: tuple[tuple[SegmentId, Shard], ...]
    created: Instant
    time_column: str
    schema: Schema
    rollup: Rollup
    attempt: str
    row_filters: Mapping[SegmentId, RowFilter] = field(default_factory=dict)
    deletes_applied_through: int = 0

    @property
    def cost(self) -> int:
        """Return the number of bytes it reads."""
        return sum(segment.size for segment in self.inputs)

    @property
    def title(self) -> str:
        """Return the job's title in the Spark UI."""
        return f"roll up {counted(len(self.inputs), 'segment')} into {len(self.outputs)}"

    def run(self, files: DataFiles | None = None) -> tuple[Segment, ...]:
        """Write the outputs and return their descriptors.

        Raises:
            InvalidInput: the rollup has sketches, a sum does not fit, or there are fewer rows
                than outputs (and none is deleted).
            CorruptTable: an input differs from its entry in the log; the message names the file.
            RowsOutOfBalance: the outputs represent a different number of ingested rows than the
                inputs' live rows.
            StorageError: nothing is left behind.
        """
        check_arrow(self.rollup)
        files = open_files(self.uri, self.storage_options) if files is None else files
        files = SegmentFiles(files, self.inputs)
        schema = physical_schema(to_arrow(self.schema), self.rollup)
        read = [self._read(files, one, schema) for one in self.inputs if one.rows]
        tables = [left for left, _ in read]
        rows = pa.concat_tables(tables) if tables else schema.empty_table()
        merged = rolled_up(rows, self.rollup, time_column=self.time_column)
        enough = merged.num_rows >= len(self.outputs)
        dropped = sum(events for _, events in read)
        written: list[Segment] = []
        try:
            self._write(files, conformed(merged if enough else rows, schema), written)
            self._check_books(written, dropped)
        except Exception:
            discard(files, written)
            raise
        return tuple(written)

    def _read(self, files: DataFiles, segment: Segment, schema: pa.Schema) -> tuple[pa.Table, int]:
        """Return the live rows, and the number of events of the deleted rows."""
        found = read_descriptor(files, segment.path).id
        if found != segment.file_id:
            raise CorruptTable(
                f"{segment.path} says it is segment {found}, the log says {segment.file_id}: "
                "restore the file"
            )
        words = [name for name in self.rollup.dimensions if _text(schema.field(name).type)]
        try:
            with (
                files.open(segment.path) as source,
                parquet_file(SourceFile(source), words=words) as file,
            ):
                rows = file.read(columns=schema.names)
        except (pa.ArrowException, OSError, ValueError) as error:
            raise CorruptTable(f"{segment.path} cannot be decoded ({error}): restore it") from error
        events = pc.sum(rows.column(EVENTS)).as_py() if EVENTS in rows.column_names else None
        if (rows.num_rows, events) != (segment.rows, segment.events):
            raise CorruptTable(
                f"{segment.path} has {rows.num_rows} rows of {events} events, segment "
                f"{segment.id} has {segment.rows} of {segment.events}: restore the file"
            )
        left = row_filter_of(self.row_filters, segment).sifted(rows, 0)
        return left, segment.events - (pc.sum(left.column(EVENTS)).as_py() or 0)

    def _write(self, files: DataFiles, rows: pa.Table, written: list[Segment]) -> None:
        parts = len(self.outputs)
        full = all(one.rows for one in self.inputs)
        if (
            rows.num_rows < parts
            and full
            and not any(s.predicates for s in self.row_filters.values())
        ):
            raise InvalidInput(
                f"{rows.num_rows} rows cannot be divided among {parts} outputs: plan fewer"
            )
        bounds = [rows.num_rows * part // parts for part in range(parts + 1)]
        given = next((one.path for one in self.inputs if one.rows), None)
        table = read_definition(files, given) if given else b""
        for (segment_id, shard), (start, end) in zip(self.outputs, pairwise(bounds), strict=True):
            replaces = () if start else inherited(self.inputs)
            placement = SegmentPlacement(
                shard=shard, replaces=replaces, deletes_applied_through=self.deletes_applied_through
            )
            if start == end:
                written.append(emptied(segment_id, self.created, placement))
                continue
            segment = write_segment(
                files,
                rows.slice(start, end - start),
                segment_id=segment_id,
                time_column=self.time_column,
                created=self.created,
                token=self.attempt,
                placement=placement,
                definition=table,
            )
            written.append(segment)

    def _check_books(self, written: Sequence[Segment], dropped: int) -> None:
        given = sum(segment.events for segment in self.inputs)
        kept = sum(segment.events for segment in written)
        if given - dropped != kept:
            raise RowsOutOfBalance(
                f"{kept} events out, {given} events in, {dropped} of these deleted, for "
                f"{written[0].id}; nothing was published"
            )


def _text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))
