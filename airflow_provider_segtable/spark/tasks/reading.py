"""Read rows in Spark tasks: segments, windows, file groups and change feeds, by their numbers.

Times that Spark cannot hold exactly (nanoseconds), as whole numbers:

1. Spark holds microseconds. A change that writes a row again must not lose the last three digits of
   columns that it does not set. So a task that reads adds a copy of each such column (``copies``):
   its nanoseconds as 64-bit integers, at any depth.
2. A task that writes puts the copies in place of what Spark held (``restored``). A row without a
   copy, such as a new one of a merge, keeps what Spark held.
3. Spark sees times rounded down, so that an event time stays in its time chunk.

One task reads whatever is read:

4. The driver sends the parts of a read to each executor once, and Spark deals their numbers to
   tasks. ``ReadTask`` is the loop over them; a ``Reading`` makes rows of a part.

Texts of CSV files:

5. Spark only separates the fields; values are made by the rule of the local engine. So a text has
   one meaning whatever engine reads it (``data.files.text_values``).
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from typing import Any, Generic, Protocol, TypeAlias, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import SchemaMismatch
from airflow_provider_segtable.core.reads.effects import Origins, RowChange
from airflow_provider_segtable.core.requests.read_request import ORIGIN_COLUMNS
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.tables.merge_rules import MergeRules
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.data.arrow_schema import inner_fields, with_fields
from airflow_provider_segtable.data.files.text_values import text_faults, typed, without_nulls
from airflow_provider_segtable.data.keyed.file_groups import (
    FeedPiece,
    FileGroup,
    MergedRead,
    labelled_rows,
)
from airflow_provider_segtable.data.keyed.group_reader import GroupReader
from airflow_provider_segtable.data.keyed.settled_rows import Division, Filtered
from airflow_provider_segtable.data.open_files import LayeredFiles, open_files
from airflow_provider_segtable.data.parquet.segment_scan import SegmentRead
from airflow_provider_segtable.data.row_checks import conformed
from airflow_provider_segtable.data.row_filter import RowFilter, read_columns
from airflow_provider_segtable.ports.files import DataFiles

PREFIX = "__segtable_exact_"
"""Before the name of a column, the name of its copy."""

_TIMED = (pa.types.is_timestamp, pa.types.is_duration, pa.types.is_time64)


# Exact copies of times
def copied(field: "pa.Field[Any]") -> "pa.Field[Any]":
    """Return the column that holds a copy of ``field``."""
    return pa.field(PREFIX + field.name, _copied(field.type))


def inexact(field: "pa.Field[Any]") -> bool:
    """Return whether Spark cannot hold all values of a column."""
    return bool(_copied(field.type) != field.type)


def _copied(kind: pa.DataType) -> pa.DataType:
    """Return a type with whole numbers in place of nanoseconds, at any depth."""
    if any(of(kind) for of in _TIMED) and kind.unit == "ns":
        return pa.int64()
    inner = [each.with_type(_copied(each.type)) for each in inner_fields(kind)]
    return with_fields(kind, inner)


def copies(rows: pa.Table, names: Sequence[str]) -> pa.Table:
    """Return rows with a copy of each of the named columns."""
    for name in names:
        copy = copied(rows.schema.field(name))
        rows = rows.append_column(copy, rows.column(name).cast(copy.type))
    return rows


def floored(rows: pa.Table, name: str) -> pa.Table:
    """Return rows with a column of times rounded down to microseconds, if it is there."""
    if name not in rows.column_names or not inexact(rows.schema.field(name)):
        return rows
    at = rows.column_names.index(name)
    return rows.set_column(at, name, pc.floor_temporal(rows.column(at), unit="microsecond"))


def restored(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows without their copies, whose values are back in the columns of ``schema``."""
    found: dict[str, pa.ChunkedArray] = {}
    copies = [name for name in rows.column_names if name.startswith(PREFIX)]
    for name in copies:
        field = schema.field(name.removeprefix(PREFIX))
        exact = rows.column(name).cast(_copied(field.type)).cast(field.type)
        near = conformed(rows.select([field.name]), pa.schema([field])).column(0)
        found[field.name] = pc.coalesce(exact, near)
    if not copies:
        return rows
    return _with(rows.drop_columns(copies), found, schema)


def _with(rows: pa.Table, found: Mapping[str, pa.ChunkedArray], schema: pa.Schema) -> pa.Table:
    """Return rows with some columns replaced by others of the types in a schema."""
    fields = [schema.field(each.name) if each.name in found else each for each in rows.schema]
    columns = [found.get(field.name, rows.column(at)) for at, field in enumerate(fields)]
    return pa.table(columns, schema=pa.schema(fields))


# The one loop of tasks that read
class Held(Protocol):
    """Data files that are not stored, sent to each executor once."""

    @property
    def value(self) -> Mapping[str, bytes]:
        """Return their bytes, by path."""
        ...


Part = TypeVar("Part")
Part_contra = TypeVar("Part_contra", contravariant=True)
Part_co = TypeVar("Part_co", covariant=True)
RowsOf: TypeAlias = Callable[[Part], Iterable[pa.Table]]
"""Returns the rows of one part of the work."""


class Work(Protocol[Part_co]):
    """Parts of a read, sent to each executor once."""

    @property
    def value(self) -> Sequence[Part_co]:
        """Return the parts."""
        ...


class Reading(Protocol[Part_contra]):
    """The way in which the parts of a read become rows."""

    def opened(self, files: DataFiles) -> RowsOf[Part_contra]:
        """Return the reader of a task."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadTask(Generic[Part]):
    """Read some parts of ``work`` in the columns of ``target``.

    Attributes:
        uri: the table.
        storage_options: of its object store.
        work: the parts of the read.
        reading: how a part is read.
        target: the columns, in types that Spark can hold.
        time_column: the event time.
        carried: columns of which a copy is added (``tasks.reading``).
        held: files that are not stored; None if all are.
    """

    uri: str
    storage_options: Mapping[str, str]
    work: Work[Part]
    reading: Reading[Part]
    target: pa.Schema
    time_column: str
    carried: tuple[str, ...] = ()
    held: Held | None = None

    def read_in_task(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the parts numbered in the first column; Spark's plans show the name."""
        stored = open_files(self.uri, self.storage_options)
        files = stored if self.held is None else LayeredFiles(stored, self.held.value)
        rows_of = self.reading.opened(files)
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            for rows in rows_of(self.work.value[number]):
                table = copies(rows, self.carried)
                yield from near(table, self.target, self.time_column).to_batches()


@dataclass(frozen=True, slots=True)
class Explained(Generic[Part]):
    """A task with the reason why Spark's own reader does not do it; Spark's plans show that."""

    task: ReadTask[Part]
    why: str

    @property
    def __name__(self) -> str:
        """Return the name that plans show."""
        return f"read_in_task, {self.why}"

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the task."""
        return self.task.read_in_task(batches)


def near(rows: pa.Table, target: pa.Schema, time_column: str) -> pa.Table:
    """Return rows in the columns of ``target``, with the nearest values that Spark can hold."""
    return floored(rows, time_column).select(target.names).cast(target, safe=False)


# The ways to read a part
@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentPart:
    """A segment and the choice of its rows; in a window their origins, in a feed their change."""

    segment: Segment
    row_filter: RowFilter
    clip: Interval | None = None
    change: RowChange | None = None
    origins: Origins | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentReading:
    """Read segments.

    Attributes:
        schema: the columns of the table from which ``columns`` are chosen.
        time_column: the event time.
        columns: the columns of the rows, origins and changes among them.
        addressed: add root addresses.
        checked: compare data files with their checksums.
    """

    schema: pa.Schema
    time_column: str
    columns: tuple[str, ...]
    addressed: bool = False
    checked: bool = True

    def opened(self, files: DataFiles) -> RowsOf[SegmentPart]:
        """Return the reader of a task."""
        return partial(self._rows, files)

    def _rows(self, files: DataFiles, part: SegmentPart) -> Iterator[pa.Table]:
        stored = self.schema.names
        origins = [n for n in self.columns if n in ORIGIN_COLUMNS and n not in stored]
        for rows in SegmentRead(
            files,
            part.segment,
            schema=self.schema,
            time_column=self.time_column,
            columns=[name for name in self.columns if name in stored],
            clip=part.clip,
            row_filter=part.row_filter,
            addressed=self.addressed or part.origins is not None,
            checked=self.checked,
        ).batches():
            shown = read_columns(rows, origins=part.origins, change=part.change, names=origins)
            yield pa.Table.from_batches([shown])


@dataclass(frozen=True, slots=True)
class MergedPart:
    """A file group, and its division; None if all of its rows are merged."""

    group: FileGroup
    division: Division | None = None

    @property
    def plain(self) -> tuple[Filtered, ...]:
        """Return the files with rows that are shown as they are."""
        return () if self.division is None else self.division.plain

    @property
    def rest(self) -> tuple[Segment, ...]:
        """Return the files with rows that are merged."""
        if self.division is None:
            return self.group.segments
        return tuple(each.segment for each in self.division.rest)

    @property
    def size(self) -> int:
        """Return the bytes of the files with rows that are merged."""
        return sum(segment.size for segment in self.rest)


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedReading:
    """Read merged rows of the file groups of a primary-key ``table``."""

    table: TableDefinition
    merged: MergedRead
    checked: bool = True

    def opened(self, files: DataFiles) -> RowsOf[MergedPart]:
        """Return the reader of a task."""
        return partial(self._rows, GroupReader(files, self.table, checked=self.checked))

    def _rows(self, reader: GroupReader, part: MergedPart) -> Iterator[pa.Table]:
        if part.division is None:
            return self.merged.rows(reader, part.group)
        return self.merged.rest(reader, part.group, part.division)


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedReading:
    """Read the change feed of a primary-key table.

    Attributes:
        table: its definition.
        rules: how the records of a key become its row.
        interval: only rows with event times in it.
        checked: compare data files with their checksums.
    """

    table: TableDefinition
    rules: MergeRules
    interval: Interval | None
    checked: bool = True

    def opened(self, files: DataFiles) -> RowsOf[FeedPiece]:
        """Return the reader of a task."""
        return partial(self._rows, GroupReader(files, self.table, checked=self.checked))

    def _rows(self, reader: GroupReader, piece: FeedPiece) -> Iterator[pa.Table]:
        for changed in piece.changes(reader, self.rules):
            for rows in labelled_rows(changed, reader, self.interval):
                yield pa.Table.from_batches([rows])


_REPLACED = "\ufffd"
"""What Spark puts in place of bytes that are not in the file's encoding."""


# Texts of CSV files
@dataclass(frozen=True, slots=True, kw_only=True)
class TextReader:
    """Turns batches of texts into batches of values.

    Attributes:
        place: the source, for messages.
        columns: names and types of the columns that are no texts, by position.
        shown: the columns as Spark expects them.
        nulls: texts that are null.
        fitting: whether rows that do not fit are left out, instead of refusing all.
    """

    place: str
    columns: Mapping[int, "pa.Field[pa.DataType]"]
    shown: pa.Schema
    nulls: tuple[str, ...]
    fitting: bool = False

    def run(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the values of batches.

        Raises:
            SchemaMismatch: a text is no value of its column's type.
        """
        for batch in batches:
            texts = self._texts(batch)
            if self.fitting:
                bad = self._faults(texts)
                texts = texts.take(pa.array([n for n in range(len(texts)) if n not in bad]))
            rows = [self._values(at, each) for at, each in enumerate(texts.columns)]
            yield from pa.table(rows, schema=self.shown).to_batches()

    def aside(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the texts of rows that do not fit, each with the reason as its last column."""
        for batch in batches:
            texts = self._texts(batch)
            bad = self._faults(texts)
            some = texts.take(pa.array(list(bad), pa.int64()))
            yield from some.append_column("reason", [list(bad.values())]).to_batches()

    def _faults(self, texts: pa.Table) -> dict[int, str]:
        known = texts.select(list(self.columns))
        schema = pa.schema(list(self.columns.values()))
        return dict(sorted(text_faults(known.rename_columns(schema.names), schema).items()))

    def _texts(self, batch: pa.RecordBatch) -> pa.Table:
        found = [self._text(each) for each in batch.columns]
        return pa.table(found, names=batch.schema.names)

    def _text(self, texts: "pa.Array[pa.StringScalar]") -> pa.ChunkedArray:
        given = without_nulls(pa.chunked_array([texts.cast(pa.string())]), self.nulls)
        if pc.any(pc.match_substring(given, _REPLACED)).as_py():
            raise SchemaMismatch(
                f"{self.place}: a text has the character U+FFFD, which Spark puts in place of "
                "bytes that are not in the encoding: give the encoding (--encoding, encoding=), "
                "or use the local engine"
            )
        return given

    def _values(self, at: int, given: pa.ChunkedArray) -> pa.ChunkedArray:
        column = self.columns.get(at)
        if column is None:
            return given.cast(self.shown.field(at).type)
        try:
            return typed(given, column.name, column.type, first=-1).cast(self.shown.field(at).type)
        except SchemaMismatch as error:
            raise SchemaMismatch(f"{self.place}: {error}") from None
        except pa.ArrowInvalid as error:
            raise SchemaMismatch(
                f"{self.place}: column {column.name!r} has values that Spark cannot hold "
                f"({error}): use the local engine"
            ) from None
