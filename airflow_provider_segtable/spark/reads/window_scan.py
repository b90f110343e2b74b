"""Windows and origins in Spark: rows added since a version, change feeds, and the origin of rows.

1. The driver finds the parts of the window, as ``Table`` does (``table.reads.scan``): descriptors,
   row filters, and the change or the origins of each part's rows. Tasks read them by pyarrow.
2. Parts are read so, and not by Spark's own reader, because each has its own choice of rows, and in
   a change feed its own constants: a plan with a branch for each event would not be practical.
3. Of a table with a primary key, tasks merge the files of each bucket (``keyed_scan``). The pieces
   of its change feed are one for each bucket and stretch of events (``data.keyed.feed_pieces``).
4. A condition that only Spark evaluates is applied to all rows of the window. Filters that Spark
   pushes down leave out files by their event times.
"""

from collections.abc import Sequence
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StructType

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.reads.effects import ORIGIN_COLUMNS
from airflow_provider_segtable.core.requests.read_request import ReadRequest
from airflow_provider_segtable.core.time import ALL_TIME
from airflow_provider_segtable.data.conditions import Condition
from airflow_provider_segtable.data.parquet.table_file import stored_columns
from airflow_provider_segtable.spark.driver.spark_errors import translated
from airflow_provider_segtable.spark.reads.keyed_scan import dealt, merged_rows
from airflow_provider_segtable.spark.reads.spark_predicates import means_the_same
from airflow_provider_segtable.spark.reads.spark_schemas import readable, spark_schema
from airflow_provider_segtable.spark.reads.spark_times import column
from airflow_provider_segtable.spark.tasks.feed_reading import FeedTask
from airflow_provider_segtable.spark.tasks.window_reading import Piece, WindowTask
from airflow_provider_segtable.storage.table_paths import absolute
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.scan import Scan
from airflow_provider_segtable.table.snapshot import Snapshot
from airflow_provider_segtable.table.upsert import merge_rules
from airflow_provider_segtable.table.windows import KeyedFeed, start_read


def shows_origin(request: ReadRequest, known: Sequence[str]) -> bool:
    """Return whether a request names a hidden column of the origin of rows."""
    return any(name in ORIGIN_COLUMNS and name not in known for name in request.columns or ())


def narrowed(request: ReadRequest, pushed: Condition | None) -> ReadRequest:
    """Return the request without event times at which ``pushed`` cannot hold."""
    possible = pushed and pushed.interval
    inside = possible and (request.interval or ALL_TIME).clip(possible)
    return replace(request, interval=inside) if inside else request


def window_scan(
    spark: SparkSession, ports: TableContext, state: State, request: ReadRequest
) -> DataFrame:
    """Return the rows of a window that ends with a version, or of the version if there is no start.

    Raises:
        WindowExpired: the window's start is no longer kept.
        SchemaMismatch: a column does not exist, or Spark cannot hold its type.
        InvalidInput: the condition is not SQL, or this kind of table has no windows.
    """
    if request.where is not None and not isinstance(request.where, str):
        raise InvalidInput(f"{request.where} is not text: Spark needs the condition in SQL")
    start = start_read(ports.log, request, state)
    counted = (state.table.time_column,) if request.columns == () else request.columns
    everything = replace(request, columns=counted, where=None)  # without a column, no row counts
    asked = Scan(ports=ports, state=state, request=everything, start=start)
    frame = _read(spark, _narrowed(spark, asked, request))
    if request.where is not None:
        with translated("looking for the rows to read"):
            frame = frame.where(request.where)
    names = () if request.columns == () else asked.schema.names
    return frame.select([column(frame, name) for name in names])


def _narrowed(spark: SparkSession, asked: Scan, request: ReadRequest) -> Scan:
    """Return the scan of all columns that the condition needs; by itself it filters nothing."""
    if request.where is None:
        return asked
    every = replace(asked, request=replace(request, columns=None, where=None))
    try:
        known = replace(asked, request=replace(request, columns=None))
    except InvalidInput:  # only Spark reads the condition
        return every
    if known.where and not means_the_same(spark, known.where, every.schema):
        return every
    tested = known.where.columns if known.where else ()
    names = tuple(dict.fromkeys([*asked.schema.names, *tested]))
    return replace(known, request=replace(request, columns=names))


def _read(spark: SparkSession, scan: Scan) -> DataFrame:
    """Return the rows of the scan's parts, in its columns."""
    kinds = spark_schema(readable(scan.schema))
    if scan.state.table.kind.rules is not None:
        return _of_keys(spark, scan, kinds)
    pieces = [
        Piece(
            segment=part.segment,
            row_filter=part.row_filter,
            clip=part.clip,
            change=part.change,
            origins=part.origins,
        )
        for part in scan.parts()
    ]
    if not pieces:
        return spark.createDataFrame([], kinds)
    task = WindowTask(
        uri=absolute(scan.ports.uri),
        storage_options=scan.ports.storage_options,
        pieces=spark.sparkContext.broadcast(pieces),
        schema=stored_columns(scan.state.table.schema),
        columns=tuple(scan.schema.names),
        target=to_arrow_schema(kinds, timezone="UTC"),
        time_column=scan.state.table.time_column,
        checked=scan.request.checked,
    )
    tasks = min(len(pieces), spark.sparkContext.defaultParallelism * 4)
    return spark.range(0, len(pieces), 1, tasks).mapInArrow(task.run, kinds)


def _of_keys(spark: SparkSession, scan: Scan, kinds: StructType) -> DataFrame:
    """Return the rows or changes of a window of a primary-key table."""
    if scan.request.changes and scan.start is not None:
        return _changes_of_keys(spark, scan, scan.start, kinds)
    snapshot = Snapshot(ports=scan.ports, state=scan.state, checked=scan.request.checked)
    groups = scan.groups(merge_rules(scan.state, scan.ports.uri)).left
    tests = () if scan.where is None else scan.where.predicates
    names = scan.schema.names or [scan.state.table.time_column]  # to count rows
    return merged_rows(spark, snapshot, names, groups, tests, start=scan.start)


def _changes_of_keys(spark: SparkSession, scan: Scan, start: State, kinds: StructType) -> DataFrame:
    """Return the changes of a window of a primary-key table."""
    feed = KeyedFeed(scan.ports.log)
    pieces = [piece for some in feed.pieces(start, scan.state) for piece in some]
    if not pieces:
        return spark.createDataFrame([], kinds)
    tasks = min(len(pieces), spark.sparkContext.defaultParallelism * 4)
    task = FeedTask(
        uri=absolute(scan.ports.uri),
        storage_options=scan.ports.storage_options,
        table=scan.state.table,
        pieces=spark.sparkContext.broadcast(dealt(pieces, tasks)),
        rules=merge_rules(scan.state, scan.ports.uri),
        interval=scan.request.interval,
        target=to_arrow_schema(kinds, timezone="UTC"),
        checked=scan.request.checked,
    )
    return spark.range(0, len(pieces), 1, tasks).mapInArrow(task.run, kinds)
