"""Writes the golden table anew; run it only with an ADR that changes the format."""

from pathlib import Path

from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compaction import compact
from airflow_provider_segtable.services.planner import plan_table
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.table import Table
from tests.golden.golden_table import batch, golden_table, write_files

PLACE = Path(__file__).parent / "table"


def main() -> None:
    """Append five times, compact, checkpoint, and append once more."""
    ports = golden_table(1)
    for turn in range(5):
        Table(ports).append(batch(turn))
    plans = [launch.plan_id for launch in plan_table(ports).launches]
    compact(ports, plans, in_process(ports.files))
    EventLog(ports.storage).checkpoint(Table(ports).state())
    Table(ports).append(batch(5))
    write_files(ports.storage, PLACE)


if __name__ == "__main__":
    main()
