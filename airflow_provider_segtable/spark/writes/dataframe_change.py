"""Delete, update and merge rows of any size and by any expression, with Spark.

1. These functions make a change request; ``table.changes.run_change`` carries it out with
   ``spark_engine``.
2. Expressions are Spark SQL. They may name the table's columns bare or as ``target.column``,
   columns of a merge's source as ``source.column``, and the session's temporary views in
   sub-queries.
3. A rollup table only supports deletes by a condition over dimensions and time. The log stores it
   as a predicate delete, parsed by ``data.sql.sql_predicates`` (no sub-queries).
"""

from collections.abc import Callable, Mapping, Sequence

from pyspark.sql import DataFrame, SparkSession

from airflow_provider_segtable.core.requests.change_request import (
    ChangeRequest,
    Delete,
    FileRows,
    GivenRows,
    Matched,
    Merge,
    Sql,
    Unmatched,
    Update,
    action,
    with_rows,
)
from airflow_provider_segtable.spark.writes.spark_engine import SparkEngine, spark_rows
from airflow_provider_segtable.table.changes.row_change import ChangeResult
from airflow_provider_segtable.table.changes.run_change import WAIT_S, run_change
from airflow_provider_segtable.table.context import TableContext


def change(
    spark: SparkSession,
    ports: TableContext,
    request: ChangeRequest,
    read: Callable[[FileRows], DataFrame],
    *,
    wait_s: float = WAIT_S,
) -> ChangeResult:
    """Carry out a change request, with the rows of its file, if it names one.

    Args:
        spark: the session.
        ports: the table's ports.
        request: the change.
        read: reads a file.
        wait_s: seconds to wait for the coordinator, if it is needed.

    Raises:
        InvalidInput: the request does not fit this table.
        ExecutionFailed, ChangeConflict, LockLost, CommitUnknown: as ``update``.
    """

    def given(file: FileRows) -> GivenRows:
        return spark_rows(read(file))

    return run_change(ports, with_rows(request, given), SparkEngine(spark), wait_s=wait_s)


def delete(
    spark: SparkSession,
    ports: TableContext,
    where: str | None = None,
    *,
    matches: DataFrame | None = None,
    addresses: DataFrame | None = None,
    commit_id: str | None = None,
    wait_s: float = WAIT_S,
    dry_run: bool = False,
) -> ChangeResult:
    """Delete rows in one atomic event, without a lock and without waiting for other writers.

    Args:
        spark: the session.
        ports: the table's ports.
        where: a condition on the rows; ``"true"`` selects all.
        matches: selects rows that equal one of these in all columns of ``matches``; null equals
            null. With ``where``, both must hold.
        addresses: row addresses from ``scan(addressed=True)`` of any snapshot. Addresses without a
            row now are ignored. Not to be combined with the others.
        commit_id: equal ids delete once; a fresh one by default.
        wait_s: seconds to wait for the coordinator, if it is needed.
        dry_run: only count.

    Raises:
        InvalidInput: the selection does not fit this table.
        ExecutionFailed: Spark failed; nothing was committed.
        ChangeConflict, CommitUnknown: see ``table.changes.row_change``.
    """
    wanted = Delete(
        where=where,
        rows=_given(matches),
        addresses=_given(addresses),
        commit_id=commit_id,
        dry_run=dry_run,
    )
    return run_change(ports, wanted, SparkEngine(spark), wait_s=wait_s)


def update(
    spark: SparkSession,
    ports: TableContext,
    set: Mapping[str, str | Sql],  # noqa: A002  # SQL's word
    where: str | None = None,
    *,
    matches: DataFrame | None = None,
    commit_id: str | None = None,
    wait_s: float = WAIT_S,
    dry_run: bool = False,
) -> ChangeResult:
    """Update rows: delete the old ones and append the new ones, in one atomic event.

    Args:
        spark: the session.
        ports: the table's ports.
        set: by column, an expression over the old row.
        where: selects the rows, as for ``delete``.
        matches: selects the rows, as for ``delete``.
        commit_id: equal ids update once; a fresh one by default.
        wait_s: seconds to wait for the coordinator.
        dry_run: only count.

    Raises:
        InvalidInput: a column is missing or cannot be set so, or the table rolls up.
        ExecutionFailed: Spark failed, or a value does not fit its column; nothing was committed.
        ChangeConflict, LockLost, CommitUnknown: see ``table.changes.row_change``.
    """
    wanted = Update(
        set=_sql(set),
        where=where,
        rows=_given(matches),
        commit_id=commit_id,
        dry_run=dry_run,
    )
    return run_change(ports, wanted, SparkEngine(spark), wait_s=wait_s)


def merge(  # noqa: PLR0913 - a merge's arguments, and those of every change
    spark: SparkSession,
    ports: TableContext,
    source: DataFrame,
    on: Sequence[str] | str,
    *,
    matched: str = "update",
    unmatched: str = "insert",
    set: Mapping[str, str | Sql] | None = None,  # noqa: A002  # SQL's word
    commit_id: str | None = None,
    wait_s: float = WAIT_S,
    dry_run: bool = False,
) -> ChangeResult:
    """Merge source rows into the table by key, in one atomic event.

    Args:
        spark: the session.
        ports: the table's ports.
        source: the source rows; evaluated once.
        on: columns of both (null equals nothing), or a condition over ``target.*`` and
            ``source.*``.
        matched: ``"update"`` sets the table row to the source's other columns, or by ``set``;
            ``"delete"`` deletes it; ``"ignore"`` keeps it.
        unmatched: ``"insert"`` appends the source row (columns that the source lacks have their
            default, or null); ``"ignore"`` does not. Two concurrent merges may both insert a key.
        set: by column, an expression over ``target.*`` and ``source.*``; other columns stay.
        commit_id: equal ids merge once; a fresh one by default.
        wait_s: seconds to wait for the coordinator.
        dry_run: only count the rows that would be deleted and inserted.

    Raises:
        InvalidInput: the columns do not fit, or several source rows match one table row.
        ExecutionFailed, ChangeConflict, LockLost, CommitUnknown: as ``update``.
    """
    wanted = Merge(
        source=spark_rows(source),
        on=Sql(on) if isinstance(on, str) else tuple(on),
        matched=action(Matched, matched),
        unmatched=action(Unmatched, unmatched),
        set=None if set is None else _sql(set),
        commit_id=commit_id,
        dry_run=dry_run,
    )
    return run_change(ports, wanted, SparkEngine(spark), wait_s=wait_s)


def _given(rows: DataFrame | None) -> GivenRows | None:
    return None if rows is None else spark_rows(rows)


def _sql(given: Mapping[str, str | Sql]) -> dict[str, Sql]:
    return {name: Sql(str(text)) for name, text in given.items()}
