"""Writes the golden table with altered columns; run it only with an ADR that changes the format."""

from pathlib import Path

import pyarrow as pa

from airflow_provider_segtable.core.tables.evolution import AddColumn, RenameColumn, WidenColumn
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compaction import compact
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.table import Table
from tests.golden.golden_table import batch, golden_table, write_files

PLACE = Path(__file__).parent / "columns"


def main() -> None:
    """Append, alter, append, sort with hidden columns, alter, checkpoint, and append once more."""
    table = Table(golden_table(3))
    table.append(batch(0))
    table.alter(
        columns=[
            RenameColumn(name="carrier", new="airline"),
            AddColumn(name="carrier", type="int32", default="7"),
        ]
    )
    later = batch(1).rename_columns(["at", "airline"])
    table.append(later.append_column("carrier", pa.array([1, None], pa.int32())))
    table.delete("airline = 'UA'")
    plans = [known.plan.id for known in request(table.ports, "semi-major")]
    compact(table.ports, plans, in_process(table.ports.files))
    table.alter(columns=[WidenColumn(name="carrier", type="int64")])
    EventLog(table.ports.storage).checkpoint(table.state())
    table.append(batch(2).rename_columns(["at", "airline"]))
    write_files(table.ports.storage, PLACE)


if __name__ == "__main__":
    main()
