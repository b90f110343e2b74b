"""DAGs that have a log store committed, and wait until the table has everything; their table."""

from pathlib import Path

import pyarrow as pa

from airflow_provider_segtable import Table

from .conftest import JANUARY, SCHEMA

LOGGED, CHECKPOINT, CAUGHT_UP = "logged", "checkpoint_logged", "logged_caught_up"
IDS = (CHECKPOINT, CAUGHT_UP)
LOG_DAGS = f"""
from airflow.sdk import DAG

from airflow_provider_segtable.operators.checkpoint import SegtableCheckpointOperator
from airflow_provider_segtable.sensors.log_store_lag import LogStoreLagSensor

with DAG("{CHECKPOINT}", schedule=None):
    SegtableCheckpointOperator(task_id="checkpoint", table="{LOGGED}", retries=0)

with DAG("{CAUGHT_UP}", schedule=None):
    LogStoreLagSensor(
        task_id="wait", table="{LOGGED}", at_most_records=0, deferrable=True, poke_interval=600
    )
"""


def logged_table(root: Path, zookeeper: str) -> Table:
    """Create the table."""
    return Table.create(
        str(root / LOGGED), schema=SCHEMA, time_column="time_hour", zookeeper=zookeeper
    )


def rows(count: int) -> pa.Table:
    """Return so many rows."""
    return pa.table([[JANUARY] * count, range(count)], schema=SCHEMA)
