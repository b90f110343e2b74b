"""Compute the entries of indexes about data files, and compare them with conditions.

1. A kind of index names the class that computes its entries of a file and compares them
   (``made_by``, an ``EntryKind``); ``entries`` asks it.
2. Entries about a file are trusted if path and checksum of the footer are the same in the log, all
   row groups are there, and their rows add up to the file's. A file of an older segtable has no
   checksum. Its path was written once, so that is enough.
3. Indexed columns are found by their ids, whatever the file calls them; a column that the file
   lacks has its default. Values are in the table's present types. Bytes are compared with their
   checksums. With ``partial_update`` a null sets nothing, so that readers may see the default
   instead of it. Deleted rows count, too: a file never changes, and an entry is true of all its
   rows.

Entries as readers use them: which files may hold rows that match a condition.

4. A reader loads the columns of entries that its condition needs (``entry_columns_for``), for the
   files that it is about to read, and compares them (``view_of``).
5. A file that has no trusted entry is read: the log decides which files there are, and an index
   only which of them need not be opened.
6. Entries may be kept in layers (``LayeredView``). All entries about a file come in one layer, and
   of several the newest counts. Entries that a newer layer deletes are of files that were removed,
   so no reader asks for them.

Jobs that compute entries of some files, in this process or in a Spark task:

7. A job is plain data, and returns the entries; it writes no file.
8. A missing file needs no entry: it was cleaned while the index was being built. If it is lost
   instead, readers find out. A damaged file fails the job, with its path. The records of a cleaned
   file are in the output of a compaction, which the build then reads (``services.indexing``).
9. Jobs are bounded by the size of their files (``JOB_BYTES``), and so are the entries that they
   return.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import cache
from importlib import import_module
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import NotFound
from airflow_provider_segtable.core.indexes.index_kind import (
    CHECKSUM,
    FILE,
    ROWS,
    START,
    IndexKind,
)
from airflow_provider_segtable.core.indexes.index_state import IndexDefinition, index_table
from airflow_provider_segtable.core.predicate import (
    Comparison,
    Judge,
    Predicate,
    comparisons,
    possible,
)
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.data.arrow_schema import to_arrow
from airflow_provider_segtable.data.indexes.file_rows import FileRows
from airflow_provider_segtable.data.open_files import open_files
from airflow_provider_segtable.ports.files import DataFiles
from airflow_provider_segtable.ports.job import cost_of


# Kinds of index and their entries
@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnSummary:
    """The values of a column in the files that an index knows, deleted rows included.

    Attributes:
        column: the present name of the column.
        low: a value that none is below; None if there is no value, or no bound is known. Texts are
            cut, so that a bound need not be a value.
        high: a value that none is above; likewise.
        nulls: the number of nulls.
        nan: whether a value may be NaN, which has no place between the bounds.
        distinct: about how many distinct values there are; the standard error is 6.5 %.
        rows: the number of rows.
        files: the number of files.
    """

    column: str
    low: Any
    high: Any
    nulls: int
    nan: bool
    distinct: int
    rows: int
    files: int


class IndexView(Protocol):
    """Entries of an index, ready to be compared with conditions."""

    def knows(self, segment: Segment) -> bool:
        """Return whether the entries about a file are all there, and about this very file."""
        ...

    def may_hold(self, segment: Segment, test: Predicate) -> bool:
        """Return whether a row of a file may match; True if the entries do not show it."""
        ...


@runtime_checkable
class KeepsValues(Protocol):
    """A view of entries with the values of columns."""

    def summaries(self, segments: Iterable[Segment]) -> Sequence[ColumnSummary]:
        """Return the values of each column in the known ones of some files."""
        ...


class EntryKind(Protocol):
    """Makes the entries of one kind of index, and compares them; ``kind`` has its settings."""

    def entries(self, kind: Any, of: FileRows) -> pa.Table:
        """Return the entries about a file: the columns that are the kind's own, and ``rows``."""
        ...

    def columns_for(self, kind: Any, table: TableDefinition, test: Predicate) -> Sequence[str]:
        """Return the columns of entries that a condition needs; none if they cannot help."""
        ...

    def view(self, kind: Any, table: TableDefinition, entries: pa.Table) -> IndexView:
        """Return entries, of which some columns may be left out, to compare with conditions."""
        ...


def footer_checksum(segment: Segment) -> str:
    """Return the checksum of a file's footer as text; empty if it has none."""
    found = segment.footer
    return "" if found is None else f"{found.start}-{found.crc}"


def common_columns(segment: Segment, count: int) -> dict[str, pa.Array]:
    """Return the columns that all kinds have, for a number of entries about one file.

    The start is that of the time chunk that the file was written for. A segment that is carried
    over may lie in another chunk; its entries stay where they are.
    """
    return {
        FILE: _repeated(segment.path, pa.string(), count),
        START: _repeated(segment.file_id.interval.start, pa.timestamp("us", "UTC"), count),
        CHECKSUM: _repeated(footer_checksum(segment), pa.string(), count),
        ROWS: _repeated(segment.rows, pa.int64(), count),
    }


def _repeated(value: Any, kind: pa.DataType, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(value, kind), count)


# The files that entries are about
TRUST_COLUMNS = (FILE, CHECKSUM, ROWS)


@dataclass(slots=True)
class _Known:
    """The entries about one file: the place of each, by its number, and their content."""

    checksum: str | None
    rows: int = 0
    places: dict[int, int] = field(default_factory=dict)


class KnownFiles:
    """The files that entries are about."""

    def __init__(self, entries: pa.Table, number: str | None = None) -> None:
        """Find the files.

        Args:
            entries: the entries, with ``TRUST_COLUMNS``.
            number: the column that numbers the entries about a file; None if there is one each.
        """
        numbers = [0] * len(entries) if number is None else entries.column(number).to_pylist()
        columns = (entries.column(name).to_pylist() for name in TRUST_COLUMNS)
        self._files: dict[str, _Known] = {}
        for place, (path, checksum, rows, part) in enumerate(zip(*columns, numbers, strict=True)):
            known = self._files.get(path)
            if known is None:
                known = self._files[path] = _Known(checksum)
            if checksum != known.checksum:
                known.checksum = None  # no file has two footers
            known.rows += rows or 0
            known.places[part] = place

    def places(self, segment: Segment, count: int = 1) -> list[int]:
        """Return the places of the entries about a file; none if they may not be trusted.

        Args:
            segment: the file.
            count: the number of entries that there are about the file.
        """
        known = self._files.get(segment.path)
        if known is None or known.checksum != footer_checksum(segment):
            return []
        whole = known.rows == segment.rows and known.places.keys() == {*range(count)}
        return [*known.places.values()] if whole else []


# Indexed columns
def indexed_columns(ids: Collection[int], table: TableDefinition) -> Mapping[str, int]:
    """Return the ids of the indexed columns that the table still has, by their present names."""
    return {name: number for number, name in table.schema.names_of(ids).items()}


def needed_columns(test: Predicate, indexed: Mapping[str, int], excludes: Judge) -> Sequence[int]:
    """Return the ids of columns whose entries may exclude a condition; none if they never do.

    Args:
        test: the condition.
        indexed: the ids of the indexed columns, by name.
        excludes: whether entries about its column can exclude a comparison.
    """

    def excludable(comparison: Comparison, wanted: bool) -> bool:  # noqa: FBT001
        return comparison.column in indexed and excludes(comparison, wanted)

    if possible(test, lambda comparison, wanted: not excludable(comparison, wanted)):
        return ()
    used = (each.column for each, wanted in comparisons(test) if excludable(each, wanted))
    return tuple(indexed[name] for name in dict.fromkeys(used))


# Kinds in Arrow
def entry_kind(kind: IndexKind) -> EntryKind:
    """Return how a kind of index makes and compares its entries."""
    return _made_by(kind.made_by)


@cache
def _made_by(path: str) -> EntryKind:
    module, _, name = path.rpartition(".")
    found: EntryKind = getattr(import_module(module), name)()
    return found


def entries(
    index: IndexDefinition, table: TableDefinition, segments: Sequence[Segment], files: DataFiles
) -> pa.Table:
    """Return the entries about files, which are read, in the columns of the index's table.

    Args:
        index: the index.
        table: the indexed table.
        segments: the files; each has a path.
        files: the table's data files.

    Raises:
        SegtableError: a file cannot be read, or is damaged.
    """
    read = (FileRows(segment=segment, table=table, files=files) for segment in segments)
    return entries_of(index, table, read)


def entries_of(
    index: IndexDefinition, table: TableDefinition, files: Iterable[FileRows]
) -> pa.Table:
    """Return the entries about files by their rows; otherwise as ``entries``."""
    schema = _SCHEMAS.of(index, table)
    kind = entry_kind(index.kind)
    parts = [_whole(each.segment, kind.entries(index.kind, each), schema) for each in files]
    return pa.concat_tables(parts) if parts else schema.empty_table()


def _whole(segment: Segment, part: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a file's entries with the columns that all kinds have."""
    columns = dict(zip(part.column_names, part.columns, strict=True))
    if not columns.keys() >= {*schema.names}:
        columns = common_columns(segment, part.num_rows) | columns
    found = [_as(columns[field.name], field.type) for field in schema]
    return pa.Table.from_arrays(found, schema=schema)


def _as(column: pa.Array | pa.ChunkedArray, wanted: pa.DataType) -> pa.Array | pa.ChunkedArray:
    """Return a column in a type: mostly it has it, and a cast would cost a call of a kernel."""
    return column if column.type.equals(wanted) else column.cast(wanted)


@dataclass(slots=True)
class _Schemas:
    """The columns of entries of the last indexes, by the identity of their definitions.

    A writer asks for them with each commit. To make them takes longer than the entries of a small
    file, and so would comparing definitions.
    """

    known: tuple[tuple[IndexDefinition, TableDefinition, pa.Schema], ...] = ()

    def of(self, index: IndexDefinition, table: TableDefinition) -> pa.Schema:
        """Return the columns of the entries of an index."""
        for definition, indexed, schema in self.known:
            if definition is index and indexed is table:
                return schema
        made = to_arrow(index_table(index, table).schema)
        self.known = ((index, table, made), *self.known[: _KNOWN_SCHEMAS - 1])
        return made


_KNOWN_SCHEMAS = 32
_SCHEMAS = _Schemas()


__all__ = ["IndexView", "LayeredView", "entry_columns_for", "view_of"]


# Entries as readers use them
@dataclass(frozen=True, slots=True)
class LayeredView:
    """Entries of several ages: for each file, the entries of the first layer that knows it."""

    newest_first: Sequence[IndexView]

    def knows(self, segment: Segment) -> bool:
        """Return whether a layer has the entries about a file."""
        return any(layer.knows(segment) for layer in self.newest_first)

    def may_hold(self, segment: Segment, test: Predicate) -> bool:
        """Return whether a row of a file may match; True if no layer knows it."""
        knowing = (layer for layer in self.newest_first if layer.knows(segment))
        found = next(knowing, None)
        return found is None or found.may_hold(segment, test)


def entry_columns_for(
    index: IndexDefinition, table: TableDefinition, test: Predicate
) -> tuple[str, ...]:
    """Return the columns of entries that a condition needs; none if the index cannot help.

    Args:
        index: the index.
        table: the indexed table, in the version that is read.
        test: the condition.
    """
    return tuple(entry_kind(index.kind).columns_for(index.kind, table, test))


def view_of(index: IndexDefinition, table: TableDefinition, entries: pa.Table) -> IndexView:
    """Return entries, to compare with conditions.

    Args:
        index: the index.
        table: the indexed table, in the version that is read.
        entries: the entries, in all columns or in ``entry_columns_for``.
    """
    return entry_kind(index.kind).view(index.kind, table, entries)


# Jobs that compute entries
JOB_BYTES = 256 << 20
"""The cost from which on a job takes no further file."""


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexJob:
    """Compute the entries of an index about some files.

    Attributes:
        uri: the table.
        storage_options: keys of the object store.
        index: the index.
        table: the table's definition.
        segments: the files.
        attempt: 16 hex digits; the job names no file by them.
    """

    uri: str
    storage_options: Mapping[str, str]
    index: IndexDefinition
    table: TableDefinition
    segments: tuple[Segment, ...]
    attempt: str

    @property
    def cost(self) -> int:
        """Return the approximate number of bytes it handles."""
        return cost_of(self.segments)

    @property
    def title(self) -> str:
        """Return the job's title in the Spark UI."""
        return f"index {self.index.name}: {counted(len(self.segments), 'file')}"

    def run(self, files: DataFiles | None = None) -> pa.Table:
        """Return the entries, in the columns of the index's table.

        Raises:
            CorruptTable, ChecksumMismatch: a file is damaged, or differs from its entry in the log.
        """
        files = open_files(self.uri, self.storage_options) if files is None else files
        parts = [self._of(segment, files) for segment in self.segments]
        return pa.concat_tables([self._about((), files), *parts])

    def _of(self, segment: Segment, files: DataFiles) -> pa.Table:
        try:
            return self._about((segment,), files)
        except NotFound:
            return self._about((), files)

    def _about(self, segments: Sequence[Segment], files: DataFiles) -> pa.Table:
        return entries(self.index, self.table, segments, files)


def in_jobs(segments: Iterable[Segment]) -> Iterator[tuple[Segment, ...]]:
    """Yield files in their order, as many at a time as one job takes."""
    held: list[Segment] = []
    cost = 0
    for segment in segments:
        if held and cost + cost_of([segment]) > JOB_BYTES:
            yield tuple(held)
            held, cost = [], 0
        held.append(segment)
        cost += cost_of([segment])
    if held:
        yield tuple(held)
