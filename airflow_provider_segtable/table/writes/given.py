"""Rows as a user gives them: appended, or upserted if the table has a primary key.

Columns may be left out of rows to upsert where records fill each other (``partial_update``) or
delete their key. Otherwise the check decides: a missing column would be set to null.
"""

import pyarrow as pa

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log.state import LoadPart, State
from airflow_provider_segtable.data.arrow.given_rows import Rows, arrow_table
from airflow_provider_segtable.data.jobs.row_checks import check_rows
from airflow_provider_segtable.data.table_kinds.arrow_kinds import arrow_kind_of
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.lifetime.definition import given_schema
from airflow_provider_segtable.table.writes.append import (
    AppendResult,
    append,
    made_before,
    nothing_appended,
)
from airflow_provider_segtable.table.writes.incoming import Check, check_filled, incoming
from airflow_provider_segtable.table.writes.upsert import records_of, upsert_rows


def append_rows(
    ports: TableContext,
    rows: Rows,
    *,
    commit_id: str | None = None,
    check: Check = check_rows,
    deleted: str | None = None,
    load: LoadPart | None = None,
) -> AppendResult:
    """Append or upsert rows as a user gives them; see ``Table.append`` and ``Table.upsert``.

    Args:
        ports: the table's ports; a table with a primary key needs no coordinator.
        rows: the rows.
        commit_id: equal ids append once.
        check: compares the rows with the columns.
        deleted: the column that says which rows delete their key.
        load: the part of a load that they are.

    Raises:
        InvalidInput: ``deleted`` is given, and the table has no primary key.
    """
    state = ports.log.load()
    if commit_id and commit_id in state.commits:  # the columns may have changed since
        return made_before(ports.log, state, commit_id)
    rules = state.table.kind.rules
    if rules is not None:
        fitting = check_for(state, deleted, check)
        return upsert_rows(
            ports, rows, deleted=deleted, commit_id=commit_id, check=fitting, load=load
        )
    if deleted is not None:
        raise InvalidInput(
            f"column {deleted!r} is to delete keys, but {ports.uri} has no primary key: delete the "
            "rows by a condition, or by a file of rows that are equal"
        )
    schema, time_column = given_schema(state.table), state.table.time_column
    checked = check(arrow_table(rows), schema, time_column)
    if not checked.num_rows:
        return nothing_appended(state)
    stored = arrow_kind_of(state.table.kind).prepared(checked, time_column)
    name = commit_id or ports.randomness.token()
    return append(ports, incoming(ports, stored, state), commit_id=name, state=state, load=load)


def check_for(state: State, deleted: str | None, check: Check) -> Check:
    """Return the check of rows: another one where columns may be left out."""
    rules = state.table.kind.rules
    some = rules is not None and (rules.partial or deleted is not None)
    return check_filled if some else check


def flagged_rows(rows: Rows, state: State, deleted: str | None, check: Check) -> pa.Table:
    """Return rows to upsert, checked and with all columns, and with the column ``deleted``."""
    records = records_of(rows, state, deleted, check=check_for(state, deleted, check))
    if deleted is None:
        return records.rows
    return records.rows.append_column(deleted, pa.array(records.deleted))
