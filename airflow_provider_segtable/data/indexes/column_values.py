"""The values of indexed columns in a file, as readers see them.

1. Columns are found by their ids, whatever the file calls them; a column that the file lacks has
   its default. Values are in the table's present types. Bytes are compared with their checksums.
2. With ``partial_update`` a null sets nothing, so that readers may see the default instead of it.
3. Deleted rows count, too: a file never changes, and what is known of it holds for all its rows.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa

from airflow_provider_segtable.core.indexes.index_kind import known_columns
from airflow_provider_segtable.core.log.families.table_events import TableCreated
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.data.keyed.record_columns import shown_defaults, with_defaults
from airflow_provider_segtable.data.parquet.segment_scan import SegmentRead
from airflow_provider_segtable.data.parquet.table_file import stored_columns
from airflow_provider_segtable.ports.files import DataFiles


def row_groups(
    ids: Sequence[int], table: TableCreated, segment: Segment, files: DataFiles
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
