"""The files of one file group as runs to be merged."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

import pyarrow as pa

from airflow_provider_segtable.core.log.families.table_events import TableCreated
from airflow_provider_segtable.core.segments.segment import Segment
from airflow_provider_segtable.data.arrow.arrow_schema import physical_schema, to_arrow
from airflow_provider_segtable.data.arrow.conditions import Condition
from airflow_provider_segtable.data.keyed.keyed_files import run_of
from airflow_provider_segtable.ports.files import DataFiles


@dataclass(frozen=True, slots=True)
class GroupReader:
    """Reads file groups of a table; ``checked`` compares bytes with their checksums."""

    files: DataFiles
    table: TableCreated
    checked: bool = True

    @property
    def schema(self) -> pa.Schema:
        """Return the schema of the files, with the hidden columns."""
        return physical_schema(to_arrow(self.table.schema), self.table.kind)

    def runs(
        self,
        segments: Iterable[Segment],
        columns: Sequence[str] | None = None,
        where: Condition | None = None,
    ) -> list[Iterator[pa.Table]]:
        """Return a run for each atomic update group among the segments.

        Args:
            segments: segments of one file group.
            columns: the columns to read, hidden ones among them; all if None.
            where: only rows that match; its columns are among those read.
        """
        ordered = sorted(segments, key=lambda s: (s.shard.group, s.id))
        return [
            run_of(
                self.files,
                [*some],
                self.schema,
                time_column=self.table.time_column,
                columns=columns,
                checked=self.checked,
                where=where,
            )
            for _, some in groupby(ordered, key=lambda s: s.shard.group)
        ]
