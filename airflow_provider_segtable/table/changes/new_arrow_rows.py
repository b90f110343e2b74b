"""The new rows of an overwrite as an Arrow table."""

from collections.abc import Collection
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.requests.overwrite import Overwrite, Touched
from airflow_provider_segtable.core.time import Interval, Layout
from airflow_provider_segtable.data.arrow.event_times import instants
from airflow_provider_segtable.data.arrow.given_rows import Rows, arrow_table
from airflow_provider_segtable.data.arrow.time_chunks import split_by_chunk
from airflow_provider_segtable.data.arrow.where import condition
from airflow_provider_segtable.data.jobs.row_checks import check_rows
from airflow_provider_segtable.data.table_kinds.arrow_kinds import arrow_kind_of
from airflow_provider_segtable.table.lifetime.definition import given_schema
from airflow_provider_segtable.table.reads.snapshot import Snapshot
from airflow_provider_segtable.table.writes.append import Prepare
from airflow_provider_segtable.table.writes.incoming import incoming


def new_arrow_rows(seen: State, rows: Rows) -> "NewArrowRows":
    """Return rows as the files of a table will hold them.

    Raises:
        SchemaMismatch, TimeOutOfRange: the rows do not fit.
    """
    definition, time_column = seen.table, seen.table.time_column
    checked = check_rows(arrow_table(rows), given_schema(definition), time_column)
    if checked.num_rows:
        checked = arrow_kind_of(definition.kind).prepared(checked, time_column)
    return NewArrowRows(rows=checked, seen=seen)


@dataclass(frozen=True, slots=True, kw_only=True)
class NewArrowRows:
    """Rows that were checked with a version; the methods are those of ``NewRows``."""

    rows: pa.Table
    seen: State

    @property
    def time_column(self) -> str:
        """Return the event time."""
        return self.seen.table.time_column

    @property
    def count(self) -> int:
        """Return their number."""
        return int(self.rows.num_rows)

    def outside(self, snapshot: Snapshot, request: Overwrite) -> int:
        """Return the number of rows that the overwrite would not replace."""
        if isinstance(request.extent, Touched):
            return 0
        if request.extent is None:
            wanted = condition(request.where, snapshot.schema, self.time_column)
            kept = sum(wanted.keep(batch).num_rows for batch in self.rows.to_batches())
            return self.count - int(kept)
        at = instants(self.rows.column(self.time_column))
        early, late = pc.less(at, request.extent.start), pc.greater_equal(at, request.extent.end)
        return int(pc.sum(pc.or_(early, late)).as_py() or 0)

    def chunks(self, layout: Layout) -> Collection[Interval]:
        """Return the time chunks that have at least one of the rows."""
        return split_by_chunk(self.rows, self.time_column, layout) if self.count else ()

    def prepare(self, snapshot: Snapshot) -> Prepare:
        """Return the step of an append that splits the rows by time chunk and writes them."""
        return incoming(snapshot.ports, self.rows, self.seen)
