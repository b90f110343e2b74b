"""Read file groups of a primary-key table in a task: numbers of groups in, merged rows out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from airflow_provider_segtable.core.log.families.table_events import TableCreated
from airflow_provider_segtable.data.keyed.file_groups import FileGroup, MergedRead
from airflow_provider_segtable.data.keyed.group_reader import GroupReader
from airflow_provider_segtable.spark.tasks.exact_columns import copies
from airflow_provider_segtable.spark.tasks.reading import Held, near, task_files


class Groups(Protocol):
    """File groups, sent to each executor once."""

    @property
    def value(self) -> Sequence[FileGroup]:
        """Return the file groups."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class MergedReadTask:
    """Read some of ``groups`` in the columns of ``target``.

    Attributes:
        uri: the table.
        storage_options: of its object store.
        table: its definition.
        groups: the file groups.
        merged: which of their rows.
        target: the columns, in types that Spark can hold.
        carried: columns of which a copy is added (``exact_columns``).
        checked: compare data files with their checksums.
        held: files that are not stored; None if all are.
    """

    uri: str
    storage_options: Mapping[str, str]
    table: TableCreated
    groups: Groups
    merged: MergedRead
    target: pa.Schema
    carried: tuple[str, ...] = ()
    checked: bool = True
    held: Held | None = None

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the groups numbered in the first column."""
        files = task_files(self.uri, self.storage_options, self.held)
        reader = GroupReader(files, self.table, checked=self.checked)
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            for rows in self.merged.rows(reader, self.groups.value[number]):
                table = copies(rows, self.carried)
                yield from near(table, self.target, self.table.time_column).to_batches()
