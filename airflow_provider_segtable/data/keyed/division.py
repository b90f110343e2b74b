"""Division: file groups are merged into those of other time chunks, or of other buckets.

1. *Count*: the keys and times of files whose rows may belong to several parts are read, to know how
   many rows each part gets. Files that lie in one part are not read.
2. *Parted keys*: readers see one row for a key of a file group. If the group is cut into several
   time chunks, its records of one key may come to lie in several of these, where they hide each
   other no more. So the keys and times of a group that is cut are compared (``PartedJob``). If a
   key has records in several chunks, the whole group is merged before its rows are divided: what
   readers did not see comes to lie nowhere.
3. *Merge*: each part is merged from all files that have rows of it (``merge_job``), in bounded
   memory. A part without rows gets no file group.
4. The inputs' ingested rows are shared out to the parts in proportion to their rows, so that they
   add up to those of the inputs.
5. Each part names the files that it has rows of (``replaces``), so that files alone say what a new
   version stands for.

Source of the idea: rehashing by whole buckets, as in Apache Hudi's bucket resizing.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np
import pyarrow as pa

from airflow_provider_segtable.core.segment import ChunkKey, Segment, replaced_files
from airflow_provider_segtable.core.tables.merge_rules import MergeRules
from airflow_provider_segtable.data.arrow.event_times import instants
from airflow_provider_segtable.data.files.open_files import open_files
from airflow_provider_segtable.data.keyed.group_reader import GroupReader
from airflow_provider_segtable.data.keyed.merge_job import FILE_COST, MergeJob
from airflow_provider_segtable.data.keyed.part import Part, rows_in_parts
from airflow_provider_segtable.data.keyed.record_columns import record_columns
from airflow_provider_segtable.data.merge.merge_runs import merge_runs, windows
from airflow_provider_segtable.data.merge.merging import key_codes
from airflow_provider_segtable.data.merge.root_orders import RootOrders
from airflow_provider_segtable.data.parquet.metadata.descriptor import decode_definition
from airflow_provider_segtable.data.parquet.segment_scan import SegmentRead
from airflow_provider_segtable.data.sort.sort_keys import Indices
from airflow_provider_segtable.data.sort.sorting import Outputs, SortStages
from airflow_provider_segtable.ports.files import DataFiles
from airflow_provider_segtable.ports.job import Job


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
        return self.segment.size + FILE_COST

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
        return sum(segment.size + FILE_COST for segment in self.segments)

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
