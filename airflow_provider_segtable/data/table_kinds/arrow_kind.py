"""What appending, compaction and reading in Arrow need to know of a kind of table."""

from collections.abc import Sequence
from typing import Protocol

import pyarrow as pa

from airflow_provider_segtable.core.schema import Schema
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.data.jobs.minor_job import MinorJob
from airflow_provider_segtable.data.sort.sort_plan import SortSpec
from airflow_provider_segtable.data.sort.sorting import Outputs, SortStages
from airflow_provider_segtable.data.table_kinds.row_kind import RowKind
from airflow_provider_segtable.ports.job import Job


class ArrowKind(RowKind, Protocol):
    """A kind of table, in Arrow."""

    def prepared(self, rows: pa.Table, time_column: str) -> pa.Table:
        """Return incoming rows, which have the input schema, as files hold them.

        Raises:
            InvalidInput: the rows do not fit, or only Spark can prepare them.
            TimeOutOfRange: an event time is null or out of range.
        """
        ...

    def check_readable(self) -> None:
        """Refuse to merge rows while reading, if only Spark can.

        Raises:
            InvalidInput: only Spark can merge rows of this table.
        """
        ...

    @property
    def joins(self) -> bool:
        """Return whether minor compaction joins files by ``join_job``; otherwise it sorts."""
        ...

    def join_job(self, minor: MinorJob, schema: Schema) -> Job:
        """Return the job of a minor compaction.

        Args:
            minor: the compaction as of a table that keeps rows as they came.
            schema: the columns that readers see.
        """
        ...

    def sort_stages(
        self, spec: SortSpec, inputs: Sequence[Segment], outputs: Outputs
    ) -> SortStages:
        """Return the stages of a semi-major or major compaction, as ``data.sort.sorting`` does."""
        ...
