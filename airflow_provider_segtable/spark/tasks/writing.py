"""Write files in Spark tasks, and send results and errors to the driver as values.

Ingested rows (sorted batches in, one file and descriptor per slot out):

1. Rows come ordered by slot, then by event time; a slot's rows are streamed into its one file.
2. Every file has a unique name, so tries of a task never collide.
3. A known error is returned as a value that names the files written, and keeps its type and
   message; the driver deletes the files. On any other failure the task deletes its files itself.

Records of a primary-key table (rows in, log files and their descriptors out):

4. Rows come with those of a file group together. A task holds as many as a log file may have, and
   the kernel splits them by time chunk and bucket, sorts and merges them (``data.keyed``). So the
   kernel decides a file's content, however Spark dealt the rows.
5. Files of a try that does not count are orphans, which no event names.

Row addresses (batches of names and row numbers in, packed bits out):

6. Each name becomes one row with its numbers as packed bits (``data.row_filter``). Arrow and
   numpy do the work; no row becomes a Python object.
7. Packing needs no bitmap library, because executors have none.

Rows for the driver:

8. Rows are sent piece by piece, as Arrow's bytes in one column. The driver takes them partition by
   partition (``toLocalIterator``), so it holds no whole batch, and no row becomes a Python object
   on the way.
"""

import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import groupby
from operator import itemgetter
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.secret import SecretOptions
from airflow_provider_segtable.core.segment import Segment, SegmentId
from airflow_provider_segtable.core.segment_codec import decode_segment, encode_segment
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.tables.merge_rules import MergeRules
from airflow_provider_segtable.core.time import Instant, Layout
from airflow_provider_segtable.data.jobs.segment_writer import SegmentPlacement, write_segment
from airflow_provider_segtable.data.jobs.sorted_writer import probed
from airflow_provider_segtable.data.keyed.log_files import LOG_BYTES, LogWriter, Records, deletions
from airflow_provider_segtable.data.open_files import open_files
from airflow_provider_segtable.data.parquet.descriptor import check_whole
from airflow_provider_segtable.data.row_checks import check_rows
from airflow_provider_segtable.data.row_filter import bits_of, hidden_of
from airflow_provider_segtable.ports.files import DataFiles
from airflow_provider_segtable.ports.job import Done, Job, run_one
from airflow_provider_segtable.spark.tasks.reading import PREFIX, restored

Group = tuple[tuple[int, Job], ...]
"""Jobs with their numbers."""


# A group of kernel jobs
def run_group(group: Group) -> list[Done]:
    """Run the jobs of a group, each with a fresh attempt id."""
    return [
        run_one(index, replace(job, attempt=secrets.token_hex(8)))  # type: ignore[type-var]
        for index, job in group
    ]


PACKED = pa.schema([("name", pa.string()), ("rows", pa.int64()), ("bits", pa.binary())])
"""A name, the number of its row numbers (duplicates included), and the packed row numbers."""


# Packed row addresses
def packed(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield each root's row numbers as bits, one row a root."""
    held: dict[str, list[np.ndarray]] = {}
    for batch in batches:
        names, codes, numbers = hidden_of(batch)
        order = np.argsort(codes, kind="stable")
        edges = np.searchsorted(codes[order], np.arange(len(names) + 1))
        for at, name in enumerate(names):
            mine = numbers[order[edges[at] : edges[at + 1]]]
            held.setdefault(name, []).append(mine.astype(np.uint32))
    for name, parts in held.items():
        rows = np.concatenate(parts)
        found = {"name": name, "rows": len(rows), "bits": bits_of(np.unique(rows))}
        yield pa.RecordBatch.from_pylist([found], schema=PACKED)


PIECE = "piece"
PIECES = pa.schema([(PIECE, pa.binary())])


def packed_rows(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield each batch of rows as one row with its bytes."""
    for batch in batches:
        if batch.num_rows:
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            yield pa.RecordBatch.from_arrays(
                [pa.array([sink.getvalue().to_pybytes()])], schema=PIECES
            )


def unpacked_rows(piece: bytes) -> pa.Table:
    """Return the rows of a piece."""
    with pa.ipc.open_stream(piece) as reader:
        return reader.read_all()


# Errors as values
def reported(error: SegtableError) -> tuple[str, str]:
    """Return an error's type name and message."""
    return type(error).__name__, str(error)


SLOT = "__segtable_slot"
RESULT = "segment string, error string, message string"
_RESULT = pa.schema([(name, pa.string()) for name in ("segment", "error", "message")])


# Files of an ingest
@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTask:
    """Parameters of a writing task; ``ids[slot]`` is the id of the slot's segment.

    ``placements[slot]`` is its placement; without placements, segments are of the first generation.
    ``definition`` is the table's, for the footers. ``carried`` are the columns whose copies follow
    the table's columns (``tasks.reading``).
    """

    uri: str
    ids: tuple[SegmentId, ...]
    schema: pa.Schema
    time_column: str
    created: Instant
    storage_options: Mapping[str, str] = field(default_factory=SecretOptions)
    placements: tuple[SegmentPlacement, ...] = ()
    definition: bytes = b""
    carried: tuple[str, ...] = ()

    def run(
        self, batches: Iterable[pa.RecordBatch], wrote: Callable[[str], None]
    ) -> Iterator[pa.RecordBatch]:
        """Write the rows of one partition; yield a result for every slot.

        Args:
            batches: slot first, then the table's columns in their order, then copies; sorted by
                slot, then time.
            wrote: called with each path that the task leaves behind when it succeeds.
        """
        files = open_files(self.uri, self.storage_options)
        yield from results(files, self._written(files, batches), wrote)

    def _written(self, files: DataFiles, batches: Iterable[pa.RecordBatch]) -> Iterator[Segment]:
        for slot, group in groupby(by_slot(batches), key=itemgetter(0)):
            yield write_segment(
                files,
                (checked for _, rows in group for checked in self._checked(rows).to_batches()),
                segment_id=self.ids[slot],
                time_column=self.time_column,
                created=self.created,
                token=secrets.token_hex(8),
                placement=self.placements[slot] if self.placements else None,
                definition=self.definition,
            )

    def _checked(self, rows: pa.RecordBatch) -> pa.Table:
        return checked(pa.Table.from_batches([rows]), self.schema, self.time_column, self.carried)


def checked(
    rows: pa.Table, schema: pa.Schema, time_column: str, carried: Sequence[str]
) -> pa.Table:
    """Return rows as the files of a table hold them.

    Args:
        rows: the columns of ``schema`` in their order, then copies, under any names.
        schema: the columns of the files.
        time_column: the event time.
        carried: the columns whose copies follow (``tasks.reading``).

    Raises:
        SchemaMismatch, TimeOutOfRange: the rows do not fit.
    """
    copies = (PREFIX + name for name in carried)
    named = rows.rename_columns([*schema.names, *copies])
    return check_rows(restored(named, schema), schema, time_column)


def results(
    files: DataFiles, segments: Iterable[Segment], wrote: Callable[[str], None]
) -> Iterator[pa.RecordBatch]:
    """Yield a result for every segment that a task writes.

    Args:
        files: the data files that it writes to.
        segments: writes the segments.
        wrote: called with each path that the task leaves behind when it succeeds.
    """
    paths: list[str] = []
    try:
        for segment in segments:
            paths.append(segment.path)
            yield _result(segment=json.dumps(encode_segment(segment)))
    except SegtableError as error:
        kind, message = reported(error)
        yield _result(error=kind, message=message)
    except BaseException:
        for path in paths:
            files.delete(path)
        raise
    for path in paths:
        wrote(path)


class Writing(Protocol):
    """A task that writes files."""

    def run(
        self, batches: Iterable[pa.RecordBatch], wrote: Callable[[str], None]
    ) -> Iterator[pa.RecordBatch]:
        """Write the rows of one partition; yield a result for every file.

        Args:
            batches: the rows.
            wrote: called with each path that the task leaves behind when it succeeds.
        """
        ...


class Paths(Protocol):
    """A Spark accumulator of paths."""

    def add(self, term: list[str]) -> None:
        """Add paths."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class NotedWrite:
    """A writing task that reports the paths it leaves behind to the driver."""

    task: Writing
    left: Paths

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Write the rows of one partition; yield a result for every file."""
        return self.task.run(batches, self._note)

    def _note(self, path: str) -> None:
        self.left.add([path])


def by_slot(batches: Iterable[pa.RecordBatch]) -> Iterator[tuple[int, pa.RecordBatch]]:
    """Split batches where the slot, their first column, changes; yield slot and other columns."""
    for batch in batches:
        slots, rows = batch.column(0), batch.select(batch.schema.names[1:])
        start = 0
        while start < batch.num_rows:
            slot = slots[start].as_py()
            end = _end(slots, slot, start)
            yield slot, rows.slice(start, end - start)
            start = end


def _end(slots: "pa.Array[Any]", slot: int, start: int) -> int:
    low, high = start + 1, len(slots)
    while low < high:
        middle = (low + high) // 2
        low, high = (middle + 1, high) if slots[middle].as_py() == slot else (low, middle)
    return low


def decode_result(text: str) -> Segment:
    """Return the segment descriptor in a result."""
    return decode_segment(json.loads(text))


def _result(**values: str) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([values], schema=_RESULT)


# Log files of a primary-key table
@dataclass(frozen=True, slots=True, kw_only=True)
class LogTask:
    """Parameters of a task that writes records.

    Attributes:
        uri: the table.
        storage_options: of its object store.
        table: its definition.
        rules: how the records of a key become its row.
        layout: the layout of time chunks.
        base_version: the table's first version.
        instant: when the write began.
        schema: the columns of the rows.
        deleted: the name of the user's column that says which rows delete their key.
        carried: the columns whose copies follow (``tasks.reading``).
    """

    uri: str
    storage_options: Mapping[str, str]
    table: TableDefinition
    rules: MergeRules
    layout: Layout
    base_version: Instant
    instant: Instant
    schema: pa.Schema
    deleted: str = ""
    carried: tuple[str, ...] = ()

    def run(
        self, batches: Iterable[pa.RecordBatch], wrote: Callable[[str], None]
    ) -> Iterator[pa.RecordBatch]:
        """Write the rows of one partition; yield a result for every file.

        Args:
            batches: whether a row deletes its key, then the columns in their order, then copies.
            wrote: called with each path that the task leaves behind when it succeeds.
        """
        files = open_files(self.uri, self.storage_options)
        yield from results(files, self._written(files, batches), wrote)

    def _written(self, files: DataFiles, batches: Iterable[pa.RecordBatch]) -> Iterator[Segment]:
        writer = LogWriter(
            files=files,
            table=self.table,
            rules=self.rules,
            layout=self.layout,
            base_version=self.base_version,
            instant=self.instant,
            token=lambda: secrets.token_hex(8),
        )
        for rows in gathered(batches, LOG_BYTES):
            yield from writer.written(self._records(rows))

    def _records(self, rows: pa.Table) -> Records:
        values = rows.select(rows.column_names[1:])
        return Records(
            rows=checked(values, self.schema, self.table.time_column, self.carried),
            deleted=deletions(rows.column(0), self.deleted),
        )


def gathered(batches: Iterable[pa.RecordBatch], most: int) -> Iterator[pa.Table]:
    """Yield batches in tables of at least ``most`` bytes, and a last smaller one."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size >= most:
            yield pa.Table.from_batches(held)
            held, size = [], 0
    if sum(batch.num_rows for batch in held):
        yield pa.Table.from_batches(held)


SAMPLED_ROWS, SAMPLED_BYTES = 20_000, 16 << 20


# Inputs of a sketch compaction: their checks, and the bytes of their rows
@dataclass(frozen=True, slots=True, kw_only=True)
class CheckTask:
    """Compare segments with every byte of their files."""

    uri: str
    storage_options: Mapping[str, str]

    def run(self, segments: Iterable[Segment]) -> Iterator[tuple[str, str]]:
        """Yield an error, as values, for each file that does not match its segment."""
        files = open_files(self.uri, self.storage_options)
        for segment in segments:
            try:
                check_whole(files, segment)
            except SegtableError as error:
                yield reported(error)


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleTask:
    """Encode the first rows of a range; ``sketches`` are the numbers of the sketch columns."""

    sketches: tuple[int, ...]

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the bytes that the rows take in a file, and their weight."""
        held: list[pa.RecordBatch] = []
        rows = size = 0
        for batch in batches:
            if batch.num_rows and rows < SAMPLED_ROWS and size < SAMPLED_BYTES:
                held.append(batch)
                rows, size = rows + batch.num_rows, size + batch.nbytes
        if held:
            table = pa.Table.from_batches(held)
            weight = 8.0 * table.num_columns * rows
            for number in self.sketches:
                weight += pc.sum(pc.binary_length(table.column(number))).as_py() or 0
            taken = probed(table, table.column_names).width * rows
            yield pa.RecordBatch.from_pylist([{"size": taken, "weight": weight}])
