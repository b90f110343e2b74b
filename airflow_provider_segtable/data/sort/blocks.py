"""Blocks that sorting reads, runs that it writes between its stages, and how it groups ranges.

Blocks: row groups of checked segments.

1. An input is checked before it is used: size, checksum of the footer, row count, and that the
   footer's descriptor names the same segment (or the one it was carried over from). All bytes read
   are compared with their checksums.
2. Columns have the table's types; columns of few distinct values stay dictionaries while sorted.
   Hidden columns (``__segtable_...``) are included; if a file lacks one, an event count is 1, any
   other column null.
3. Root addresses come from the file's hidden columns, or from the input's row filter. Deleted rows
   are dropped here, and nowhere later.
4. The bytes decoded at once are bounded: neighbouring row groups up to ``most`` bytes together, a
   larger row group in batches.
5. Each row has an ordinal: the input's number, then the row number in its file, deleted rows
   counted.

Runs: files of rows by range, written by the scatter stage and read by the gather stage.

6. A run is an Arrow IPC file below ``data/_runs/``: one record batch for each range that has rows,
   and each dictionary once. It is not compressed, because it lives for minutes and is read from the
   page cache.
7. A gather job reads only the batches of its ranges.
8. Runs are not part of the table: the log never names them, and they are garbage after a crash.

Grouping of ranges into segments, parts and jobs:

9. The number of a time chunk's segments is its bytes divided by the target size, rounded, at least
   one. A segment is a sequence of consecutive ranges; all segments have about equal size.
10. Segments are cut at a mark that keeps equal values of the order together, if one is near.
11. A segment is gathered in parts of bounded size. Segments that fit into one part together are
    gathered by one job, so that their common inputs are read once.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import ClassVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import CorruptTable, SegtableError
from airflow_provider_segtable.core.segment import ROOT, ROW, FooterChecksum, Segment
from airflow_provider_segtable.core.tables.rollup_kind import EVENTS, HIDDEN
from airflow_provider_segtable.data.open_files import SinkFile
from airflow_provider_segtable.data.parquet import table_file
from airflow_provider_segtable.data.parquet.descriptor import (
    KEY,
    CheckedSource,
    SegmentFiles,
    check_identity,
)
from airflow_provider_segtable.data.parquet.source_file import SourceFile, seekable
from airflow_provider_segtable.data.parquet.table_file import TableFile
from airflow_provider_segtable.data.row_checks import conformed
from airflow_provider_segtable.data.row_filter import Flags, RowFilter
from airflow_provider_segtable.data.sort_keys import ORDINAL_BITS, Numbers, Ordinals, Ranges, plain
from airflow_provider_segtable.ports.files import DataFiles

# Blocks of checked segments
_WHOLE = 16 << 20
"""Files up to this size, in bytes, are read in one call."""


@dataclass(frozen=True, slots=True)
class Block:
    """One row group of input number ``input``: ``rows`` rows from row ``first`` on, encoded size.

    ``kept`` is the number of live rows; ``footer`` is the checksum of its file's footer.
    """

    input: int
    path: str
    group: int
    first: int
    rows: int
    size: int
    kept: int
    footer: FooterChecksum | None = None

    @property
    def ordinals(self) -> tuple[int, int]:
        """Return the ordinals of its first and last row."""
        start = (self.input << ORDINAL_BITS) + self.first
        return start, start + self.rows - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Shape:
    """The form of rows while they are sorted.

    Attributes:
        schema: the output's schema, hidden columns included; its fields have their ids.
        words: columns that stay dictionaries while sorted.
        width: approximate decoded bytes per row.
        coded: columns (by path) that are written with a dictionary.
        definition: the table's definition, from some input's footer.
    """

    schema: pa.Schema
    words: tuple[str, ...] = ()
    width: float = 100.0
    coded: frozenset[str] = frozenset()
    definition: bytes = b""

    @property
    def dictionaries(self) -> tuple[str, ...]:
        """Return the columns that stay dictionaries: ``words``, and roots, which are always few."""
        return (*self.words, ROOT) if ROOT in self.schema.names else self.words

    @property
    def worded(self) -> pa.Schema:
        """Return the schema with dictionary types."""
        return table_file.with_words(self.schema, self.dictionaries)


@contextmanager
def decoding(path: str) -> Iterator[None]:
    """Turn pyarrow's errors about a file into ``CorruptTable``."""
    try:
        yield
    except SegtableError:
        raise
    except (pa.ArrowException, OSError, ValueError, KeyError, IndexError) as error:
        raise CorruptTable(f"{path} cannot be decoded ({error}): restore it") from error


@contextmanager
def opened(
    files: DataFiles, block: Block, target: pa.Schema, words: Sequence[str] = ()
) -> Iterator[pq.ParquetFile | TableFile]:
    """Open a block's file to read columns of ``target``; those in ``words`` as dictionaries."""
    with files.open(block.path) as source, decoding(block.path):
        file = seekable(CheckedSource(source, block.footer) if block.footer else source, _WHOLE)
        with table_file.opened(file, target, words=words) as parquet:
            yield parquet


@contextmanager
def checked(
    files: DataFiles, segment: Segment, target: pa.Schema
) -> Iterator[pq.ParquetFile | TableFile]:
    """Open a segment's file, to read columns of ``target``; check it against its entry in the log.

    Raises:
        NotFound: the file is missing.
        CorruptTable: it is another segment's file, or broken.
    """
    with (
        SegmentFiles(files, [segment]).open(segment.path) as source,
        decoding(segment.path),
        table_file.opened(seekable(source, _WHOLE), target) as parquet,
    ):
        metadata = parquet.metadata
        check_identity(
            segment,
            rows=metadata.num_rows,
            row_groups=metadata.num_row_groups,
            entry=(metadata.metadata or {}).get(KEY),
        )
        yield parquet


def blocks_of(parquet: pq.ParquetFile | TableFile, number: int, segment: Segment) -> list[Block]:
    """Return the non-empty row groups of an input."""
    found, first = [], 0
    checksums = None if segment.adopted else segment.footer  # of blocks, which it has not
    for group in range(parquet.metadata.num_row_groups):
        one = parquet.metadata.row_group(group)
        size = sum(one.column(at).total_compressed_size for at in range(one.num_columns))
        if one.num_rows:
            rows = one.num_rows
            place = (number, segment.path, group, first)
            found.append(Block(*place, rows, size, rows, checksums))
        first += one.num_rows
    return found


def left_out(
    parquet: pq.ParquetFile | TableFile, block: Block, row_filter: RowFilter
) -> tuple[int, int]:
    """Return the number of deleted rows of a block, and of ingested rows that they represent."""
    if row_filter.passes_all:
        return 0, 0
    counted = [EVENTS] if EVENTS in parquet.schema_arrow.names else []
    rows = events = 0
    first = block.first
    for batch in parquet.iter_batches(
        row_groups=[block.group], columns=[*row_filter.reads, *counted], use_threads=False
    ):
        kept = row_filter.kept(batch, first)
        first += batch.num_rows
        if kept is not None:
            gone = pa.array(~kept)
            rows += int((~kept).sum())
            for name in counted:
                events += pc.sum(batch.column(name).filter(gone)).as_py() or 0
    return rows, events if counted else rows


def sifted(
    rows: pa.Table, row_filter: RowFilter, first: int, target: pa.Schema
) -> tuple[pa.Table, Flags | None]:
    """Return the live rows, and the flags that selected them (None: all rows).

    Args:
        rows: consecutive rows of a file.
        row_filter: the segment's row filter.
        first: the number of the first row in the file.
        target: the columns and types to return; with addresses if it names them.
    """
    if ROOT in target.names:
        rows = row_filter.addressed(rows, first)
    kept = row_filter.kept(rows, first)
    rows = fitted(rows, target)
    return (rows, None) if kept is None else (rows.filter(pa.array(kept)), kept)


def read_blocks(
    files: DataFiles,
    blocks: Sequence[Block],
    shape: Shape,
    *,
    most: float,
    row_filters: Mapping[int, RowFilter],
) -> Iterator[tuple[pa.Table, Ordinals]]:
    """Yield the live rows of blocks, in order, with their ordinals.

    Args:
        files: the data files that hold the blocks.
        blocks: sorted by input and row group.
        shape: the form of the rows to return.
        most: the bytes that may be decoded at once.
        row_filters: the inputs' row filters, by input number.

    Raises:
        CorruptTable: a file cannot be decoded.
        SchemaMismatch: a file's columns do not fit.
    """
    target = shape.worded
    for members in _by_path(blocks):
        with opened(files, members[0], shape.schema, shape.dictionaries) as parquet:
            for batch in _batches(members, most / shape.width):
                number, first = batch[0].input, batch[0].first
                for table in _tables(parquet, batch, most / shape.width):
                    rows, kept = sifted(table, row_filters[number], first, target)
                    ordinals = np.arange(first, first + table.num_rows) + (number << ORDINAL_BITS)
                    first += table.num_rows
                    if rows.num_rows:
                        yield rows, ordinals if kept is None else ordinals[kept]


def _tables(
    parquet: pq.ParquetFile | TableFile, batch: Sequence[Block], most: float
) -> Iterator[pa.Table]:
    groups = [block.group for block in batch]
    if sum(block.rows for block in batch) <= most:
        yield parquet.read_row_groups(groups, use_threads=False)
        return
    size = max(1, int(most))
    for rows in parquet.iter_batches(size, row_groups=groups, use_threads=False):
        yield pa.Table.from_batches([rows])


def _by_path(blocks: Iterable[Block]) -> Iterator[list[Block]]:
    held: list[Block] = []
    for block in blocks:
        if held and held[0].path != block.path:
            yield held
            held = []
        held.append(block)
    if held:
        yield held


def _batches(blocks: Sequence[Block], most: float) -> Iterator[list[Block]]:
    """Group adjacent row groups, so that their rows are consecutive."""
    held: list[Block] = []
    for block in blocks:
        full = sum(one.rows for one in held) + block.rows > most
        if held and (full or held[-1].group + 1 != block.group):
            yield held
            held = []
        held.append(block)
    if held:
        yield held


def fitted(rows: pa.Table, target: pa.Schema) -> pa.Table:
    """Return rows in the target's columns and types; fill in missing hidden columns."""
    present = {*rows.column_names}
    for field in target:
        if field.name not in present and _made_up(field.name):
            one = 1 if field.name == EVENTS else None
            column = pa.repeat(pa.scalar(one, plain(field.type)), rows.num_rows)
            rows = rows.append_column(field.name, column)
    return conformed(rows, target)


def _made_up(name: str) -> bool:
    """Return whether a missing column can be filled in: a hidden one, but not an address."""
    return name.startswith(HIDDEN) and name not in (ROOT, ROW)


# Runs between scatter and gather
FOLDER = "data/_runs"


@dataclass(frozen=True, slots=True, kw_only=True)
class SortRun:
    """A written run: its path, and the range and row count of each batch.

    ``density`` is the output's bytes per row, measured on a sample of the run; with rollup,
    ``noted`` contains hashes of the keys in each batch (see ``distinct``).
    """

    path: str
    ranges: tuple[int, ...]
    rows: tuple[int, ...]
    size: int
    density: float = 0.0
    noted: tuple[Numbers, ...] = ()

    def between(self, first: int, end: int) -> list[int]:
        """Return the numbers of the batches of ranges ``[first, end)``."""
        return [at for at, number in enumerate(self.ranges) if first <= number < end]


def write_run(
    files: DataFiles, path: str, schema: pa.Schema, parts: Iterable[tuple[int, pa.Table]]
) -> SortRun:
    """Write rows by range; ``parts`` has each range once, in order."""
    ranges: list[int] = []
    rows: list[int] = []
    with files.create(path) as sink:
        with pa.ipc.new_file(SinkFile(sink), schema) as writer:
            for number, table in parts:
                for batch in table.combine_chunks().to_batches():
                    writer.write_batch(batch)
                    ranges.append(number)
                    rows.append(batch.num_rows)
        size = sink.position
        sink.commit()
    return SortRun(path=path, ranges=tuple(ranges), rows=tuple(rows), size=size)


def read_run(
    files: DataFiles, run: SortRun, first: int, end: int
) -> Iterator[tuple[int, pa.Table]]:
    """Yield the rows of ranges ``[first, end)``, each batch with the number of its range.

    Raises:
        NotFound: the run is missing.
        CorruptTable: it cannot be read.
    """
    batches = run.between(first, end)
    if not batches:
        return
    with files.open(run.path) as source, decoding(run.path):
        reader = pa.ipc.open_file(SourceFile(source))
        for at in batches:
            yield run.ranges[at], pa.Table.from_batches([reader.get_batch(at)])


# Grouping of ranges into segments, parts and jobs
Span = tuple[int, int]
"""Ranges ``[first, end)``."""


@dataclass(frozen=True, slots=True)
class Sizing:
    """The rows of a segment and of a part; at most ``most`` segments in all (0: no limit)."""

    RANGES: ClassVar[int] = 16
    """Ranges for each segment: fine enough to balance segments."""

    rows: float
    part: float
    most: int = 0


def grouped(ranges: Ranges, sizing: Sizing) -> list[Span]:
    """Return the ranges of each segment."""
    chunks = np.asarray(ranges.chunks)
    rows = np.asarray(ranges.rows)
    firsts = np.flatnonzero(np.concatenate([[True], chunks[1:] != chunks[:-1]]))
    ends = [*firsts[1:], len(chunks)]
    counts = [_count(rows[a:b], sizing.rows) for a, b in zip(firsts, ends, strict=True)]
    if sizing.most and sum(counts) > sizing.most:
        counts = [max(1, count * sizing.most // sum(counts)) for count in counts]
    spans: list[Span] = []
    for first, end, count in zip(firsts, ends, counts, strict=True):
        depths = np.concatenate([[0], ranges.marks.depths])[first:end]
        cuts = _balanced(rows[first:end], depths, count)
        spans += [(int(first + a), int(first + b)) for a, b in cuts]
    return spans


def _count(rows: npt.NDArray[np.float64], wanted: float) -> int:
    return min(len(rows), max(1, round(float(rows.sum()) / wanted)))


def _balanced(
    rows: npt.NDArray[np.float64], depths: npt.NDArray[np.int64], count: int
) -> list[Span]:
    """Cut ranges into ``count`` groups of about equal rows, none empty."""
    before = np.concatenate([[0.0], np.cumsum(rows)])
    step = before[-1] / count
    places = [0]
    for number in range(1, count):
        low, high = places[-1] + 1, len(rows) - (count - number)
        options = np.arange(low, high + 1)
        away = np.abs(before[options] - number * step)
        near = options[away <= max(step / 16, away.min())]
        best = near[depths[near] == depths[near].min()]
        places.append(int(best[np.argmin(np.abs(before[best] - number * step))]))
    return list(zip(places, [*places[1:], len(rows)], strict=True))


def packed(segments: Sequence[Span], rows: Sequence[float], sizing: Sizing) -> list[list[Span]]:
    """Return the segments of each gather job: neighbours that fit into one part."""
    packs: list[list[Span]] = []
    held = 0.0
    for first, end in segments:
        size = sum(rows[first:end])
        small = size < sizing.rows / 4
        if packs and small and held + size <= min(sizing.part, sizing.rows):
            packs[-1].append((first, end))
            held += size
        else:
            packs.append([(first, end)])
            held = size if small else float("inf")
    return packs


def parts_of(pack: Sequence[Span], rows: Sequence[float], sizing: Sizing) -> list[Span]:
    """Return the ranges to read and sort at once; several segments form one part."""
    first, end = pack[0][0], pack[-1][1]
    if len(pack) > 1:
        return [(first, end)]
    count = max(1, min(end - first, int(-(-sum(rows[first:end]) // sizing.part))))
    some = np.asarray(rows[first:end], float)
    cuts = _balanced(some, np.zeros(len(some), np.int64), count)
    return [(first + a, first + b) for a, b in cuts]


def batches(blocks: Sequence[Block], share: float, parallelism: int) -> list[list[Block]]:
    """Group blocks, in order, into bounded batches of similar size, enough for all tasks."""
    total = sum(block.rows for block in blocks)
    wanted = -(-total // max(1, int(share)))
    wanted = -(-wanted // parallelism) * parallelism
    step = min(total / wanted, share)
    found: list[list[Block]] = []
    rows = 0
    for block in blocks:
        if not found or rows + block.rows / 2 > step:
            found.append([])
            rows = 0
        found[-1].append(block)
        rows += block.rows
    return found
