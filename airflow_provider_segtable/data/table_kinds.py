"""The kinds of table in Arrow: how each one appends, compacts and reads rows, and their registry.

1. ``ArrowKind`` has the methods that appends, compaction and reads call.
2. Append tables: rows pass unchanged, and keep their root addresses.
3. Primary-key tables: files are merged by key (``data.keyed``).
4. Rollup tables: rows of a group are merged; sketches are left to Spark.
5. A rollup table with sketches is compacted by a job that only a Spark driver can run
   (``SketchJob``): sketches are Spark's, and merging them moves rows between tasks. So the job is
   not sent to a task: ``spark.writes.distribution`` recognises it, and runs it on the driver.
   Elsewhere the job raises an error that names the sketch metrics and the way to run it.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any, Protocol

import pyarrow as pa

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.schema import Schema
from airflow_provider_segtable.core.segment import Place, Segment
from airflow_provider_segtable.core.tables.append_kind import Append
from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.core.tables.rollup_kind import Rollup
from airflow_provider_segtable.core.tables.table_kind import TableKind
from airflow_provider_segtable.data.jobs.minor_job import MinorJob
from airflow_provider_segtable.data.keyed.keyed_rows import Part
from airflow_provider_segtable.data.keyed.merge_job import MergeJob, divided
from airflow_provider_segtable.data.keyed.merging import NEVER
from airflow_provider_segtable.data.rollup.rollup_rows import (
    RollupJob,
    check_arrow,
    from_input,
    rolled_up,
)
from airflow_provider_segtable.data.row_filter import with_addresses
from airflow_provider_segtable.data.sort.sort_jobs import RowKind
from airflow_provider_segtable.data.sort.sorting import Outputs, SortSpec, SortStages, sort_stages
from airflow_provider_segtable.ports.files import DataFiles
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
            minor: the compaction as of a table that keeps rows unchanged.
            schema: the columns that readers see.
        """
        ...

    def sort_stages(
        self, spec: SortSpec, inputs: Sequence[Segment], outputs: Outputs
    ) -> SortStages:
        """Return the stages of a semi-major or major compaction, as ``data.sort.sorting`` does."""
        ...


# Append tables
@dataclass(frozen=True, slots=True)
class AppendArrow:
    """An append table in Arrow; methods as of ``ArrowKind``."""

    kind: Append = field(default_factory=Append)

    def merged(self, rows: pa.Table, time_column: str) -> pa.Table:
        """Return the rows."""
        del time_column
        return rows

    def sorted_schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns with the columns of root addresses."""
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


# Primary-key tables
@dataclass(frozen=True, slots=True)
class KeyedArrow:
    """A primary-key table in Arrow; methods as of ``ArrowKind``."""

    kind: PrimaryKey

    def merged(self, rows: pa.Table, time_column: str) -> pa.Table:
        """Return the rows: whole files are merged, not rows."""
        del time_column
        return rows

    def sorted_schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns."""
        return schema

    def prepared(self, rows: pa.Table, time_column: str) -> pa.Table:
        """Return the rows: each bucket makes records of its own."""
        del time_column
        return rows

    def check_readable(self) -> None:
        """Accept: every engine merges."""

    @property
    def joins(self) -> bool:
        """Return false: log files are merged."""
        return False

    def join_job(self, minor: MinorJob, schema: Schema) -> Job:
        """Return the job unchanged; it is not asked for."""
        del schema
        return minor

    def sort_stages(
        self, spec: SortSpec, inputs: Sequence[Segment], outputs: Outputs
    ) -> SortStages:
        """Return the merge of a file group, or of parts of several (``data.keyed.merge_job``)."""
        given = tuple(sorted(inputs, key=lambda s: (s.id.chunk, s.shard.root_start, s.id)))
        job = MergeJob(
            uri=spec.uri,
            storage_options=spec.storage_options,
            inputs=(),
            outputs=(),
            created=spec.created,
            definition=spec.definition,
            rules=self.kind.rules,
            clustering=str(spec.order),
            drop_before=spec.drop_before,
            attempt=spec.attempt,
        )
        if spec.buckets:
            parts = [*_parts(spec, self.kind)]
            return (yield from divided(job, given, parts, outputs, spec.target_size))
        size = sum(segment.size for segment in inputs)
        wanted = max(1, round(size / spec.target_size))
        count = min(wanted, spec.most) if spec.most else wanted
        place = given[0].id.chunk.place
        named = tuple(outputs({place: count})[place])
        drop_before = _drop_before(spec, inputs)
        results = yield [replace(job, inputs=given, outputs=named, drop_before=drop_before)]
        return tuple(results[0])


def _parts(spec: SortSpec, kind: PrimaryKey) -> Iterator[Part]:
    """Yield the parts of all time chunks."""
    for interval, buckets in zip(spec.intervals, spec.buckets, strict=True):
        for bucket in range(buckets):
            yield Part(
                place=Place(interval, bucket),
                buckets=buckets,
                standard=kind.buckets,
                key=kind.rules.bucket_key,
            )


def _drop_before(spec: SortSpec, inputs: Sequence[Segment]) -> int:
    """Return the completion time before which tombstones may go; ``NEVER`` above other files."""
    chunk = inputs[0].id.chunk
    if min(segment.shard.root_start for segment in inputs) > chunk.numbering.first.start:
        return NEVER
    return spec.drop_before


# Rollup tables
@dataclass(frozen=True, slots=True, kw_only=True)
class SketchJob:
    """One whole compaction.

    ``spec``, ``rollup`` and ``inputs`` define it; ``outputs`` allocates ids once the number of
    segments is known.
    """

    spec: SortSpec
    rollup: Rollup
    inputs: tuple[Segment, ...]
    outputs: Outputs

    @property
    def attempt(self) -> str:
        """Return the attempt of the compaction; each Spark task attempt names its own files."""
        return self.spec.attempt

    @property
    def cost(self) -> int:
        """Return the number of bytes it reads."""
        return sum(segment.size for segment in self.inputs)

    @property
    def title(self) -> str:
        """Return the job's title in the Spark UI."""
        return f"roll up {counted(len(self.inputs), 'segment')} with sketches"

    def run(self, files: DataFiles | None = None) -> Any:  # noqa: ARG002  # every job has this
        """Refuse to run outside Spark.

        Raises:
            InvalidInput: always; names the sketches.
        """
        sketches = ", ".join(map(str, self.rollup.sketches))
        raise InvalidInput(
            f"{sketches} of {self.spec.uri}: only Spark can merge sketches; "
            "run the compaction in Spark (segtable compact --engine spark, or spark_execute)"
        )


@dataclass(frozen=True, slots=True)
class RollupArrow:
    """A rollup table in Arrow; methods as of ``ArrowKind``."""

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


# The registry of kinds
ARROW_KINDS: Mapping[str, Callable[[Any], ArrowKind]] = {
    Append.name: AppendArrow,
    Rollup.name: RollupArrow,
    PrimaryKey.name: KeyedArrow,
}
"""How to make a kind's part for Arrow from its pure part, by name."""


def arrow_kind_of(kind: TableKind) -> ArrowKind:
    """Return a kind's part for Arrow."""
    return ARROW_KINDS[kind.name](kind)
