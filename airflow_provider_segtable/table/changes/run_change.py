"""Run of a change request on a table, with a row engine.

1. The engine evaluates the request on one snapshot: which rows match, and which are appended.
2. ``row_change`` writes deletion vectors and new segments, and commits them as one event.
3. A dry run stops after step 1. It counts, writes nothing, and needs no coordinator.
4. The table's kind decides which changes are possible, and how the log records deletes. Where rows
   have no addresses, a delete is a predicate, which the log keeps, and its rows are only counted.
   Where rows have keys, a change is an append of records (``keyed.keyed_changes``).
5. A statement sees one time: names for the present, such as ``now()``, become the time at which the
   request was made, in all of its expressions, in each try, and whichever engine reads them.

Changes of a primary-key table: the rows that match are written again, as records of their keys.

1. A delete writes a tombstone for each row that matches, an update the row with its new values.
   Both have the ordering value of the row that they saw, and a later instant: so they win over
   that row, and lose against a row with a higher ordering value, whenever it arrives.
2. A merge does the same to the rows whose keys the source has, and upserts source rows whose keys
   no row has. If the source has the ordering column, its values are those of the records: a source
   row that is older than the row of its key changes nothing.
3. Nothing is locked, and no change ever conflicts with another: of records that met no other, order
   decides. So two merges may both insert a key: it still has one row.
4. If the version that is read expires meanwhile, the newest one is read instead.

Run of an overwrite on a table: rows of an interval go, others come, in one event.

1. The new rows are checked first: each must be among those that the overwrite replaces.
2. The rows to delete are those of one snapshot. Rows that others append later stay, as beside a
   compaction. Two overwrites of the same time notice each other, whether or not they delete rows
   (``core.log.state``): the later one looks again, and replaces what the earlier one wrote.
3. Where the log records the root addresses of a segment that lies in the interval, its rows are
   named by metadata, and its file is not opened. Of other segments the hidden columns are read.
4. In a rollup table the event has a predicate over the event time instead, and the new rows. It
   replaces all rows that are there at the event.
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
    snapshot, found = _records_found(request, Snapshot(ports=ports, state=state), engine)
    if request.dry_run or found.new is None:
        return _result(found, None, snapshot.state, dry_run=request.dry_run)
    done = engine.upsert(snapshot, found.new, commit_id)
    return _result(found, done.n, done.state)


def _records_found(
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


class NewRows(Protocol):
    """The rows that an overwrite appends, as files will hold them."""

    @property
    def count(self) -> int:
        """Return their number."""
        ...

    def outside(self, snapshot: Snapshot, request: Overwrite) -> int:
        """Return the number of rows that the overwrite would not replace."""
        ...

    def chunks(self, layout: Layout) -> Collection[Interval]:
        """Return the time chunks that have at least one of the rows."""
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
        request: what to overwrite.
        new: the new rows; none of them deletes.
        engine: selects rows by a condition.
        wait_s: how long to wait for the coordinator.

    Raises:
        InvalidInput: a row is not among those to replace, or the table cannot be overwritten so.
        ChangeConflict, LockLost, CommitUnknown: as ``row_change.change``.
    """
    state = ports.log.load()
    request = at_one_time(ports, request, state.table.schema.names)
    snapshot = Snapshot(ports=ports, state=state)
    strays = new.outside(snapshot, _as_replaced(request, snapshot))
    if strays:
        raise InvalidInput(
            f"{strays:,} of {new.count:,} rows are not in what is overwritten ({request}), and "
            "another run would not replace them: leave them out, or overwrite more; nothing was "
            "written"
        )
    return carry_out(ports, request, partial(_effect, request, new, engine), wait_s=wait_s)


def _as_replaced(request: Overwrite, snapshot: Snapshot) -> Overwrite:
    """Return a request whose condition is the one that the log has, where it has one."""
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
    """Return outer bounds of the event times that are replaced."""
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
    from airflow_provider_segtable.data.sql.sql_predicates import parse_predicate  # slow to import

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
