"""Run of an overwrite on a table: rows of an interval go, others come, in one event.

1. The new rows are checked first: each must be among those that the overwrite replaces.
2. The rows to delete are those of one snapshot. Rows that others append later stay, as beside a
   compaction. Two overwrites of the same time notice each other, whether or not they delete rows
   (``core.log.overwritten``): the later one looks again, and replaces what the earlier one wrote.
3. Where the log records the root addresses of a segment that lies in the interval, its rows are
   named by metadata, and its file is not opened. Of other segments the hidden columns are read.
4. In a rollup table the event has a predicate over the event time instead, and the new rows. It
   replaces all rows that are there at the event.
"""

from collections.abc import Collection
from dataclasses import replace
from functools import partial
from typing import Protocol, assert_never

from pyroaring import BitMap

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.predicate import Predicate
from airflow_provider_segtable.core.requests.change_request import Delete
from airflow_provider_segtable.core.requests.overwrite import Overwrite, Touched, joined, within
from airflow_provider_segtable.core.segment import SegmentId
from airflow_provider_segtable.core.tables.table_kind import DeletionForm
from airflow_provider_segtable.core.time import ALL_TIME, Interval, Layout
from airflow_provider_segtable.data.arrow.event_times import is_date
from airflow_provider_segtable.table.changes.row_change import ChangeResult, Found
from airflow_provider_segtable.table.changes.row_engine import New, RowEngine
from airflow_provider_segtable.table.changes.run_change import WAIT_S, at_one_time, carry_out
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.reads.row_addresses import addresses_among
from airflow_provider_segtable.table.reads.snapshot import Snapshot
from airflow_provider_segtable.table.writes.append import Prepare


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
    return carry_out(ports, request, partial(_found, request, new, engine), wait_s=wait_s)


def _as_replaced(request: Overwrite, snapshot: Snapshot) -> Overwrite:
    """Return a request whose condition is the one that the log has, where it has one."""
    by_predicate = snapshot.state.table.kind.deletion is DeletionForm.PREDICATE
    if not by_predicate or request.where is None:
        return request
    return replace(request, where=_predicate(request, (), snapshot))


def _found(request: Overwrite, new: NewRows, engine: RowEngine[New], snapshot: Snapshot) -> Found:
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
        return joined(tuple(new.chunks(snapshot.state.layout)))
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
