"""The part of a kind of index that needs Arrow: how entries are made of a file, and compared."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import pyarrow as pa

from airflow_provider_segtable.core.indexes.index_kind import CHECKSUM, FILE, ROWS, START
from airflow_provider_segtable.core.log.families.table_events import TableCreated
from airflow_provider_segtable.core.predicate import Predicate
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.ports.files import DataFiles


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
        """Return whether a row of a file may match; True if the entries do not tell."""
        ...


@runtime_checkable
class KeepsValues(Protocol):
    """A view of entries that tell of the values of columns."""

    def summaries(self, segments: Iterable[Segment]) -> Sequence[ColumnSummary]:
        """Return the values of each column in the known ones of some files."""
        ...


class EntryKind(Protocol):
    """Makes the entries of one kind of index, and compares them; ``kind`` has its settings."""

    def entries(
        self, kind: Any, table: TableCreated, segment: Segment, files: DataFiles
    ) -> pa.Table:
        """Return the entries about a file: the columns that are the kind's own, and ``rows``."""
        ...

    def columns_for(self, kind: Any, table: TableCreated, test: Predicate) -> Sequence[str]:
        """Return the columns of entries that a condition needs; none if they cannot help."""
        ...

    def view(self, kind: Any, table: TableCreated, entries: pa.Table) -> IndexView:
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
