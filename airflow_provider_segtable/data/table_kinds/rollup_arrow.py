"""Rollup tables in Arrow: rows of a group are merged; sketches are left to Spark."""

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa

from airflow_provider_segtable.core.schema import Schema
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.tables.rollup_kind import Rollup
from airflow_provider_segtable.data.jobs.minor_job import MinorJob
from airflow_provider_segtable.data.rollup.rollup_rows import (
    RollupJob,
    check_arrow,
    from_input,
    rolled_up,
)
from airflow_provider_segtable.data.rollup.sketch_job import SketchJob
from airflow_provider_segtable.data.sort.sort_plan import SortSpec
from airflow_provider_segtable.data.sort.sorting import Outputs, SortStages, sort_stages
from airflow_provider_segtable.ports.job import Job


@dataclass(frozen=True, slots=True)
class RollupArrow:
    """A rollup table in Arrow; the methods are those of ``ArrowKind``."""

    kind: Rollup

    def merged(self, rows: pa.Table, time_column: str) -> pa.Table:
        """Return one row for each group."""
        if not rows.num_rows:
            return rows
        return rolled_up(rows, self.kind, time_column=time_column)

    def sorted_schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns: rows have no addresses."""
        return schema

    def prepared(self, rows: pa.Table, time_column: str) -> pa.Table:
        """Return the rows rolled up among themselves."""
        return from_input(rows, self.kind, time_column=time_column)

    def check_readable(self) -> None:
        """Refuse sketches."""
        check_arrow(self.kind)

    @property
    def joins(self) -> bool:
        """Return whether there are no sketches; Spark merges these while it sorts."""
        return not self.kind.sketches

    def join_job(self, minor: MinorJob, schema: Schema) -> Job:
        """Return the job that also rolls up, as far as the inputs' rows allow."""
        return RollupJob(
            uri=minor.uri,
            storage_options=minor.storage_options,
            inputs=minor.inputs,
            outputs=minor.outputs,
            created=minor.created,
            time_column=minor.time_column,
            schema=schema,
            rollup=self.kind,
            attempt=minor.attempt,
            row_filters=minor.row_filters,
            deletes_applied_through=minor.deletes_applied_through,
        )

    def sort_stages(
        self, spec: SortSpec, inputs: Sequence[Segment], outputs: Outputs
    ) -> SortStages:
        """Return the stages of sorting; with sketches one job, for Spark's driver."""
        if not self.kind.sketches:
            return (yield from sort_stages(spec, inputs, outputs))
        job = SketchJob(spec=spec, rollup=self.kind, inputs=tuple(inputs), outputs=outputs)
        results = yield [job]
        return tuple(results[0])
