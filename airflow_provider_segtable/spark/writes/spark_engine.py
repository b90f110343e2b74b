"""The Spark row engine: evaluates changes of any size and by any expression.

1. The matches of a snapshot are evaluated once and kept (a local checkpoint), so deleted and
   appended rows come from the same evaluation even if an expression is not deterministic. If an
   executor is lost with a part of it, the change fails; nothing is committed.
2. Deleted rows are collected as bitmaps of addresses. Tasks write the appended rows, as in an
   ingest.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from operator import and_

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as Spark's own guide writes it

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.predicate import Predicate
from airflow_provider_segtable.core.requests.change_request import (
    ChangeRequest,
    Delete,
    GivenRows,
    Merge,
    RowsToMatch,
    Update,
    Where,
    held,
)
from airflow_provider_segtable.core.segment import ROOT, ROW
from airflow_provider_segtable.data.conditions import Condition
from airflow_provider_segtable.spark.driver.spark_errors import translated
from airflow_provider_segtable.spark.reads.dataframe_scan import rows_to_change
from airflow_provider_segtable.spark.reads.spark_predicates import known_condition, matching
from airflow_provider_segtable.spark.reads.spark_times import column
from airflow_provider_segtable.spark.tasks.exact_columns import PREFIX
from airflow_provider_segtable.spark.writes.address_bitmaps import collected, present
from airflow_provider_segtable.spark.writes.assignments import (
    assigned,
    carried,
    expression,
)
from airflow_provider_segtable.spark.writes.dataframe_ingest import Sizing, prepared
from airflow_provider_segtable.spark.writes.dataframe_merge import Joining, SourceFrame
from airflow_provider_segtable.spark.writes.keyed.dataframe_key_merge import KeyJoining
from airflow_provider_segtable.spark.writes.keyed.spark_records import (
    changed_records,
    copied_columns,
    upsert_records,
)
from airflow_provider_segtable.table.append import AppendResult, Prepare
from airflow_provider_segtable.table.changes.row_change import Recorded, Selected
from airflow_provider_segtable.table.snapshot import Snapshot


def spark_rows(frame: DataFrame) -> GivenRows:
    """Return a DataFrame as rows of a request."""
    return GivenRows(rows=SourceFrame(frame), columns=tuple(frame.columns))


@dataclass(frozen=True, slots=True)
class SparkEngine:
    """Evaluates changes in a Spark session."""

    spark: SparkSession

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
