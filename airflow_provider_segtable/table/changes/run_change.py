"""Run of a change request on a table, with a row engine.

1. The engine evaluates the request on one snapshot: which rows match, and which are appended.
2. ``row_change`` writes deletion vectors and new segments, and commits them as one event.
3. A dry run stops after step 1. It counts, writes nothing, and needs no coordinator.
4. The table's kind decides which changes are possible, and how the log records deletes. Where rows
   have no addresses, a delete is a predicate, which the log keeps, and its rows are only counted.
   Where rows have keys, a change is an append of records (``keyed.keyed_changes``).
5. A statement sees one time: names for the present, such as ``now()``, become the time at which the
   request was made, in all of its expressions, in each try, and whichever engine reads them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar, assert_never, cast

from airflow_provider_segtable.core.requests.change_request import (
    ChangeRequest,
    Delete,
    Merge,
    Sql,
    Update,
    check_fits,
    held,
)
from airflow_provider_segtable.core.requests.overwrite import Overwrite
from airflow_provider_segtable.core.tables.table_kind import DeletionForm
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.data.arrow.where import timed
from airflow_provider_segtable.table.changes.keyed.keyed_changes import change_keys
from airflow_provider_segtable.table.changes.row_change import (
    ChangeResult,
    Find,
    Found,
    change,
)
from airflow_provider_segtable.table.changes.row_engine import Engine, New, Rec, RowEngine
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.reads.snapshot import Snapshot

WAIT_S = 60.0
Asked = TypeVar("Asked", bound=ChangeRequest | Overwrite)


def run_change(
    ports: TableContext,
    request: ChangeRequest,
    engine: Engine[New, Rec],
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
    state = ports.log.load()
    request = at_one_time(ports, request, state.table.schema.names)
    if state.table.kind.deletion is DeletionForm.TOMBSTONES:
        return change_keys(ports, request, state, engine)
    return carry_out(ports, request, partial(find_rows, request, engine), wait_s=wait_s)


def at_one_time(ports: TableContext, request: Asked, columns: Sequence[str]) -> Asked:
    """Return a request whose expressions have the present time in place of its names.

    Args:
        ports: the table's ports.
        request: the request; its rows are read.
        columns: those of the table.
    """
    at, given = ports.clock.now(), cast("ChangeRequest | Overwrite", request)
    if isinstance(given, Merge):
        known = (*columns, *held(given.source).columns)
        new = given.set and _set_at(given.set, at, known)
        return cast("Asked", replace(given, on=timed(given.on, at, known), set=new))
    where = timed(given.where, at, columns)
    if isinstance(given, Update):
        return cast("Asked", replace(given, where=where, set=_set_at(given.set, at, columns)))
    return cast("Asked", replace(given, where=where))


def _set_at(given: Mapping[str, Any], at: Instant, columns: Sequence[str]) -> dict[str, Any]:
    """Return new values at a time; a text that is not ``Sql`` is the value itself."""
    return {
        name: timed(value, at, columns) if isinstance(value, Sql) else value
        for name, value in given.items()
    }


def carry_out(
    ports: TableContext, request: ChangeRequest | Overwrite, find: Find, *, wait_s: float
) -> ChangeResult:
    """Commit what ``find`` finds, or count it in a dry run; errors as ``run_change``."""
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
    kind = snapshot.state.table.kind
    kind.check_change(request, snapshot.ports.uri)
    match kind.deletion:
        case DeletionForm.PREDICATE:
            return _by_predicate(cast("Delete", request), engine, snapshot)
        case DeletionForm.VECTORS:
            return _by_address(request, engine, snapshot)
        case DeletionForm.TOMBSTONES:
            raise AssertionError("changes of keys are appended (keyed_changes)")
        case _:
            assert_never(kind.deletion)


def _by_address(request: ChangeRequest, engine: RowEngine[New], snapshot: Snapshot) -> Found:
    table = snapshot.state.table
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


def _by_predicate(request: Delete, engine: RowEngine[New], snapshot: Snapshot) -> Found:
    """Return a delete whose condition is SQL, as the table's kind requires it."""
    from airflow_provider_segtable.data.sql.sql_predicates import parse_predicate  # slow to import

    table = snapshot.state.table
    predicate = parse_predicate(str(request.where), snapshot.schema)
    table.kind.check_predicate(predicate, table.time_column)
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
