"""Rows of data files, as indexes see them: kept by the writer of a file, or read from it.

1. A writer has the rows of its files in memory. It keeps them until its event is committed, in the
   columns that indexes need (``kept_rows``). So their entries cost no reading.
2. Rows are kept by row group, as they are written. So entries are the same from kept rows and from
   the file; ``tests/property/test_kept_rows.py`` compares them.
3. Kept rows have the names and types of one schema. They are used only in a version with this
   schema, else the file is read: after an alteration names may mean other columns.
4. Copies of rows are kept up to a bound (``MOST_COPIES``). Beyond it files are read. Rows that are
   in memory anyway are kept without a copy, so they need no bound.
"""

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.indexes.index_kind import known_columns
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.tables.merge_rules import OWN, ROOT_PARTITION
from airflow_provider_segtable.data.keyed.group_reader import (
    GroupReader,
    own_roots,
    record_columns,
    shown_defaults,
    with_defaults,
)
from airflow_provider_segtable.data.parquet.segment_scan import SegmentRead
from airflow_provider_segtable.data.parquet.table_file import stored_columns
from airflow_provider_segtable.ports.files import DataFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class FileRows:
    """The rows of one file of a table.

    Attributes:
        segment: the file.
        table: the table; rows are in its columns.
        files: the table's data files.
        kept: the rows by row group, in all columns that are asked for; None if they are read.
    """

    segment: Segment
    table: TableDefinition
    files: DataFiles
    kept: Sequence[pa.Table] | None = None

    def groups(self, ids: Sequence[int]) -> Iterator[pa.Table]:
        """Yield the values of columns, row group by row group, in the order of the ids.

        Raises:
            NotFound: the file is missing.
            CorruptTable, ChecksumMismatch: it is damaged, or differs from its entry in the log.
            InvalidInput: the table has no column of such an id.
        """
        known = self.table.schema.names_of(ids)
        if not ids or len(known) < len(ids):
            known_columns(ids, self.table)  # refuses these ids
        names = [known[number] for number in ids]
        defaults = shown_defaults(self.table)
        for rows in self._groups(stored_columns(self.table.schema), names):
            yield with_defaults(rows, defaults)

    def records(self, columns: Sequence[str]) -> tuple[pa.Table, pa.Table]:
        """Return the records of a primary-key table, and their roots; errors as ``groups``.

        If there is only one root, it is that of all records.

        Args:
            columns: the columns, ``ROOT_PARTITION`` among them.
        """
        if self.kept is not None:
            rows = pa.concat_tables(self._groups(record_columns(self.table), columns))
            if pc.all(pc.equal(rows.column(ROOT_PARTITION), OWN)).as_py():  # of one log file
                return rows, own_roots([self.segment])
        with GroupReader(self.files, self.table).opened((self.segment,)) as reader:
            (run,) = reader.runs((self.segment,), columns)
            return pa.concat_tables([*run]), reader.roots((self.segment,))

    def _groups(self, schema: pa.Schema, names: Sequence[str]) -> Iterator[pa.Table]:
        if self.kept is not None:
            types = [(name, schema.field(name).type) for name in names]
            yield from (_in_types(rows, types) for rows in self.kept)
            return
        read = SegmentRead(
            self.files,
            self.segment,
            schema=schema,
            time_column=self.table.time_column,
            columns=names,
        )
        yield from read.row_groups()

    def read(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """Yield the file's row groups in columns, hidden ones among them; errors as ``groups``."""
        keyed = self.table.kind.rules is not None
        schema = record_columns(self.table) if keyed else stored_columns(self.table.schema)
        return self._groups(schema, columns)


def _in_types(rows: pa.Table, types: Sequence[tuple[str, pa.DataType]]) -> pa.Table:
    """Return columns in types, which mostly are theirs."""
    columns = {}
    for name, wanted in types:
        column = rows.column(name)
        columns[name] = column if column.type.equals(wanted) else column.cast(wanted)
    return pa.table(columns)
