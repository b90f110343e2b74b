"""Upsert a DataFrame into a primary-key table, in one event.

1. The columns are compared with the table's schema before any row is read. Nullable columns may be
   left out in a ``partial_update`` table, whose writers fill their own, and where keys are deleted;
   columns that were added to the table, everywhere.
2. Rows are read once. Spark deals them to tasks by time chunk and bucket, which its own hash gives
   (``data.merge.bucketing``), and tasks write log files.
3. A row that does not fit refuses the whole write: the files are deleted, nothing is committed. Of
   event times that do not fit, the error then counts all.
4. The rows of a DataFrame have no order. Of rows with equal keys, the ordering column decides; if
   that ties, or there is none, any of them wins.
5. No lock is taken, and no coordinator is needed (``table.writes.upsert``).
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa
from pyspark import Accumulator
from pyspark.accumulators import AddingAccumulatorParam
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as Spark's own guide writes it
from pyspark.sql import types as T  # noqa: N812  # the same

from airflow_provider_segtable.core.errors import InvalidInput, TimeOutOfRange
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.tables.merge_rules import MergeRules
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.spark.driver.spark_errors import raise_reported, translated
from airflow_provider_segtable.spark.reads.spark_schemas import (
    check_columns,
    readable,
    spark_schema,
    with_defaults,
)
from airflow_provider_segtable.spark.reads.spark_times import (
    buckets_at,
    chunk_key,
    column,
    instant,
)
from airflow_provider_segtable.spark.tasks.exact_columns import PREFIX
from airflow_provider_segtable.spark.tasks.log_writing import LogTask
from airflow_provider_segtable.spark.tasks.writing import RESULT, NotedWrite, decode_result
from airflow_provider_segtable.spark.writes.chunk_counts import take_census
from airflow_provider_segtable.storage.table_paths import absolute
from airflow_provider_segtable.table.append import AppendResult, NewFiles
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.definition import given_schema
from airflow_provider_segtable.table.upsert import check_deleted, commit_logs, merge_rules

_CHUNK, _BUCKET, _DELETED = "__segtable_chunk", "__segtable_bucket", "__segtable_deleted"
_ADAPTIVE = "spark.sql.adaptive.enabled"


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
        CommitConflict, CommitUnknown: see ``table.writes.upsert``.
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
        values: the columns of ``schema``, copies (``tasks.exact_columns``), and any others.
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
        return tuple(name for name in self.schema.names if PREFIX + name in self.values.columns)

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
    for field in schema:
        if field.nullable and field.name not in (*df.columns, state.table.time_column):
            kind = spark_schema(readable(pa.schema([field])))[0].dataType
            df = df.withColumn(field.name, F.lit(None).cast(kind))
    return df
