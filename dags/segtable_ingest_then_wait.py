"""Append files, wait until compaction has caught up, then read.

Tasks after ``compacted`` read few large files instead of many small ones. Nothing is locked
meanwhile: others append and read as they like. All files of a run are one append, which a retry
does not repeat, because its commit id derives from the DAG run.
"""

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, Param, task

from airflow_provider_segtable.hooks.segtable import SegtableHook
from airflow_provider_segtable.operators.ingest import SegtableIngestOperator
from airflow_provider_segtable.sensors.small_segments import SegtableSmallSegmentsSensor

NAME = r"^(?!.*\.\.)[A-Za-z0-9_][A-Za-z0-9_./-]*$"

with DAG(
    "segtable_ingest_then_wait",
    description="Append files to a table and wait for its compaction",
    schedule=None,
    start_date=datetime(2024, 1, 1, tzinfo=UTC),
    catchup=False,
    tags=["segtable", "example"],
    params={
        "table": Param(
            "flights", type="string", pattern=NAME, description="Below the connection's root"
        ),
        "files": Param("/data/landing/*.parquet", type="string", description="Files, or a glob"),
        "interval": Param(
            "2013-01-01/2014-01-01", type="string", description="What must be compact, start/end"
        ),
    },
):
    ingest = SegtableIngestOperator(
        task_id="ingest", table="{{ params.table }}", files="{{ params.files }}"
    )

    compacted = SegtableSmallSegmentsSensor(
        task_id="compacted",
        table="{{ params.table }}",
        interval="{{ params.interval }}",
        deferrable=True,
        poke_interval=30,
        timeout=timedelta(hours=1),
    )

    @task
    def count(table: str) -> int:
        """Stand in for the work that wanted large files."""
        with SegtableHook().table(table) as opened:
            return opened.snapshot().count()

    ingest >> compacted >> count("{{ params.table }}")
