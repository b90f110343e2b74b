"""Writes the golden table with checksums anew; run it only with an ADR that changes the format."""

from pathlib import Path

from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compaction import compact
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.table import Table
from tests.golden.golden_table import batch, golden_table, write_files

PLACE = Path(__file__).parent / "checksums"


def main() -> None:
    """Append, compact, delete, tag, checkpoint, and append once more."""
    ports = golden_table(2)
    for turn in range(3):
        Table(ports).append(batch(turn))
    plans = [known.plan.id for known in request(ports, "minor")]
    compact(ports, plans, in_process(ports.files))
    Table(ports).delete("carrier = 'AA'")
    Table(ports).tag("kept")
    EventLog(ports.storage).checkpoint(Table(ports).state())
    Table(ports).append(batch(3))
    write_files(ports.storage, PLACE)


if __name__ == "__main__":
    main()
