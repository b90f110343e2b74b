"""Run a change request or an overwrite on a table, with a row engine.

Any change:

1. The engine evaluates the request on one snapshot: the matching rows, and the rows to append.
2. ``row_change`` writes deletion vectors and new segments, and commits them as one event.
3. A dry run stops after step 1. It counts, writes nothing, and needs no coordinator.
4. The table's kind decides which changes are possible, and how the log records deletes. Where rows
   have no addresses, the log keeps a delete as a predicate, and its rows are only counted.
   Where rows have keys, a change is an append of records (rules 6 to 9).
5. A statement sees one time. Names for the present, such as ``now()``, become the time at which the
   request was made, in all of its expressions, in each try, and with every engine.

Changes of a primary-key table write the matching rows again, as records of their keys:

6. A delete writes a tombstone for each matching row, an update the row with its new values. Both
   have the ordering value of the row that they saw, and a later instant. So they win over that row,
   and lose against a row with a higher ordering value, whenever it arrives.
7. A merge does the same to the rows with a source key, and upserts source rows with a new key. If
   the source has the ordering column, its values are those of the records: a source row that is
   older than the row of its key changes nothing.
8. Nothing is locked, and no change ever conflicts with another: between concurrent records, their
   order decides. So two merges may both insert a key: it still has one row.
9. If the version that is read expires meanwhile, the newest one is read instead.

Overwrites replace the rows of an interval by others, in one event:

10. The new rows are checked first: each must be among those that the overwrite replaces.
11. The rows to delete are those of one snapshot. Rows that others append later stay, as beside a
    compaction. Two overwrites of the same time notice each other, whether or not they delete rows
    (``core.log.state``): the later one runs again, and replaces the rows of the earlier one.
12. Where the log records the root addresses of a segment that lies in the interval, its rows are
    named by metadata, and its file is not opened. Of other segments the hidden columns are read.
13. In a rollup table the event has a predicate over the event time instead, and the new rows. It
    replaces all rows that are present at the event.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Protocol, TypeVar, assert_never, cast

from pyroaring import BitMap

from airflow_provider_segtable.core.errors import InvalidInput, NotFound
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.predicate import Predicate
from airflow_provider_segtable.core.requests.change_request import (
    WAIT_S,
    ChangeRequest,
    Delete,
    Merge,
    Sql,
    Update,
    check_fits,
    held,
)
from airflow_provider_segtable.core.requests.overwrite import Overwrite, Touched, within
from airflow_provider_segtable.core.segment import SegmentId
from airflow_provider_segtable.core.tables.table_kind import DeletionForm
from airflow_provider_segtable.core.time import ALL_TIME, Instant, Interval, Layout, joined
from airflow_provider_segtable.data.rows import is_date
from airflow_provider_segtable.data.where import timed
from airflow_provider_segtable.table.append import TRIES, Prepare, made_before
from airflow_provider_segtable.table.changes.row_change import (
    ChangeResult,
    Engine,
    Find,
    Found,
    KeyEngine,
    New,
    Rec,
    Recorded,
    RowEngine,
    change,
)
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.parts import addresses_among
from airflow_provider_segtable.table.snapshot import Snapshot


def change_keys(
    ports: TableContext, request: ChangeRequest, state: State, engine: KeyEngine[Rec]
) -> ChangeResult:
    """Carry out a change, or count its rows in a dry run.

    Args:
        ports: the table's ports; no coordinator is needed.
        request: the change; its rows are read.
        state: the newest version, which is read.
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
        return _earlier_result(ports, request, state, commit_id)
    check_fits(request, state.table.schema, state.table.time_column)
    snapshot, found = _records_found(request, Snapshot(ports=ports, state=state), engine)
    if request.dry_run or found.new is None:
        return _result(found, None, snapshot.state, dry_run=request.dry_run)
    done = engine.upsert(snapshot, found.new, commit_id)
    return _result(found, done.n, done.state)


def _records_found(
    request: ChangeRequest, snapshot: Snapshot, engine: KeyEngine[Rec]
) -> tuple[Snapshot, Recorded[Rec]]:
    """Return the version to read (a newer one if it expires), and the records of a change."""
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


def _earlier_result(
    ports: TableContext, request: ChangeRequest, state: State, commit_id: str
) -> ChangeResult:
    """Return the result of a change with a known commit id, whose event has only the records."""
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
    find = partial(find_rows, request, engine)
    return carry_out(ports, request, find, state, wait_s=wait_s)


def at_one_time(ports: TableContext, request: Asked, columns: Sequence[str]) -> Asked:
    """Return a request with the present time in place of its names in expressions.

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
    ports: TableContext,
    request: ChangeRequest | Overwrite,
    find: Find,
    state: State,
    *,
    wait_s: float,
) -> ChangeResult:
    """Commit the rows of ``find``, or count them in a dry run; errors as ``run_change``.

    ``state`` is the newest one.
    """
    if request.dry_run:
        return _dry_run_result(find, Snapshot(ports=ports, state=state))
    return change(
        ports,
        find,
        kind=request.kind,
        reason=str(request),
        commit_id=request.commit_id or ports.randomness.token(),
        wait_s=wait_s,
        state=state,
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
    """Return a delete by predicate, with its condition parsed as SQL."""
    from airflow_provider_segtable.data.sql.sql_conditions import parse_predicate  # slow to import

    table = snapshot.state.table
    predicate = parse_predicate(str(request.where), snapshot.schema)
    table.kind.check_predicate(predicate, table.time_column)
    selected = engine.select(snapshot, replace(request, where=predicate), addressed=False)
    return Found(
        rows={}, matched=selected.matched, predicate=predicate if selected.matched else None
    )


def _dry_run_result(find: Find, snapshot: Snapshot) -> ChangeResult:
    """Return the counts of a change without making it."""
    found = find(snapshot)
    return ChangeResult(
        n=None,
        state=snapshot.state,
        matched=found.matched,
        deleted=None if found.predicate else sum(map(len, found.rows.values())),
        inserted=found.count(),
        dry_run=True,
    )


class NewRows(Protocol):
    """The rows that an overwrite appends, in stored form."""

    @property
    def count(self) -> int:
        """Return their number."""
        ...

    def outside(self, snapshot: Snapshot, request: Overwrite) -> int:
        """Return the number of new rows outside of the overwritten ones."""
        ...

    def chunks(self, layout: Layout) -> Collection[Interval]:
        """Return the time chunks of the rows."""
        ...

    def prepare(self, snapshot: Snapshot) -> Prepare:
        """Return the step of an append that plans and writes the rows."""
        ...


def run_overwrite(
    ports: TableContext,
    request: Overwrite,
    new: NewRows,
    engine: RowEngine[New],
    *,
    wait_s: float = WAIT_S,
) -> ChangeResult:
    """Replace rows by others in one event; of a dry run, only return its counts.

    Args:
        ports: the table's ports.
        request: the overwrite.
        new: the new rows; without rows it only deletes.
        engine: selects rows by a condition.
        wait_s: how long to wait for the coordinator.

    Raises:
        InvalidInput: a row is outside of the overwritten ones, or the table cannot be overwritten
            so.
        ChangeConflict, LockLost, CommitUnknown: as ``row_change.change``.
    """
    state = ports.log.load()
    request = at_one_time(ports, request, state.table.schema.names)
    snapshot = Snapshot(ports=ports, state=state)
    strays = new.outside(snapshot, _as_logged(request, snapshot))
    if strays:
        raise InvalidInput(
            f"{strays:,} of {new.count:,} rows are not in what is overwritten ({request}), and "
            "another run would not replace them: leave them out, or overwrite more; nothing was "
            "written"
        )
    effect = partial(_effect, request, new, engine)
    return carry_out(ports, request, effect, state, wait_s=wait_s)


def _as_logged(request: Overwrite, snapshot: Snapshot) -> Overwrite:
    """Return a request with the condition as the log records it, if the log records one."""
    by_predicate = snapshot.state.table.kind.deletion is DeletionForm.PREDICATE
    if not by_predicate or request.where is None:
        return request
    return replace(request, where=_predicate(request, (), snapshot))


def _effect(request: Overwrite, new: NewRows, engine: RowEngine[New], snapshot: Snapshot) -> Found:
    """Return the effect of an overwrite on a snapshot."""
    intervals = _intervals(request, new, engine, snapshot)
    kind = snapshot.state.table.kind
    rows: dict[SegmentId, BitMap] = {}
    predicate = None
    match kind.deletion:
        case DeletionForm.PREDICATE:
            predicate = _predicate(request, intervals, snapshot)
            wanted = Delete(where=predicate)
            matched = engine.select(snapshot, wanted, addressed=False).matched
        case DeletionForm.VECTORS if request.where is None:
            rows = rows_within(snapshot, intervals)
            matched = sum(map(len, rows.values()))
        case DeletionForm.VECTORS:
            selected = engine.select(snapshot, Delete(where=request.where), addressed=True)
            rows, matched = dict(selected.rows), selected.matched
        case DeletionForm.TOMBSTONES:
            raise InvalidInput(
                f"{snapshot.ports.uri} has a primary key, so its rows are not overwritten by time: "
                "delete by a condition, and upsert the rows"
            )
        case _:
            assert_never(kind.deletion)
    return Found(
        rows=rows,
        matched=matched,
        prepare=new.prepare(snapshot) if new.count else None,
        predicate=predicate if matched or new.count else None,
        overwritten=intervals,
        count=lambda: new.count,
    )


def _intervals(
    request: Overwrite, new: NewRows, engine: RowEngine[New], snapshot: Snapshot
) -> tuple[Interval, ...]:
    """Return outer bounds of the replaced event times."""
    if isinstance(request.extent, Touched):
        return joined(new.chunks(snapshot.state.layout))
    if request.extent is not None:
        return (request.extent,)
    wanted = engine.condition(snapshot, request.where)
    if wanted is None:
        return (ALL_TIME,)
    return (wanted.interval,) if wanted.interval else ()


def _predicate(
    request: Overwrite, intervals: tuple[Interval, ...], snapshot: Snapshot
) -> Predicate:
    from airflow_provider_segtable.data.sql.sql_conditions import parse_predicate  # slow to import

    table = snapshot.state.table
    if request.where is None:
        days = is_date(snapshot.schema.field(table.time_column).type)
        predicate = within(intervals, table.time_column, days=days)
    elif isinstance(request.where, str):
        predicate = parse_predicate(request.where, snapshot.schema)
    else:
        raise InvalidInput(
            f"{snapshot.ports.uri} records deletes as conditions in SQL, and {request.where} is "
            "none: write it as SQL, or give an interval"
        )
    table.kind.check_predicate(predicate, table.time_column)
    return predicate


def rows_within(snapshot: Snapshot, intervals: Collection[Interval]) -> dict[SegmentId, BitMap]:
    """Return the addresses of all rows of the intervals, which do not overlap."""
    scans = [snapshot.scan(interval=interval) for interval in intervals]
    return addresses_among(snapshot.reader, (part for scan in scans for part in scan.parts()))
