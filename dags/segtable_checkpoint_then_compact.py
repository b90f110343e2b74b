"""Commit what a log store has buffered, compact it, and wait until the table has everything.

Writers append to the log store all the time, and its services commit often, so files are small. A
run has everything committed that was appended before it, joins the small files, and goes on when
the table lacks nothing that was appended before ``caught_up`` began. A run without a service, which
means without writers, skips the checkpoint and compacts what there is.
"""

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, Param, task

from airflow_provider_segtable.hooks.segtable import SegtableHook
from airflow_provider_segtable.operators.checkpoint import SegtableCheckpointOperator
from airflow_provider_segtable.operators.compact import SegtableCompactOperator
from airflow_provider_segtable.sensors.log_store_lag import LogStoreLagSensor

NAME = r"^(?!.*\.\.)[A-Za-z0-9_][A-Za-z0-9_./-]*$"
TABLE = "{{ params.table }}"

with DAG(
    "segtable_checkpoint_then_compact",
    description="Commit a table's log store, compact the table, and wait until it has everything",
    schedule=None,
    start_date=datetime(2024, 1, 1, tzinfo=UTC),
    catchup=False,
    tags=["segtable", "example"],
    params={
        "table": Param(
            "flights", type="string", pattern=NAME, description="Below the connection's root"
        ),
    },
):
    checkpoint = SegtableCheckpointOperator(task_id="checkpoint", table=TABLE, if_not_served="skip")

    compact = SegtableCompactOperator(
        task_id="compact",
        table=TABLE,
        policy={"min_segments": 2},
        trigger_rule="none_failed",
    )

    caught_up = LogStoreLagSensor(
        task_id="caught_up", table=TABLE, deferrable=True, timeout=timedelta(minutes=10)
    )

    @task
    def count(table: str) -> int:
        """Stand in for the work that wanted everything, in large files."""
        with SegtableHook().table(table) as opened:
            return opened.snapshot().count()

    checkpoint >> compact >> caught_up >> count(TABLE)
