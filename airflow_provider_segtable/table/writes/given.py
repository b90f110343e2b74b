"""Rows as a user gives them: appended, or upserted if the table has a primary key."""

from collections.abc import Callable
from typing import TypeAlias

import pyarrow as pa

from airflow_provider_segtable.data.arrow.given_rows import Rows, arrow_table
from airflow_provider_segtable.data.jobs.segment_writer import check_rows
from airflow_provider_segtable.data.table_kinds.arrow_kinds import arrow_kind_of
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.lifetime.definition import given_schema
from airflow_provider_segtable.table.writes.append import AppendResult, append, made_before
from airflow_provider_segtable.table.writes.incoming import incoming
from airflow_provider_segtable.table.writes.upsert import upsert_rows

Check: TypeAlias = Callable[[pa.Table, pa.Schema, str], pa.Table]
"""Returns rows in the types of a schema with an event time, or refuses them."""


def append_rows(
    ports: TableContext, rows: Rows, *, commit_id: str | None = None, check: Check = check_rows
) -> AppendResult:
    """Append rows as a user gives them; arguments and errors as for ``Table.append``."""
    state = ports.log.load()
    if commit_id and commit_id in state.commits:  # the columns may have changed since
        return made_before(ports.log, state, commit_id)
    if state.table.kind.rules is not None:
        return upsert_rows(ports, rows, commit_id=commit_id)
    schema, time_column = given_schema(state.table), state.table.time_column
    checked = check(arrow_table(rows), schema, time_column)
    stored = arrow_kind_of(state.table.kind).prepared(checked, time_column)
    name = commit_id or ports.randomness.token()
    return append(ports, incoming(ports, stored, state), commit_id=name, state=state)
