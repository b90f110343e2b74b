"""Changes of a primary-key table: the rows that match are written again, as records of their keys.

1. A delete writes a tombstone for each key that matches, an update the row with its new values.
   Both have the ordering value of the row that they saw, and a later instant: so they win over that
   row, and lose against a row with a higher ordering value, whenever it arrives.
2. Nothing is locked, and no change ever conflicts with another.
3. If the version that is read expires meanwhile, the newest one is read instead.
4. The engine is Arrow: conditions and values that only Spark evaluates are refused.
"""

import numpy as np
import pyarrow as pa

from airflow_provider_segtable.core.errors import InvalidInput, NotFound
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.requests.change_request import (
    ChangeRequest,
    Delete,
    Merge,
    Update,
    check_fits,
)
from airflow_provider_segtable.data.keyed.log_files import Records
from airflow_provider_segtable.data.merge.key_groups import Flags
from airflow_provider_segtable.table.changes.arrow_engine import check_together, condition_of
from airflow_provider_segtable.table.changes.row_change import ChangeResult
from airflow_provider_segtable.table.changes.updating import assigned, new_values
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.reads.snapshot import Snapshot
from airflow_provider_segtable.table.writes.append import TRIES, made_before
from airflow_provider_segtable.table.writes.upsert import merge_rules, upsert


def change_keys(ports: TableContext, request: ChangeRequest, state: State) -> ChangeResult:
    """Carry out a delete or an update, or count its rows in a dry run.

    Args:
        ports: the table's ports; no coordinator is needed.
        request: the change.
        state: the newest version, whose rows are compared with the condition.

    Raises:
        InvalidInput: the change is a merge, or sets a column of the key or the event time.
        NeedsSpark: only Spark evaluates the condition or a value.
        CommitUnknown: run again with the same commit id.
    """
    state.table.kind.check_change(request, ports.uri)
    if isinstance(request, Merge):
        raise InvalidInput("a merge by key is an upsert")
    commit_id = request.commit_id or ports.randomness.token()
    if commit_id in state.commits:
        before = made_before(ports.log, state, commit_id)
        return _result(request, before.n, before.state, before.rows or 0)
    check_fits(request, state.table.schema, state.table.time_column)
    state, rows = _found(request, ports, state)
    if isinstance(request, Update):
        rows = _updated(rows, request, state, ports.uri)
    if request.dry_run or not rows.num_rows:
        return _result(request, None, state, rows.num_rows)
    deleted: Flags = np.full(rows.num_rows, isinstance(request, Delete))
    done = upsert(ports, Records(rows=rows, deleted=deleted), commit_id=commit_id, state=state)
    return _result(request, done.n, done.state, rows.num_rows)


def _found(request: Delete | Update, ports: TableContext, state: State) -> tuple[State, pa.Table]:
    """Return the rows that match, and the version that has them; the newest if one expires."""
    for _ in range(TRIES):
        try:
            return state, _matching(request, Snapshot(ports=ports, state=state))
        except NotFound:
            before, state = state, ports.log.refresh(state)
            if state.keeps(before.n):
                raise
    return state, _matching(request, Snapshot(ports=ports, state=state))


def _matching(request: Delete | Update, snapshot: Snapshot) -> pa.Table:
    check_together(request)
    if isinstance(request, Delete) and request.addresses is not None:
        snapshot.state.table.kind.check_addresses(snapshot.ports.uri)
    wanted = condition_of(request, snapshot)
    batches = (wanted.keep(batch) for batch in snapshot.batches(interval=wanted.interval))
    empty = wanted.interval is None
    return pa.Table.from_batches(() if empty else batches, snapshot.schema)


def _updated(rows: pa.Table, request: Update, state: State, uri: str) -> pa.Table:
    rules = merge_rules(state, uri)
    for name in request.set:
        if name in (*rules.key, state.table.time_column):
            raise InvalidInput(
                f"column {name!r} of {uri} decides where a row is kept, so it cannot be set: "
                "delete the row, and upsert it anew"
            )
    return assigned(rows, new_values(request.set, rows.schema))


def _result(request: Delete | Update, n: int | None, state: State, rows: int) -> ChangeResult:
    gone = isinstance(request, Delete)
    return ChangeResult(
        n=n,
        state=state,
        matched=rows,
        deleted=rows,
        inserted=0 if gone else rows,
        dry_run=request.dry_run,
    )
