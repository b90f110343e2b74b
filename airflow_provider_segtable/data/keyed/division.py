"""Division: file groups are merged into those of other time chunks, or of other buckets.

1. *Count*: the keys and times of files whose rows may belong to several parts are read, to know how
   many rows each part gets. Files that lie in one part are not read.
2. *Merge*: each part is merged from all files that have rows of it (``merge_job``), in bounded
   memory. A part without rows gets no file group.
3. The inputs' ingested rows are shared out to the parts in proportion to their rows, so that they
   add up to those of the inputs.
4. Each part names the files that it has rows of (``replaces``), so that files alone say what a new
   version stands for.

Source of the idea: rehashing by whole buckets, as in Apache Hudi's bucket resizing.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

import numpy as np

from airflow_provider_segtable.core.segments.roots import replaced_files
from airflow_provider_segtable.core.segments.segment import Segment
from airflow_provider_segtable.data.files.open_files import open_files
from airflow_provider_segtable.data.keyed.merge_job import FILE_COST, MergeJob
from airflow_provider_segtable.data.keyed.part import Part
from airflow_provider_segtable.data.keyed.record_columns import record_columns
from airflow_provider_segtable.data.parquet.metadata.descriptor import decode_definition
from airflow_provider_segtable.data.parquet.segment_scan import SegmentRead
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
            found += [part.of(batch, time_column).sum() for part in self.parts]
        return tuple(found.tolist())


@dataclass(frozen=True, slots=True, kw_only=True)
class _Share:
    """The inputs of a part, and how much of them it gets."""

    part: Part
    inputs: tuple[Segment, ...]
    rows: int
    size: int


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
    jobs: list[Job] = [
        CountJob(
            uri=job.uri,
            storage_options=job.storage_options,
            segment=segment,
            parts=tuple(reached[segment]),
            definition=job.definition,
            attempt=job.attempt,
        )
        for segment in several
    ]
    counted = (yield jobs) if jobs else ()
    rows = {
        (segment, part): count
        for segment, counts in zip(several, counted, strict=True)
        for part, count in zip(reached[segment], counts, strict=True)
    }
    shares = [*_shares(inputs, reached, rows, parts)]
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
        )
        for each, count in zip(shares, events, strict=True)
    ]
    return tuple(segment for result in results for segment in result)


def _shares(
    inputs: Sequence[Segment],
    reached: Mapping[Segment, Sequence[Part]],
    rows: Mapping[tuple[Segment, Part], int],
    parts: Sequence[Part],
) -> Iterator[_Share]:
    for part in parts:
        some = {s: rows.get((s, part), s.rows) for s in inputs if part in reached[s]}
        filled = {segment: count for segment, count in some.items() if count}
        if filled:
            yield _Share(
                part=part,
                inputs=tuple(filled),
                rows=sum(filled.values()),
                size=sum(s.size * count // s.rows for s, count in filled.items()),
            )


def _shared_out(total: int, rows: Sequence[int]) -> list[int]:
    """Return a total in parts, in proportion to their rows."""
    ends = [0, *np.cumsum(rows).tolist()]
    return [total * end // ends[-1] - total * start // ends[-1] for start, end in pairwise(ends)]
