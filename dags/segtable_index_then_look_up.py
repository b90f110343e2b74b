"""Index a column, wait until the index has caught up, then look rows up by it.

The first run requests the index and builds it, while others append and read as they like. Later
runs find it there, and build only what writers could not feed. A build that takes longer than its
timeout pauses and comes back, so that it does not keep a worker slot.
"""

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, Param, task

from airflow_provider_segtable.hooks.segtable import SegtableHook
from airflow_provider_segtable.operators.index import SegtableIndexOperator
from airflow_provider_segtable.operators.schedule_index import SegtableScheduleIndexOperator
from airflow_provider_segtable.sensors.index_catch_up import SegtableIndexCatchupSensor

NAME = r"^(?!.*\.\.)[A-Za-z0-9_][A-Za-z0-9_./-]*$"
COLUMN = r"^\w+$"
INDEX = {"table": "{{ params.table }}", "index": "by_{{ params.column }}"}

with DAG(
    "segtable_index_then_look_up",
    description="Index a column of a table, and look rows up by it",
    schedule=None,
    start_date=datetime(2024, 1, 1, tzinfo=UTC),
    catchup=False,
    tags=["segtable", "example"],
    params={
        "table": Param(
            "flights", type="string", pattern=NAME, description="Below the connection's root"
        ),
        "column": Param("tailnum", type="string", pattern=COLUMN, description="What to index"),
        "value": Param("N14228", type="string", pattern=COLUMN, description="What to look up"),
    },
):
    schedule = SegtableScheduleIndexOperator(
        task_id="schedule", kind="bloom_filter", columns=["{{ params.column }}"], **INDEX
    )

    build = SegtableIndexOperator(task_id="build", timeout=timedelta(minutes=15), **INDEX)

    caught_up = SegtableIndexCatchupSensor(
        task_id="caught_up", deferrable=True, timeout=timedelta(hours=1), **INDEX
    )

    @task
    def count(table: str, column: str, value: str) -> int:
        """Stand in for the work that looks rows up."""
        with SegtableHook().table(table) as opened:
            return opened.scan(where=f"{column} = '{value}'").count()

    looked_up = count("{{ params.table }}", "{{ params.column }}", "{{ params.value }}")
    schedule >> build >> caught_up >> looked_up
