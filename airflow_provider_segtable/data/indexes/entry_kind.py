"""The part of a kind of index that needs Arrow: how entries are made of a file."""

from typing import Any, Protocol

import pyarrow as pa

from airflow_provider_segtable.core.indexes.index_kind import (
    CHECKSUM,
    FILE,
    ROWS,
    START,
)
from airflow_provider_segtable.core.log.families.table_events import TableCreated
from airflow_provider_segtable.core.segments.segment import Segment
from airflow_provider_segtable.ports.files import DataFiles


class EntryKind(Protocol):
    """Makes the entries of one kind of index."""

    def entries(
        self, kind: Any, table: TableCreated, segment: Segment, files: DataFiles
    ) -> pa.Table:
        """Return the entries about a file: the columns that are the kind's own, and ``rows``."""
        ...


def footer_checksum(segment: Segment) -> str:
    """Return the checksum of a file's footer as text; empty if it has none."""
    found = segment.footer
    return "" if found is None else f"{found.start}-{found.crc}"


def common_columns(segment: Segment, count: int) -> dict[str, pa.Array]:
    """Return the columns that all kinds have, for a number of entries about one file."""
    start = pa.scalar(segment.id.interval.start, pa.timestamp("us", "UTC"))
    return {
        FILE: pa.repeat(segment.path, count),
        START: pa.repeat(start, count),
        CHECKSUM: pa.repeat(footer_checksum(segment), count),
        ROWS: pa.repeat(pa.scalar(segment.rows, pa.int64()), count),
    }
