"""The records of a change of a primary-key table, evaluated with Spark.

1. Matches are evaluated once and kept (a local checkpoint), so counts and records are of the same
   evaluation, also if records are written again for other buckets.
2. A frame of records has the table's columns, whether each deletes its key (``DELETED``), and exact
   copies of columns that Spark cannot hold (``tasks.exact_columns``).
3. Spark finds a null that would set nothing as it computes it: the change then fails.
"""

from collections.abc import Collection, Mapping, Sequence

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812  # as Spark's own guide writes it

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.requests.change_request import Delete, Update
from airflow_provider_segtable.core.tables.keyed_kind import lost_null, unset
from airflow_provider_segtable.core.tables.merge_rules import MergeRules
from airflow_provider_segtable.spark.driver.spark_errors import translated
from airflow_provider_segtable.spark.reads.spark_times import column
from airflow_provider_segtable.spark.tasks.exact_columns import PREFIX
from airflow_provider_segtable.spark.writes.assignments import assigned, carried, expression
from airflow_provider_segtable.spark.writes.keyed.dataframe_upsert import (
    SparkRecords,
    commit_records,
)
from airflow_provider_segtable.table.append import AppendResult
from airflow_provider_segtable.table.changes.row_change import Recorded
from airflow_provider_segtable.table.definition import given_schema
from airflow_provider_segtable.table.snapshot import Snapshot
from airflow_provider_segtable.table.upsert import merge_rules

DELETED = "__segtable_deleted"


def changed_records(
    snapshot: Snapshot, request: Delete | Update, rows: DataFrame, exactly: Sequence[str]
) -> Recorded[DataFrame]:
    """Return the records of a delete or an update.

    Args:
        snapshot: the version.
        request: the change.
        rows: the rows that match, with copies of the columns ``exactly``.
        exactly: what ``copied_columns`` says.

    Raises:
        InvalidInput, SchemaMismatch: a value does not fit its column.
        ExecutionFailed: Spark failed, or a value is null where a null sets nothing.
    """
    gone = isinstance(request, Delete)
    given = {} if isinstance(request, Delete) else request.set
    values = {name: expression(name, value) for name, value in given.items()}
    with translated("looking for the rows to change"):
        olds = {name: column(rows, name) for name in snapshot.schema.names}
        fresh = olds if gone else set_columns(olds, values, values, rules_of(snapshot))
        copies = (column(rows, PREFIX + name) for name in exactly)
        new = assigned(rows, fresh, snapshot.schema)
        kept = rows.select(*new, *copies, F.lit(gone).alias(DELETED)).localCheckpoint()
        count = kept.count()
    return Recorded(
        matched=count,
        deleted=count,
        inserted=0 if gone else count,
        new=kept if count else None,
    )


def copied_columns(
    snapshot: Snapshot, given: Collection[str], *, whole: bool = False
) -> tuple[str, ...]:
    """Return the columns of which records have exact copies.

    Args:
        snapshot: the version.
        given: the columns that are set.
        whole: whether records are whole rows: tombstones.
    """
    names = snapshot.schema.names
    bare = () if whole else unset(rules_of(snapshot), names, given)
    return carried(snapshot.schema, {*given, *bare})


def rules_of(snapshot: Snapshot) -> MergeRules:
    """Return how the records of a key become its row."""
    return merge_rules(snapshot.state, snapshot.ports.uri)


def set_columns(
    olds: Mapping[str, Column],
    values: Mapping[str, Column],
    explicit: Collection[str],
    rules: MergeRules,
) -> dict[str, Column]:
    """Return the columns of records that set some columns of rows.

    Args:
        olds: the columns of the rows.
        values: the new values.
        explicit: those that are given one by one, whose nulls are refused where they set nothing.
        rules: the table's rules.
    """
    bare, singles = {*unset(rules, olds, values)}, {*rules.singles(olds)}
    found = {}
    for name, old in olds.items():
        value = values.get(name, F.lit(None) if name in bare else old)
        if name in explicit and name in singles:
            lost = F.raise_error(F.lit(lost_null(name, "a row")))
            value = F.when(value.isNull() & old.isNotNull(), lost).otherwise(value)
        found[name] = value
    return found


def upsert_records(snapshot: Snapshot, records: DataFrame, commit_id: str) -> AppendResult:
    """Commit a frame of records in one event; the snapshot is the version it was made from.

    Raises:
        InvalidInput: there are no records, or a key is null.
        ExecutionFailed, CommitConflict, CommitUnknown: see ``dataframe_upsert``.
    """
    state = snapshot.state
    given = SparkRecords(
        values=records,
        flags=F.col(DELETED),
        schema=given_schema(state.table),
        deleted=DELETED,
    )
    done = commit_records(
        snapshot.ports, given, rules_of(snapshot), commit_id=commit_id, state=state
    )
    if done is None:
        raise InvalidInput(f"there are no records to write to {snapshot.ports.uri}")
    return done
