"""A table's log store as a stream, with the option ``log``: ``SegtableSource.Feed``.

1. An offset is the position of each bucket (``log_batches``). A stream begins at the newest
   records, or with ``start=earliest`` at the first ones that can be read.
2. A batch ends at the newest records that services hold, committed or not; of buckets without a
   service at their committed end. It has at most ``maxRecordsPerTrigger`` of each bucket.
3. Rows come as they were written: later deletes and updates do not show. Those of a primary-key
   table have the column ``_segtable_deleted``.
4. A batch is read by the driver when its rows are needed, once, and is in memory until it is done.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, TypeAlias

import pyarrow as pa
from pyspark import SparkContext
from pyspark.sql.pandas.types import to_arrow_schema

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log_store.reading import Whence
from airflow_provider_segtable.spark.reads.spark_schemas import readable as in_spark
from airflow_provider_segtable.spark.reads.spark_schemas import spark_schema
from airflow_provider_segtable.spark.source.jvm_answers import answered, java_of, session_of
from airflow_provider_segtable.spark.source.log_batches import (
    batch_end,
    batch_rows,
    decode_positions,
    encode_positions,
)
from airflow_provider_segtable.spark.source.source_options import LogRequest, LogStart
from airflow_provider_segtable.spark.tasks.reading import near
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log_store.checkpointing import log_schema
from airflow_provider_segtable.table.log_store.positions import start_positions
from airflow_provider_segtable.table.log_store.tail import Finder

if TYPE_CHECKING:
    from py4j.java_gateway import JavaArray, JavaObject

Access: TypeAlias = tuple[TableContext, Finder]
"""A table's ports with a coordinator, and what finds its services."""

SIZE = 1 << 20
"""Bytes of a batch, as far as Spark chooses joins by them; it is in the driver's memory."""


@dataclass(slots=True)
class LogFeed:
    """The log store of a table, as far as a stream asks for it."""

    context: SparkContext
    columns: pa.Schema
    time_column: str
    request: LogRequest
    connect: Callable[[], Access] = field(repr=False)
    _access: Access | None = field(default=None, repr=False)

    class Java:
        """The interface that Java sees."""

        implements = ("segtable.SegtableSource$Feed",)

    @staticmethod
    def of(
        context: SparkContext,
        ports: TableContext,
        request: LogRequest,
        connect: Callable[[], Access],
    ) -> "LogFeed":
        """Return the feed of a table's log store; ``connect`` is called when it is first read.

        Raises:
            InvalidInput: this kind of table has no log store.
        """
        state = ports.log.load()
        columns = log_schema(state, ports.uri)
        return LogFeed(context, columns, state.table.time_column, request, connect)

    @property
    def access(self) -> Access:
        """Return the connected table."""
        if self._access is None:
            self._access = self.connect()
        return self._access

    @answered
    def schema(self) -> str:
        """Return the columns as Spark's JSON."""
        return str(spark_schema(in_spark(self.columns)).json())

    @answered
    def newest(self) -> str:
        """Return the newest positions."""
        ports, find = self.access
        buckets = ports.log.load().log_store
        return encode_positions(start_positions(ports, find, Whence.LATEST.value, buckets))

    @answered
    def next(self, after: str, up_to: str, limited: bool) -> str:  # noqa: FBT001
        """Return the end of the batch after a position, at most ``up_to``."""
        if not limited or self._skips(after):
            return up_to
        ports, _ = self.access
        start = decode_positions(after) if after else None
        end = batch_end(ports, start, decode_positions(up_to), self.request.records)
        return encode_positions(end)

    @answered
    def batch(self, after: str, up_to: str) -> "LogBatch":
        """Return the reading of a batch."""

        def read() -> pa.Table:
            if self._skips(after):
                return self.columns.empty_table()
            end = decode_positions(up_to)
            start = decode_positions(after) if after else None
            return batch_rows(*self.access, start, end, self.columns)

        return LogBatch(self.context, self.columns, self.time_column, read)

    def _skips(self, after: str) -> bool:
        """Return whether a batch is the first one of a stream of new records: it has none."""
        return not after and self.request.start is LogStart.LATEST

    @answered
    def close(self) -> None:
        """End the connection to ZooKeeper."""
        access, self._access = self._access, None
        if access is not None and access[0].optional_coordinator is not None:
            access[0].optional_coordinator.close()


@dataclass(slots=True)
class LogBatch:
    """The records of a batch: ``SegtableSource.Reading``."""

    context: SparkContext
    columns: pa.Schema
    time_column: str
    read: Callable[[], pa.Table] = field(repr=False)
    _rows: pa.Table | None = field(default=None, repr=False)

    class Java:
        """The interface that Java sees."""

        implements = ("segtable.SegtableSource$Reading",)

    @property
    def rows(self) -> pa.Table:
        """Return the records; they are read once."""
        if self._rows is None:
            self._rows = self.read()
        return self._rows

    @answered
    def schema(self) -> str:
        """Return the columns as Spark's JSON."""
        return str(spark_schema(in_spark(self.columns)).json())

    @answered
    def size(self) -> int:
        """Return the bytes by which Spark chooses joins."""
        return SIZE

    @answered
    def frame(
        self, session: "JavaObject", columns: "JavaArray", filters: "JavaArray"
    ) -> "JavaObject":
        """Return a DataFrame of columns; Spark itself filters."""
        del filters
        kinds = spark_schema(in_spark(self.columns))
        rows = near(self.rows, to_arrow_schema(kinds, timezone="UTC"), self.time_column)
        made = session_of(self.context, session).createDataFrame(rows, kinds)
        return java_of(made.select([f"`{name}`" for name in columns]))

    @answered
    def insert(self, rows: "JavaObject", overwrite: bool) -> None:  # noqa: FBT001
        """Refuse rows: a batch is what was read.

        Raises:
            InvalidInput: always.
        """
        del rows, overwrite
        raise InvalidInput("a batch of a stream takes no rows: write to the table")
