"""Write records of a primary-key table in a task: rows in, log files and their descriptors out.

1. Rows come with those of a file group together. A task holds as many as a log file may have, and
   the kernel splits them by time chunk and bucket, sorts and merges them (``data.keyed``). So a
   file holds what the kernel says, however Spark dealt the rows.
2. Every file has a unique name, so tries of a task never collide. Files of a try that does not
   count are orphans, which no event names.
"""

import secrets
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from airflow_provider_segtable.core.log.families.table_events import TableCreated
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.core.tables.merge_rules import MergeRules
from airflow_provider_segtable.core.time import Instant, Layout
from airflow_provider_segtable.data.files.open_files import open_files
from airflow_provider_segtable.data.keyed.log_files import LOG_BYTES, LogWriter, Records, deletions
from airflow_provider_segtable.ports.files import DataFiles
from airflow_provider_segtable.spark.tasks.writing import checked, results


@dataclass(frozen=True, slots=True, kw_only=True)
class LogTask:
    """Parameters of a task that writes records.

    Attributes:
        uri: the table.
        storage_options: of its object store.
        table: its definition.
        rules: how the records of a key become its row.
        layout: the layout of time chunks.
        base_version: the table's first version.
        instant: when the write began.
        schema: the columns of the rows.
        deleted: the name of the user's column that says which rows delete their key.
        carried: the columns whose copies follow (``exact_columns``).
    """

    uri: str
    storage_options: Mapping[str, str]
    table: TableCreated
    rules: MergeRules
    layout: Layout
    base_version: Instant
    instant: Instant
    schema: pa.Schema
    deleted: str = ""
    carried: tuple[str, ...] = ()

    def run(
        self, batches: Iterable[pa.RecordBatch], wrote: Callable[[str], None]
    ) -> Iterator[pa.RecordBatch]:
        """Write the rows of one partition; yield a result for every file.

        Args:
            batches: whether a row deletes its key, then the columns in their order, then copies.
            wrote: called with each path that the task leaves behind when it succeeds.
        """
        files = open_files(self.uri, self.storage_options)
        yield from results(files, self._written(files, batches), wrote)

    def _written(self, files: DataFiles, batches: Iterable[pa.RecordBatch]) -> Iterator[Segment]:
        writer = LogWriter(
            files=files,
            table=self.table,
            rules=self.rules,
            layout=self.layout,
            base_version=self.base_version,
            instant=self.instant,
            token=lambda: secrets.token_hex(8),
        )
        for rows in gathered(batches, LOG_BYTES):
            yield from writer.written(self._records(rows))

    def _records(self, rows: pa.Table) -> Records:
        values = rows.select(rows.column_names[1:])
        return Records(
            rows=checked(values, self.schema, self.table.time_column, self.carried),
            deleted=deletions(rows.column(0), self.deleted),
        )


def gathered(batches: Iterable[pa.RecordBatch], most: int) -> Iterator[pa.Table]:
    """Yield batches in tables of at least ``most`` bytes, and a last smaller one."""
    held: list[pa.RecordBatch] = []
    size = 0
    for batch in batches:
        held.append(batch)
        size += batch.nbytes
        if size >= most:
            yield pa.Table.from_batches(held)
            held, size = [], 0
    if sum(batch.num_rows for batch in held):
        yield pa.Table.from_batches(held)
