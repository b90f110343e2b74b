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
from airflow_provider_segtable.data.keyed.part import Part
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
        part: Part | None = None,
    ) -> list[Iterator[pa.Table]]:
        """Return a run for each atomic update group among the segments.

        Args:
            segments: segments of one file group, or with a part, of several.
            columns: the columns to read, hidden ones among them; all if None.
            where: only rows that match; its columns are among those read.
            part: only rows of this part; all rows if None.
        """
        ordered = sorted(segments, key=lambda s: (s.id.chunk, s.shard.group, s.id))
        groups = groupby(ordered, key=lambda s: (s.id.chunk, s.shard.group))
        return [self._run([*some], columns, where, part) for _, some in groups]

    def _run(
        self,
        group: Sequence[Segment],
        columns: Sequence[str] | None,
        where: Condition | None,
        part: Part | None,
    ) -> Iterator[pa.Table]:
        time_column = self.table.time_column
        run = run_of(
            self.files,
            group,
            self.schema,
            time_column=time_column,
            columns=columns,
            checked=self.checked,
            where=where,
        )
        if part is None or all(part.encloses(segment) for segment in group):
            return run
        return (rows.filter(pa.array(part.of(rows, time_column))) for rows in run)
