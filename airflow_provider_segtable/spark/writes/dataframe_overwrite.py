"""Overwrite rows of an interval, of chunks or of a condition by a DataFrame, in one event."""

from pyspark.sql import DataFrame

from airflow_provider_segtable.core.requests.overwrite import Extent, Overwrite, extent_of
from airflow_provider_segtable.data.arrow_schema import to_arrow
from airflow_provider_segtable.spark.reads.spark_schemas import check_columns
from airflow_provider_segtable.spark.table_kinds.spark_kinds import spark_kind_of
from airflow_provider_segtable.spark.writes.dataframe_ingest import Sizing
from airflow_provider_segtable.spark.writes.new_spark_rows import new_spark_rows
from airflow_provider_segtable.spark.writes.spark_engine import SparkEngine
from airflow_provider_segtable.table.changes.row_change import ChangeResult, landed_before
from airflow_provider_segtable.table.changes.run_change import WAIT_S, run_overwrite
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.definition import given_schema


def overwrite(
    ports: TableContext,
    df: DataFrame,
    *,
    interval: Extent | str | None = None,
    where: str | None = None,
    commit_id: str | None = None,
    sizing: Sizing | None = None,
    wait_s: float = WAIT_S,
    dry_run: bool = False,
) -> ChangeResult:
    """Replace rows by those of a DataFrame; without rows, delete.

    Args:
        ports: the table's ports.
        df: the new rows, as for ``ingest``; each must be among those that are replaced.
        interval: replace the rows with event times in it; ``"chunks"`` means the time chunks that
            the new rows touch, as Spark's dynamic overwrite of partitions.
        where: instead, replace the rows that match a condition in SQL.
        commit_id: equal ids overwrite once, another one replaces again; random by default.
        sizing: the target size of segments; the table's policy by default.
        wait_s: how long to wait for the coordinator, in seconds.
        dry_run: only count.

    Raises:
        SchemaMismatch, TimeOutOfRange, InvalidInput: rows do not fit; nothing was written.
        RowsOutOfBalance, ExecutionFailed: as ``ingest``.
        ChangeConflict, LockLost, CommitUnknown: see ``table.changes.row_change``.
    """
    request = Overwrite(
        extent=extent_of(interval), where=where, commit_id=commit_id, dry_run=dry_run
    )
    state = ports.log.load()
    before = landed_before(ports.log, commit_id, state)
    if before is not None:
        return before
    table = state.table
    rows = check_columns(df, given_schema(table), table.time_column)
    shown = to_arrow(table.schema)
    with spark_kind_of(table.kind).incoming(rows, shown, table.time_column) as coming:
        new = new_spark_rows(coming, state, sizing or Sizing())
        return run_overwrite(ports, request, new, SparkEngine(df.sparkSession), wait_s=wait_s)
