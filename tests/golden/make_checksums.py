"""Writes the golden table with checksums anew; run it only with an ADR that changes the format."""

import shutil
from pathlib import Path

from airflow_provider_segtable.coordination.memory.memory_coordinator import (
    MemoryCoordinator,
    MemoryService,
)
from airflow_provider_segtable.core.log.events import TableCreated
from airflow_provider_segtable.core.time.interval import Granularity
from airflow_provider_segtable.data.arrow.arrow_schema import from_arrow
from airflow_provider_segtable.services.compaction.compaction import compact
from airflow_provider_segtable.services.compaction.execution import in_process
from airflow_provider_segtable.services.compaction.request import request
from airflow_provider_segtable.storage.memory_storage import MemoryStorage
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.table import Table, create_table
from airflow_provider_segtable.testing.clock import FakeClock, FakeRandomness
from airflow_provider_segtable.testing.rooted import RootedFiles
from tests.golden.make_table import SCHEMA, batch

PLACE = Path(__file__).parent / "checksums"


def main() -> None:
    """Append, compact, delete, tag, checkpoint, and append once more."""
    clock = FakeClock()
    storage = MemoryStorage(clock=clock)
    ports = TableContext(
        uri="golden",
        storage=storage,
        files=RootedFiles(storage),
        clock=clock,
        randomness=FakeRandomness(),
        author="golden",
        optional_coordinator=MemoryCoordinator(clock, MemoryService()),
    )
    definition = TableCreated(
        table_id="00000000-0000-0000-0000-000000000002",
        name="golden",
        schema=from_arrow(SCHEMA),
        time_column="at",
        granularity=Granularity.HOUR,
        properties={"compaction.min_segments": "2"},
    )
    create_table(ports, definition)
    for turn in range(3):
        Table(ports).append(batch(turn))
    plans = [known.plan.id for known in request(ports, "minor")]
    compact(ports, plans, in_process(ports.files))
    Table(ports).delete("carrier = 'AA'")
    Table(ports).tag("kept")
    EventLog(ports.storage).checkpoint(Table(ports).state())
    Table(ports).append(batch(3))
    shutil.rmtree(PLACE, ignore_errors=True)
    for folder in ("_segtable", "data", "deletes"):
        for entry in storage.list(folder):
            path = PLACE / entry.path
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(storage.read(entry.path))


if __name__ == "__main__":
    main()
