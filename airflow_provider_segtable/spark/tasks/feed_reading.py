"""Read pieces of a primary-key table's change feed in a task: their numbers in, rows out."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa

from airflow_provider_segtable.core.log.families.table_events import TableCreated
from airflow_provider_segtable.core.tables.merge_rules import MergeRules
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.data.files.open_files import open_files
from airflow_provider_segtable.data.keyed.file_groups import FeedPiece, labelled_rows
from airflow_provider_segtable.data.keyed.group_reader import GroupReader
from airflow_provider_segtable.spark.tasks.reading import near


class Pieces(Protocol):
    """Pieces of a feed, sent to each executor once."""

    @property
    def value(self) -> Sequence[FeedPiece]:
        """Return the pieces."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class FeedTask:
    """Read some of ``pieces`` in the columns of ``target``.

    Attributes:
        uri: the table.
        storage_options: of its object store.
        table: its definition.
        pieces: the pieces of the window.
        rules: how the records of a key become its row.
        interval: only rows with event times in it.
        target: the columns, in types that Spark can hold.
        checked: compare data files with their checksums.
    """

    uri: str
    storage_options: Mapping[str, str]
    table: TableCreated
    pieces: Pieces
    rules: MergeRules
    interval: Interval | None
    target: pa.Schema
    checked: bool

    def run(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the pieces numbered in the first column."""
        files = open_files(self.uri, self.storage_options)
        reader = GroupReader(files, self.table, checked=self.checked)
        for number in (number for batch in batches for number in batch.column(0).to_pylist()):
            for changed in self.pieces.value[number].changes(reader, self.rules):
                for rows in labelled_rows(changed, reader, self.interval):
                    table = pa.Table.from_batches([rows])
                    yield from near(table, self.target, self.table.time_column).to_batches()
