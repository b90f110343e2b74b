"""The part of a kind of index that needs Arrow: making entries of a file, and comparing them.

The files that entries are about, and whether the entries about a file may be trusted:

1. They are trusted if path and checksum of the footer are the same in the log, all row groups
   are there, and their rows add up to the file's.
2. A file of an older segtable has no checksum. Its path was written once, so that is enough.

Indexed columns:

3. ``needed_columns`` finds the indexed columns that a condition names, and whether entries about
   them can exclude rows.

The values of indexed columns in a file, as readers see them:

4. Columns are found by their ids, whatever the file calls them; a column that the file lacks has
   its default. Values are in the table's present types. Bytes are compared with their checksums.
5. With ``partial_update`` a null sets nothing, so that readers may see the default instead of it.
6. Deleted rows count, too: a file never changes, and an entry is true of all its rows.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from airflow_provider_segtable.core.indexes.index_kind import (
    CHECKSUM,
    FILE,
    ROWS,
    START,
    known_columns,
)
from airflow_provider_segtable.core.predicate import (
    Comparison,
    Judge,
    Predicate,
    comparisons,
    possible,
)
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.data.keyed.group_reader import shown_defaults, with_defaults
from airflow_provider_segtable.data.parquet.segment_scan import SegmentRead
from airflow_provider_segtable.data.parquet.table_file import stored_columns
from airflow_provider_segtable.ports.files import DataFiles


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

    def entries(
        self, kind: Any, table: TableDefinition, segment: Segment, files: DataFiles
    ) -> pa.Table:
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


def start_of(segment: Segment) -> pa.Scalar:
    """Return the start of the time chunk that a file was written for.

    A segment that is carried over may lie in another chunk; its entries stay where they are.
    """
    return pa.scalar(segment.file_id.interval.start, pa.timestamp("us", "UTC"))


def common_columns(segment: Segment, count: int) -> dict[str, pa.Array]:
    """Return the columns that all kinds have, for a number of entries about one file."""
    return {
        FILE: pa.repeat(segment.path, count),
        START: pa.repeat(start_of(segment), count),
        CHECKSUM: pa.repeat(footer_checksum(segment), count),
        ROWS: pa.repeat(pa.scalar(segment.rows, pa.int64()), count),
    }


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
    return {column.name: column.id for column in table.schema.numbered if column.id in ids}


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


# The values of indexed columns
def row_groups(
    ids: Sequence[int], table: TableDefinition, segment: Segment, files: DataFiles
) -> Iterator[pa.Table]:
    """Yield the values of columns, row group by row group, in the order of the ids.

    Raises:
        NotFound: the file is missing.
        CorruptTable, ChecksumMismatch: it is damaged, or differs from its entry in the log.
    """
    names = [column.name for column in known_columns(ids, table)]
    read = SegmentRead(
        files,
        segment,
        schema=stored_columns(table.schema),
        time_column=table.time_column,
        columns=names,
    )
    defaults = shown_defaults(table)
    for rows in read.row_groups():
        yield with_defaults(rows, defaults)
