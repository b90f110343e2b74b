"""Append a DataFrame to a table in one atomic event: as new segments, or by key.

Append to first-generation segments:

1. The columns are compared with the table's schema before any row is read.
2. The first pass reads the time column alone and counts rows and instants per time chunk. A null
   or impossible time refuses the whole ingest, with its value and count; nothing is written.
3. Each chunk gets as many segment ids as it needs segments; every id is a *slot*.
4. The second pass computes a row's slot from the row (chunk, and hash of its columns), so a task
   that runs again gets the same rows. Slots are dealt to few tasks, sorted by event time there,
   and each is written as one file.
5. Balance check: both passes must see equal row counts per chunk, or nothing is committed. The
   files of a failed ingest are deleted.
6. The same ``commit_id`` appends once.
7. A rollup table takes its input columns. Spark rolls them up first and keeps the result for both
   passes; the balance check counts input rows.

Upsert to a primary-key table, without ids, sizes and locks:

8. The columns are compared as above. Nullable columns may be left out in a ``partial_update``
   table, whose writers fill their own, and where keys are deleted; columns that were added to the
   table, everywhere.
9. Rows are read once. Spark deals them to tasks by time chunk and bucket, which its own hash gives
   (``data.keyed.keyed_rows``), and tasks write log files.
10. A row that does not fit refuses the whole write: the files are deleted, nothing is committed. Of
    event times that do not fit, the error then counts all.
11. The rows of a DataFrame have no order. Of rows with equal keys, the ordering column decides; if
    that ties, or there is none, any of them wins.
12. No lock is taken, and no coordinator is needed (``table.upsert``).
"""

import math
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager

import pyarrow as pa
from pyspark import Accumulator
from pyspark.accumulators import AddingAccumulatorParam
from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F  # noqa: N812  # as Spark's own guide writes it
from pyspark.sql import types as T  # noqa: N812  # the same

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput, RowsOutOfBalance, TimeOutOfRange
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.tables.merge_rules import MergeRules
from airflow_provider_segtable.core.time import ALL_TIME, Instant, Interval, Layout
from airflow_provider_segtable.data.arrow_schema import to_arrow
from airflow_provider_segtable.data.parquet.descriptor import encode_definition
from airflow_provider_segtable.planning.properties import Policy
from airflow_provider_segtable.spark.driver.spark_connect import check_in_driver
from airflow_provider_segtable.spark.driver.spark_errors import raise_reported, translated
from airflow_provider_segtable.spark.spark_columns import (
    buckets_at,
    check_columns,
    chunk_key,
    column,
    instant,
    readable,
    spark_schema,
    with_defaults,
)
from airflow_provider_segtable.spark.table_kinds import spark_kind_of
from airflow_provider_segtable.spark.tasks.reading import PREFIX
from airflow_provider_segtable.spark.tasks.writing import (
    RESULT,
    SLOT,
    LogTask,
    NotedWrite,
    WriteTask,
    decode_result,
)
from airflow_provider_segtable.storage.table_paths import absolute
from airflow_provider_segtable.table.append import (
    AppendResult,
    AppendTicket,
    Prepare,
    Write,
    append,
    made_before,
    nothing_appended,
)
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.definition import given_schema
from airflow_provider_segtable.table.new_files import NewFiles
from airflow_provider_segtable.table.upsert import check_deleted, commit_logs, merge_rules


# The first pass: rows by time chunk, and their times
@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """Per chunk: its rows, its input rows, and its ``spark_times.chunk_key``."""

    chunks: Mapping[Interval, int]
    events: Mapping[Interval, int]
    starts: Mapping[Interval, Instant]

    @property
    def rows(self) -> int:
        """Return the number of all rows."""
        return sum(self.chunks.values())


def take_census(
    df: DataFrame, time_column: str, layout: Layout, events: Column | None = None
) -> Census:
    """Count rows by time chunk, reading the time column alone.

    Args:
        df: the rows.
        time_column: their event time.
        layout: the layout of time chunks.
        events: how many input rows a row represents; one by default.

    Raises:
        TimeOutOfRange: times are null or out of range; the message counts and shows them.
    """
    raw = column(df, time_column)
    at = instant(df, time_column)
    stands = F.lit(1) if events is None else events
    key = chunk_key(at, layout)
    times = df.select(key.alias("start"), at.alias("at"), raw.alias("raw"), stands.alias("events"))
    counted = times.groupBy("start").agg(
        F.count(F.lit(1)).alias("rows"),
        F.sum("events").alias("events"),
        F.sum(F.when(F.col("raw").isNotNull(), F.col("events")).otherwise(0)).alias("timed"),
        F.min("at").alias("first"),
        F.min("raw").cast("string").alias("lowest"),
        F.max("raw").cast("string").alias("highest"),
    )
    with translated("counting the rows to ingest"):
        found = counted.collect()
    for row in found:
        if row.start is None:
            raise _bad_times(row, time_column)
    chunks = {layout.chunk(row["first"]): row for row in found}
    return Census(
        chunks={chunk: chunks[chunk]["rows"] for chunk in sorted(chunks)},
        events={chunk: row["events"] for chunk, row in chunks.items()},
        starts={chunk: row["start"] for chunk, row in chunks.items()},
    )


def _bad_times(row: Row, time_column: str) -> TimeOutOfRange:
    nulls, outside = row["events"] - row["timed"], row["timed"]
    found = [f"{nulls} are null"] if nulls else []
    if outside:
        span = f"{row['lowest']} to {row['highest']}"
        found.append(f"{outside} lie outside {ALL_TIME} ({span}): check the column's unit")
    return TimeOutOfRange(
        f"of the event times in column {time_column!r}, {' and '.join(found)}; "
        "filter or correct these rows, nothing was written"
    )


_CHUNK, _BUCKET, _DELETED = "__segtable_chunk", "__segtable_bucket", "__segtable_deleted"
_ADAPTIVE = "spark.sql.adaptive.enabled"


# Upserts to primary-key tables
def upsert_some(
    ports: TableContext,
    df: DataFrame,
    *,
    commit_id: str,
    deleted: str | None = None,
    state: State | None = None,
) -> AppendResult | None:
    """Upsert the rows of a DataFrame; return None if it is empty.

    Args:
        ports: the table's ports; a coordinator is not needed.
        df: the table's columns, in any order.
        commit_id: equal ids commit once.
        deleted: the name of a boolean column that says which rows delete their key, if any.
        state: a recent state of the table; saves reading the log again.

    Raises:
        SchemaMismatch, TimeOutOfRange, InvalidInput: the rows do not fit; nothing was committed.
        ExecutionFailed: Spark failed; nothing was committed.
        CommitConflict, CommitUnknown: see ``table.upsert``.
    """
    state = state or ports.log.load()
    rules = merge_rules(state, ports.uri)
    check_deleted(state, deleted)
    schema = given_schema(state.table)
    some = rules.partial or deleted is not None
    whole = with_defaults(df, schema)
    values = _filled(whole, schema, state) if some else whole
    flags = _flags(df, deleted)
    given = values if deleted is None else values.drop(deleted)
    check_columns(given, schema, state.table.time_column)
    records = SparkRecords(values=values, flags=flags, schema=schema, deleted=deleted or "")
    return commit_records(ports, records, rules, commit_id=commit_id, state=state)


@dataclass(frozen=True, slots=True, kw_only=True)
class SparkRecords:
    """Records in Spark.

    Attributes:
        values: the columns of ``schema``, copies (``tasks.reading``), and any others.
        flags: which rows delete their key.
        schema: the table's columns.
        deleted: the name of the user's column that ``flags`` is.
    """

    values: DataFrame
    flags: Column
    schema: pa.Schema
    deleted: str = ""

    @property
    def carried(self) -> tuple[str, ...]:
        """Return the columns of which there are copies."""
        there = {*self.values.columns}
        return tuple(name for name in self.schema.names if PREFIX + name in there)

    def dealt(self, state: State, rules: MergeRules) -> DataFrame:
        """Return the records with those of a file group together, the flags first.

        Columns are numbered instead of named: ``mapInArrow`` trips over dots and backticks.
        """
        at = instant(self.values, state.table.time_column)
        start, count = chunk_key(at, state.layout), buckets_at(at, state.layout)
        types = {each.name: each.dataType for each in spark_schema(readable(self.schema)).fields}
        key = [column(self.values, name).cast(types[name]) for name in rules.bucket_key]
        bucket = F.pmod(F.hash(*key), count)
        names = [*self.schema.names, *(PREFIX + name for name in self.carried)]
        numbered = self.values.select(
            start.alias(_CHUNK),
            bucket.alias(_BUCKET),
            self.flags.alias(_DELETED),
            *(column(self.values, name).alias(str(at)) for at, name in enumerate(names)),
        )
        return _together(numbered, _CHUNK, _BUCKET).drop(_CHUNK, _BUCKET)


def _together(frame: DataFrame, *names: str) -> DataFrame:
    """Return rows with those of equal values in one task, one after another.

    Spark sizes the tasks by the bytes that it finds. Where it does not (in batches of a stream), a
    task for each core keeps it from starting hundreds of empty ones.
    """
    spark = frame.sparkSession
    if str(spark.conf.get(_ADAPTIVE, "true")).lower() == "true":
        return frame.repartition(*names).sortWithinPartitions(*names)
    cores = spark.sparkContext.defaultParallelism
    return frame.repartition(cores, *names).sortWithinPartitions(*names)


def commit_records(
    ports: TableContext,
    records: SparkRecords,
    rules: MergeRules,
    *,
    commit_id: str,
    state: State,
) -> AppendResult | None:
    """Write records in tasks and commit them in one event; return None if there are none."""
    seen = state.table

    def write(state: State, began: Instant, files: NewFiles) -> Iterable[Segment]:
        del files  # tasks commit theirs
        task = LogTask(
            uri=absolute(ports.uri),
            storage_options=ports.storage_options,
            table=seen,
            rules=rules,
            layout=state.layout,
            base_version=state.base_version,
            instant=began,
            schema=records.schema,
            deleted=records.deleted,
            carried=records.carried,
        )
        found = _written(ports, task, records.dealt(state, rules))
        if not found:
            raise _NothingToUpsert
        return found

    with _counted(records.values, state):
        try:
            return commit_logs(ports, write, commit_id=commit_id, state=state)
        except _NothingToUpsert:
            return None


class _NothingToUpsert(Exception):  # not an error: ``commit_records`` returns None
    """The source is empty."""


def _written(ports: TableContext, task: LogTask, dealt: DataFrame) -> list[Segment]:
    """Run the tasks; leave no files on failure, but those of tries that Spark gave up."""
    context = dealt.sparkSession.sparkContext
    left: Accumulator[list[str]] = context.accumulator([], AddingAccumulatorParam([]))
    try:
        with translated(f"upsert into {ports.uri}"):
            results = dealt.mapInArrow(NotedWrite(task=task, left=left).run, RESULT).collect()
        for result in results:
            if result.error is not None:
                raise_reported(result.error, result.message)
    except BaseException:
        for path in left.value:
            ports.files.delete(path)
        raise
    return [decode_result(result.segment) for result in results]


@contextmanager
def _counted(rows: DataFrame, state: State) -> Iterator[None]:
    """Replace what one task says of an event time by what all rows say."""
    try:
        yield
    except TimeOutOfRange:
        take_census(rows, state.table.time_column, state.layout)
        raise


def _flags(df: DataFrame, deleted: str | None) -> Column:
    """Return which rows delete their key.

    Raises:
        InvalidInput: there is no such column, or it is not boolean.
    """
    if deleted is None:
        return F.lit(False)  # a value
    kind = df.schema[deleted].dataType if deleted in df.columns else None
    if not isinstance(kind, T.BooleanType):
        found = "missing" if kind is None else kind.simpleString()
        raise InvalidInput(
            f"column {deleted!r} says which rows are deleted, so it is boolean: it is {found}"
        )
    return column(df, deleted)


def _filled(df: DataFrame, schema: pa.Schema, state: State) -> DataFrame:
    """Return the rows with nulls in the nullable columns that they leave out."""
    known = {*df.columns, state.table.time_column}
    missing = [field for field in schema if field.nullable and field.name not in known]
    if not missing:
        return df
    kinds = spark_schema(readable(pa.schema(missing)))
    return df.withColumns({each.name: F.lit(None).cast(each.dataType) for each in kinds})


ROWS_A_TASK = 4_000_000
_DEAL = "__segtable_start bigint, __segtable_first int, __segtable_files int"
COMPRESSED = 0.4
"""Assumed Parquet size of a row relative to its memory size, for a table without files."""


# Appends to segments
def ingest(
    ports: TableContext,
    df: DataFrame,
    *,
    commit_id: str | None = None,
    rows_per_segment: int | None = None,
    target_size: int | None = None,
    wait_s: float = 60.0,
    deleted: str | None = None,
) -> AppendResult:
    """Append the rows of a DataFrame; upsert them if the table has a primary key.

    Without rows nothing is committed: the result has 0 rows, and the newest version.

    Args:
        ports: the table's ports.
        df: the table's columns, in any order; read twice (persist it if that is expensive). For a
            rollup table its input columns, read once.
        commit_id: equal ids append once; a fresh one by default.
        rows_per_segment: approximate rows of a segment; overrides ``target_size``.
        target_size: approximate bytes of a segment; the table's policy by default.
        wait_s: how long to wait for the coordinator, in seconds.
        deleted: of an upsert: the name of a boolean column that says which rows delete their key.

    Raises:
        SchemaMismatch, TimeOutOfRange, InvalidInput: nothing was committed.
        RowsOutOfBalance: the source changed between the passes; nothing is left.
        ExecutionFailed: Spark failed; nothing was committed.
        LockLost, CommitConflict, CommitUnknown: see ``table.append``.
    """
    committed = ingest_some(
        ports,
        df,
        commit_id=commit_id or ports.randomness.token(),
        sizing=Sizing(rows_per_segment=rows_per_segment, target_size=target_size),
        wait_s=wait_s,
        deleted=deleted,
    )
    return committed or nothing_appended(ports.log.load())


@dataclass(frozen=True, slots=True, kw_only=True)
class Sizing:
    """Target size of segments: in rows, else in bytes, else the table policy's."""

    rows_per_segment: int | None = None
    target_size: int | None = None

    def __post_init__(self) -> None:
        """Refuse sizes below 1."""
        for name in ("rows_per_segment", "target_size"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InvalidInput(f"{name} = {value} is too low: at least 1")

    def rows(self, state: State, schema: pa.Schema) -> int:
        """Return the target number of rows of a segment of this table."""
        if self.rows_per_segment is not None:
            return self.rows_per_segment
        target = self.target_size or Policy.read(state.table.properties).target_size
        return max(int(target / _bytes_a_row(state, schema)), 1)


def ingest_some(
    ports: TableContext,
    df: DataFrame,
    *,
    commit_id: str,
    sizing: Sizing,
    wait_s: float = 60.0,
    deleted: str | None = None,
) -> AppendResult | None:
    """Append the rows of a DataFrame like ``ingest``; return None if it is empty."""
    check_in_driver(df, "ingest")
    state = ports.log.load()
    if commit_id in state.commits:
        return made_before(ports.log, state, commit_id)
    if deleted is not None or state.table.kind.rules is not None:
        return upsert_some(ports, df, commit_id=commit_id, deleted=deleted, state=state)
    table, schema = state.table, to_arrow(state.table.schema)
    rows = check_columns(df, given_schema(table), table.time_column)
    with spark_kind_of(table.kind).incoming(rows, schema, table.time_column) as coming:
        prepare = prepared(ports, coming.rows, coming.schema, sizing, state, coming.events)
        try:
            return append(ports, prepare, commit_id=commit_id, wait_s=wait_s, state=state)
        except _NothingToAppend:
            return None


def prepared(
    ports: TableContext,
    rows: DataFrame,
    schema: pa.Schema,
    sizing: Sizing,
    seen: State,
    events: Column | None = None,
) -> Prepare:
    """Return the prepare step of an append, which counts rows by time chunk and writes them.

    Args:
        ports: the table's ports.
        rows: rows with the columns of ``schema``, in their order; read twice.
        schema: the schema of the files.
        sizing: target size of segments.
        seen: the version whose columns the rows have; a later alteration does not change them.
        events: how many input rows a row represents; one by default.
    """

    def prepare(state: State) -> tuple[dict[Interval, int], Write]:
        census = take_census(rows, state.table.time_column, state.layout, events)
        if not census.rows:
            raise _NothingToAppend
        a_segment = sizing.rows(state, schema)
        counts = {chunk: math.ceil(found / a_segment) for chunk, found in census.chunks.items()}
        writer = _Writer(
            ports=ports,
            rows=rows,
            census=census,
            state=state,
            schema=schema,
            definition=encode_definition(seen.table, seen.base_version),
        )
        return counts, writer

    return prepare


class _NothingToAppend(Exception):  # not an error: ``ingest_some`` returns None
    """The source is empty."""


def _bytes_a_row(state: State, schema: pa.Schema) -> float:
    known = state.timeline.visible_summaries().values()
    rows = sum(summary.rows for summary in known)
    if rows:
        return max(sum(summary.size for summary in known) / rows, 1.0)
    return max(sum(_width(f.type) for f in schema) * COMPRESSED, 1.0)


def _width(kind: pa.DataType) -> float:
    try:
        return float(kind.bit_width) / 8
    except ValueError:
        return 20.0  # a guess for text, lists and the like


@dataclass(frozen=True, slots=True, kw_only=True)
class _Writer:
    """The second pass; called with the allocated ids."""

    ports: TableContext
    rows: DataFrame
    census: Census
    state: State
    schema: pa.Schema
    definition: bytes

    def __call__(self, ticket: AppendTicket) -> list[Segment]:
        """Write every slot and return the descriptors; leave no files on failure."""
        context = self.rows.sparkSession.sparkContext
        left: Accumulator[list[str]] = context.accumulator([], AddingAccumulatorParam([]))
        try:
            segments = self._run(ticket, left)
            self._check_books(segments)
        except BaseException:
            for path in left.value:
                self.ports.files.delete(path)
            raise
        return segments

    def _run(self, ticket: AppendTicket, left: "Accumulator[list[str]]") -> list[Segment]:
        task = WriteTask(
            uri=absolute(self.ports.uri),
            storage_options=self.ports.storage_options,
            ids=tuple(segment_id for ids in ticket.ids.values() for segment_id in ids),
            schema=self.schema,
            time_column=self.state.table.time_column,
            created=ticket.created,
            definition=self.definition,
            carried=self._carried(),
        )

        noted = NotedWrite(task=task, left=left)
        with translated(f"ingest into {self.ports.uri}"):
            results = self._slotted(ticket).mapInArrow(noted.run, RESULT).collect()
        for result in results:
            if result.error is not None:
                raise_reported(result.error, result.message)
        return [decode_result(result.segment) for result in results]

    def _slotted(self, ticket: AppendTicket) -> DataFrame:
        """Return the rows dealt to tasks and sorted by slot and event time, slot first.

        Columns are numbered instead of named: ``mapInArrow`` trips over dots and backticks. The
        copies of ``tasks.reading`` come last.
        """
        time = self.state.table.time_column
        names = [*self.schema.names, *(PREFIX + name for name in self._carried())]
        slots = sum(map(len, ticket.ids.values()))
        start = chunk_key(instant(self.rows, time), self.state.layout)
        placed = self.rows.join(F.broadcast(self._deal(ticket)), start == F.col("__segtable_start"))
        spread = F.xxhash64(*_hashable(self.rows, self._telling()))
        share = F.pmod(spread, F.col("__segtable_files")).cast("int")
        slotted = placed.select(
            (F.col("__segtable_first") + share).alias(SLOT),
            *(column(self.rows, name).alias(str(at)) for at, name in enumerate(names)),
        )
        order = (F.col(SLOT), F.col(str(names.index(time))))
        return dealt(slotted, self._tasks(slots)).sortWithinPartitions(*order)

    def _carried(self) -> tuple[str, ...]:
        """Return the columns of which the rows have copies (``tasks.reading``)."""
        there = {*self.rows.columns}
        return tuple(name for name in self.schema.names if PREFIX + name in there)

    def _telling(self) -> list[str]:
        """Return the columns that determine a row's slot."""
        table = self.state.table
        return [*table.kind.identity(self.schema.names, table.time_column)]

    def _deal(self, ticket: AppendTicket) -> DataFrame:
        """Return for each chunk its first slot and its number of slots."""
        deal, first = [], 0
        for chunk, ids in ticket.ids.items():
            deal.append((self.census.starts[chunk], first, len(ids)))
            first += len(ids)
        spark = self.rows.sparkSession
        return spark.createDataFrame(deal, _DEAL)

    def _tasks(self, slots: int) -> int:
        cores = self.rows.sparkSession.sparkContext.defaultParallelism
        return min(slots, max(cores, self.census.rows // ROWS_A_TASK))

    def _check_books(self, segments: list[Segment]) -> None:
        written: dict[Interval, int] = dict.fromkeys(self.census.events, 0)
        for segment in segments:
            written[segment.id.interval] += segment.events
        for chunk, counted in self.census.events.items():
            if written[chunk] != counted:
                raise RowsOutOfBalance(
                    f"{counted} rows of {chunk} were counted and {written[chunk]} written to "
                    f"{self.ports.uri}: the source changed meanwhile; persist it and ingest again"
                )


def _hashable(df: DataFrame, names: list[str]) -> list[Column]:
    """Return the columns that Spark can hash: those without a map at any depth."""
    kinds = {name: df.schema[name].dataType.simpleString() for name in names}
    return [column(df, name) for name, kind in kinds.items() if "map<" not in kind]


def dealt(slotted: DataFrame, tasks: int) -> DataFrame:
    """Deal slots to tasks in turn, so that every task gets as many of each chunk."""
    if hasattr(slotted, "repartitionById"):  # Spark 4.1
        return slotted.repartitionById(tasks, F.pmod(F.col(SLOT), F.lit(tasks)))
    return slotted.repartition(tasks, F.col(SLOT))
