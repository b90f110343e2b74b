"""The first stage of sorting: the sort sample, taken from footers and some row groups.

1. Inputs are checked here, all of them, before anything is written.
2. Each row group's key bounds come from statistics. Bounds of the columns make bounds of the key:
   no row is below the least value of every column. If a bound is missing, the row group is
   *unbounded*: it may have rows in any range.
3. Rows are sampled from every n-th row group in the order of their keys, so that both sorted and
   unsorted inputs are represented.
4. Deleted rows are counted exactly, by reading only the columns that identify them. No sample or
   other count includes them, and a row group without live rows is not read again.
5. Rows are counted exactly for each target time chunk. If statistics place a row group in one
   chunk, the row group is not read for the count.
6. The bytes of a row, decoded and in a sorted file, are measured on a few row groups.

Source of the idea: splitters by sampling, as in TeraSort and Spark's range partitioner.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.schema import HIDDEN
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.data.jobs.sorted_writer import probed, sorted_rows
from airflow_provider_segtable.data.open_files import open_files
from airflow_provider_segtable.data.parquet.descriptor import TABLE_KEY
from airflow_provider_segtable.data.parquet.table_file import TableFile, repeats, target_name
from airflow_provider_segtable.data.row_filter import RowFilter
from airflow_provider_segtable.data.sort.blocks import (
    Block,
    Shape,
    blocks_of,
    checked,
    decoding,
    fitted,
    left_out,
    opened,
    sifted,
)
from airflow_provider_segtable.data.sort.sort_jobs import RowKind
from airflow_provider_segtable.data.sort_keys import Keying, Ordinals, Sample, joined
from airflow_provider_segtable.ports.files import DataFiles

PROBES = 4
PROBE_ROWS = 32_768


@dataclass(frozen=True, slots=True, kw_only=True)
class Surveyed:
    """The sort sample of some inputs.

    ``low`` and ``high`` are the bounds of the blocks' keys; ``bounded`` flags the blocks with known
    bounds. ``counts`` are the rows of each target chunk; ``density`` and ``width`` are bytes per
    row in a sorted file and decoded; ``words`` counts, by column, the sampled blocks with few
    distinct values; ``coded`` are the columns that a dictionary makes smaller; ``definition`` is
    the table's, from some footer; ``dropped`` counts the ingested rows that deleted rows stand for.
    """

    blocks: tuple[Block, ...]
    low: pa.Table
    high: pa.Table
    bounded: tuple[bool, ...]
    counts: Ordinals
    sample: Sample
    density: float
    width: float
    words: dict[str, int]
    coded: frozenset[str]
    sampled: int
    hidden: tuple[pa.Field, ...]
    dropped: int
    definition: bytes = b""


@dataclass(frozen=True, slots=True, kw_only=True)
class SurveyJob:
    """Sample some inputs.

    ``numbers`` are the inputs' numbers among all inputs, ``row_filters`` their row filters by
    number. Every ``stride``-th row group is sampled; ``rate`` is the wanted share of all rows in
    the sample.
    """

    uri: str
    storage_options: Mapping[str, str]
    inputs: tuple[Segment, ...]
    numbers: tuple[int, ...]
    row_filters: Mapping[int, RowFilter]
    schema: pa.Schema
    keying: Keying
    stride: int
    rate: float
    row_kind: RowKind
    attempt: str

    @property
    def cost(self) -> int:
        """Return the approximate number of bytes it handles."""
        return 1 + sum(segment.size for segment in self.inputs) // max(1, 2 * self.stride)

    @property
    def title(self) -> str:
        """Return the job's title in the Spark UI."""
        return f"sort: look at {counted(len(self.inputs), 'segment')}"

    def run(self, files: DataFiles | None = None) -> Surveyed:
        """Run the job.

        Raises:
            CorruptTable: an input differs from its entry in the log.
            RowsOutOfBalance: a row lies in no target time chunk.
        """
        files = open_files(self.uri, self.storage_options) if files is None else files
        return _survey(self, files)


@dataclass(slots=True)
class _Footers:
    """Data from footers and row filters; each list has one entry per block."""

    blocks: list[Block] = field(default_factory=list)
    bounds: list[list[tuple[Any, Any]] | None] = field(default_factory=list)
    wordy: list[set[str]] = field(default_factory=list)
    hidden: "dict[str, pa.Field[Any]]" = field(default_factory=dict)
    definition: bytes = b""
    dropped: int = 0


def _survey(job: SurveyJob, files: DataFiles) -> Surveyed:
    seen = _footers(job, files)
    blocks = seen.blocks
    kinds = [job.schema.field(name).type for name in job.keying.columns]
    low, high, bounded = _tables(job.keying.columns, kinds, seen.bounds)
    picked = _picked(job.keying, low, bounded, job.stride) if blocks else []
    words = {name: sum(name in seen.wordy[at] for at in picked) for name in job.schema.names}
    shape = Shape(
        schema=physical(job.schema, seen.hidden.values(), job.row_kind),
        words=tuple(name for name, often in words.items() if often * 2 > len(picked)),
    )
    density, width, coded = _probed(job, files, [blocks[at] for at in picked], shape)
    return Surveyed(
        blocks=tuple(blocks),
        low=low,
        high=high,
        bounded=tuple(bounded),
        counts=_counts(job, files, blocks, (low, high, bounded)),
        sample=_sample(job, files, blocks, picked, shape),
        density=density,
        width=width,
        words=words,
        coded=coded,
        sampled=len(picked),
        definition=seen.definition,
        hidden=tuple(seen.hidden.values()),
        dropped=seen.dropped,
    )


def _footers(job: SurveyJob, files: DataFiles) -> _Footers:
    seen = _Footers()
    for number, segment in zip(job.numbers, job.inputs, strict=True):
        with checked(files, segment, job.schema) as parquet:
            metadata = parquet.metadata
            seen.definition = seen.definition or (metadata.metadata or {}).get(TABLE_KEY, b"")
            for block in blocks_of(parquet, number, segment):
                rows, events = left_out(parquet, block, job.row_filters[number])
                seen.dropped += events
                if rows < block.rows:
                    group = metadata.row_group(block.group)
                    seen.blocks.append(replace(block, kept=block.rows - rows))
                    columns = _columns(parquet, group)
                    seen.bounds.append(_bounds(group, columns, job))
                    seen.wordy.append(_wordy(columns, job.schema))
            more = [one for one in parquet.schema_arrow if one.name.startswith(HIDDEN)]
            seen.hidden |= {one.name: one for one in more}
    return seen


def physical(schema: pa.Schema, hidden: "Iterable[pa.Field[Any]]", row_kind: RowKind) -> pa.Schema:
    """Return the schema of sorted rows: visible and hidden ones, and addresses."""
    for one in hidden:
        schema = schema.append(one)
    return row_kind.sorted_schema(schema)


Chunks = Mapping[str, pq.ColumnChunkMetaData]


def _columns(parquet: "pq.ParquetFile | TableFile", group: pq.RowGroupMetaData) -> Chunks:
    """Return the column chunks of a row group by the table's names."""
    chunks = (group.column(at) for at in range(group.num_columns))
    named = ((target_name(parquet, chunk.path_in_schema), chunk) for chunk in chunks)
    return {name: chunk for name, chunk in named if name}


def _bounds(
    group: pq.RowGroupMetaData, columns: Chunks, job: SurveyJob
) -> list[tuple[Any, Any]] | None:
    """Return the bounds of each key column, or None if one is unknown."""
    found = []
    for name in job.keying.columns:
        if name not in columns:
            return None
        kind = job.schema.field(name).type
        one = _column_bounds(columns[name], kind, group.num_rows)
        if one is None:
            return None
        found.append(one)
    return found


def _column_bounds(
    chunk: pq.ColumnChunkMetaData, kind: pa.DataType, rows: int
) -> tuple[Any, Any] | None:
    statistics = chunk.statistics
    if statistics is None or not statistics.has_null_count:
        return None
    if statistics.null_count == rows:
        return None, None
    if not statistics.has_min_max or getattr(kind, "unit", "") == "ns":
        return None
    try:
        low, high = pa.array([statistics.min, statistics.max], kind).to_pylist()
    except (pa.ArrowException, ValueError, OverflowError, TypeError):
        return None
    if pa.types.is_floating(kind):
        high = float("nan")  # statistics leave it out
    return None if statistics.null_count else low, high


def _tables(
    names: Sequence[str],
    kinds: Sequence[pa.DataType],
    bounds: Sequence[list[tuple[Any, Any]] | None],
) -> tuple[pa.Table, pa.Table, list[bool]]:
    filled = [one or [(None, None)] * len(names) for one in bounds]
    sides = [
        pa.table(
            [pa.array([one[at][side] for one in filled], kind) for at, kind in enumerate(kinds)],
            names=list(names),
        )
        for side in (0, 1)
    ]
    return sides[0], sides[1], [one is not None for one in bounds]


def _picked(keying: Keying, low: pa.Table, bounded: Sequence[bool], stride: int) -> list[int]:
    """Return every ``stride``-th block in the order of the keys."""
    places = np.flatnonzero(bounded)
    known = low.take(pa.array(places))
    order = places[np.argsort(keying.keys(known).rows, kind="stable")] if len(places) else places
    order = np.concatenate([order, np.flatnonzero(~np.asarray(bounded, bool))])
    return sorted(int(at) for at in order[min(stride // 2, len(order) - 1) :: stride])


def _counts(
    job: SurveyJob,
    files: DataFiles,
    blocks: Sequence[Block],
    bounds: tuple[pa.Table, pa.Table, Sequence[bool]],
) -> Ordinals:
    keying, counts = job.keying, np.zeros(len(job.keying.intervals), np.int64)
    if not keying.many:
        counts[0] = sum(block.kept for block in blocks)
        return counts
    unclear = []
    low, high, bounded = bounds
    known = pa.array(np.flatnonzero(bounded))
    first = dict(zip(known.to_pylist(), keying.chunks(low.take(known)), strict=True))
    last = dict(zip(known.to_pylist(), keying.chunks(high.take(known)), strict=True))
    for at, block in enumerate(blocks):
        if at in first and first[at] == last[at]:
            counts[first[at]] += block.kept
        else:
            unclear.append(block)
    for block in unclear:
        row_filter = job.row_filters[block.input]
        names = (keying.time_column, *row_filter.reads)
        rows = _read(files, block, job.schema, names, ())
        left = row_filter.sifted(rows, block.first)
        counts += np.bincount(keying.chunks(left), minlength=len(counts))
    return counts


def _read(
    files: DataFiles,
    block: Block,
    target: pa.Schema,
    columns: Sequence[str] | None,
    words: Sequence[str],
) -> pa.Table:
    with opened(files, block, target, words) as parquet:
        named = None if columns is None else list(dict.fromkeys(columns))
        return parquet.read_row_group(block.group, columns=named, use_threads=False)


def _sample(
    job: SurveyJob,
    files: DataFiles,
    blocks: Sequence[Block],
    picked: Sequence[int],
    shape: Shape,
) -> Sample:
    if not picked:
        names = job.keying.columns
        values = pa.schema([job.schema.field(name) for name in names]).empty_table()
        return Sample(values=values, ordinals=np.zeros(0, np.int64), weights=np.zeros(0))
    chosen = [blocks[at] for at in picked]
    scale = sum(block.kept for block in blocks) / sum(block.kept for block in chosen)
    return joined([_points(job, files, block, shape, scale) for block in chosen])


def _points(job: SurveyJob, files: DataFiles, block: Block, shape: Shape, scale: float) -> Sample:
    """Draw a sample of one block's rows; the same rows on every call."""
    names, row_filter = job.keying.columns, job.row_filters[block.input]
    columns = None if job.row_kind.kind.merges else (*names, *row_filter.reads)
    rows = _read(files, block, shape.schema, columns, shape.dictionaries)
    kept = row_filter.kept(rows, block.first)
    numbers = np.arange(rows.num_rows) if kept is None else np.flatnonzero(kept)
    rows = rows.take(pa.array(numbers)) if kept is not None else rows
    if job.row_kind.kind.merges:
        rows = job.row_kind.merged(fitted(rows, shape.worded), job.keying.time_column)
    start, count = block.ordinals[0], rows.num_rows
    wanted = min(count, max(1, round(count * job.rate * scale)))
    places = np.sort(np.random.default_rng(start).choice(count, wanted, replace=False))
    kinds = pa.schema([job.schema.field(name) for name in names]).remove_metadata()
    values = pa.table(
        [_plain(rows.column(n).take(pa.array(places)), kinds.field(n).type) for n in names],
        names=list(names),
    )
    weights = np.full(len(places), scale * count / wanted)
    return Sample(values=values, ordinals=start + numbers[places], weights=weights)


def _plain(column: pa.ChunkedArray, kind: pa.DataType) -> pa.ChunkedArray:
    if pa.types.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    return column.cast(kind)


def _wordy(columns: Chunks, schema: pa.Schema) -> set[str]:
    """Return the columns whose dictionary is small beside their data."""
    present = {*schema.names}
    return {
        name
        for name, chunk in columns.items()
        if name in present and repeats(chunk, schema.field(name).type)
    }


def _probed(
    job: SurveyJob, files: DataFiles, picked: Sequence[Block], shape: Shape
) -> tuple[float, float, frozenset[str]]:
    """Return bytes per row sorted and decoded, and the columns that a dictionary makes smaller."""
    step = max(1, len(picked) // PROBES)
    encoded = decoded = 0.0
    coded: frozenset[str] = frozenset()
    count = 0
    if not picked:
        return 0.0, 1.0, coded
    for rows in _heads(job, files, picked[::step][:PROBES], shape):
        table = job.row_kind.merged(rows, job.keying.time_column)
        found = probed(sorted_rows(table, job.keying))
        coded |= found.coded
        encoded += found.width * table.num_rows
        decoded += table.nbytes
        count += table.num_rows
    return encoded / count, max(decoded / count, 1.0), coded


def _heads(
    job: SurveyJob, files: DataFiles, blocks: Sequence[Block], shape: Shape
) -> Iterator[pa.Table]:
    """Yield the first live rows of each block."""
    for block in blocks:
        first = block.first
        with (
            opened(files, block, shape.schema, shape.dictionaries) as parquet,
            decoding(block.path),
        ):
            for batch in parquet.iter_batches(
                PROBE_ROWS, row_groups=[block.group], use_threads=False
            ):
                table = pa.Table.from_batches([batch])
                rows, _ = sifted(table, job.row_filters[block.input], first, shape.worded)
                first += batch.num_rows
                if rows.num_rows:
                    yield rows
                    break
