"""Make and read the entries of the index ``prefixes``."""

from collections.abc import Mapping

import pyarrow as pa

from airflow_provider_segtable.core.predicate import Predicate, Value, can_equal, excluded_by
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.data.indexes.entries import (
    TRUST_COLUMNS,
    KnownFiles,
    indexed_columns,
    needed_columns,
)
from airflow_provider_segtable.data.indexes.file_rows import FileRows
from tests.unit.table.toys.prefix_index import PrefixIndex, prefixes


class PrefixEntries:
    """Makes one entry a file."""

    def entries(self, kind: PrefixIndex, of: FileRows) -> pa.Table:
        """Return the prefixes of each column."""
        found: dict[int, set[str]] = {number: set() for number in kind.columns}
        for rows in of.groups(kind.columns):
            for number, column in zip(kind.columns, rows.columns, strict=True):
                found[number] |= {text[: kind.width] for text in column.to_pylist() if text}
        return pa.table(
            {prefixes(number): ["\n".join(sorted(some))] for number, some in found.items()}
        )

    def columns_for(
        self, kind: PrefixIndex, table: TableDefinition, test: Predicate
    ) -> tuple[str, ...]:
        """Return the prefixes of the columns that the condition compares for equality."""
        used = needed_columns(
            test,
            indexed_columns(kind.columns, table),
            lambda comparison, wanted: excluded_by(comparison, wanted=wanted) is not None,
        )
        return (*TRUST_COLUMNS, *map(prefixes, used)) if used else ()

    def view(self, kind: PrefixIndex, table: TableDefinition, entries: pa.Table) -> "PrefixView":
        """Return the prefixes of files."""
        columns = {
            name: [text.split("\n") for text in entries.column(prefixes(number)).to_pylist()]
            for name, number in indexed_columns(kind.columns, table).items()
            if prefixes(number) in entries.column_names
        }
        return PrefixView(kind.width, columns, entries)


class PrefixView:
    """The prefixes of files."""

    def __init__(
        self, width: int, columns: Mapping[str, list[list[str]]], entries: pa.Table
    ) -> None:
        """Find the files; ``columns`` has the prefixes of each column in each entry."""
        self._width = width
        self._columns = columns
        self._known = KnownFiles(entries)

    def knows(self, segment: Segment) -> bool:
        """Return whether the prefixes of a file are known."""
        return bool(self._known.places(segment))

    def may_hold(self, segment: Segment, test: Predicate) -> bool:
        """Return whether a row of a file may match; True if it is not known."""
        places = self._known.places(segment)

        def may_have(column: str, value: Value) -> bool:
            known = self._columns.get(column)
            return (
                not isinstance(value, str)
                or known is None
                or value[: self._width] in known[places[0]]
            )

        return not places or can_equal(test, may_have)
