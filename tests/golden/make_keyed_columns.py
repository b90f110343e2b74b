"""Writes the golden primary-key table with altered columns; run it only with an ADR."""

from pathlib import Path

import pyarrow as pa

from airflow_provider_segtable.core.tables.evolution import AddColumn, DropColumn, RenameColumn
from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.core.tables.merge_rules import ColumnGroup, MergeEngine
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compaction import compact
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.table import Table
from tests.golden.golden_table import SCHEMA, golden_table, write_files

PLACE = Path(__file__).parent / "keyed_columns"
KIND = PrimaryKey(
    key=("carrier",),
    buckets=1,
    ordering="seq",
    merge=MergeEngine.PARTIAL_UPDATE,
    groups=(ColumnGroup(columns=("page",), ordering="seen"),),
)
COLUMNS = pa.schema(
    [
        *SCHEMA,
        ("seq", pa.int64()),
        ("seen", pa.int64()),
        ("page", pa.string()),
        ("note", pa.string()),
    ]
)


def rows(**columns: list[object]) -> pa.Table:
    """Return records of the first hour of 2013."""
    count = len(columns["carrier"])
    times = pa.array([1_356_998_400_000_000] * count, pa.timestamp("us", "UTC"))
    return pa.table({"at": times, **columns})


def main() -> None:
    """Upsert, merge log files, alter, upsert, checkpoint, alter, and upsert once more."""
    table = Table(golden_table(5, COLUMNS, KIND))
    table.upsert(rows(carrier=["UA", "AA"], seq=[5, 5], note=["first", "other"]))
    table.upsert(rows(carrier=["UA"], seq=[7], seen=[1], page=["/"]))
    plans = [known.plan.id for known in request(table.ports, "minor")]
    compact(table.ports, plans, in_process(table.ports.files))
    table.alter(
        columns=[
            RenameColumn(name="note", new="remark"),
            AddColumn(name="note", type="int32", default="7"),
            AddColumn(name="device", type="string", group="seen"),
        ]
    )
    table.upsert(rows(carrier=["UA"], seq=[4], seen=[2], device=["x"], remark=["late"]))
    EventLog(table.ports.storage).checkpoint(table.state())
    table.alter(columns=[DropColumn(name="page")])
    table.upsert(rows(carrier=["AA"], seq=[6], note=[1]))
    write_files(table.ports.storage, PLACE)


if __name__ == "__main__":
    main()
