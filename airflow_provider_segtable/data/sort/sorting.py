"""Sort segments, in bounded memory, on one machine or many: the specification, plan and stages.

The specification and the plan:

1. The order is checked before anything is read.
2. A time chunk gets several ranges for each segment to be written, and enough ranges that the rows
   moved at once stay within their share of memory.
3. The plan gathers *directly* from the inputs if few bytes are then read more than once: at most
   ``DIRECT`` times the inputs' bytes, as when the inputs are sorted already, or few. Writing and
   reading a run costs about as much as one more read.

The stages, each of them a list of jobs:

4. *Sample*: inputs are checked, keys sampled, and rows counted: live rows for each target time
   chunk, and deleted rows.
5. The key is cut into *ranges*, several for each segment to be written, none empty
   (``data.sort_keys``).
6. *Scatter*: rows are divided by range and written as runs (``data.sort.blocks``), one bounded
   batch per job. A direct plan skips this stage.
7. Ranges are grouped into segments of about the target size, by the measured bytes of a row in a
   sorted file. The number of segments is known only then, so ids are allocated then.
8. *Gather*: each segment's ranges are read, sorted and written.
9. Balance check: the outputs have as many ingested rows as the inputs, less the
   deleted ones. Runs are removed at the end, also after a failure.
10. Rows with a root address keep it, in hidden columns from then on.
11. A task holds about ``memory`` decoded bytes, however large the inputs are: batches and parts are
    a quarter each, and exist up to three times while they are moved. A batch that is scattered is
    half of it if the kind merges rows: it exists once, and is merged column by column.

Source of the idea: external distribution sort (Knuth 5.4.9), with sampled splitters as in TeraSort.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput, RowsOutOfBalance, SegtableError
from airflow_provider_segtable.core.schema import Order, Schema, no_column
from airflow_provider_segtable.core.segment import (
    Place,
    Roots,
    Segment,
    SegmentId,
    Shard,
    inherited,
)
from airflow_provider_segtable.core.tables.field_ids import field_ids
from airflow_provider_segtable.core.time import Instant, Interval
from airflow_provider_segtable.data.jobs.segment_writer import SegmentPlacement, emptied
from airflow_provider_segtable.data.open_files import open_files
from airflow_provider_segtable.data.parquet.table_file import stored_columns, with_hidden_ids
from airflow_provider_segtable.data.row_filter import RowFilter, row_filter_of
from airflow_provider_segtable.data.sort.blocks import (
    Block,
    Shape,
    Sizing,
    SortRun,
    batches,
    grouped,
    packed,
    parts_of,
)
from airflow_provider_segtable.data.sort.sort_jobs import (
    GatherJob,
    Output,
    RowKind,
    ScatterJob,
    Task,
    groups,
)
from airflow_provider_segtable.data.sort.sort_sample import Surveyed, SurveyJob, physical
from airflow_provider_segtable.data.sort_keys import (
    Indices,
    Keying,
    Numbers,
    Ranges,
    assigned,
    check_sortable,
    cut,
    grid_of,
    joined,
)
from airflow_provider_segtable.ports.files import DataFiles
from airflow_provider_segtable.ports.job import Job

# The specification and the plan
DIRECT = 2.0
"""The most bytes that gathering directly from the inputs may read, as a multiple of their size."""
SAMPLED_BLOCKS = 24
SAMPLED_ROWS = 50_000
POINTS = 60
"""Sampled rows for each range."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SortSpec:
    """The specification of a sort.

    Attributes:
        uri: the table's URI.
        storage_options: the table's storage options.
        schema: the table's schema.
        time_column: the event time.
        order: the sort order; if empty, by event time.
        intervals: the target time chunks, sorted and disjoint; most may stay empty.
        target_size: wanted bytes of a segment.
        memory: decoded bytes that one task may hold.
        parallelism: the number of tasks that may run at once.
        attempt: 16 hex digits, part of every file name.
        created: when the attempt began.
        row_kind: the rows of the table's kind.
        replaces: the roots that the result replaces, kept in the first segment of each time chunk.
        buckets: with a primary key: the number of buckets of each time chunk; empty if the rows
            stay in their bucket.
        most: the most segments allowed (0: no limit).
        drop_before: with a primary key: tombstones that completed before may be left out.
        member: at least one segment is needed, an empty one if no row is left.
        row_filters: row filters by input; an input without one has no deletes.
        deletes_applied_through: the last event whose deletes are in the row filters.
        definition: the table's, for the footers; that of some input by default.
    """

    uri: str
    storage_options: Mapping[str, str]
    schema: Schema
    time_column: str
    order: Order
    intervals: tuple[Interval, ...]
    target_size: int
    memory: int = 512 << 20
    parallelism: int = 2
    attempt: str
    created: Instant
    row_kind: RowKind
    replaces: tuple[Roots, ...] = ()
    buckets: tuple[int, ...] = ()
    most: int = 0
    drop_before: Instant = 0
    member: bool = False
    row_filters: Mapping[SegmentId, RowFilter] = field(default_factory=dict)
    deletes_applied_through: int = 0
    definition: bytes = b""

    def sieves_of(self, inputs: Sequence[Segment]) -> dict[int, RowFilter]:
        """Return the row filters of inputs, by input number."""
        return {number: row_filter_of(self.row_filters, one) for number, one in enumerate(inputs)}

    @property
    def share(self) -> float:
        """Return the decoded bytes that may be moved at once."""
        return self.memory / 4


@dataclass(frozen=True, slots=True, kw_only=True)
class SortPlan:
    """The plan of a sort; ``row_filters`` are by input number."""

    spec: SortSpec
    row_filters: Mapping[int, RowFilter]
    task: Task
    ranges: Ranges
    blocks: tuple[tuple[Block, int, int], ...]
    density: float

    @property
    def direct(self) -> bool:
        """Return whether to gather directly from the inputs."""
        if self.ranges.count == 1:
            return True
        if self.spec.row_kind.kind.merges:
            return False
        sizing = self.sizing(self.density)
        read = 0
        for outputs in packed(grouped(self.ranges, sizing), self.ranges.rows, sizing):
            for first, end in parts_of(outputs, self.ranges.rows, sizing):
                read += sum(b.size for b, low, high in self.blocks if low < end and high >= first)
        return read <= DIRECT * sum(block.size for block, _, _ in self.blocks)

    def sizing(self, density: float) -> Sizing:
        """Return the sizes of segments and parts."""
        return Sizing(
            rows=max(1.0, self.spec.target_size / max(density, 1e-9)),
            part=self.spec.share / self.task.shape.width,
            most=self.spec.most,
        )


def keying_of(spec: SortSpec, schema: pa.Schema) -> Keying:
    """Return the sort key as known before sampling.

    Raises:
        InvalidInput: the order names a column that is missing or cannot be sorted by.
    """
    known = {*schema.names}
    for name in spec.order.columns:
        if name not in known:
            raise no_column(name, schema.names, f"for the order {spec.order}")
        check_sortable(name, schema.field(name).type)
    if not spec.intervals:
        raise InvalidInput("there is no target time chunk to sort into")
    columns = (*spec.order.columns, *spec.row_kind.kind.tie_columns(spec.time_column))
    return Keying(
        columns=tuple(dict.fromkeys(columns)),
        time_column=spec.time_column,
        order=len(spec.order.columns),
        intervals=spec.intervals,
    )


def survey_jobs(
    spec: SortSpec, inputs: Sequence[Segment], schema: pa.Schema, keying: Keying
) -> list[SurveyJob]:
    """Return the jobs of the sample stage."""
    groups = sum(max(1, segment.row_groups) for segment in inputs)
    rows = sum(segment.rows for segment in inputs)
    size = sum(segment.size for segment in inputs)
    segments = max(1, size // spec.target_size)
    points = max(SAMPLED_ROWS, POINTS * Sizing.RANGES * segments + 10 * len(spec.intervals))
    numbered, row_filters = list(enumerate(inputs)), spec.sieves_of(inputs)
    jobs = min(len(inputs), spec.parallelism)
    bounds = np.linspace(0, len(inputs), jobs + 1).astype(int)
    return [
        SurveyJob(
            uri=spec.uri,
            storage_options=spec.storage_options,
            inputs=tuple(segment for _, segment in numbered[a:b]),
            numbers=tuple(number for number, _ in numbered[a:b]),
            row_filters={number: row_filters[number] for number, _ in numbered[a:b]},
            schema=schema,
            keying=keying,
            stride=max(1, groups // SAMPLED_BLOCKS),
            rate=min(1.0, points / rows),
            row_kind=spec.row_kind,
            attempt=spec.attempt,
        )
        for a, b in pairwise(bounds.tolist())
    ]


def planned(
    spec: SortSpec, inputs: Sequence[Segment], keying: Keying, surveys: Sequence[Surveyed]
) -> SortPlan:
    """Return the plan from the sort samples; at least one of them has rows."""
    surveys = [one for one in surveys if one.blocks]
    sample = joined([one.sample for one in surveys])
    if spec.order.curve == "zorder":
        columns = [sample.values.column(name) for name in spec.order.columns]
        keying = replace(keying, grids=tuple(grid_of(c.combine_chunks()) for c in columns))
    shape = _shape(spec, surveys)
    counts = np.sum([one.counts for one in surveys], axis=0)
    weight = np.array([one.sampled for one in surveys], float)
    density = float(np.average([one.density for one in surveys], weights=weight))
    wanted = _wanted(spec, counts, density, shape.width)
    ranges = cut(keying, sample, counts, wanted, divisible=not spec.row_kind.kind.merges)
    blocks = [
        placed
        for one in surveys
        for placed in zip(one.blocks, *_spans(keying, one, ranges), strict=True)
    ]
    task = Task(
        uri=spec.uri,
        storage_options=spec.storage_options,
        shape=shape,
        keying=keying,
        marks=ranges.marks,
        row_kind=spec.row_kind,
        most=spec.share,
        roots=spec.row_kind.kind.roots(inputs),
        deletes_applied_through=spec.deletes_applied_through,
        schema=spec.schema.number,
    )
    return SortPlan(
        spec=spec,
        row_filters=spec.sieves_of(inputs),
        task=task,
        ranges=ranges,
        blocks=tuple(blocks),
        density=density,
    )


def _shape(spec: SortSpec, surveys: Sequence[Surveyed]) -> Shape:
    hidden = {column.name: column for one in surveys for column in one.hidden}
    schema = physical(stored_columns(spec.schema), hidden.values(), spec.row_kind)
    schema = with_hidden_ids(schema, field_ids(spec.schema, spec.row_kind.kind))
    sampled = sum(one.sampled for one in surveys)
    words = [n for n in schema.names if 2 * sum(s.words.get(n, 0) for s in surveys) > sampled]
    width = max(one.width for one in surveys)
    coded = frozenset().union(*(one.coded for one in surveys))
    return Shape(
        schema=schema,
        words=tuple(words),
        width=width,
        coded=coded,
        definition=spec.definition
        or next((one.definition for one in surveys if one.definition), b""),
    )


def _wanted(spec: SortSpec, counts: Indices, density: float, width: float) -> list[int]:
    """Return the number of ranges to make in each time chunk."""
    segments = np.maximum(1, np.round(counts * density / spec.target_size))
    parts = np.ceil(counts * width / spec.share)
    several = np.where(segments > 1, segments * Sizing.RANGES, 1)
    nearly = counts * density > spec.target_size / 2  # the estimate may be too low
    several = np.where((segments == 1) & nearly, Sizing.RANGES, several)
    return [int(n) for n in np.maximum(several, parts * np.where(parts > 1, 2, 1))]


def _spans(keying: Keying, survey: Surveyed, ranges: Ranges) -> tuple[list[int], list[int]]:
    """Return for each block the first and last range that may have rows of it."""
    last = ranges.count - 1
    known = pa.array(np.flatnonzero(survey.bounded))
    ends = [[0, last] for _ in survey.blocks]
    ordinals = np.array([block.ordinals for block in survey.blocks]).reshape(-1, 2)
    for side, table in enumerate((survey.low, survey.high)):
        found = assigned(keying, table.take(known), ordinals[known, side], ranges.marks)
        for at, number in zip(known.to_pylist(), found, strict=True):
            ends[at][side] = int(number)
    return [low for low, _ in ends], [high for _, high in ends]


__all__ = [
    "Outputs",
    "SortSpec",
    "SortStages",
    "discard",
    "run_stages",
    "sort_stages",
    "without_rows",
]

# The stages of a sort
Outputs = Callable[[Mapping[Place, int]], Mapping[Place, Sequence[tuple[SegmentId, Shard]]]]
"""Allocates ids and shards, given the number of segments in each place."""

SortStages = Generator[list[Job], Sequence[Any], tuple[Segment, ...]]


def sort_stages(
    spec: SortSpec, inputs: Sequence[Segment], outputs: Outputs, files: DataFiles | None = None
) -> SortStages:
    """Sort the rows of segments into new ones, in stages (see the module).

    Args:
        spec: the sort's specification.
        inputs: the segments; rows of equal keys keep their order. Empty segments are skipped.
        outputs: allocates ids and shards for a number of segments in each target time chunk.
        files: the data files to remove runs from; opened from the URI if left out.

    Yields:
        Lists of jobs; the caller sends their results, in order.

    Returns:
        The new segments, by target time chunk and key; none if no row is left, unless
        ``spec.member`` requires one.

    Raises:
        InvalidInput: the order names a column that is missing or cannot be sorted by.
        RowsOutOfBalance: rows out differ from rows in; the new files are removed.
    """
    given = tuple(segment for segment in inputs if segment.rows)
    spec = replace(spec, replaces=spec.replaces or inherited(given))
    schema = stored_columns(spec.schema)
    keying = keying_of(spec, schema)
    surveys = (yield [*survey_jobs(spec, given, schema, keying)]) if given else ()
    dropped = sum(survey.dropped for survey in surveys)
    if not any(survey.blocks for survey in surveys):
        _check_books(spec, given, (), dropped)
        return without_rows(spec, outputs)
    plan = planned(spec, given, keying, surveys)
    runs: tuple[SortRun, ...] = ()
    try:
        if not plan.direct:
            scattered = yield [*_scatters(plan)]
            runs = tuple(run for some in scattered for run in some)
        jobs = _gathers(plan, runs, outputs)
        results = yield [*jobs]
        segments = tuple(segment for result in results for segment in result)
        _check_books(spec, given, segments, dropped)
        return segments
    finally:
        discard(files or open_files(spec.uri, spec.storage_options), runs)


def without_rows(spec: SortSpec, outputs: Outputs) -> tuple[Segment, ...]:
    """Return the result if no row is left: one empty segment if ``spec.member``, else nothing."""
    if not spec.member:
        return ()
    place = Place(spec.intervals[0])
    ((name, shard),) = outputs({place: 1})[place]
    order = str(spec.order)
    own = SegmentPlacement(
        shard=shard,
        clustering=order,
        replaces=spec.replaces,
        deletes_applied_through=spec.deletes_applied_through,
    )
    return (emptied(name, spec.created, own),)


def discard(files: DataFiles, results: Sequence[Any]) -> None:
    """Delete the files named in results of jobs; ignore failures."""
    for result in results:
        for one in result if isinstance(result, tuple) else (result,):
            if isinstance(one, Segment | SortRun) and one.path:
                with suppress(SegtableError):
                    files.delete(one.path)


def run_stages(stages: SortStages, files: DataFiles | None = None) -> tuple[Segment, ...]:
    """Run all jobs in this process, one after another.

    Raises:
        SegtableError: raised by a job; the files of the jobs before it are removed.
    """
    done: list[Any] = []
    try:
        jobs = next(stages)
        while True:
            results: list[Any] = []
            for job in jobs:
                results.append(job.run(files))
                done.append(results[-1])
            jobs = stages.send(results)
    except StopIteration as stop:
        segments: tuple[Segment, ...] = stop.value
        return segments
    except BaseException:
        stages.close()
        if files is not None:
            discard(files, done)
        raise


def _scatters(plan: SortPlan) -> list[ScatterJob]:
    blocks = [block for block, _, _ in plan.blocks]
    most = plan.spec.share * (2 if plan.spec.row_kind.kind.merges else 1)
    return [
        ScatterJob(
            task=plan.task,
            most=most,
            blocks=tuple(batch),
            row_filters={block.input: plan.row_filters[block.input] for block in batch},
            folder=plan.spec.attempt,
            attempt=plan.spec.attempt,
        )
        for batch in batches(blocks, most / plan.task.shape.width, plan.spec.parallelism)
    ]


Rows = tuple[float, ...]


def _gathers(plan: SortPlan, runs: Sequence[SortRun], outputs: Outputs) -> list[GatherJob]:
    spec, density = plan.spec, plan.density
    load = rows = plan.ranges.rows  # rows read, and rows left after rollup
    if runs:
        load, rows = _rows_of(runs, plan.ranges.count)
        density = float(np.average([r.density for r in runs], weights=[sum(r.rows) for r in runs]))
    ranges = replace(plan.ranges, rows=tuple(rows))
    sizing = plan.sizing(density)
    segments = grouped(ranges, sizing)
    named = _named(spec, ranges, segments, outputs)
    packs = packed(segments, load, sizing)
    by_first = {output.first: output for output in named}
    jobs = []
    for pack in packs:
        first, end = pack[0][0], pack[-1][1]
        near = tuple(one for one in plan.blocks if one[1] < end and one[2] >= first)
        jobs.append(
            GatherJob(
                task=plan.task,
                outputs=tuple(by_first[a] for a, _ in pack),
                parts=tuple(parts_of(pack, load, sizing)),
                runs=tuple(runs),
                blocks=() if runs else near,
                row_filters={}
                if runs
                else {one[0].input: plan.row_filters[one[0].input] for one in near},
                clustering=str(spec.order),
                created=spec.created,
                size=int(sum(load[first:end]) * density) + 1,
                attempt=spec.attempt,
            )
        )
    return jobs


def _rows_of(runs: Sequence[SortRun], count: int) -> tuple[Rows, Rows]:
    """Return the rows of each range, and an estimate of the rows left after rollup."""
    rows = np.zeros(count)
    for run in runs:
        np.add.at(rows, list(run.ranges), run.rows)
    if not any(run.noted for run in runs):
        return tuple(rows.tolist()), tuple(rows.tolist())
    found: list[list[Numbers]] = [[] for _ in rows]
    for run in runs:
        for number, hashes in zip(run.ranges, run.noted, strict=True):
            found[number].append(hashes)
    return tuple(rows.tolist()), tuple(groups(rows.tolist(), found))


def _named(
    spec: SortSpec,
    ranges: Ranges,
    segments: Sequence[tuple[int, int]],
    outputs: Outputs,
) -> list[Output]:
    by_chunk: dict[Interval, list[tuple[int, int]]] = {}
    for first, end in segments:
        by_chunk.setdefault(spec.intervals[ranges.chunks[first]], []).append((first, end))
    names = outputs({Place(chunk): len(members) for chunk, members in by_chunk.items()})
    return [
        Output(id=name, shard=shard, first=first, end=end, replaces=replaced if not at else ())
        for interval, members in by_chunk.items()
        for replaced in [tuple(r for r in spec.replaces if r.chunk.interval.overlaps(interval))]
        for at, ((first, end), (name, shard)) in enumerate(
            zip(members, names[Place(interval)], strict=True)
        )
    ]


def _check_books(
    spec: SortSpec, inputs: Sequence[Segment], outputs: Sequence[Segment], dropped: int
) -> None:
    noun = "ingested rows" if spec.row_kind.kind.merges else "rows"
    given = sum(segment.events for segment in inputs)
    found = sum(segment.events for segment in outputs)
    if given - dropped != found:
        raise RowsOutOfBalance(
            f"{found} {noun} out, {given} {noun} in, {dropped} of these deleted, from "
            f"{inputs[0].id} on; nothing was published"
        )
