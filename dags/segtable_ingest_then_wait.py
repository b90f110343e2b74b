"""Append files, wait until compaction has caught up, then read.

Tasks after ``compacted`` read few large files instead of many small ones. Nothing is locked
meanwhile: others append and read as they like. A retried ``ingest`` appends nothing twice, because
its commit ids derive from the DAG run.
"""

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, Param, task

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

    @task.bash(
        retries=2,
        append_env=True,
        env={
            "TABLE": "{{ conn.segtable_default.host }}/{{ params.table }}",
            "FILES": "{{ params.files }}",
            "SEGTABLE_ZOOKEEPER": "{{ conn.segtable_default.extra_dejson.zookeeper }}",
            "COMMIT": "{{ run_id }}",
        },
    )
    def ingest() -> str:
        """Append each file as one event.

        $FILES is not quoted, so that a glob is expanded; after ``--`` no word of it is an option.
        """
        return 'segtable ingest --commit-id="$COMMIT" -- "$TABLE" $FILES'

    compacted = SegtableSmallSegmentsSensor(
        task_id="compacted",
        table="{{ params.table }}",
        interval="{{ params.interval }}",
        at_most=12,
        deferrable=True,
        poke_interval=30,
        timeout=timedelta(hours=1),
    )

    @task.bash(
        append_env=True, env={"TABLE": "{{ conn.segtable_default.host }}/{{ params.table }}"}
    )
    def describe() -> str:
        """Stand in for the work that wanted large files."""
        return 'segtable table describe -- "$TABLE"'

    ingest() >> compacted >> describe()
