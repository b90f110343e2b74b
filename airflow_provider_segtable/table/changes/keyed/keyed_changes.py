"""Changes of a primary-key table: the rows that match are written again, as records of their keys.

1. A delete writes a tombstone for each row that matches, an update the row with its new values.
   Both have the ordering value of the row that they saw, and a later instant: so they win over
   that row, and lose against a row with a higher ordering value, whenever it arrives.
2. A merge does the same to the rows whose keys the source has, and upserts source rows whose keys
   no row has. If the source has the ordering column, its values are those of the records: a source
   row that is older than the row of its key changes nothing.
3. Nothing is locked, and no change ever conflicts with another: of records that met no other, order
   decides. So two merges may both insert a key: it still has one row.
4. If the version that is read expires meanwhile, the newest one is read instead.
"""

from airflow_provider_segtable.core.errors import NotFound
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.requests.change_request import (
    ChangeRequest,
    Delete,
    Merge,
    check_fits,
)
from airflow_provider_segtable.table.changes.row_change import ChangeResult
from airflow_provider_segtable.table.changes.row_engine import KeyEngine, Rec, Recorded
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.reads.snapshot import Snapshot
from airflow_provider_segtable.table.writes.append import TRIES, made_before


def change_keys(
    ports: TableContext, request: ChangeRequest, state: State, engine: KeyEngine[Rec]
) -> ChangeResult:
    """Carry out a change, or count its rows in a dry run.

    Args:
        ports: the table's ports; no coordinator is needed.
        request: the change; its rows are read.
        state: the newest version, whose rows are compared with the condition.
        engine: evaluates the request, and writes the records.

    Raises:
        InvalidInput: the change sets a column of the key or the event time, or is a merge by other
            columns than the key; a merge is ambiguous.
        NeedsSpark: only Spark evaluates the condition or a value.
        CommitUnknown: run again with the same commit id.
    """
    state.table.kind.check_change(request, ports.uri)
    commit_id = request.commit_id or ports.randomness.token()
    if commit_id in state.commits:
        return _made_before(ports, request, state, commit_id)
    check_fits(request, state.table.schema, state.table.time_column)
    snapshot, found = _found(request, Snapshot(ports=ports, state=state), engine)
    if request.dry_run or found.new is None:
        return _result(found, None, snapshot.state, dry_run=request.dry_run)
    done = engine.upsert(snapshot, found.new, commit_id)
    return _result(found, done.n, done.state)


def _found(
    request: ChangeRequest, snapshot: Snapshot, engine: KeyEngine[Rec]
) -> tuple[Snapshot, Recorded[Rec]]:
    """Return the records of a change, and the version that it read; the newest if one expires."""
    ports = snapshot.ports
    for _ in range(TRIES):
        try:
            return snapshot, engine.records(snapshot, request)
        except NotFound:
            before = snapshot.state
            snapshot = Snapshot(ports=ports, state=ports.log.refresh(before))
            if snapshot.state.keeps(before.n):
                raise
    return snapshot, engine.records(snapshot, request)


def _made_before(
    ports: TableContext, request: ChangeRequest, state: State, commit_id: str
) -> ChangeResult:
    """Return the result of a change whose commit id is known: its event has the records alone."""
    before = made_before(ports.log, state, commit_id)
    rows = before.rows or 0
    return ChangeResult(
        n=before.n,
        state=before.state,
        matched=rows,
        deleted=None if isinstance(request, Merge) else rows,
        inserted=0 if isinstance(request, Delete) else rows,
    )


def _result(
    found: Recorded[Rec], n: int | None, state: State, *, dry_run: bool = False
) -> ChangeResult:
    return ChangeResult(
        n=n,
        state=state,
        matched=found.matched,
        deleted=found.deleted,
        inserted=found.inserted,
        dry_run=dry_run,
    )
