"""Delete, update, merge and overwrite rows of any size and by any expression, with Spark.

The Spark row engine:

1. The matches of a snapshot are evaluated once and kept (a local checkpoint), so deleted and
   appended rows come from the same evaluation even if an expression is not deterministic. If an
   executor is lost with a part of it, the change fails; nothing is committed.
2. Deleted rows are collected as bitmaps of addresses. Tasks write the appended rows, as in an
   ingest.

Deletes, updates and merges:

3. These functions make a change request; ``table.changes.run_change`` carries it out with
   the engine.
4. Expressions are Spark SQL. They may name the table's columns bare or as ``target.column``,
   columns of a merge's source as ``source.column``, and the session's temporary views in
   sub-queries.
5. A rollup table only supports deletes by a condition over dimensions and time. The log stores it
   as a predicate delete, parsed by ``data.sql.sql_predicates`` (no sub-queries).

Overwrites:

6. The rows of an interval, of chunks or of a condition are replaced by a DataFrame, in one event.
7. The time column of the new rows is read first, to compare it with the interval; then the rows are
   written as in an ingest. So the source is read three times: persist it if that is expensive.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field
from functools import reduce
from operator import and_

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as Spark's own guide writes it

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.predicate import Predicate
from airflow_provider_segtable.core.requests.change_request import (
    WAIT_S,
    ChangeRequest,
    Delete,
    FileRows,
    GivenRows,
    Matched,
    Merge,
    RowsToMatch,
    Sql,
    Unmatched,
    Update,
    Where,
    action,
    held,
    with_rows,
)
from airflow_provider_segtable.core.requests.overwrite import Extent, Overwrite, Touched, extent_of
from airflow_provider_segtable.core.segment import ROOT, ROW
from airflow_provider_segtable.core.time import Interval, Layout
from airflow_provider_segtable.data.arrow_schema import to_arrow
from airflow_provider_segtable.data.conditions import Condition
from airflow_provider_segtable.spark.driver.spark_connect import check_in_driver
from airflow_provider_segtable.spark.driver.spark_errors import translated
from airflow_provider_segtable.spark.reads.dataframe_scan import rows_to_change
from airflow_provider_segtable.spark.spark_columns import (
    check_columns,
    column,
    instant,
    known_condition,
    matching,
)
from airflow_provider_segtable.spark.table_kinds import Incoming, spark_kind_of
from airflow_provider_segtable.spark.tasks.reading import PREFIX
from airflow_provider_segtable.spark.writes.dataframe_ingest import (
    Census,
    Sizing,
    prepared,
    take_census,
)
from airflow_provider_segtable.spark.writes.dataframe_merge import (
    Joining,
    SourceFrame,
    assigned,
    carried,
    collected,
    expression,
    present,
)
from airflow_provider_segtable.spark.writes.keyed_merge import (
    KeyJoining,
    changed_records,
    copied_columns,
    upsert_records,
)
from airflow_provider_segtable.table.append import AppendResult, Prepare
from airflow_provider_segtable.table.changes.row_change import (
    ChangeResult,
    Recorded,
    Selected,
    landed_before,
)
from airflow_provider_segtable.table.changes.run_change import run_change, run_overwrite
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.definition import given_schema
from airflow_provider_segtable.table.snapshot import Snapshot


# The Spark row engine
def spark_rows(frame: DataFrame) -> GivenRows:
    """Return a DataFrame as rows of a request."""
    return GivenRows(rows=SourceFrame(frame), columns=tuple(frame.columns))


@dataclass(frozen=True, slots=True)
class SparkEngine:
    """Evaluates changes in a Spark session.

    Raises:
        InvalidInput: the session is one of Spark Connect.
    """

    spark: SparkSession

    def __post_init__(self) -> None:
        """Refuse Spark Connect."""
        check_in_driver(self.spark, "a change of rows")

    def select(
        self, snapshot: Snapshot, request: Delete | Update, *, addressed: bool
    ) -> Selected[DataFrame]:
        """Return the rows that a delete or update selects, and their new values."""
        if isinstance(request, Update):
            return self._updated(snapshot, request)
        if request.addresses is not None:
            given = collected(_named(_frame(request.addresses)), snapshot.state)
            found = present(self.spark, snapshot, given.rows)
            return Selected(rows=found.rows, matched=found.matched)
        rows = self._rows(snapshot, request, addressed=addressed)
        if not addressed:
            with translated("looking for the rows to delete"):
                return Selected(matched=rows.count())
        found = collected(rows, snapshot.state)
        return Selected(rows=found.rows, matched=found.matched)

    def condition(self, snapshot: Snapshot, where: Where) -> Condition | None:
        """Return the condition, if it means for Spark what it means without Spark."""
        time_column = snapshot.state.table.time_column
        return known_condition(self.spark, where, snapshot.schema, time_column)

    def join(self, snapshot: Snapshot, request: Merge) -> Selected[DataFrame]:
        """Return the rows that a merge deletes and appends."""
        source: SourceFrame = held(request.source).rows
        return Joining(self.spark, snapshot, request, source).found()

    def write(self, snapshot: Snapshot, new: DataFrame) -> Prepare:
        """Return the step of an append that writes rows in tasks."""
        return prepared(snapshot.ports, new, snapshot.schema, Sizing(), snapshot.state)

    def records(self, snapshot: Snapshot, request: ChangeRequest) -> Recorded[DataFrame]:
        """Return the records that carry out a change of a primary-key table."""
        if isinstance(request, Merge):
            source: SourceFrame = held(request.source).rows
            return KeyJoining(self.spark, snapshot, request, source).records()
        if isinstance(request, Delete) and request.addresses is not None:
            snapshot.state.table.kind.check_addresses(snapshot.ports.uri)
        given = () if isinstance(request, Delete) else request.set
        exactly = copied_columns(snapshot, given, whole=isinstance(request, Delete))
        rows = self._rows(snapshot, request, addressed=False, exactly=exactly)
        return changed_records(snapshot, request, rows, exactly)

    def upsert(self, snapshot: Snapshot, records: DataFrame, commit_id: str) -> AppendResult:
        """Commit records in one event; tasks write them."""
        return upsert_records(snapshot, records, commit_id)

    def _updated(self, snapshot: Snapshot, request: Update) -> Selected[DataFrame]:
        schema = snapshot.schema
        kept_exactly = carried(schema, request.set)
        given = {name: expression(name, value) for name, value in request.set.items()}
        with translated("looking for the rows to update"):
            found = self._rows(snapshot, request, addressed=True, exactly=kept_exactly)
            values = {name: given.get(name, column(found, name)) for name in schema.names}
            new = assigned(found, values, schema)
            copies = (column(found, PREFIX + name) for name in kept_exactly)
            kept = found.select(*new, *copies, F.col(ROOT), F.col(ROW)).localCheckpoint()
        gone = collected(kept, snapshot.state)
        if not gone.matched:
            return Selected(matched=0)
        return Selected(
            rows=gone.rows,
            matched=gone.matched,
            new=kept.drop(ROOT, ROW),
            count=lambda: gone.named,
        )

    def _rows(
        self,
        snapshot: Snapshot,
        request: Delete | Update,
        *,
        addressed: bool,
        exactly: Sequence[str] = (),
    ) -> DataFrame:
        """Return the selected rows of a snapshot, with exact copies of some columns."""
        where = request.where
        if not isinstance(where, str | Predicate | None):
            raise InvalidInput(f"{where} is not a condition in SQL, which Spark needs")
        with translated("looking for the rows to change"):
            frame = rows_to_change(
                self.spark, snapshot, addressed=addressed, carried=exactly, where=where
            )
            if isinstance(where, Predicate):
                frame = frame.where(matching(where, frame))
            elif where is not None:
                frame = frame.where(where)
            return frame if request.rows is None else _equal(frame, request.rows, request.on)


def _equal(frame: DataFrame, rows: RowsToMatch, on: tuple[str, ...]) -> DataFrame:
    """Return the rows equal to a row of ``rows`` in some columns; null equals null."""
    given = _frame(held(rows))
    compared = on or held(rows).columns
    names = {name: f"__segtable_match_{at}" for at, name in enumerate(compared)}
    other = given.select(*(column(given, name).alias(mine) for name, mine in names.items()))
    same = (column(frame, name).eqNullSafe(F.col(mine)) for name, mine in names.items())
    return frame.join(other, reduce(and_, same), "left_semi")


def _frame(rows: GivenRows) -> DataFrame:
    source: SourceFrame = rows.rows
    return source.frame


def _named(given: DataFrame) -> DataFrame:
    for name in (ROOT, ROW):
        if name not in given.columns:
            raise InvalidInput(f"addresses have no column {name}: take them from a scan")
    return given


# Deletes, updates and merges
def change(
    spark: SparkSession,
    ports: TableContext,
    request: ChangeRequest,
    read: Callable[[FileRows], DataFrame],
    *,
    wait_s: float = WAIT_S,
) -> ChangeResult:
    """Carry out a change request, with the rows of its file, if it names one.

    Args:
        spark: the session.
        ports: the table's ports.
        request: the change.
        read: reads a file.
        wait_s: seconds to wait for the coordinator, if it is needed.

    Raises:
        InvalidInput: the request does not fit this table.
        ExecutionFailed, ChangeConflict, LockLost, CommitUnknown: as ``update``.
    """

    def given(file: FileRows) -> GivenRows:
        return spark_rows(read(file))

    return run_change(ports, with_rows(request, given), SparkEngine(spark), wait_s=wait_s)


def delete(
    spark: SparkSession,
    ports: TableContext,
    where: str | None = None,
    *,
    matches: DataFrame | None = None,
    addresses: DataFrame | None = None,
    commit_id: str | None = None,
    wait_s: float = WAIT_S,
    dry_run: bool = False,
) -> ChangeResult:
    """Delete rows in one atomic event, without a lock and without waiting for other writers.

    Args:
        spark: the session.
        ports: the table's ports.
        where: a condition on the rows; ``"true"`` selects all.
        matches: selects rows that equal one of these in all columns of ``matches``; null equals
            null. With ``where``, both must hold.
        addresses: row addresses from ``scan(addressed=True)`` of any snapshot. Addresses without a
            row now are ignored. Not to be combined with the others.
        commit_id: equal ids delete once; a fresh one by default.
        wait_s: seconds to wait for the coordinator, if it is needed.
        dry_run: only count.

    Raises:
        InvalidInput: the selection does not fit this table.
        ExecutionFailed: Spark failed; nothing was committed.
        ChangeConflict, CommitUnknown: see ``table.changes.row_change``.
    """
    wanted = Delete(
        where=where,
        rows=_given(matches),
        addresses=_given(addresses),
        commit_id=commit_id,
        dry_run=dry_run,
    )
    return run_change(ports, wanted, SparkEngine(spark), wait_s=wait_s)


def update(
    spark: SparkSession,
    ports: TableContext,
    set: Mapping[str, str | Sql],  # noqa: A002  # SQL's word
    where: str | None = None,
    *,
    matches: DataFrame | None = None,
    commit_id: str | None = None,
    wait_s: float = WAIT_S,
    dry_run: bool = False,
) -> ChangeResult:
    """Update rows: delete the old ones and append the new ones, in one atomic event.

    Args:
        spark: the session.
        ports: the table's ports.
        set: by column, an expression over the old row.
        where: selects the rows, as for ``delete``.
        matches: selects the rows, as for ``delete``.
        commit_id: equal ids update once; a fresh one by default.
        wait_s: seconds to wait for the coordinator.
        dry_run: only count.

    Raises:
        InvalidInput: a column is missing or cannot be set so, or the table rolls up.
        ExecutionFailed: Spark failed, or a value does not fit its column; nothing was committed.
        ChangeConflict, LockLost, CommitUnknown: see ``table.changes.row_change``.
    """
    wanted = Update(
        set=_sql(set),
        where=where,
        rows=_given(matches),
        commit_id=commit_id,
        dry_run=dry_run,
    )
    return run_change(ports, wanted, SparkEngine(spark), wait_s=wait_s)


def merge(  # noqa: PLR0913 - a merge's arguments, and those of every change
    spark: SparkSession,
    ports: TableContext,
    source: DataFrame,
    on: Sequence[str] | str,
    *,
    matched: str = "update",
    unmatched: str = "insert",
    set: Mapping[str, str | Sql] | None = None,  # noqa: A002  # SQL's word
    commit_id: str | None = None,
    wait_s: float = WAIT_S,
    dry_run: bool = False,
) -> ChangeResult:
    """Merge source rows into the table by key, in one atomic event.

    Args:
        spark: the session.
        ports: the table's ports.
        source: the source rows; evaluated once.
        on: columns of both (null equals nothing), or a condition over ``target.*`` and
            ``source.*``.
        matched: ``"update"`` sets the table row to the source's other columns, or by ``set``;
            ``"delete"`` deletes it; ``"ignore"`` keeps it.
        unmatched: ``"insert"`` appends the source row (columns that the source lacks have their
            default, or null); ``"ignore"`` does not. Two concurrent merges may both insert a key.
        set: by column, an expression over ``target.*`` and ``source.*``; other columns stay.
        commit_id: equal ids merge once; a fresh one by default.
        wait_s: seconds to wait for the coordinator.
        dry_run: only count the rows that would be deleted and inserted.

    Raises:
        InvalidInput: the columns do not fit, or several source rows match one table row.
        ExecutionFailed, ChangeConflict, LockLost, CommitUnknown: as ``update``.
    """
    wanted = Merge(
        source=spark_rows(source),
        on=Sql(on) if isinstance(on, str) else tuple(on),
        matched=action(Matched, matched),
        unmatched=action(Unmatched, unmatched),
        set=None if set is None else _sql(set),
        commit_id=commit_id,
        dry_run=dry_run,
    )
    return run_change(ports, wanted, SparkEngine(spark), wait_s=wait_s)


def _given(rows: DataFrame | None) -> GivenRows | None:
    return None if rows is None else spark_rows(rows)


def _sql(given: Mapping[str, str | Sql]) -> dict[str, Sql]:
    return {name: Sql(str(text)) for name, text in given.items()}


# Overwrites
@dataclass(frozen=True, slots=True, kw_only=True)
class NewSparkRows:
    """Rows of a DataFrame; the methods are those of ``NewRows``."""

    coming: Incoming
    seen: State
    census: Census
    sizing: Sizing = field(default_factory=Sizing)

    @property
    def time_column(self) -> str:
        """Return the event time."""
        return self.seen.table.time_column

    @property
    def count(self) -> int:
        """Return their number."""
        return self.census.rows

    def outside(self, snapshot: Snapshot, request: Overwrite) -> int:
        """Return the number of rows that the overwrite would not replace."""
        del snapshot
        if isinstance(request.extent, Touched) or not self.count:
            return 0
        inside = self._inside(request)
        with translated("comparing the rows with what is overwritten"):
            return self.coming.rows.where(~F.coalesce(inside, F.lit(False))).count()

    def _inside(self, request: Overwrite) -> Column:
        if isinstance(request.extent, Interval):
            at = instant(self.coming.rows, self.time_column)
            return (at >= F.lit(request.extent.start)) & (at < F.lit(request.extent.end))
        if isinstance(request.where, Predicate):
            return matching(request.where, self.coming.rows)
        if not isinstance(request.where, str):
            raise InvalidInput(f"{request.where} is not a condition in SQL, which Spark needs")
        return F.expr(request.where)

    def chunks(self, layout: Layout) -> Collection[Interval]:
        """Return the time chunks that have at least one of the rows."""
        return take_census(self.coming.rows, self.time_column, layout).chunks if self.count else ()

    def prepare(self, snapshot: Snapshot) -> Prepare:
        """Return the step of an append that writes the rows in tasks."""
        coming = self.coming
        return prepared(
            *(snapshot.ports, coming.rows, coming.schema, self.sizing, self.seen), coming.events
        )


def new_spark_rows(coming: Incoming, seen: State, sizing: Sizing) -> NewSparkRows:
    """Return incoming rows, counted.

    Raises:
        TimeOutOfRange: event times are null or out of range.
    """
    census = take_census(coming.rows, seen.table.time_column, seen.layout, coming.events)
    return NewSparkRows(coming=coming, seen=seen, census=census, sizing=sizing)


def overwrite(
    ports: TableContext,
    df: DataFrame,
    *,
    interval: Extent | str | None = None,
    where: str | None = None,
    commit_id: str | None = None,
    sizing: Sizing | None = None,
    wait_s: float = WAIT_S,
    dry_run: bool = False,
) -> ChangeResult:
    """Replace rows by those of a DataFrame; without rows, delete.

    Args:
        ports: the table's ports.
        df: the new rows, as for ``ingest``; each must be among those that are replaced.
        interval: replace the rows with event times in it; ``"chunks"`` means the time chunks that
            the new rows touch, as Spark's dynamic overwrite of partitions.
        where: instead, replace the rows that match a condition in SQL.
        commit_id: equal ids overwrite once, another one replaces again; random by default.
        sizing: the target size of segments; the table's policy by default.
        wait_s: how long to wait for the coordinator, in seconds.
        dry_run: only count.

    Raises:
        SchemaMismatch, TimeOutOfRange, InvalidInput: rows do not fit; nothing was written.
        RowsOutOfBalance, ExecutionFailed: as ``ingest``.
        ChangeConflict, LockLost, CommitUnknown: see ``table.changes.row_change``.
    """
    check_in_driver(df, "overwrite")
    request = Overwrite(
        extent=extent_of(interval), where=where, commit_id=commit_id, dry_run=dry_run
    )
    state = ports.log.load()
    before = landed_before(ports.log, commit_id, state)
    if before is not None:
        return before
    table = state.table
    rows = check_columns(df, given_schema(table), table.time_column)
    shown = to_arrow(table.schema)
    with spark_kind_of(table.kind).incoming(rows, shown, table.time_column) as coming:
        new = new_spark_rows(coming, state, sizing or Sizing())
        return run_overwrite(ports, request, new, SparkEngine(df.sparkSession), wait_s=wait_s)
