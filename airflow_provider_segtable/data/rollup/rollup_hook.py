"""Rollup during sorting: rows of equal dimensions become one, in any stage.

1. Without a rollup, rows pass unchanged.
2. The balance check counts events: the number of ingested rows that the rows represent.
"""

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.core.tables.rollup_kind import EVENTS, Rollup


@dataclass(frozen=True, slots=True)
class Rolling:
    """The table's rollup, if it has one."""

    rollup: Rollup | None = None

    @property
    def wanted(self) -> bool:
        """Return whether the table has a rollup."""
        return self.rollup is not None

    def rolled(self, rows: pa.Table, time_column: str) -> pa.Table:
        """Return the rows rolled up; unchanged without a rollup."""
        if self.rollup is None or not rows.num_rows:
            return rows
        from airflow_provider_segtable.data.rollup.rollup_rows import rolled_up

        table: pa.Table = rolled_up(rows, self.rollup, time_column=time_column)
        return table

    def events(self, rows: pa.Table) -> int:
        """Return the number of ingested rows that the rows represent."""
        if EVENTS not in rows.column_names:
            return int(rows.num_rows)
        return int(pc.sum(rows.column(EVENTS)).as_py() or 0)
