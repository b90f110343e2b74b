"""Publish a table as Delta Lake, and read it there as another engine does.

The first run publishes the whole table, later ones what differs, without a copy of the data. Tables
whose ``publish.delta`` is on need no such task: each commit is published by its author, and the
planner makes up for what is not. ``shown`` waits until everything is published that was committed
before it began, whoever publishes it.
"""

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, Param, task

from airflow_provider_segtable.hooks.segtable import SegtableHook
from airflow_provider_segtable.operators.publish import SegtablePublishOperator
from airflow_provider_segtable.sensors.published import SegtablePublishedSensor

NAME = r"^(?!.*\.\.)[A-Za-z0-9_][A-Za-z0-9_./-]*$"
TABLE = "{{ params.table }}"

with DAG(
    "segtable_publish_then_read",
    description="Publish a table as Delta Lake, and have another engine read it",
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
    publish = SegtablePublishOperator(task_id="publish", table=TABLE, formats="delta")

    shown = SegtablePublishedSensor(
        task_id="shown",
        table=TABLE,
        formats="delta",
        deferrable=True,
        poke_interval=5,
        timeout=timedelta(minutes=10),
    )

    @task
    def address(table: str) -> str:
        """Stand in for the work of another engine, which opens this address."""
        with SegtableHook().table(table) as opened:
            return opened.published()["delta"].address

    publish >> shown >> address(TABLE)
