"""Sorting segments, in bounded memory, on one machine or many: stages of jobs.

1. *Sample*: inputs are checked, keys sampled, and rows counted: live rows for each target time
   chunk, and deleted rows.
2. The key is cut into *ranges*, several for each segment to be written, none empty (``ranges``).
3. *Scatter*: rows are divided by range and written as runs (``runs``), one bounded batch per job.
   It is skipped if gathering directly from the inputs reads at most ``DIRECT`` times their bytes,
   as when they are sorted already, or few: a run costs about as much as one more read.
4. Ranges are grouped into segments of about the target size, by the measured bytes of a row in a
   sorted file. The number of segments is known only then, so ids are allocated then.
5. *Gather*: each segment's ranges are read, sorted and written.
6. Balance check: the ingested rows that the outputs stand for equal those of the inputs, less the
   deleted ones. Runs are removed at the end, also after a failure.
7. Rows with a root address keep it, in hidden columns from then on.

A task holds about ``memory`` decoded bytes, however large the inputs are: batches and parts are a
quarter each, and exist up to three times while they are moved.

Source of the idea: external distribution sort (Knuth 5.4.9), with sampled splitters as in TeraSort.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any

import numpy as np

from airflow_provider_segtable.core.errors import RowsOutOfBalance, SegtableError
from airflow_provider_segtable.core.segment import Place, Segment, SegmentId, Shard, inherited
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.data.files.open_files import open_files
from airflow_provider_segtable.data.jobs.segment_writer import SegmentPlacement, emptied
from airflow_provider_segtable.data.parquet.table_file import stored_columns
from airflow_provider_segtable.data.rollup.distinct import groups
from airflow_provider_segtable.data.sort.ranges import Ranges
from airflow_provider_segtable.data.sort.runs import SortRun
from airflow_provider_segtable.data.sort.sizing import batches, grouped, packed, parts_of
from airflow_provider_segtable.data.sort.sort_jobs import GatherJob, Output, ScatterJob
from airflow_provider_segtable.data.sort.sort_keys import Numbers
from airflow_provider_segtable.data.sort.sort_plan import (
    SortPlan,
    SortSpec,
    keying_of,
    planned,
    survey_jobs,
)
from airflow_provider_segtable.ports.files import DataFiles
from airflow_provider_segtable.ports.job import Job

__all__ = [
    "Outputs",
    "SortSpec",
    "SortStages",
    "discard",
    "run_stages",
    "sort_stages",
    "without_rows",
]

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
    share = plan.spec.share / plan.task.shape.width
    return [
        ScatterJob(
            task=plan.task,
            blocks=tuple(batch),
            row_filters={block.input: plan.row_filters[block.input] for block in batch},
            folder=plan.spec.attempt,
            attempt=plan.spec.attempt,
        )
        for batch in batches(blocks, share, plan.spec.parallelism)
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
    what = "ingested rows" if spec.row_kind.kind.merges else "rows"
    given = sum(segment.events for segment in inputs)
    found = sum(segment.events for segment in outputs)
    if given - dropped != found:
        raise RowsOutOfBalance(
            f"{found} {what} out, {given} {what} in, {dropped} of these deleted, from "
            f"{inputs[0].id} on; nothing was published"
        )
