"""Writes the golden primary-key table; run it only with an ADR that changes the format."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.core.tables.merge_rules import ColumnGroup, MergeEngine
from airflow_provider_segtable.ports.job import Done, Job
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compaction import compact
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.table import Table
from tests.golden.golden_table import FIRST_US, golden_table, write_files

PLACE = Path(__file__).parent / "keyed"
HOUR_US = 3_600_000_000
SCHEMA = pa.schema(
    [
        ("at", pa.timestamp("us", "UTC")),
        pa.field("key", pa.int64(), nullable=False),
        ("seq", pa.int32()),
        ("text", pa.string()),
        ("seen", pa.int32()),
        ("gate", pa.string()),
    ]
)
KIND = PrimaryKey(
    key=("key",),
    buckets=2,
    ordering="seq",
    merge=MergeEngine.PARTIAL_UPDATE,
    groups=(ColumnGroup(columns=("gate",), ordering="seen"),),
)


def upsert(table: Table, *keys: int, seq: int, text: str | None, gone: bool = False) -> None:
    """Write keys; the group is set by every second write."""
    rows = [
        {
            "at": FIRST_US + key % 2 * HOUR_US,
            "key": key,
            "seq": seq,
            "text": text,
            "seen": seq if seq % 2 else None,
            "gate": f"g{seq}" if seq % 2 else None,
            "gone": gone,
        }
        for key in keys
    ]
    table.upsert(
        pa.Table.from_pylist(rows, SCHEMA.append(pa.field("gone", pa.bool_()))), deleted="gone"
    )


def compacted(table: Table, kind: str) -> None:
    """Compact the table."""
    plans = [known.plan.id for known in request(table.ports, kind)]
    compact(table.ports, plans, in_process(table.ports.files))


def divided(table: Table, buckets: int) -> None:
    """Change the number of buckets; beside it, log files complete that have to be divided."""
    plans = [known.plan.id for known in request(table.ports, "major", buckets=buckets)]
    late = [6, 5]

    def execute(jobs: Sequence[Job]) -> Iterator[Done]:
        if late:
            upsert(table, 2, 3, 4, seq=late.pop(), text="late")
        return in_process(table.ports.files)(jobs)

    compact(table.ports, plans, execute)


def main() -> None:
    """Upsert, compact in all ways, delete, keep a consumer, checkpoint, and upsert once more."""
    table = Table(golden_table(4, SCHEMA, KIND))
    upsert(table, *range(8), seq=1, text="first")
    upsert(table, 0, 1, seq=3, text=None)
    compacted(table, "semi-major")
    upsert(table, *range(4, 8), seq=4, text="fourth")
    upsert(table, 5, seq=2, text="lost")
    compacted(table, "minor")
    table.advance_consumer("billing")
    divided(table, buckets=3)
    upsert(table, 6, seq=7, text=None, gone=True)
    EventLog(table.ports.storage).checkpoint(table.state())
    upsert(table, 0, seq=8, text="last")
    write_files(table.ports.storage, PLACE)


if __name__ == "__main__":
    main()
