"""Read a primary-key table as a DataFrame (one row a key), and segments with pyarrow in tasks.

Primary-key tables:

1. Rows whose fate is known, such as those of a base file, are read by Spark's own Parquet reader,
   without hidden ones (``data.keyed.settled_rows``): settled data is read at its speed. Only the
   rest is merged, in tasks. The driver divides a group so; where it would have to look at the keys
   of more than ``MOST_LOOKED_AT`` rows, tasks merge all files of the other groups.
2. Tasks merge by the kernel (``data.keyed.file_groups``). Conditions on the key alone are evaluated
   before the merge, all others after it, by Spark.
3. So are windows: the kernel compares the roots of records with the window.

Segments with columns that Spark's own reader does not support:

4. A task gets descriptors and row filters, and reads the files with ``data.parquet.segment_scan``,
   as ``Table`` does.
5. Files that are not stored, as those of a read with the live tail, are sent to the tasks.
6. Values are cast to the nearest type that Spark can hold; nanoseconds lose their last three
   digits. Of ``carried`` columns an exact copy is added.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from typing import Any, Protocol, TypeVar

import pyarrow as pa
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as Spark's own guide writes it
from pyspark.sql.types import StructType

from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.predicate import Predicate
from airflow_provider_segtable.core.reads.selection import record_tests
from airflow_provider_segtable.core.segment import ROOT, ROW, Segment, SegmentId
from airflow_provider_segtable.data.arrow_schema import physical_schema
from airflow_provider_segtable.data.keyed.file_groups import FileGroup, MergedRead
from airflow_provider_segtable.data.keyed.group_reader import GroupReader, shown_defaults
from airflow_provider_segtable.data.open_files import held_files
from airflow_provider_segtable.data.row_filter import RowFilter, with_origin_columns
from airflow_provider_segtable.spark.spark_columns import (
    arrow_schema,
    column,
    readable,
    spark_schema,
)
from airflow_provider_segtable.spark.tasks.reading import (
    PREFIX,
    Explained,
    MergedPart,
    MergedReading,
    Part,
    Reading,
    ReadTask,
    SegmentPart,
    SegmentReading,
    copied,
)
from airflow_provider_segtable.storage.table_paths import absolute
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.parts import Clipped
from airflow_provider_segtable.table.snapshot import Snapshot
from airflow_provider_segtable.table.upsert import merge_rules

NAMES = pa.schema([(ROOT, pa.string()), (ROW, pa.int64())])
"""The address columns, in types that Spark can hold."""


# Segments, read with pyarrow
def arrow_scan(
    spark: SparkSession,
    snapshot: Snapshot,
    segments: Sequence[Segment],
    schema: pa.Schema,
    row_filters: Mapping[SegmentId, RowFilter],
    *,
    addressed: bool = False,
    carried: Sequence[str] = (),
    why: str = "",
) -> DataFrame:
    """Return the rows of some segments of a snapshot, in the columns of a schema.

    Args:
        spark: the session.
        snapshot: the table at one version.
        segments: visible segments with rows.
        schema: columns of the table, in its own types.
        row_filters: the deleted rows, by segment.
        addressed: add the columns ``NAMES``, with root addresses.
        carried: columns to add a copy of (``tasks.reading``).
        why: see ``read_in_tasks``.
    """
    copies = [copied(schema.field(name)) for name in carried]
    columns = [*readable(schema), *(NAMES if addressed else ()), *readable(pa.schema(copies))]
    kinds = spark_schema(pa.schema(columns))

    return read_in_tasks(
        spark,
        snapshot.ports,
        [SegmentPart(segment=each, row_filter=row_filters[each.id]) for each in segments],
        SegmentReading(
            schema=schema,
            time_column=snapshot.state.table.time_column,
            columns=tuple(schema.names),
            addressed=addressed,
            checked=snapshot.checked,
        ),
        kinds,
        time_column=snapshot.state.table.time_column,
        carried=carried,
        why=why,
    )


def read_in_tasks(
    spark: SparkSession,
    ports: TableContext,
    parts: Sequence[Part],
    reading: Reading[Part],
    kinds: StructType,
    *,
    time_column: str,
    carried: Sequence[str] = (),
    why: str = "",
) -> DataFrame:
    """Return the rows of parts of a table, each read by pyarrow in a task.

    Args:
        spark: the session.
        ports: the table's ports; files that only this process has are sent to the tasks.
        parts: the parts, in the order of the tasks.
        reading: how a part is read.
        kinds: the columns of the rows.
        time_column: the event time.
        carried: columns of which a copy is added (``tasks.reading``).
        why: the reason, for plans, if Spark's own reader is to read such parts.
    """
    if not parts:
        return spark.createDataFrame([], kinds)
    held = held_files(ports.files)
    task = ReadTask(
        uri=absolute(ports.uri),
        storage_options=ports.storage_options,
        work=spark.sparkContext.broadcast(parts),
        reading=reading,
        target=arrow_schema(kinds),
        time_column=time_column,
        carried=tuple(carried),
        held=spark.sparkContext.broadcast(dict(held)) if held else None,
    )
    numbers = spark.range(0, len(parts), 1, tasks_for(spark, parts))
    return numbers.mapInArrow(Explained(task, why) if why else task.read_in_task, kinds)


def tasks_for(spark: SparkSession, parts: Sequence[Any]) -> int:
    """Return the number of tasks that read parts."""
    return min(len(parts), spark.sparkContext.defaultParallelism * 4)


class ReadFiles(Protocol):
    """Reads files as they are."""

    def __call__(
        self,
        schema: pa.Schema,
        columns: Sequence[str],
        files: Iterable[Clipped],
        row_filters: Mapping[SegmentId, RowFilter] = ...,
    ) -> DataFrame:
        """Return columns of files, given their schema; each file clipped to an interval, if any."""
        ...


MOST_LOOKED_AT = 20_000_000
"""Most rows whose keys the driver compares with those of a tail, for all groups of a read."""


# Primary-key tables
def keyed_scan(
    spark: SparkSession,
    snapshot: Snapshot,
    columns: Sequence[str],
    read_files: ReadFiles,
    *,
    groups: Sequence[FileGroup],
    tests: Sequence[Predicate],
    carried: Sequence[str] = (),
) -> DataFrame:
    """Return the rows of a version, with copies of the columns ``carried``.

    Args:
        spark: the session.
        snapshot: the version.
        columns: the columns of the rows.
        read_files: reads files as they are.
        groups: the file groups that may have wanted rows.
        tests: rows that do not satisfy these conditions may be left out.
        carried: columns of which a copy is added (``tasks.reading``).
    """
    parts = [*_parts(snapshot, columns, groups, tests)]
    plain = [(each, part.group.clip) for part in parts for each in part.plain]
    rest = [part for part in parts if part.rest]
    frames = []
    if plain or not rest:
        files = [Clipped(each.segment, clip) for each, clip in plain]
        filters = {each.segment.id: each.row_filter for each, _ in plain}
        schema = physical_schema(snapshot.schema, snapshot.state.table.kind)
        frame = read_files(schema, columns, files, filters)
        frames.append(_with_defaults(snapshot, frame, columns, carried))
    if rest:
        frames.append(_merged(spark, snapshot, columns, rest, tests, carried=carried))
    return reduce(DataFrame.union, frames)


def _parts(
    snapshot: Snapshot,
    columns: Sequence[str],
    groups: Iterable[FileGroup],
    tests: Sequence[Predicate],
) -> Iterator[MergedPart]:
    """Yield file groups with their division, as far as the driver may make it."""
    reader = GroupReader(
        snapshot.ports.files,
        snapshot.state.table,
        checked=snapshot.checked,
        views=snapshot.ports.entries,
        fates=snapshot.ports.entries,
    )
    merged, left = _merged_read(snapshot, columns, tests), MOST_LOOKED_AT
    for group in groups:
        settled = group.merged or (group.settled or {}).keys() >= {
            segment.id.partition for segment in group.segments
        }
        left -= 0 if settled else sum(segment.rows for segment in group.segments)
        division = merged.division(reader, group) if settled or left >= 0 else None
        yield MergedPart(replace(group, settled=None), division)


def _with_defaults(
    snapshot: Snapshot, frame: DataFrame, columns: Sequence[str], carried: Sequence[str]
) -> DataFrame:
    """Return rows with the defaults of columns that no record has set."""
    defaults = shown_defaults(snapshot.state.table)
    if not defaults.keys() & {*columns}:
        return frame
    names = [*columns, *(PREFIX + name for name in carried)]
    return frame.select([_shown(frame, name, defaults.get(name)) for name in names])


def merged_rows(
    spark: SparkSession,
    snapshot: Snapshot,
    columns: Sequence[str],
    groups: Sequence[FileGroup],
    tests: Sequence[Predicate],
    *,
    start: State | None = None,
) -> DataFrame:
    """Return the merged rows of file groups; of a window that begins after ``start``, new ones.

    Rows for which one of ``tests`` does not hold may be left out.
    """
    parts = [MergedPart(group) for group in groups]
    return _merged(spark, snapshot, columns, parts, tests, start=start)


def _merged(
    spark: SparkSession,
    snapshot: Snapshot,
    columns: Sequence[str],
    parts: Sequence[MergedPart],
    tests: Sequence[Predicate],
    *,
    carried: Sequence[str] = (),
    start: State | None = None,
) -> DataFrame:
    """Return the merged rows of file groups, with copies of the columns ``carried``."""
    known, table = snapshot.schema, snapshot.state.table
    merged = _merged_read(snapshot, columns, tests, start)
    copies, all_known = [copied(known.field(name)) for name in carried], with_origin_columns(known)
    shown = pa.schema([*(all_known.field(name) for name in merged.columns), *copies])
    kinds = spark_schema(readable(shown))
    rows = read_in_tasks(
        spark,
        snapshot.ports,
        dealt(parts, tasks_for(spark, parts)),
        MergedReading(table=table, merged=merged, checked=snapshot.checked),
        kinds,
        time_column=table.time_column,
        carried=carried,
    )
    return rows if columns else rows.select()


def _merged_read(
    snapshot: Snapshot,
    columns: Sequence[str],
    tests: Sequence[Predicate],
    start: State | None = None,
) -> MergedRead:
    rules = merge_rules(snapshot.state, snapshot.ports.uri)
    return MergedRead(
        rules=rules,
        columns=tuple(columns) or rules.key[:1],  # to count rows
        by_key=record_tests(tests, rules).by_key,
        since=None if start is None else start.time,
    )


def _shown(frame: DataFrame, name: str, default: pa.Scalar | None) -> Column:
    """Return a column, with its default where no record has set it."""
    value = column(frame, name)
    if default is None:
        return value
    kind = frame.schema[name].dataType
    return F.coalesce(value, F.lit(default.as_py()).cast(kind)).alias(name)


class Sized(Protocol):
    """Work of a task, with the bytes that it reads."""

    @property
    def size(self) -> int:
        """Return the bytes."""
        ...


Work = TypeVar("Work", bound=Sized)


def dealt(work: Sequence[Work], tasks: int) -> list[Work]:
    """Return work in an order in which each task gets large and small pieces."""
    ordered = sorted(work, key=lambda each: -each.size)
    return [each for task in range(tasks) for each in ordered[task::tasks]]
