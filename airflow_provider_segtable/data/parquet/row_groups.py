"""The row groups of a data file, with the statistics in its footer; no row is read.

1. Values are texts, cut after ``MOST_TEXT`` characters. A value that the footer does not have, or
   that cannot be shown as text, is None.
2. Columns that segtable hides from readers are left out.
"""

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import CorruptTable
from airflow_provider_segtable.data.parquet.source_file import SourceFile, parquet_file
from airflow_provider_segtable.ports.files import DataFiles

MOST_TEXT = 60
HIDDEN = "__segtable"


@dataclass(frozen=True, slots=True, kw_only=True)
class ColumnStatistics:
    """A column of a row group; ``size`` is in bytes, compressed."""

    name: str
    least: str | None
    greatest: str | None
    nulls: int | None
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RowGroupStatistics:
    """A row group; ``size`` is in bytes, compressed."""

    number: int
    rows: int
    size: int
    columns: tuple[ColumnStatistics, ...]


def read_row_groups(files: DataFiles, path: str, most: int) -> tuple[RowGroupStatistics, ...]:
    """Return the first row groups of a file, at most ``most``.

    Raises:
        NotFound: the file is missing.
        CorruptTable: the footer is damaged.
        StorageError: the store failed.
    """
    try:
        with files.open(path) as source, parquet_file(SourceFile(source)) as parquet:
            found = parquet.metadata
            return tuple(
                _group(found.row_group(number), number)
                for number in range(min(most, found.num_row_groups))
            )
    except pa.ArrowException as error:
        raise CorruptTable(f"{path} has no readable footer: {error}") from None


def _group(found: Any, number: int) -> RowGroupStatistics:
    columns = tuple(_columns(found))
    return RowGroupStatistics(
        number=number,
        rows=found.num_rows,
        size=sum(found.column(at).total_compressed_size for at in range(found.num_columns)),
        columns=columns,
    )


def _columns(group: Any) -> Iterator[ColumnStatistics]:
    for at in range(group.num_columns):
        column = group.column(at)
        name = column.path_in_schema
        if name.startswith(HIDDEN):
            continue
        known = column.statistics
        ranged = known is not None and known.has_min_max
        counted = known is not None and known.has_null_count
        yield ColumnStatistics(
            name=name,
            least=_text(known.min) if ranged else None,
            greatest=_text(known.max) if ranged else None,
            nulls=known.null_count if counted else None,
            size=column.total_compressed_size,
        )


def _text(value: Any) -> str | None:
    if value is None or isinstance(value, bytes):
        return None
    text = str(value)
    return text if len(text) <= MOST_TEXT else f"{text[:MOST_TEXT]}…"
