"""Primary-key tables in Arrow: files are merged by key (``data.merge``)."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa

from airflow_provider_segtable.core.schema import Schema
from airflow_provider_segtable.core.segment import Place, Segment
from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.data.jobs.minor_job import MinorJob
from airflow_provider_segtable.data.keyed.division import divided
from airflow_provider_segtable.data.keyed.merge_job import MergeJob
from airflow_provider_segtable.data.keyed.part import Part
from airflow_provider_segtable.data.merge.merge_runs import NEVER
from airflow_provider_segtable.data.sort.sort_plan import SortSpec
from airflow_provider_segtable.data.sort.sorting import Outputs, SortStages
from airflow_provider_segtable.ports.job import Job


@dataclass(frozen=True, slots=True)
class KeyedArrow:
    """A primary-key table in Arrow; the methods are those of ``ArrowKind``."""

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
        """Return the merge of a file group, or of parts of several (``data.keyed.division``)."""
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
