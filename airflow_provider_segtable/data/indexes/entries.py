"""Compute the entries of indexes about data files, and compare them with conditions.

1. A kind of index names the class that computes its entries of a file (``made_by``); ``entries``
   asks it.

Entries as readers use them: which files may hold rows that match a condition.

2. A reader loads the columns of entries that its condition needs (``entry_columns_for``), for the
   files that it is about to read, and compares them (``view_of``).
3. A file that has no trusted entry is read: the log decides which files there are, and an index
   only which of them need not be opened.
4. Entries may be kept in layers (``LayeredView``). All entries about a file come in one layer, and
   of several the newest counts. Entries that a newer layer deletes are of files that were removed,
   so no reader asks for them.

Jobs that compute entries of some files, in this process or in a Spark task:

5. A job is plain data, and returns the entries; it writes no file.
6. A missing file needs no entry: it was cleaned while the index was being built. If it is lost
   instead, readers find out. A damaged file fails the job, with its path.
7. Jobs are bounded by the size of their files (``JOB_BYTES``), and so are the entries that they
   return.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module

import pyarrow as pa

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.errors import NotFound
from airflow_provider_segtable.core.indexes.index_kind import IndexKind
from airflow_provider_segtable.core.indexes.index_state import IndexDefinition
from airflow_provider_segtable.core.indexes.index_table import index_table
from airflow_provider_segtable.core.predicate import Predicate
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.data.arrow_schema import to_arrow
from airflow_provider_segtable.data.indexes.entry_kind import EntryKind, IndexView, common_columns
from airflow_provider_segtable.data.open_files import open_files
from airflow_provider_segtable.ports.files import DataFiles
from airflow_provider_segtable.ports.job import cost_of


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
    """Return the entries about files, in the columns of the index's table.

    Args:
        index: the index.
        table: the indexed table.
        segments: the files; each has a path.
        files: the table's data files.

    Raises:
        SegtableError: a file cannot be read, or is damaged.
    """
    schema = to_arrow(index_table(index, table).schema)
    kind = entry_kind(index.kind)
    parts = (
        _whole(segment, kind.entries(index.kind, table, segment, files), schema)
        for segment in segments
    )
    return pa.concat_tables([schema.empty_table(), *parts])


def _whole(segment: Segment, part: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return a file's entries with the columns that all kinds have."""
    own = dict(zip(part.column_names, part.columns, strict=True))
    columns = {**common_columns(segment, part.num_rows), **own}
    return pa.table({name: columns[name] for name in schema.names}).cast(schema)


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
