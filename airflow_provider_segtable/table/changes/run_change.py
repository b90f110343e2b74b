"""Run of a change request on a table, with a row engine.

1. The engine evaluates the request on one snapshot: which rows match, and which are appended.
2. ``row_change`` writes deletion vectors and new segments, and commits them as one event.
3. A dry run stops after step 1. It counts, writes nothing, and needs no coordinator.
4. Rows of a rollup table have no addresses: there a delete is a predicate, which the log keeps
   (``erasing``), and its rows are only counted.
"""

from dataclasses import replace
from functools import partial
from typing import TypeVar

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.requests.change_request import (
    ChangeRequest,
    Delete,
    Merge,
    Update,
    check_fits,
)
from airflow_provider_segtable.core.tables.rollup_kind import Rollup
from airflow_provider_segtable.table.changes.erasing import rollup_predicate
from airflow_provider_segtable.table.changes.row_change import (
    ChangeResult,
    Find,
    Found,
    change,
)
from airflow_provider_segtable.table.changes.row_engine import RowEngine
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.snapshot import Snapshot

WAIT_S = 60.0
New = TypeVar("New")


def run_change(
    ports: TableContext,
    request: ChangeRequest,
    engine: RowEngine[New],
    *,
    wait_s: float = WAIT_S,
) -> ChangeResult:
    """Carry out a change in one event; of a dry run, only return its counts.

    Args:
        ports: the table's ports; without a coordinator only deletes and dry runs are possible.
        request: the change; its rows are read (``with_rows``).
        engine: evaluates the request.
        wait_s: how long to wait for the coordinator.

    Raises:
        InvalidInput: the request does not fit this table, or the engine cannot evaluate it.
        ChangeConflict, LockLost, CommitUnknown: as ``row_change.change``.
    """
    find = partial(find_rows, request, engine)
    if request.dry_run:
        return _tried(find, Snapshot(ports=ports, state=ports.log.load()))
    return change(
        ports,
        find,
        kind=request.kind,
        reason=str(request),
        commit_id=request.commit_id or ports.randomness.token(),
        wait_s=wait_s,
    )


def find_rows(request: ChangeRequest, engine: RowEngine[New], snapshot: Snapshot) -> Found:
    """Return the effect of a change on a snapshot."""
    table = snapshot.state.table
    if table.rollup is not None:
        return _of_rollup(request, engine, snapshot, table.rollup)
    check_fits(request, table.schema, table.time_column)
    if isinstance(request, Merge):
        selected = engine.join(snapshot, request)
    else:
        selected = engine.select(snapshot, request, addressed=True)
    return Found(
        rows=selected.rows,
        matched=selected.matched,
        prepare=None if selected.new is None else engine.write(snapshot, selected.new),
        count=selected.count,
    )


def _of_rollup(
    request: ChangeRequest, engine: RowEngine[New], snapshot: Snapshot, rollup: Rollup
) -> Found:
    uri = snapshot.ports.uri
    if not isinstance(request, Delete):
        raise InvalidInput(
            f"{uri} is a rollup table: its rows stand for many that are not kept, so they cannot "
            f"be {'updated' if isinstance(request, Update) else 'merged'}; delete by a condition "
            "over dimensions and time, and append"
        )
    if not isinstance(request.where, str) or request.rows is not None:
        raise InvalidInput(
            f"{uri} is a rollup table: its rows stand for many and have no address, so only a "
            "condition in SQL, over dimensions and time, can delete there"
        )
    predicate = rollup_predicate(snapshot, rollup, request.where)
    selected = engine.select(snapshot, replace(request, where=predicate), addressed=False)
    return Found(
        rows={}, matched=selected.matched, predicate=predicate if selected.matched else None
    )


def _tried(find: Find, snapshot: Snapshot) -> ChangeResult:
    """Return the counts of a change that is not made."""
    found = find(snapshot)
    return ChangeResult(
        n=None,
        state=snapshot.state,
        matched=found.matched,
        deleted=None if found.predicate else sum(map(len, found.rows.values())),
        inserted=found.count(),
        dry_run=True,
    )
