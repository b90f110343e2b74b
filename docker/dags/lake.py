"""The demo of the containers: events are ingested every minute, and all tables are kept compact.

`DEMO_ENGINE=spark` carries plans out on the Spark workers, by the connection `spark_cluster`. It is
only for looks: these tables are so small that `auto` would do all in the task itself.
"""

import os
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from io import BytesIO
from random import Random
from urllib.parse import urlsplit

import pyarrow as pa
import pyarrow.parquet as pq
from airflow.sdk import DAG, task
from obstore.store import LocalStore, S3Store

from airflow_provider_segtable.dag_factory import compaction_dags
from airflow_provider_segtable.hooks.segtable import SegtableHook
from airflow_provider_segtable.operators.ingest import SegtableIngestOperator
from airflow_provider_segtable.operators.publish import SegtablePublishOperator
from airflow_provider_segtable.sensors.index_catch_up import SegtableIndexCatchupSensor

ENGINE = os.environ.get("DEMO_ENGINE", "local")
ONE_CORE = {"spark.cores.max": "1", "spark.executor.memory": "512m"}  # room for a second run
SPARK = {"spark_conn_id": "spark_cluster", "spark_conf": ONE_CORE} if ENGINE == "spark" else {}
ROWS = 20_000


def lake() -> LocalStore | S3Store:
    """Return the place of the tables, by the connection's keys: a folder or a bucket."""
    place = SegtableHook().place
    parts = urlsplit(place.root)
    if not parts.scheme:
        return LocalStore(place.root)
    return S3Store(parts.netloc, prefix=parts.path.strip("/"), **place.storage_options)


for name in ("events", "accounts", "clicks"):
    compaction_dags(table=name, schedule="*/2 * * * *", engine=ENGINE, spark=SPARK)

with DAG(
    "ingest_events",
    description="Append a minute's events, as one commit",
    schedule="* * * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    tags=["segtable", "demo"],
):

    @task(retries=2, retry_delay=timedelta(seconds=10))
    def land() -> str:
        """Make the file that another system would have left here."""
        luck, now = Random(), datetime.now(UTC)
        rows = pa.table(
            {
                "at": pa.array([now] * ROWS, pa.timestamp("us", "UTC")),
                "user": [luck.randrange(100_000) for _ in range(ROWS)],
                "kind": luck.choices(("view", "order", "return"), k=ROWS),
                "amount": [luck.random() * 100 for _ in range(ROWS)],
            }
        )
        written = BytesIO()
        pq.write_table(rows, written)
        file = f"landing/{now:%Y%m%dT%H%M%S}.parquet"
        lake().put(file, written.getvalue())
        return f"{SegtableHook().place.root}/{file}"

    @task(trigger_rule="all_done")
    def tidy(file: str) -> None:
        """Remove the file: the table has its rows."""
        with suppress(FileNotFoundError):
            lake().delete(file.removeprefix(f"{SegtableHook().place.root}/"))

    landed = land()
    ingest = SegtableIngestOperator(
        task_id="ingest",
        table="events",
        files=landed,
        engine="local",
        retries=2,
        retry_delay=timedelta(seconds=10),
    )
    landed >> ingest >> tidy(landed)

with DAG(
    "look_up_events",
    description="Wait until the index has all files, publish, and look a user up",
    schedule="*/5 * * * *",
    start_date=datetime(2026, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=1,
    tags=["segtable", "demo"],
):
    indexed = SegtableIndexCatchupSensor(
        task_id="indexed",
        table="events",
        index="by_user",
        deferrable=True,
        timeout=timedelta(minutes=10),
        retries=5,
        retry_delay=timedelta(seconds=30),
    )
    publish = SegtablePublishOperator(task_id="publish", table="events")

    @task
    def look_up(user: int = 42) -> int:
        """Count a user's events; the index says which files to open."""
        with SegtableHook().table("events") as events:
            return events.scan(where=f"user = {user}").count()

    indexed >> publish >> look_up()
