"""Forget: delete the rows of a list of ids, rewrite their segments, then remove the old files.

``forget`` hides the rows from every new read at once. Their bytes are still in data files, which
earlier versions need: ``rewrite`` writes the chunks again without the rows, ``keep`` waits until
earlier versions may expire, and ``clean`` removes the old files. Nothing is locked meanwhile:
others append, read and compact as they like.

The list is a file with a header, such as ``user``, and one id per line. Table rows that equal one
of its rows in the file's columns are deleted. A retried ``forget`` deletes once. Tagged versions
keep their rows until the tag is deleted: ``segtable tag TABLE --list``.

Connection ``segtable_default`` has the root of the tables. Set in the environment of Airflow::

    SEGTABLE_FORGET_HOURS   how long earlier versions can still be read (24)
"""

import os
from datetime import UTC, datetime, timedelta

from airflow.providers.standard.sensors.time_delta import WaitSensor
from airflow.sdk import DAG, Param

from airflow_provider_segtable.operators.change import SegtableDeleteOperator
from airflow_provider_segtable.operators.clean import SegtableCleanOperator
from airflow_provider_segtable.operators.compact import SegtableCompactOperator

NAME = r"^(?!.*\.\.)[A-Za-z0-9_][A-Za-z0-9_./-]*$"
HOURS = float(os.environ.get("SEGTABLE_FORGET_HOURS", "24"))

with DAG(
    "segtable_forget",
    description="Delete the rows of a list of ids, and then their bytes",
    schedule=None,
    start_date=datetime(2024, 1, 1, tzinfo=UTC),
    catchup=False,
    tags=["segtable", "example"],
    params={
        "table": Param(
            "flights", type="string", pattern=NAME, description="Below the connection's root"
        ),
        "ids": Param("/data/forget/ids.csv", type="string", description="A file with a header"),
    },
):
    forget = SegtableDeleteOperator(
        task_id="forget", table="{{ params.table }}", matches="{{ params.ids }}"
    )

    rewrite = SegtableCompactOperator(
        task_id="rewrite",
        table="{{ params.table }}",
        policy={"deleted_share": 0, "max_plans": 10_000},  # every segment with a deleted row
    )

    keep = WaitSensor(task_id="keep", time_to_wait=timedelta(hours=HOURS), deferrable=True)

    clean = SegtableCleanOperator(
        task_id="clean",
        table="{{ params.table }}",
        retention={"hours": HOURS, "versions": 1},  # the newest version stays at any age
        retries=2,
    )

    forget >> rewrite >> keep >> clean
