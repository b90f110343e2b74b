"""Entries of the index ``bloom_filter``: a filter of the values of each column and file.

1. A filter is sized by the number of distinct values in the file, and by the rate of false
   positives. If it would be too large, there is none, and the file may have any value.
2. Nulls are no values: a file that has only nulls has an empty filter.
3. A condition's value is looked up in the column's type, as rows are compared with it. A value of
   another kind than the column excludes nothing, as with bounds.
"""

from collections.abc import Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any

import pyarrow as pa

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.indexes.index_kind import BloomFilter, bits
from airflow_provider_segtable.core.log.families.table_events import TableCreated
from airflow_provider_segtable.core.predicate import (
    Comparison,
    Day,
    Moment,
    Predicate,
    Value,
    can_equal,
    excluded_by,
)
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.data.arrow.arrow_predicates import scalar
from airflow_provider_segtable.data.arrow.arrow_schema import parse_type
from airflow_provider_segtable.data.indexes.column_values import row_groups
from airflow_provider_segtable.data.indexes.indexed_columns import indexed_columns, needed_columns
from airflow_provider_segtable.data.indexes.known_files import TRUST_COLUMNS, KnownFiles
from airflow_provider_segtable.data.merge.text_codes import is_text
from airflow_provider_segtable.data.sketches.split_blocks import Probe, bloom_filter
from airflow_provider_segtable.data.sketches.value_hashes import (
    Hashes,
    column_hashes,
    joined,
    value_hashes,
)
from airflow_provider_segtable.ports.files import DataFiles


class BloomEntries:
    """Makes one entry a file."""

    def entries(
        self, kind: BloomFilter, table: TableCreated, segment: Segment, files: DataFiles
    ) -> pa.Table:
        """Return the filter of each column."""
        hashes: dict[int, list[Hashes]] = {number: [] for number in kind.columns}
        for rows in row_groups(kind.columns, table, segment, files):
            for number, column in zip(kind.columns, rows.columns, strict=True):
                hashes[number].append(column_hashes(column))
        filters = {
            bits(number): bloom_filter(joined(parts), kind.rate) for number, parts in hashes.items()
        }
        return pa.table({name: pa.array([each], pa.binary()) for name, each in filters.items()})

    def columns_for(
        self, kind: BloomFilter, table: TableCreated, test: Predicate
    ) -> tuple[str, ...]:
        """Return the filters of the columns that the condition compares for equality."""
        indexed = indexed_columns(kind.columns, table)
        used = needed_columns(test, indexed, _has_values)
        return (*TRUST_COLUMNS, *map(bits, used)) if used else ()

    def view(self, kind: BloomFilter, table: TableCreated, entries: pa.Table) -> "BloomView":
        """Return the filters of files."""
        types = {column.name: parse_type(column.type) for column in table.schema.columns}
        filters = {
            name: (types[name], _cells(entries.column(bits(number))))
            for name, number in indexed_columns(kind.columns, table).items()
            if bits(number) in entries.column_names
        }
        return BloomView(filters, entries)


def _has_values(comparison: Comparison, wanted: bool) -> bool:  # noqa: FBT001
    return excluded_by(comparison, wanted=wanted) is not None


def _cells(column: pa.ChunkedArray) -> list[memoryview | None]:
    """Return the cells of a column of bytes, without a copy."""
    return [
        None if (found := cell.as_buffer()) is None else memoryview(found)
        for chunk in column.chunks
        for cell in chunk
    ]


class BloomView:
    """The filters of files."""

    def __init__(
        self,
        filters: Mapping[str, tuple[pa.DataType, list[memoryview | None]]],
        entries: pa.Table,
    ) -> None:
        """Find the files.

        Args:
            filters: for each column its type, and its filter in each entry.
            entries: the entries.
        """
        self._filters = filters
        self._known = KnownFiles(entries)

    def knows(self, segment: Segment) -> bool:
        """Return whether the filters of a file are known."""
        return bool(self._known.places(segment))

    def may_hold(self, segment: Segment, test: Predicate) -> bool:
        """Return whether a row of a file may match; True if it is not known."""
        places = self._known.places(segment)
        if not places:
            return True

        def may_have(column: str, value: Value) -> bool:
            kind, cells = self._filters.get(column, (None, ()))
            cell = cells[places[0]] if cells else None
            probe = None if cell is None else _probe(value, kind)
            return cell is None or probe is None or probe.may_be_in(cell)

        return can_equal(test, may_have)


@lru_cache(maxsize=4096, typed=True)  # True equals 1, and they are different values
def _probe(value: Value, kind: pa.DataType) -> Probe | None:
    """Return how to look up a value in filters of a column; None if they are not comparable."""
    if not _comparable(value, kind):
        return None
    try:
        found: Any = pa.array([scalar(value, kind, "")], kind)
    except InvalidInput:
        return None
    return Probe(int(value_hashes(found)[0]))


def _comparable(value: Value, kind: pa.DataType) -> bool:
    is_ = pa.types
    match value:
        case bool():
            return bool(is_.is_boolean(kind))
        case int():
            return bool(is_.is_signed_integer(kind) or is_.is_decimal128(kind))
        case Decimal():
            return bool(is_.is_decimal128(kind))
        case str():
            return is_text(kind)
        case Moment():
            return bool(is_.is_timestamp(kind))
        case Day():
            return bool(is_.is_date32(kind))
        case _:
            return False
