"""What sorting needs to know of a kind of table: how rows are merged, and their columns."""

from typing import Protocol

import pyarrow as pa

from airflow_provider_segtable.core.tables.table_kind import TableKind


class RowKind(Protocol):
    """The rows of a kind of table, in Arrow; it is sent to Spark's tasks within jobs."""

    @property
    def kind(self) -> TableKind:
        """Return the pure part."""
        ...

    def merged(self, rows: pa.Table, time_column: str) -> pa.Table:
        """Return rows of files with rows of equal keys merged; all rows if the kind merges none."""
        ...

    def sorted_schema(self, schema: pa.Schema) -> pa.Schema:
        """Return the columns of sorted files, given those of the inputs without addresses."""
        ...
