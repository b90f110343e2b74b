"""The new rows of an overwrite as a DataFrame.

The time column is read first, to compare it with the interval; then the rows are written as in an
ingest. So the source is read three times: persist it if that is expensive.
"""

from collections.abc import Collection
from dataclasses import dataclass, field

from pyspark.sql import Column
from pyspark.sql import functions as F  # noqa: N812  # as Spark's own guide writes it

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.predicate import Predicate
from airflow_provider_segtable.core.requests.overwrite import Overwrite, Touched
from airflow_provider_segtable.core.time import Interval, Layout
from airflow_provider_segtable.spark.driver.spark_errors import translated
from airflow_provider_segtable.spark.reads.spark_predicates import matching
from airflow_provider_segtable.spark.reads.spark_times import instant
from airflow_provider_segtable.spark.table_kinds.spark_kind import Incoming
from airflow_provider_segtable.spark.writes.chunk_counts import Census, take_census
from airflow_provider_segtable.spark.writes.dataframe_ingest import Sizing, prepared
from airflow_provider_segtable.table.append import Prepare
from airflow_provider_segtable.table.snapshot import Snapshot


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
