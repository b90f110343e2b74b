"""The Arrow row engine: evaluates changes in this process.

1. It reads simple SQL (``data.sql``) and Arrow expressions, as conditions and as new values, which
   may be plain values, too.
2. Rows to match and sources are Arrow tables in memory; so are the changed rows, in full. The
   table itself is read batch by batch.
3. ``check_sql`` refuses what only Spark can evaluate, so that a caller may choose the engine first.
"""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from airflow_provider_segtable.core.errors import NeedsSpark
from airflow_provider_segtable.core.requests.change_request import (
    ChangeRequest,
    Delete,
    GivenRows,
    Merge,
    RowsToMatch,
    Update,
    Where,
    held,
)
from airflow_provider_segtable.data.arrow.conditions import Condition
from airflow_provider_segtable.data.arrow.equality import Keys
from airflow_provider_segtable.data.arrow.given_rows import arrow_table
from airflow_provider_segtable.data.arrow.where import condition
from airflow_provider_segtable.data.jobs.row_checks import check_rows
from airflow_provider_segtable.data.keyed.log_files import Records
from airflow_provider_segtable.table.changes.keyed.arrow_records import (
    changed_records,
    merged_records,
)
from airflow_provider_segtable.table.changes.matching import (
    found,
    given_addresses,
    given_columns,
    in_full,
    present,
    when,
)
from airflow_provider_segtable.table.changes.merge_rows import check_set, merged, source_columns
from airflow_provider_segtable.table.changes.row_engine import Recorded, Selected
from airflow_provider_segtable.table.changes.updating import assigned, new_values
from airflow_provider_segtable.table.reads.snapshot import Snapshot
from airflow_provider_segtable.table.writes.append import AppendResult, Prepare
from airflow_provider_segtable.table.writes.incoming import incoming
from airflow_provider_segtable.table.writes.upsert import upsert


def arrow_rows(given: Any) -> GivenRows:
    """Return rows that speak Arrow as rows of a request.

    Raises:
        InvalidInput: they do not speak Arrow.
    """
    rows = arrow_table(given)
    return GivenRows(rows=rows, columns=tuple(rows.column_names), count=rows.num_rows)


class ArrowEngine:
    """Evaluates changes with Arrow; it keeps no state."""

    def select(
        self, snapshot: Snapshot, request: Delete | Update, *, addressed: bool
    ) -> Selected[pa.Table]:
        """Return the rows that a delete or update selects, and their new values."""
        check_together(request)
        if isinstance(request, Delete) and request.addresses is not None:
            named = present(snapshot, given_addresses(request.addresses.rows))
            return Selected(rows=named, matched=sum(map(len, named.values())))
        wanted = condition_of(request, snapshot)
        if not addressed:
            return Selected(matched=_counted(snapshot, wanted))
        rows = found(snapshot, wanted)
        matched = sum(map(len, rows.values()))
        if isinstance(request, Delete):
            return Selected(rows=rows, matched=matched)
        values = new_values(request.set, snapshot.schema)
        if not matched:
            assigned(snapshot.schema.empty_table(), values)  # check the values, too
            return Selected(matched=0)
        new = assigned(in_full(snapshot, rows), values)
        return _selected(snapshot, rows, matched, new)

    def condition(self, snapshot: Snapshot, where: Where) -> Condition:
        """Return the condition."""
        return condition(where, snapshot.schema, snapshot.state.table.time_column)

    def join(self, snapshot: Snapshot, request: Merge) -> Selected[pa.Table]:
        """Return the rows that a merge deletes and appends."""
        check_together(request)
        source = source_columns(held(request.source).rows, snapshot.schema, request)
        rows, matched, new = merged(snapshot, request, source)
        return _selected(snapshot, rows, matched, new)

    def write(self, snapshot: Snapshot, new: pa.Table) -> Prepare:
        """Return the step of an append that splits rows by time chunk and writes them."""
        return incoming(snapshot.ports, new, snapshot.state)

    def records(self, snapshot: Snapshot, request: ChangeRequest) -> Recorded[Records]:
        """Return the records that carry out a change of a primary-key table."""
        check_together(request)
        if isinstance(request, Merge):
            source = source_columns(held(request.source).rows, snapshot.schema, request)
            return merged_records(snapshot, request, source)
        if isinstance(request, Delete) and request.addresses is not None:
            snapshot.state.table.kind.check_addresses(snapshot.ports.uri)
        return changed_records(snapshot, request, condition_of(request, snapshot))

    def upsert(self, snapshot: Snapshot, records: Records, commit_id: str) -> AppendResult:
        """Commit records in one event."""
        return upsert(snapshot.ports, records, commit_id=commit_id, state=snapshot.state)


def check_together(request: ChangeRequest) -> None:
    """Refuse combinations that only Spark can evaluate.

    Raises:
        InvalidInput: rows beside a condition or new values, or a merge by a condition, which join
            two tables.
    """
    if isinstance(request, Merge):
        if not request.keys:
            raise NeedsSpark("a source beside a condition as --on joins two tables: use Spark")
    elif request.rows is not None and (isinstance(request, Update) or request.where is not None):
        beside = "--set" if isinstance(request, Update) else "--where"
        raise NeedsSpark(
            f"2 of where, rows and set are given: rows beside {beside} join two tables: use Spark "
            "for this, or give one of them"
        )


def check_sql(request: ChangeRequest, schema: pa.Schema, source: pa.Schema | None = None) -> None:
    """Refuse a request that only Spark can evaluate; its rows need not be read yet.

    Args:
        request: the change.
        schema: the table's columns.
        source: the columns of a merge's source.

    Raises:
        SchemaMismatch: there is no such column, for Spark neither.
        NeedsSpark: only Spark can evaluate it.
        InvalidInput: no engine can.
    """
    check_together(request)
    if isinstance(request, Merge):
        check_set(request, schema, source)
        return
    if request.where is not None:
        condition(request.where, schema, "")
    if isinstance(request, Update):
        assigned(schema.empty_table(), new_values(request.set, schema))


def condition_of(request: Delete | Update, snapshot: Snapshot) -> Condition:
    """Return the condition by which a request selects rows."""
    schema, time_column = snapshot.schema, snapshot.state.table.time_column
    if request.rows is None:
        return condition(request.where, schema, time_column)
    return equal_to(request.rows, request.on, schema, time_column)


def equal_to(
    given: RowsToMatch, on: tuple[str, ...], schema: pa.Schema, time_column: str
) -> Condition:
    """Return the condition that a row equals one of these in the columns ``on``, or in all.

    Raises:
        SchemaMismatch: the rows do not fit the table's columns.
    """
    rows: pa.Table = held(given).rows
    rows = given_columns(rows.select(list(on)) if on else rows, schema)
    keys = Keys.of(rows, rows.column_names, nulls=True)

    def keep(batch: pa.RecordBatch) -> pa.RecordBatch:
        return batch.filter(pa.array(keys.find(batch) >= 0))

    return Condition(columns=keys.columns, keep=keep, when=when(rows, time_column))


def _counted(snapshot: Snapshot, wanted: Condition) -> int:
    return snapshot.scan(where=wanted).count()


def _selected(
    snapshot: Snapshot, rows: Mapping[Any, Any], matched: int, new: pa.Table
) -> Selected[pa.Table]:
    checked = check_rows(new, snapshot.schema, snapshot.state.table.time_column)
    some = checked.num_rows
    return Selected(rows=rows, matched=matched, new=checked if some else None, count=lambda: some)
