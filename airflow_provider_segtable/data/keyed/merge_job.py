"""Compact file groups: merge one into a group of files, or divide several among other places.

Compaction of a file group: its runs are merged into one run, written as a group of files.

1. A job is plain data; it runs in this process or in a Spark task.
2. Memory holds some batches of each input (``data.keyed.merging.merge_runs``) and two row groups of
   the output, however large the files are. Row groups are as small as in sorted segments. If there
   are several of them, a thread reads and merges rows while others are encoded and written.
3. Tombstones stay, unless the group begins at the first root of its bucket (then no older record
   can come back by a compaction) and they are older than ``drop_before`` (then no late record is
   expected any more).
4. Outputs are parts of the merged rows, about equal in rows; the last has the rest. Their events
   add up to the inputs' events. A part without rows is a segment without a file.
5. After a failure the job deletes the files that it wrote: no reader can have seen them.

Division: file groups are merged into file groups of other time chunks or buckets, in stages.

6. *Count*: the keys and times of files whose rows may belong to several parts are read, to count
   the rows of each part. A *part* is the rows of one place. Files that lie in one part are not
   read.
7. *Parted keys*: readers see one row for a key of a file group. If the group is cut into several
   time chunks, its records of one key may come to lie in several of these, where they hide each
   other no more. So the keys and times of a group that is cut are compared (``PartedJob``). If a
   key has records in several chunks, the whole group is merged before its rows are divided, so that
   hidden records do not become visible.
8. *Merge*: each part is merged by a ``MergeJob`` from all files that have rows of it, in bounded
   memory. The job merges the records of file groups with parted keys before it takes the rows of
   the part. A part without rows gets no file group.
9. The inputs' ingested rows are shared out to the parts in proportion to their rows, so that
   the sums are equal.
10. Each part names the files of its rows (``replaces``), so that the files alone show which files
    a new version replaces.

Source of the idea: rehashing by whole buckets, as in Apache Hudi's bucket resizing.
"""

import secrets
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import field, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.segment import (
    ChunkKey,
    Roots,
    Segment,
    SegmentId,
    Shard,
    replaced_files,
)
from airflow_provider_segtable.core.tables.merge_rules import ROOT_OF, ROOT_PARTITION, MergeRules
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.data.files_ahead import made_beside
from airflow_provider_segtable.data.jobs.segment_writer import (
    PAGE_ROWS,
    Described,
    SegmentPlacement,
    emptied,
    write_segment,
)
from airflow_provider_segtable.data.jobs.sorted_writer import SORTED_ROWS
from airflow_provider_segtable.data.keyed.group_reader import (
    GroupReader,
    base_path,
    log_path,
    record_columns,
    roots_entry,
)
from airflow_provider_segtable.data.keyed.key_groups import RootOrders
from airflow_provider_segtable.data.keyed.keyed_rows import Part, rows_in_parts
from airflow_provider_segtable.data.keyed.merging import NEVER, key_codes, merge_runs, windows
from airflow_provider_segtable.data.open_files import open_files
from airflow_provider_segtable.data.parquet.descriptor import decode_definition, discard
from airflow_provider_segtable.data.parquet.segment_scan import SegmentRead
from airflow_provider_segtable.data.rows import instants
from airflow_provider_segtable.data.sort.sorting import Outputs, SortStages
from airflow_provider_segtable.data.sort_keys import Indices
from airflow_provider_segtable.ports.files import DataFiles
from airflow_provider_segtable.ports.job import Job, cost_of


# Compaction of a file group
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
        replaces: the files that a new version replaces; the first file with rows names them.
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
        return cost_of(self.inputs)

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
                merge = _Merge(self, reader)
                with self._made(merge.rows()) as rows:
                    for segment in merge.written(rows):
                        written.append(segment)  # noqa: PERF402  # a failure deletes the earlier
        except Exception:
            discard(files, written)
            raise
        return tuple(written)

    def _made(self, rows: Iterator[pa.Table]) -> AbstractContextManager[Iterator[pa.Table]]:
        """Return merged rows: by another thread, if there are several row groups to write."""
        if _amount(self.inputs)[0] <= SORTED_ROWS:
            return nullcontext(rows)
        return made_beside(rows, lambda table: table.nbytes)


class _Merge:
    """The merged rows of a job's inputs, cut into its outputs."""

    def __init__(self, job: MergeJob, reader: GroupReader) -> None:
        self._job = job
        self._reader = reader
        self._roots = reader.roots(job.inputs)
        self._words = reader.repeating(job.inputs, job.rules)
        self._rows: Iterator[pa.Table] = iter(())
        self._left = pa.table({})
        self._used: list[Indices] = []
        rows, self._events = job.amount if job.part else _amount(job.inputs)
        self._share = -(-rows // len(job.outputs))
        self._replaces = job.replaces
        own = (segment.buckets for segment in job.inputs)  # a tombstone has none
        self._buckets = job.part.own_buckets if job.part else max(own)

    def written(self, rows: Iterator[pa.Table]) -> Iterator[Segment]:
        """Write merged rows to the outputs, one after another."""
        self._rows = rows
        last = len(self._job.outputs) - 1
        for number, output in enumerate(self._job.outputs):
            segment = self._write(*output, most=None if number == last else self._share)
            self._events -= segment.events
            yield segment

    def rows(self) -> Iterator[pa.Table]:
        """Return the merged rows."""
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
            [each for each in job.inputs if each.id.chunk not in job.whole],
            part=job.part,
            words=self._words,
        )
        for chunk in sorted(job.whole if job.part else ()):
            group = [each for each in job.inputs if each.id.chunk == chunk]
            runs = self._reader.runs(group, words=self._words)
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
            page_rows=PAGE_ROWS,
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


# Division among other time chunks or buckets
@dataclass(frozen=True, slots=True, kw_only=True)
class CountJob:
    """Count the rows of one file in each of several parts."""

    uri: str
    storage_options: Mapping[str, str]
    segment: Segment
    parts: tuple[Part, ...]
    definition: bytes
    attempt: str

    @property
    def cost(self) -> int:
        """Return the approximate number of bytes it handles."""
        return cost_of([self.segment])

    @property
    def title(self) -> str:
        """Return the job's title in the Spark UI."""
        return f"count: {self.segment.id.chunk}"

    def run(self, files: DataFiles | None = None) -> tuple[int, ...]:
        """Return the number of rows, by part.

        Raises:
            CorruptTable: the file differs from its entry in the log.
        """
        files = open_files(self.uri, self.storage_options) if files is None else files
        table, _ = decode_definition(self.definition, "the job's definition")
        time_column = table.time_column
        schema = record_columns(table)
        found = np.zeros(len(self.parts), np.int64)
        for batch in SegmentRead(
            files,
            self.segment,
            schema=schema,
            time_column=time_column,
            columns=list(dict.fromkeys([*self.parts[0].key, time_column])),
        ).batches():
            found += rows_in_parts(self.parts, batch, time_column)
        return tuple(found.tolist())


@dataclass(frozen=True, slots=True, kw_only=True)
class PartedJob:
    """Find out whether a key of a file group has records in several time chunks of its parts."""

    uri: str
    storage_options: Mapping[str, str]
    segments: tuple[Segment, ...]
    parts: tuple[Part, ...]
    rules: MergeRules
    definition: bytes
    attempt: str

    @property
    def cost(self) -> int:
        """Return the approximate number of bytes it handles."""
        return cost_of(self.segments)

    @property
    def title(self) -> str:
        """Return the job's title in the Spark UI."""
        return f"compare: {self.segments[0].id.chunk}"

    def run(self, files: DataFiles | None = None) -> tuple[int, ...]:
        """Return the number of merged rows, by part; none if no key is parted.

        Raises:
            CorruptTable: a file differs from its entry in the log, or is not sorted.
        """
        files = open_files(self.uri, self.storage_options) if files is None else files
        table, _ = decode_definition(self.definition, "the job's definition")
        with GroupReader(files, table).opened(self.segments) as reader:
            return self._counted(reader) if self._parted(reader) else ()

    def _parted(self, reader: GroupReader) -> bool:
        time = reader.table.time_column
        starts = np.array(sorted({part.place.interval.start for part in self.parts}), np.int64)
        columns = list(dict.fromkeys([*self.rules.key, time]))
        runs = reader.runs(self.segments, columns)
        for some in windows(runs, self.rules.key):
            if len(some) > 1 and _several(pa.concat_tables(some), self.rules, time, starts):
                return True
        return False

    def _counted(self, reader: GroupReader) -> tuple[int, ...]:
        time = reader.table.time_column
        needed = self.rules.needed([time], reader.schema.names)
        runs = reader.runs(self.segments, list(dict.fromkeys([*needed, *self.rules.key, time])))
        orders = RootOrders.of_table(reader.roots(self.segments))
        found = np.zeros(len(self.parts), np.int64)
        for rows in merge_runs(runs, self.rules, orders):
            found += rows_in_parts(self.parts, rows, time)
        return tuple(found.tolist())


def _several(rows: pa.Table, rules: MergeRules, time: str, starts: Indices) -> bool:
    """Return whether a key has rows in several of the chunks that start at these times."""
    times = np.asarray(instants(rows.column(time)))
    chunks = np.searchsorted(starts, times, side="right")
    keys = key_codes(rows, rules).rows
    order = np.lexsort((chunks, keys))
    same = keys[order][1:] == keys[order][:-1]
    return bool((same & (chunks[order][1:] != chunks[order][:-1])).any())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Share:
    """The inputs of a part, and how much of them it gets.

    The records of the file groups ``whole`` are merged before their rows are divided.
    """

    part: Part
    inputs: tuple[Segment, ...]
    rows: int
    size: int
    whole: frozenset[ChunkKey] = frozenset()


def divided(
    job: MergeJob,
    inputs: Sequence[Segment],
    parts: Sequence[Part],
    outputs: Outputs,
    target_size: int,
) -> SortStages:
    """Merge files into the file groups of parts, in stages (see the module).

    Args:
        job: a job with the settings of all; its inputs and outputs are filled in.
        inputs: the files, with rows.
        parts: all parts that their rows may belong to.
        outputs: names the files of each place.
        target_size: the wanted bytes of a file.

    Returns:
        The new segments.
    """
    reached = {s: [part for part in parts if part.reaches(s)] for s in inputs}
    several = [s for s in inputs if not any(part.encloses(s) for part in reached[s])]
    cut = [*_cut(inputs, reached)]
    jobs: list[Job] = [*_counts(job, several, reached), *_comparisons(job, cut)]
    counted = (yield jobs) if jobs else ()
    rows = {
        (segment, part): count
        for segment, counts in zip(several, counted[: len(several)], strict=True)
        for part, count in zip(reached[segment], counts, strict=True)
    }
    parted = {
        group[0].id.chunk: dict(zip(its, counts, strict=True))
        for (group, its), counts in zip(cut, counted[len(several) :], strict=True)
        if counts
    }
    shares = [*_shares(inputs, reached, rows, parted, parts)]
    names = outputs({each.part.place: max(1, round(each.size / target_size)) for each in shares})
    events = _shared_out(sum(s.events for s in inputs), [each.rows for each in shares])
    results = yield [
        replace(
            job,
            inputs=each.inputs,
            outputs=tuple(names[each.part.place]),
            part=each.part,
            amount=(each.rows, count),
            replaces=replaced_files(each.inputs),
            whole=each.whole,
        )
        for each, count in zip(shares, events, strict=True)
    ]
    return tuple(segment for result in results for segment in result)


def _counts(
    job: MergeJob, several: Iterable[Segment], reached: Mapping[Segment, Sequence[Part]]
) -> Iterator[CountJob]:
    for segment in several:
        yield CountJob(
            uri=job.uri,
            storage_options=job.storage_options,
            segment=segment,
            parts=tuple(reached[segment]),
            definition=job.definition,
            attempt=job.attempt,
        )


def _cut(
    inputs: Iterable[Segment], reached: Mapping[Segment, Sequence[Part]]
) -> Iterator[tuple[tuple[Segment, ...], tuple[Part, ...]]]:
    """Yield the file groups of several runs whose rows may lie in several chunks, and the parts."""
    groups: dict[ChunkKey, list[Segment]] = {}
    for segment in inputs:
        groups.setdefault(segment.id.chunk, []).append(segment)
    for group in groups.values():
        parts = dict.fromkeys(part for segment in group for part in reached[segment])
        chunks = {part.place.interval for part in parts}
        if len(chunks) > 1 and len({segment.shard.group for segment in group}) > 1:
            yield tuple(group), tuple(parts)


def _comparisons(
    job: MergeJob, cut: Iterable[tuple[tuple[Segment, ...], tuple[Part, ...]]]
) -> Iterator[PartedJob]:
    for group, parts in cut:
        yield PartedJob(
            uri=job.uri,
            storage_options=job.storage_options,
            segments=group,
            parts=parts,
            rules=job.rules,
            definition=job.definition,
            attempt=job.attempt,
        )


def _shares(
    inputs: Sequence[Segment],
    reached: Mapping[Segment, Sequence[Part]],
    rows: Mapping[tuple[Segment, Part], int],
    parted: Mapping[ChunkKey, Mapping[Part, int]],
    parts: Sequence[Part],
) -> Iterator[_Share]:
    """Yield the parts with rows: of parted groups the merged ones are counted, and all files."""
    whole_rows = {chunk: sum(counts.values()) for chunk, counts in parted.items()}
    for part in parts:
        merged = {chunk: count for chunk, its in parted.items() if (count := its.get(part, 0))}
        some = {
            s: rows.get((s, part), s.rows)
            for s in inputs
            if s.id.chunk not in parted and part in reached[s]
        }
        filled = {segment: count for segment, count in some.items() if count}
        used = [s for s in inputs if s in filled or s.id.chunk in merged]
        if used:
            sizes = [
                s.size * merged[c] // whole_rows[c] if c in merged else s.size * filled[s] // s.rows
                for s, c in ((s, s.id.chunk) for s in used)
            ]
            yield _Share(
                part=part,
                inputs=tuple(used),
                rows=sum(filled.values()) + sum(merged.values()),
                size=sum(sizes),
                whole=frozenset(merged),
            )


def _shared_out(total: int, rows: Sequence[int]) -> list[int]:
    """Return a total in parts, in proportion to their rows."""
    ends = [0, *np.cumsum(rows).tolist()]
    return [total * end // ends[-1] - total * start // ends[-1] for start, end in pairwise(ends)]
