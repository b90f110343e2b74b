"""The jobs of a sort that move rows: scatter divides rows by range, gather sorts them for segments.

1. A scatter job reads some row groups (bounded), divides their rows by range and writes a run. It
   need not sort: the gather job does, and sorting integers costs little beside moving rows.
2. A gather job reads its ranges from runs, or directly from row groups that may have their rows,
   sorts them by key and writes them; rows of equal keys stay in the order of the inputs.
3. A large segment is gathered in *parts*: consecutive ranges, each within its share of memory.
   Several small segments are gathered at once, so that their common inputs are read once.
4. Rows of equal keys are merged in part when scattered, and completely when gathered, if the
   table's kind merges rows. ``RowKind`` has the kind's columns and its merge.
5. A segment without rows is empty: it exists but has no file.

The number of groups after rollup is estimated across runs, without reading the rows again.

6. A group's key is hashed; keys whose hash falls into one of 64 parts are *noted*. Equal keys are
   noted in every run or in none, so the number of groups is about 64 times the number of distinct
   noted keys.
7. Hashes are the same in every process.

Source of the estimate: distinct sampling, Gibbons, "Distinct sampling for highly-accurate answers"
(2001).
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from itertools import chain
from typing import Protocol
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import RowsOutOfBalance, StorageError
from airflow_provider_segtable.core.segment import Roots, Segment, SegmentId, Shard
from airflow_provider_segtable.core.tables.table_kind import TableKind
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.data import sort_keys
from airflow_provider_segtable.data.jobs.segment_writer import (
    ARROW_SCHEMA,
    SegmentPlacement,
    arrow_schema_entry,
    emptied,
    ingested,
    of_used_words,
    plain_schema,
)
from airflow_provider_segtable.data.jobs.sorted_writer import (
    group_rows,
    probed,
    sorted_rows,
    writer,
)
from airflow_provider_segtable.data.open_files import SinkFile, open_files
from airflow_provider_segtable.data.parquet.descriptor import (
    KEY,
    ChecksumSink,
    definition_entry,
    discard,
    encode_descriptor,
    segment_path,
)
from airflow_provider_segtable.data.row_filter import RowFilter
from airflow_provider_segtable.data.rows import instants
from airflow_provider_segtable.data.sort.blocks import (
    FOLDER,
    Block,
    Shape,
    SortRun,
    read_blocks,
    read_run,
    write_run,
)
from airflow_provider_segtable.data.sort_keys import (
    Keying,
    Numbers,
    Ordinals,
    Slices,
    assigned,
    is_sorted,
    ordered_bits,
    spread,
    stable_order,
)
from airflow_provider_segtable.ports.files import DataFiles

# Estimates of the number of groups
PARTS = 64
ENOUGH = 30
"""With fewer noted keys the estimate of a single range is too inexact."""


def noted(rows: pa.Table, columns: Sequence[str]) -> Numbers:
    """Return the hash of each row's key, 0 if the key is not noted."""
    mixed = np.zeros(rows.num_rows, np.uint64)
    for name in columns:
        mixed = spread(mixed * np.uint64(31) + _values(rows.column(name).combine_chunks()))
    return np.where(mixed % np.uint64(PARTS) == 0, mixed | np.uint64(1), np.uint64(0))


def _values(column: pa.Array) -> Numbers:
    bits = ordered_bits(column)
    if bits is not None:
        bits[column.is_null().to_numpy(zero_copy_only=False)] = 0x5BD1E995
        return bits
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    words = (repr(word).encode() for word in column.dictionary.to_pylist())
    hashes = np.array([*map(crc32, words), 0x5BD1E995], np.uint64)
    places = column.indices.fill_null(len(hashes) - 1).to_numpy(zero_copy_only=False)
    return np.asarray(hashes[places], np.uint64)


def groups(rows: Sequence[float], found: Sequence[Sequence[Numbers]]) -> list[float]:
    """Estimate the number of groups in each range.

    Args:
        rows: the rows of each range, rolled up within each run only.
        found: the noted hashes of each range, by run.
    """
    counts = [len(np.unique(np.concatenate(some))) if some else 0 for some in found]
    total = sum(rows)
    ratio = min(1.0, sum(counts) * PARTS / total) if sum(counts) >= ENOUGH else 1.0
    return [
        max(1.0, min(one, count * PARTS if count >= ENOUGH else one * ratio))
        for one, count in zip(rows, counts, strict=True)
    ]


# The kind of table, as sorting sees it
class RowKind(Protocol):
    """The rows of a kind of table, in Arrow; it is sent to Spark's tasks within jobs."""

    @property
    def kind(self) -> TableKind:
        """Return the pure part."""
        ...

    def merged(self, rows: pa.Table, time_column: str) -> pa.Table:
        """Return rows of files with rows of equal keys merged; all rows if the kind merges none."""
        ...

    def sorted_schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns of sorted files, given the inputs' columns without addresses."""
        ...


# Scatter and gather jobs
PROBE_ROWS = 32_768


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """The settings that scatter and gather jobs share; ``most`` bytes may be decoded at once.

    ``roots`` are the roots that may occur in the inputs; ``deletes_applied_through`` is the last
    event whose deletes are in the jobs' row filters; ``schema`` is the outputs' schema number.
    """

    uri: str
    storage_options: Mapping[str, str]
    shape: Shape
    keying: Keying
    marks: sort_keys.RangeBounds
    row_kind: RowKind
    most: float
    roots: tuple[Roots, ...] = ()
    deletes_applied_through: int = 0
    schema: int = 0

    def open(self) -> DataFiles:
        """Open the table's data files."""
        return open_files(self.uri, self.storage_options)


@dataclass(frozen=True, slots=True, kw_only=True)
class ScatterJob:
    """Divide the rows of some blocks by range; ``folder`` receives the run.

    ``row_filters`` are the row filters of the blocks' inputs, by input number; ``most`` bytes may
    be decoded at once.
    """

    task: Task
    most: float
    blocks: tuple[Block, ...]
    row_filters: Mapping[int, RowFilter]
    folder: str
    attempt: str

    @property
    def cost(self) -> int:
        """Return the approximate number of bytes it handles."""
        return sum(block.size for block in self.blocks)

    @property
    def title(self) -> str:
        """Return the job's title in the Spark UI."""
        return f"sort: part {len(self.blocks)} row groups"

    def run(self, files: DataFiles | None = None) -> tuple[SortRun, ...]:
        """Run the job; a row group larger than memory becomes several runs.

        Raises:
            CorruptTable: an input cannot be decoded.
            StorageError: nothing is left behind.
        """
        files = self.task.open() if files is None else files
        runs: list[SortRun] = []
        try:
            for held in _bounded(files, self):
                runs.append(_scattered(self, files, held, len(runs)))
        except Exception:
            for run in runs:
                with suppress(StorageError):  # the first error is the one to report
                    files.delete(run.path)
            raise
        return tuple(runs)


Read = list[tuple[pa.Table, Ordinals]]


def _bounded(files: DataFiles, job: ScatterJob) -> Iterator[Read]:
    """Yield tables as read, in lists of about the size that may be decoded at once."""
    held: Read = []
    size = 0
    for rows, ordinals in read_blocks(
        files, job.blocks, job.task.shape, most=job.most, row_filters=job.row_filters
    ):
        if held and size + rows.nbytes > 1.5 * job.most:
            yield held
            held, size = [], 0
        held.append((rows, ordinals))
        size += rows.nbytes
    if held:
        yield held


def _scattered(job: ScatterJob, files: DataFiles, held: Read, number: int) -> SortRun:
    keying = job.task.keying
    merges = job.task.row_kind.kind.merges
    tables = [rows for rows, _ in held]
    rows = pa.concat_tables(tables) if merges else united(tables)  # a merge copies, by column
    ordinals = np.concatenate([some for _, some in held])
    held.clear()
    tables.clear()
    rows = job.task.row_kind.merged(rows, keying.time_column)
    found = list(_parted(rows, assigned(keying, rows, ordinals, job.task.marks)))
    first = job.blocks[0]
    name = f"{first.input:06d}-{first.group:06d}-{number:03d}-{job.attempt}.arrow"
    parts = ((number, rows.take(places)) for number, places in found)
    run = write_run(files, f"{FOLDER}/{job.folder}/{name}", rows.schema, parts)
    run = replace(run, density=_density(rows, found, job.task))
    return replace(run, noted=_noted(rows, found, keying)) if merges else run


def united(tables: Sequence[pa.Table]) -> pa.Table:
    """Return the concatenation of tables, with one chunk per column."""
    return pa.concat_tables(tables).unify_dictionaries().combine_chunks()


def _parted(rows: pa.Table, labels: Slices) -> Iterator[tuple[int, pa.Array]]:
    """Yield each label that occurs, in order, with the numbers of its rows."""
    if not rows.num_rows:
        return
    top = int(labels.max())
    small = labels.astype(np.uint16) if top < 1 << 16 else labels  # radix sort, in one pass
    order = np.argsort(small, kind="stable")
    ends = np.cumsum(np.bincount(labels, minlength=top + 1))
    first = 0
    for number, end in enumerate(ends):
        if end > first:
            yield number, pa.array(order[first:end])
        first = int(end)


def _noted(
    rows: pa.Table, found: Sequence[tuple[int, pa.Array]], keying: Keying
) -> tuple[Numbers, ...]:
    hashes = noted(rows, keying.columns)
    parts = (hashes[np.asarray(places)] for _, places in found)
    return tuple(part[part != 0] for part in parts)


def _density(rows: pa.Table, found: Sequence[tuple[int, pa.Array]], task: Task) -> float:
    """Estimate the run's bytes per row in a sorted file, from consecutive ranges in its middle."""
    ends = np.cumsum([len(places) for _, places in found])
    start = max(0, int(ends[-1]) // 2 - PROBE_ROWS // 2)
    first, last = np.searchsorted(ends, [start, start + PROBE_ROWS - 1], side="right")
    some = pa.chunked_array([places for _, places in found[first : last + 1]])
    sample = sorted_rows(rows.take(some.combine_chunks()), task.keying).slice(0, 2 * PROBE_ROWS)
    return probed(sample, task.shape.coded).width


@dataclass(frozen=True, slots=True, kw_only=True)
class Output:
    """A segment to be written from ranges ``[first, end)``."""

    id: SegmentId
    shard: Shard
    first: int
    end: int
    replaces: tuple[Roots, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class GatherJob:
    """Write segments: several in one part, or one in several parts.

    Attributes:
        outputs: the segments, in order of their ranges.
        parts: the ranges to read and sort at once.
        runs: the runs that hold the rows; if empty, ``blocks`` hold them.
        blocks: row groups that may have rows of the ranges, with the first and last range of each.
        row_filters: the row filters of the blocks' inputs, by input number.
        clustering: the order's text.
        created: when the attempt began.
        size: the approximate number of bytes it reads.
    """

    task: Task
    outputs: tuple[Output, ...]
    parts: tuple[tuple[int, int], ...]
    runs: tuple[SortRun, ...] = ()
    blocks: tuple[tuple[Block, int, int], ...] = ()
    row_filters: Mapping[int, RowFilter] = field(default_factory=dict)
    clustering: str
    created: Instant
    size: int
    attempt: str

    @property
    def cost(self) -> int:
        """Return the approximate number of bytes it handles."""
        return self.size

    @property
    def title(self) -> str:
        """Return the job's title in the Spark UI."""
        return f"sort: write {self.outputs[0].id}" + (
            f" and {len(self.outputs) - 1} more" if len(self.outputs) > 1 else ""
        )

    def run(self, files: DataFiles | None = None) -> tuple[Segment, ...]:
        """Run the job.

        Raises:
            CorruptTable: an input or a run cannot be decoded.
            RowsOutOfBalance: a segment would have rows of another time chunk.
            StorageError: nothing is left behind.
        """
        files = self.task.open() if files is None else files
        written: list[Segment] = []
        try:
            if len(self.outputs) == 1:
                rows = (_load(self, files, *part)[0] for part in self.parts)
                written.append(_write(self, files, self.outputs[0], rows))
                return tuple(written)
            rows, labels = _load(self, files, *self.parts[0])
            places = dict(_parted(rows, _of_output(self.outputs, labels)))
            for number, output in enumerate(self.outputs):
                some = [rows.take(places[number])] if number in places else []
                written.append(_write(self, files, output, iter(some)))
        except Exception:
            discard(files, written)
            raise
        return tuple(written)


def _of_output(outputs: Sequence[Output], labels: Slices) -> Slices:
    firsts = np.array([output.first for output in outputs])
    return np.searchsorted(firsts, labels, side="right") - 1


def _load(job: GatherJob, files: DataFiles, first: int, end: int) -> tuple[pa.Table, Slices]:
    """Return the rows of ranges ``[first, end)``, in the order of the inputs, and their ranges."""
    read = _from_runs if job.runs else _from_blocks
    tables, labels = [], []
    for rows, of_rows in read(job, files, first, end):
        tables.append(rows)
        labels.append(of_rows)
    if not tables:
        return job.task.shape.worded.empty_table(), np.zeros(0, np.int64)
    return united(tables), np.concatenate(labels)


def _from_runs(
    job: GatherJob, files: DataFiles, first: int, end: int
) -> Iterator[tuple[pa.Table, Slices]]:
    for run in job.runs:
        for number, rows in read_run(files, run, first, end):
            yield rows, np.full(rows.num_rows, number)


def _from_blocks(
    job: GatherJob, files: DataFiles, first: int, end: int
) -> Iterator[tuple[pa.Table, Slices]]:
    task = job.task
    near = {b: (low, high) for b, low, high in job.blocks if low < end and high >= first}
    one = len(job.outputs) == 1
    picks = [at for at in (first - 1, end - 1) if 0 <= at < len(task.marks)]
    marks = task.marks.some(picks) if one else task.marks
    for rows, ordinals in read_blocks(
        files, list(near), task.shape, most=task.most / 2, row_filters=job.row_filters
    ):
        rows = task.row_kind.merged(rows, task.keying.time_column)  # noqa: PLW2901
        labels = assigned(task.keying, rows, ordinals, marks)
        if one:  # label 0 is before the part, unless the part begins at the first range
            labels = np.where(labels == int(first > 0), first, -1)
        inside = (labels >= first) & (labels < end)
        if inside.all():
            yield rows, labels
        elif inside.any():
            yield rows.filter(pa.array(inside)), labels[inside]


def _write(job: GatherJob, files: DataFiles, output: Output, parts: Iterator[pa.Table]) -> Segment:
    task, path = job.task, segment_path(output.id, job.attempt)
    schema, groups = task.shape.worded, _groups(task, parts)
    first, seen = next(groups, None), _Written()
    if first is None:
        return emptied(output.id, job.created, _placement(job, output))
    with files.create(path) as plain:
        sink = ChecksumSink(plain)
        with writer(SinkFile(sink), schema, task.keying, task.shape.coded, first) as parquet:
            every = chain(iter([first]), groups)
            del first  # one row group at a time is in memory
            for group in every:
                parquet.write_table(of_used_words(group), row_group_size=max(1, group.num_rows))
                seen.add(group, task)
            seen.check(output)
            segment = _described(job, output, seen)
            entry = arrow_schema_entry(plain_schema(schema))
            own = {KEY: encode_descriptor(segment), ARROW_SCHEMA: entry, **sink.entry()}
            parquet.add_key_value_metadata(own | definition_entry(task.shape.definition))
        segment = replace(segment, path=path, size=sink.position, footer=sink.footer)
        sink.commit()
    return segment


@dataclass(slots=True)
class _Written:
    """Counts of the rows of a segment written so far."""

    rows: int = 0
    events: int = 0
    groups: int = 0
    times: list[Instant] = field(default_factory=list)

    def add(self, group: pa.Table, task: Task) -> None:
        self.rows += group.num_rows
        self.events += ingested(group)
        self.groups += 1
        bounds = pc.min_max(instants(group.column(task.keying.time_column)))
        self.times += (bounds["min"].as_py(), bounds["max"].as_py())

    def check(self, output: Output) -> None:
        for at in (min(self.times), max(self.times)):
            if not output.id.interval.holds(at):
                raise RowsOutOfBalance(
                    f"segment {output.id} would have a row at {at} µs, outside its time chunk; "
                    "nothing was published"
                )


def _placement(job: GatherJob, output: Output) -> SegmentPlacement:
    return SegmentPlacement(
        shard=output.shard,
        clustering=job.clustering,
        replaces=output.replaces,
        deletes_applied_through=job.task.deletes_applied_through,
        schema=job.task.schema,
    )


def _described(job: GatherJob, output: Output, seen: _Written) -> Segment:
    return replace(
        emptied(output.id, job.created, _placement(job, output)),
        rows=seen.rows,
        events=seen.events,
        row_groups=seen.groups,
        time_min=min(seen.times),
        time_max=max(seen.times),
        roots=job.task.roots,
    )


def _groups(task: Task, parts: Iterator[pa.Table]) -> Iterator[pa.Table]:
    """Yield sorted row groups; only one row group at a time is copied."""
    for part in parts:
        rows = task.row_kind.merged(part, task.keying.time_column)
        keys = task.keying.keys(rows)
        order = None if is_sorted(keys) else stable_order(keys)
        step = group_rows(rows)
        for start in range(0, rows.num_rows, step):
            if order is None:
                yield rows.slice(start, step)
            else:
                yield rows.take(pa.array(order[start : start + step]))
