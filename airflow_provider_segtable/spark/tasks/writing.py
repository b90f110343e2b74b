"""Write ingested rows in a task: sorted batches in, one file and descriptor per slot out.

1. Rows come ordered by slot, then by event time; a slot's rows are streamed into its one file.
2. Every file has a unique name, so tries of a task never collide.
3. A known error is returned as a value that names the files written, and the driver deletes them.
   On any other failure the task deletes its files itself.
"""

import json
import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from operator import itemgetter
from typing import Any, Protocol

import pyarrow as pa

from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.secret import SecretOptions
from airflow_provider_segtable.core.segment import Segment, SegmentId
from airflow_provider_segtable.core.segment_codec import decode_segment, encode_segment
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.data.files.open_files import open_files
from airflow_provider_segtable.data.jobs.segment_writer import (
    SegmentPlacement,
    check_rows,
    write_segment,
)
from airflow_provider_segtable.ports.files import DataFiles
from airflow_provider_segtable.spark.tasks.exact_columns import PREFIX, restored
from airflow_provider_segtable.spark.tasks.faults import reported

SLOT = "__segtable_slot"
RESULT = "segment string, error string, message string"
_RESULT = pa.schema([(name, pa.string()) for name in ("segment", "error", "message")])


@dataclass(frozen=True, slots=True, kw_only=True)
class WriteTask:
    """Parameters of a writing task; ``ids[slot]`` is the id of the slot's segment.

    ``placements[slot]`` is its placement; without placements, segments are of the first generation.
    ``definition`` is the table's, for the footers. ``carried`` are the columns whose copies follow
    the table's columns (``exact_columns``).
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
        carried: the columns whose copies follow (``exact_columns``).

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
