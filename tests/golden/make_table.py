"""Writes the golden table anew; run it only with an ADR that changes the format."""

import shutil
from pathlib import Path

import pyarrow as pa

from airflow_provider_segtable.coordination.memory.memory_coordinator import (
    MemoryCoordinator,
    MemoryService,
)
from airflow_provider_segtable.core.log.events import TableCreated
from airflow_provider_segtable.core.time.interval import Granularity
from airflow_provider_segtable.data.arrow.arrow_schema import from_arrow
from airflow_provider_segtable.data.files.open_files import LocalFiles
from airflow_provider_segtable.services.compaction.compaction import compact
from airflow_provider_segtable.services.compaction.execution import in_process
from airflow_provider_segtable.services.planner import plan_table
from airflow_provider_segtable.storage import LocalStorage
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.table import Table, create_table
from airflow_provider_segtable.testing.clock import FakeClock, FakeRandomness

PLACE = Path(__file__).parent / "table"
SCHEMA = pa.schema([("at", pa.timestamp("us", "UTC")), ("carrier", pa.string())])
CARRIERS = ("UA", "AA", "B6", "DL", "EV", None)


def batch(turn: int) -> pa.Table:
    """Return two rows of the first hours of 2013."""
    first = 1_356_998_400_000_000 + turn * 1_000_000
    times = pa.array([first, first + 3_600_000_000], SCHEMA.field("at").type)
    return pa.table({"at": times, "carrier": [CARRIERS[turn], "WN"]}, SCHEMA)


def main() -> None:
    """Append five times, compact, checkpoint, and append once more."""
    shutil.rmtree(PLACE, ignore_errors=True)
    clock = FakeClock()
    ports = TableContext(
        uri="golden",
        storage=LocalStorage(PLACE),
        files=LocalFiles(PLACE),
        clock=clock,
        randomness=FakeRandomness(),
        author="golden",
        optional_coordinator=MemoryCoordinator(clock, MemoryService()),
    )
    definition = TableCreated(
        table_id="00000000-0000-0000-0000-000000000001",
        name="golden",
        schema=from_arrow(SCHEMA),
        time_column="at",
        granularity=Granularity.HOUR,
        properties={"compaction.min_segments": "2"},
    )
    create_table(ports, definition)
    for turn in range(5):
        Table(ports).append(batch(turn))
    plans = [launch.plan_id for launch in plan_table(ports).launches]
    compact(ports, plans, in_process(ports.files))
    EventLog(ports.storage).checkpoint(Table(ports).state())
    Table(ports).append(batch(5))


if __name__ == "__main__":
    main()
