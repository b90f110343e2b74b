"""Merge adjacent small segments into few, keeping the order of rows: the minor-compaction kernel.

1. A job is plain data: it is pickled into a Spark task and needs nothing there but storage.
2. Inputs are checked before anything is written: size, checksum of the footer, row count, and
   that the footer's descriptor names the same segment. Other bytes are compared with their
   checksums as they are read, so damage is never copied.
3. Outputs are contiguous parts of the inputs' concatenation, about equal in bytes: cut between
   inputs if there are enough, else between row groups, else between rows. An output's time range
   covers all inputs that it has rows of: it is exact unless an input was cut.
4. Rows out equal rows in, less the deleted rows. If no row is deleted, rows pass through undecoded;
   their addresses stay in the outputs' lineage, or in hidden columns if all inputs have them.
   Else rows are decoded (``data.jobs.concat.sift``), and all outputs have hidden columns.
5. An output without rows is an empty segment: it exists but has no file.
6. File names include the attempt, so that two attempts at one job never collide. After a failure
   the job deletes the files that it wrote: no reader can have seen them.

7. An adopted file has no definition of the table in its footer. It counts as one of schema 0: its
   outputs get ``definition``, the definition with that schema, unless another input has a newer.

Time chunks of a file's rows, where its first and last event do not determine them:

8. Only the column of event times is read. Deleted rows count, too: their chunks get no rows.

Source of the idea: Druid's minor compaction; ``data.jobs.passthrough``.
"""

import secrets
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import pairwise

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import (
    InvalidInput,
    RowsOutOfBalance,
)
from airflow_provider_segtable.core.segment import (
    Run,
    Segment,
    SegmentId,
    Shard,
    concatenated,
    inherited,
    roots_of,
)
from airflow_provider_segtable.core.time import Instant, Interval, Layout
from airflow_provider_segtable.data.files_ahead import loaded_ahead
from airflow_provider_segtable.data.jobs.concat import (
    Grain,
    Input,
    Piece,
    Tally,
    merge,
    newest_of,
    read_input,
    sift,
)
from airflow_provider_segtable.data.jobs.passthrough import empty_file
from airflow_provider_segtable.data.jobs.segment_writer import SegmentPlacement, emptied
from airflow_provider_segtable.data.open_files import open_files
from airflow_provider_segtable.data.parquet.descriptor import (
    KEY,
    TABLE_KEY,
    ChecksumSink,
    SegmentFiles,
    check_identity,
    decode_definition,
    definition_entry,
    discard,
    encode_descriptor,
    file_schema,
    segment_path,
)
from airflow_provider_segtable.data.parquet.footer import Footer
from airflow_provider_segtable.data.parquet.segment_scan import SegmentRead
from airflow_provider_segtable.data.parquet.table_file import files_columns, stored_columns
from airflow_provider_segtable.data.row_filter import RowFilter, row_filter_of
from airflow_provider_segtable.data.rows import chunks_of
from airflow_provider_segtable.ports.files import DataFiles
from airflow_provider_segtable.ports.job import cost_of


# Minor compaction
@dataclass(frozen=True, slots=True, kw_only=True)
class MinorJob:
    """One minor compaction, which can be sent to another process.

    ``inputs`` are in row order; ``outputs`` are ids and shards allocated for the result;
    ``created`` is when the attempt began; ``attempt`` becomes part of the file names (16 hex
    digits, unique to each attempt; generated if left out). ``row_filters`` name the deleted rows,
    as of event ``deletes_applied_through``; an input without a row filter has no deletes.
    ``definition`` stands in for the entry that footers of adopted files lack.
    """

    uri: str
    storage_options: Mapping[str, str]
    inputs: tuple[Segment, ...]
    outputs: tuple[tuple[SegmentId, Shard], ...]
    created: Instant
    time_column: str
    attempt: str = ""
    grain: Grain = field(default_factory=Grain)
    row_filters: Mapping[SegmentId, RowFilter] = field(default_factory=dict)
    deletes_applied_through: int = 0
    definition: bytes = b""

    @property
    def cost(self) -> int:
        """Return the approximate number of bytes it handles."""
        return cost_of(self.inputs)

    @property
    def title(self) -> str:
        """Return the job's title in the Spark UI."""
        return f"minor: {self.inputs[0].id.interval}"

    def run(self, files: DataFiles | None = None) -> tuple[Segment, ...]:
        """Run the job; see ``run_minor``."""
        return run_minor(self, files)


def run_minor(job: MinorJob, files: DataFiles | None = None) -> tuple[Segment, ...]:
    """Write a job's outputs and return their descriptors.

    Args:
        job: the compaction.
        files: the table's data files; opened from the job's URI if left out.

    Raises:
        CorruptTable: an input differs from its entry in the log; the message names the file.
        RowsOutOfBalance: rows out differ from rows in.
        StorageError: see ``ports.files``; nothing is left behind.
    """
    files = open_files(job.uri, job.storage_options) if files is None else files
    token = job.attempt or secrets.token_hex(8)
    job = replace(job, inputs=tuple(one for one in job.inputs if one.rows), attempt=token)
    if not job.inputs:
        return tuple(_emptied(job, *output) for output in job.outputs)
    with loaded_ahead(files, job.inputs) as ahead:
        return _run(job, SegmentFiles(ahead, job.inputs))


def _run(job: MinorJob, files: DataFiles) -> tuple[Segment, ...]:
    """Write the outputs of a job with inputs."""
    inputs = _read_inputs(files, job)
    parts = cut(inputs, len(job.outputs))
    passing = _passing(job)
    written: list[Segment] = []
    try:
        for segment in (_passed if passing else _sifted)(files, job, inputs, parts):
            written.append(segment)  # noqa: PERF402  # a failure must delete the earlier ones
        if passing:
            _check_books(job.inputs, written)
    except Exception:
        discard(files, written)
        raise
    return tuple(written)


def _passing(job: MinorJob) -> bool:
    """Return whether all rows can pass undecoded: none to drop, none to give an address."""
    alike = len({segment.traced for segment in job.inputs}) == 1
    return alike and not any(row_filter_of(job.row_filters, one).holds_back for one in job.inputs)


def _read_inputs(files: DataFiles, job: MinorJob) -> list[Input]:
    inputs: list[Input] = []
    like = _written_as(job.definition) if job.definition else None
    for segment in job.inputs:
        with files.open(segment.path) as source:
            one = read_input(source, inputs[-1] if inputs else None)
        footer = one.footer
        check_identity(
            segment,
            rows=footer.rows,
            row_groups=footer.group_count,
            entry=footer.metadata.get(KEY),
        )
        inputs.append(replace(one, written_as=like) if segment.adopted else one)
    return inputs


def _written_as(definition: bytes) -> Footer:
    """Return the footer that a file of a definition's columns has."""
    table, _ = decode_definition(definition, "the job's definition")
    footer = read_input(empty_file(files_columns(table.schema, table.kind))).footer
    return replace(footer, metadata={**footer.metadata, **definition_entry(definition)})


def cut(inputs: Sequence[Input], parts: int) -> list[list[Piece]]:
    """Cut the concatenation of inputs into contiguous parts of about equal size.

    Raises:
        InvalidInput: if there are fewer rows than parts.
    """
    whole = [Piece(input=one, first=0, end=one.footer.group_count) for one in inputs]
    if len(whole) >= parts:
        return _grouped(whole, parts)
    groups = [
        replace(piece, first=first, end=first + 1)
        for piece in whole
        for first in range(len(piece.input.footer.groups))
    ]
    if len(groups) >= parts and not any(one.footer.foreign for one in inputs):
        return _grouped(groups, parts)
    return _cut_by_rows(whole, parts)


def _grouped(pieces: Sequence[Piece], parts: int) -> list[list[Piece]]:
    """Group pieces in order into non-empty parts that end nearest to their share of bytes."""
    total, seen, cuts = sum(piece.size for piece in pieces), 0, [0]
    for at, piece in enumerate(pieces):
        part = len(cuts)
        left = len(pieces) - at
        full = (seen + piece.size / 2) * parts >= total * part
        if part < parts and at > cuts[-1] and (full or left == parts - part):
            cuts.append(at)
        seen += piece.size
    return [list(pieces[a:b]) for a, b in zip(cuts, [*cuts[1:], len(pieces)], strict=True)]


def _cut_by_rows(pieces: Sequence[Piece], parts: int) -> list[list[Piece]]:
    rows = sum(piece.rows for piece in pieces)
    if rows < parts:
        raise InvalidInput(f"{rows} rows cannot be divided among {parts} outputs: plan fewer")
    bounds = [rows * part // parts for part in range(parts + 1)]
    return [_between(pieces, a, b) for a, b in pairwise(bounds)]


def _between(pieces: Sequence[Piece], start: int, stop: int) -> list[Piece]:
    found, at = [], 0
    for piece in pieces:
        low, high = max(start - at, 0), min(stop - at, piece.rows)
        if low < high:
            full = (low, high) == (0, piece.rows)
            found.append(piece if full else replace(piece, cut=(low, high)))
        at += piece.rows
    return found


Parts = Sequence[Sequence[Piece]]


def _passed(
    files: DataFiles, job: MinorJob, inputs: Sequence[Input], parts: Parts
) -> Iterator[Segment]:
    """Write the outputs without decoding their rows."""
    segments = {one.path: segment for one, segment in zip(inputs, job.inputs, strict=True)}
    runs, start = concatenated(job.inputs), 0
    for output, pieces in zip(job.outputs, parts, strict=True):
        rows = sum(piece.rows for piece in pieces)
        sources = [segments[piece.input.path] for piece in pieces]
        planned = replace(
            _emptied(job, *output),
            path=segment_path(output[0], job.attempt),
            rows=rows,
            events=rows,
            time_min=min(source.time_min for source in sources),
            time_max=max(source.time_max for source in sources),
            lineage=sliced(runs, start, rows),
            schema=file_schema(newest_of(pieces).metadata).number,
            roots=() if runs else roots_of(job.inputs),
            replaces=() if start else inherited(job.inputs),
        )
        yield _write(files, planned, pieces, job.grain)
        start += rows


def _sifted(
    files: DataFiles, job: MinorJob, inputs: Sequence[Input], parts: Parts
) -> Iterator[Segment]:
    """Write the outputs by decoding their rows."""
    row_filters = {
        one.path: row_filter_of(job.row_filters, segment)
        for one, segment in zip(inputs, job.inputs, strict=True)
    }
    replaces = inherited(job.inputs)
    for output, pieces in zip(job.outputs, parts, strict=True):
        planned = replace(_emptied(job, *output), replaces=replaces)
        segment = _sift(files, job, planned, [(p, row_filters[p.input.path]) for p in pieces])
        yield segment
        replaces = () if segment.rows else replaces  # only the first output with a footer has them


def _sift(
    files: DataFiles, job: MinorJob, planned: Segment, pieces: Sequence[tuple[Piece, RowFilter]]
) -> Segment:
    like = newest_of([piece for piece, _ in pieces]).metadata
    tally, table, schema = Tally(job.time_column), like.get(TABLE_KEY), file_schema(like)
    segment, path = planned, segment_path(planned.id, job.attempt)

    def metadata(found: Tally) -> dict[bytes, bytes]:
        nonlocal segment
        segment = replace(
            planned,
            path=path,
            rows=found.rows,
            events=found.rows,
            row_groups=found.row_groups,
            time_min=min(found.times),
            time_max=max(found.times),
            roots=roots_of(job.inputs),
            schema=schema.number,
        )
        return {KEY: encode_descriptor(segment), **definition_entry(table)}

    with files.create(path) as plain:
        sink = ChecksumSink(plain)
        sift(files, pieces, sink, tally, metadata)
        rows = sum(piece.rows for piece, _ in pieces)
        if tally.rows + tally.dropped != rows:
            raise RowsOutOfBalance(
                f"{tally.rows} rows out and {tally.dropped} deleted, {rows} rows in for "
                f"{planned.id}; nothing was published"
            )
        if not tally.rows:
            return planned
        segment = replace(segment, size=sink.position, footer=sink.footer)
        sink.commit()
    return segment


def _emptied(job: MinorJob, segment_id: SegmentId, shard: Shard) -> Segment:
    return emptied(
        segment_id,
        job.created,
        SegmentPlacement(shard=shard, deletes_applied_through=job.deletes_applied_through),
    )


def sliced(runs: Sequence[Run], start: int, rows: int) -> tuple[Run, ...]:
    """Return the lineage of ``rows`` rows from ``start`` on."""
    found, at = [], 0
    for run in runs:
        low, high = max(start - at, 0), min(start + rows - at, run.rows)
        if low < high:
            found.append(Run(run.root, run.start + low, high - low))
        at += run.rows
    return tuple(found)


def _write(files: DataFiles, planned: Segment, pieces: Sequence[Piece], grain: Grain) -> Segment:
    table = newest_of(pieces).metadata.get(TABLE_KEY)
    metadata = {KEY: encode_descriptor(planned), **definition_entry(table)}
    with files.create(planned.path) as plain:
        sink = ChecksumSink(plain)
        row_groups = merge(files, pieces, sink, metadata=metadata, grain=grain)
        segment = replace(planned, size=sink.position, row_groups=row_groups, footer=sink.footer)
        sink.commit()
    return segment


def _check_books(inputs: Sequence[Segment], outputs: Sequence[Segment]) -> None:
    rows_in = sum(segment.rows for segment in inputs)
    rows_out = sum(segment.rows for segment in outputs)
    runs = concatenated(outputs)
    if rows_in != rows_out or runs != concatenated(inputs):
        raise RowsOutOfBalance(
            f"{rows_out} rows out, {rows_in} rows in for {outputs[0].id}; nothing was published"
        )


# Time chunks of a file's rows
@dataclass(frozen=True, slots=True, kw_only=True)
class ChunksJob:
    """Find the time chunks of a file's rows in a layout."""

    uri: str
    storage_options: Mapping[str, str]
    segment: Segment
    layout: Layout
    definition: bytes
    attempt: str

    @property
    def cost(self) -> int:
        """Return the approximate number of bytes it handles."""
        return self.segment.size

    @property
    def title(self) -> str:
        """Return the job's title in the Spark UI."""
        return f"find time chunks: {self.segment.id.chunk}"

    def run(self, files: DataFiles | None = None) -> tuple[Interval, ...]:
        """Return the time chunks.

        Raises:
            CorruptTable: the file differs from its entry in the log.
        """
        if not self.segment.rows:
            return (self.layout.chunk(self.segment.time_min),)
        files = open_files(self.uri, self.storage_options) if files is None else files
        table, _ = decode_definition(self.definition, "the job's definition")
        found: set[Interval] = set()
        for batch in SegmentRead(
            files,
            self.segment,
            schema=stored_columns(table.schema),
            time_column=table.time_column,
            columns=[table.time_column],
        ).batches():
            found.update(chunks_of(batch, table.time_column, self.layout))
        return tuple(sorted(found))
