"""Compaction of a file group: its runs are merged into one run, written as a group of files.

1. A job is plain data; it runs in this process or in a Spark task.
2. Memory holds a batch of each input (``merge_runs``) and one row group of the output, however
   large the files are. Row groups are as small as those of sorted segments.
3. Tombstones stay, unless the group begins at the first root of its bucket (then no older record
   can come back by a compaction) and they are older than ``drop_before`` (then no late record is
   expected any more).
4. Outputs are parts of the merged rows, about equal in rows; the last has the rest. Their events
   add up to those of the inputs. A part without rows is a segment without a file.
5. Where time chunks or buckets change, a job merges a *part*: the inputs' rows of one place. The
   records of file groups whose keys are parted (``division``) are merged before that.
6. After a failure the job deletes the files that it wrote: no reader can have seen them.
"""

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.segment import ChunkKey, Roots, Segment, SegmentId, Shard
from airflow_provider_segtable.core.tables.merge_rules import ROOT_OF, ROOT_PARTITION, MergeRules
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.data.files.open_files import open_files
from airflow_provider_segtable.data.files.segment_files import discard
from airflow_provider_segtable.data.jobs.segment_writer import (
    Described,
    SegmentPlacement,
    emptied,
    write_segment,
)
from airflow_provider_segtable.data.keyed.group_reader import GroupReader
from airflow_provider_segtable.data.keyed.keyed_files import (
    base_path,
    log_path,
    roots_entry,
)
from airflow_provider_segtable.data.keyed.part import Part
from airflow_provider_segtable.data.merge.merge_runs import NEVER, merge_runs
from airflow_provider_segtable.data.merge.root_orders import RootOrders
from airflow_provider_segtable.data.parquet.metadata.descriptor import decode_definition
from airflow_provider_segtable.data.parquet.sorted_writer import SORTED_ROWS
from airflow_provider_segtable.data.sort.sort_keys import Indices
from airflow_provider_segtable.ports.files import DataFiles

FILE_COST = 1024 * 1024
"""The cost of opening one more file, in bytes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MergeJob:
    """One compaction of a file group.

    Attributes:
        uri: the table.
        storage_options: keys of the object store.
        inputs: the segments to merge, by group.
        outputs: ids and shards of the result.
        created: when the attempt began.
        definition: the table's, as footers have it.
        rules: how the records of a key become one.
        clustering: the order that the outputs promise; empty for log files.
        drop_before: tombstones that completed before are left out; ``NEVER`` keeps all.
        part: only rows of this part are merged; all rows if None.
        amount: the rows and the ingested rows of the part.
        whole: the file groups whose records are merged before the rows of the part are taken.
        replaces: what a new version replaces; the first file with rows says so.
        attempt: 16 hex digits, in the names of all files.
    """

    uri: str
    storage_options: Mapping[str, str]
    inputs: tuple[Segment, ...]
    outputs: tuple[tuple[SegmentId, Shard], ...]
    created: Instant
    definition: bytes
    rules: MergeRules
    clustering: str = ""
    drop_before: Instant = NEVER
    part: Part | None = None
    amount: tuple[int, int] = (0, 0)
    whole: frozenset[ChunkKey] = frozenset()
    replaces: tuple[Roots, ...] = ()
    attempt: str = field(default_factory=lambda: secrets.token_hex(8))

    @property
    def cost(self) -> int:
        """Return the approximate number of bytes it handles."""
        return sum(segment.size + FILE_COST for segment in self.inputs)

    @property
    def title(self) -> str:
        """Return the job's title in the Spark UI."""
        place = self.part.place if self.part else self.inputs[0].id.chunk.place
        return f"merge: {place.interval} bucket {place.bucket}"

    def run(self, files: DataFiles | None = None) -> tuple[Segment, ...]:
        """Write the outputs, and return their descriptors.

        Raises:
            CorruptTable: an input differs from its entry in the log, or is not sorted.
            StorageError: nothing is left behind.
        """
        files = open_files(self.uri, self.storage_options) if files is None else files
        written: list[Segment] = []
        try:
            table, _ = decode_definition(self.definition, "the job's definition")
            with GroupReader(files, table).opened(self.inputs) as reader:
                for segment in _Merge(self, reader).written():
                    written.append(segment)  # noqa: PERF402  # a failure deletes the earlier ones
        except Exception:
            discard(files, written)
            raise
        return tuple(written)


class _Merge:
    """The merged rows of a job's inputs, cut into its outputs."""

    def __init__(self, job: MergeJob, reader: GroupReader) -> None:
        self._job = job
        self._reader = reader
        self._roots = reader.roots(job.inputs)
        self._rows = self._merged()
        self._left = pa.table({})
        self._used: list[Indices] = []
        rows, self._events = job.amount if job.part else _amount(job.inputs)
        self._share = -(-rows // len(job.outputs))
        self._replaces = job.replaces
        own = (segment.buckets for segment in job.inputs)  # a tombstone has none
        self._buckets = job.part.own_buckets if job.part else max(own)

    def written(self) -> Iterator[Segment]:
        """Write the outputs one after another."""
        last = len(self._job.outputs) - 1
        for number, output in enumerate(self._job.outputs):
            segment = self._write(*output, most=None if number == last else self._share)
            self._events -= segment.events
            yield segment

    def _merged(self) -> Iterator[pa.Table]:
        return merge_runs(
            [*self._runs()],
            self._job.rules,
            RootOrders.of_table(self._roots),
            drop_tombstones_before=self._job.drop_before,
        )

    def _runs(self) -> Iterator[Iterable[pa.Table]]:
        """Yield the runs of the rows to merge: of a file group that is merged before, one."""
        job, orders = self._job, RootOrders.of_table(self._roots)
        yield from self._reader.runs(
            [each for each in job.inputs if each.id.chunk not in job.whole], part=job.part
        )
        for chunk in sorted(job.whole if job.part else ()):
            runs = self._reader.runs([each for each in job.inputs if each.id.chunk == chunk])
            yield self._of_part(job.part, merge_runs(runs, job.rules, orders))

    def _of_part(self, part: Part | None, run: Iterable[pa.Table]) -> Iterator[pa.Table]:
        time = self._reader.table.time_column
        for rows in run:
            yield rows if part is None else rows.filter(pa.array(part.of(rows, time)))

    def _write(self, segment_id: SegmentId, shard: Shard, *, most: int | None) -> Segment:
        job = self._job
        placement = SegmentPlacement(
            shard=shard,
            clustering=job.clustering,
            schema=self._reader.table.schema.number,
            buckets=self._buckets,
            replaces=self._replaces,
        )
        self._used = []
        rows = self._taken(most)
        first = next(rows, None)
        if first is None:
            left = self._events if most is None else 0
            return replace(emptied(segment_id, job.created, placement), events=left)
        self._replaces = ()
        named = base_path(segment_id, job.created, job.attempt)
        if not job.clustering:
            named = log_path(segment_id, job.created, 0, f"{segment_id.partition}x{job.attempt}")

        def describe(segment: Segment) -> Described:
            events = self._events if most is None else min(segment.rows, self._events)
            return replace(segment, events=events), roots_entry(self._used_roots())

        return write_segment(
            self._reader.files,
            _batches(first, rows),
            segment_id=segment_id,
            time_column=self._reader.table.time_column,
            created=job.created,
            token=job.attempt,
            placement=placement,
            definition=job.definition,
            path=named,
            describe=describe,
            group_rows=SORTED_ROWS,
        )

    def _taken(self, most: int | None) -> Iterator[pa.Table]:
        """Yield merged rows, at most so many (all if None)."""
        count = 0
        while most is None or count < most:
            rows = self._left if self._left.num_rows else next(self._rows, None)
            if rows is None:
                return
            part = rows if most is None else rows.slice(0, most - count)
            self._left = rows.slice(part.num_rows)
            count += part.num_rows
            self._note(part)
            yield part

    def _note(self, rows: pa.Table) -> None:
        for name in rows.column_names:
            if name == ROOT_PARTITION or name.startswith(ROOT_OF):
                self._used.append(np.unique(np.asarray(rows.column(name).drop_null())))

    def _used_roots(self) -> pa.Table:
        used = pa.array(np.unique(np.concatenate(self._used)))
        known = self._roots.group_by(self._roots.column_names).aggregate([])
        return known.filter(pc.is_in(known.column("partition"), value_set=used))


def _amount(inputs: Sequence[Segment]) -> tuple[int, int]:
    """Return the rows and the ingested rows of segments."""
    return sum(segment.rows for segment in inputs), sum(segment.events for segment in inputs)


def _batches(first: pa.Table, rest: Iterator[pa.Table]) -> Iterator[pa.RecordBatch]:
    yield from first.to_batches()
    for rows in rest:
        yield from rows.to_batches()
