"""Append tables in Arrow: rows pass unchanged, and keep their root addresses."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from airflow_provider_segtable.core.schema import Schema
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.tables.append_kind import Append
from airflow_provider_segtable.data.deletes.row_filter import with_addresses
from airflow_provider_segtable.data.jobs.minor_job import MinorJob
from airflow_provider_segtable.data.sort.sort_plan import SortSpec
from airflow_provider_segtable.data.sort.sorting import Outputs, SortStages, sort_stages
from airflow_provider_segtable.ports.job import Job


@dataclass(frozen=True, slots=True)
class AppendArrow:
    """An append table in Arrow; the methods are those of ``ArrowKind``."""

    kind: Append = field(default_factory=Append)

    def merged(self, rows: pa.Table, time_column: str) -> pa.Table:
        """Return the rows."""
        del time_column
        return rows

    def sorted_schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns with those of root addresses."""
        return with_addresses(schema)

    def prepared(self, rows: pa.Table, time_column: str) -> pa.Table:
        """Return the rows."""
        del time_column
        return rows

    def check_readable(self) -> None:
        """Accept: there is nothing to merge."""

    @property
    def joins(self) -> bool:
        """Return true: row groups are copied undecoded where they can be."""
        return True

    def join_job(self, minor: MinorJob, schema: Schema) -> Job:
        """Return the job unchanged."""
        del schema
        return minor

    def sort_stages(
        self, spec: SortSpec, inputs: Sequence[Segment], outputs: Outputs
    ) -> SortStages:
        """Return the stages of sorting."""
        return sort_stages(spec, inputs, outputs)
