"""Load the files of a day, and any day again: each run replaces the rows of its day.

::

    airflow backfill create --dag-id segtable_load_daily --from-date 2026-01-01 --to-date 2026-01-30
    airflow backfill create ... --reprocess-behavior completed      # the same days once more

A retry replaces a day once. Appends, reads and compactions go on meanwhile. ``@daily`` alone would
not do: by default Airflow 3 then gives its runs an empty data interval, and there would be nothing
to replace. This timetable gives them the day that they are named after. A run that is triggered by
hand for some date has the day before, as Airflow gives it the last interval that has ended.
"""

from datetime import UTC, datetime, timedelta

from airflow.sdk import DAG, Param
from airflow.timetables.interval import CronDataIntervalTimetable

from airflow_provider_segtable.operators.overwrite import SegtableOverwriteOperator

NAME = r"^(?!.*\.\.)[A-Za-z0-9_][A-Za-z0-9_./-]*$"

with DAG(
    "segtable_load_daily",
    description="Replace the rows of a day by those of its files",
    schedule=CronDataIntervalTimetable("@daily", timezone="UTC"),
    start_date=datetime(2024, 1, 1, tzinfo=UTC),
    catchup=False,
    max_active_runs=4,
    tags=["segtable", "example"],
    params={
        "table": Param(
            "trips", type="string", pattern=NAME, description="Below the connection's root"
        ),
        "landing": Param(
            "/data/landing", type="string", description="The folder of the days' folders"
        ),
    },
):
    load = SegtableOverwriteOperator(
        task_id="load",
        table="{{ params.table }}",
        files="{{ params.landing }}/{{ data_interval_start | ds }}/*.csv",
        retries=3,
        retry_delay=timedelta(minutes=1),
    )
