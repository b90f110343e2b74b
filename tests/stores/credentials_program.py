"""What a process does with a table on S3 by the credentials that it finds: a program of tests.

    python -m tests.stores.credentials_program WORK TABLE ZOOKEEPER OPTIONS SECONDS

OPTIONS is a file with storage options. ``library`` appends, compacts and scans for some seconds,
``spark`` does so in executors, ``source`` by the data source, ``task`` by an Airflow operator.
The output is what others may read: it ends with the numbers of the table's rows.
"""

import json
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.request import urlopen

from airflow_provider_segtable.library.table import Table
from tests.stores.test_table_cycle import rows

PART = 40


def said(*words: object) -> None:
    """Write a line of output."""
    sys.stdout.write(" ".join(map(str, words)) + "\n")
    sys.stdout.flush()


def numbers(table: Table) -> list[int]:
    """Return the numbers of the table's rows."""
    return sorted(table.scan().to_arrow()["x"].to_pylist())


def library(table: Table, seconds: float) -> None:
    """Work in this process, until the first credentials have ended."""
    until, turn = time.monotonic() + seconds, 0
    while turn < 4 or time.monotonic() < until:
        table.append(rows(turn * PART, PART))
        turn += 1
        if turn % 4 == 0:
            table.compact("minor")
        numbers(table)
    assert table.verify(deep=True).findings == ()


def spark(table: Table, seconds: float) -> None:
    """Append and sort by executors; show what Spark's own pages show."""
    from airflow_provider_segtable.services.compaction import compact
    from airflow_provider_segtable.services.request import request
    from airflow_provider_segtable.spark.driver.session import session
    from airflow_provider_segtable.spark.writes.dataframe_ingest import ingest
    from airflow_provider_segtable.spark.writes.distribution import spark_execute

    driver = session("credentials")
    until, turn = time.monotonic() + seconds, 0
    while turn < 2 or time.monotonic() < until:
        ingest(table.ports, driver.createDataFrame(rows(turn * PART, PART)).repartition(2))
        turn += 1
    plans = [known.plan.id for known in request(table.ports, "major")]
    said([result.message for result in compact(table.ports, plans, spark_execute(driver))])
    executors = driver.sparkContext._jsc.sc().getExecutorMemoryStatus().size()
    assert executors > 1, "no executor of its own"
    pages(driver)
    driver.stop()


def source(uri: str, zookeeper: str) -> None:
    """Upsert and read by the data source, with the keys that Hadoop's settings have.

    Rows of a window are merged by segtable's tasks. Rows that are shown as files have them, also of
    a table with keys, would be read by Spark's own reader, for which Spark needs hadoop-aws.
    """
    from airflow_provider_segtable.spark.driver.session import session
    from airflow_provider_segtable.spark.source.registration import register

    driver = session("credentials")
    register(driver)
    options = {"zookeeper": zookeeper, "path": uri}
    for turn in range(2):
        new = driver.createDataFrame(rows(turn, PART))
        new.write.format("segtable").options(**options).mode("append").save()
    found = driver.read.format("segtable").options(**options, sinceVersion=0).load()
    found.explain("extended")
    said("rows", json.dumps(sorted(row.x for row in found.select("x").collect())))
    pages(driver)
    driver.stop()


def pages(driver: Any) -> None:
    """Print what the web interface says of the settings."""
    context = driver.sparkContext
    for path in ("/environment/", f"/api/v1/applications/{context.applicationId}/environment"):
        with urlopen(f"{context.uiWebUrl}{path}", timeout=60) as page:  # noqa: S310  # loopback
            said(page.read().decode())


def task(table: Table, _: float) -> None:
    """Run an operator, and print what Airflow keeps of it."""
    from airflow.sdk.execution_time.task_runner import _serialize_rendered_fields

    from airflow_provider_segtable.operators.compact import SegtableCompactOperator
    from airflow_provider_segtable.services.planner import plan_table

    for turn in range(4):
        table.append(rows(turn * PART, PART))
    plan_table(table.ports)
    operator = SegtableCompactOperator(task_id="t", table=table.ports.uri, wait_s=0)
    operator.render_template_fields({})
    context = {
        "ti": SimpleNamespace(dag_id="d", run_id="r", task_id="t", map_index=-1, try_number=1)
    }
    said("xcom", json.dumps(operator.execute(context)))
    said("rendered", json.dumps(_serialize_rendered_fields(operator)))


WORKS: Mapping[str, Callable[[Table, float], None]] = {
    "library": library,
    "spark": spark,
    "task": task,
}


def opened(uri: str, zookeeper: str, options: Mapping[str, str]) -> Table:
    """Make the table, or open it as the Airflow connection says."""
    return Table.create(
        uri,
        schema=rows(0).schema,
        time_column="at",
        properties={"compaction.min_segments": "2"},
        zookeeper=zookeeper,
        storage_options=options,
    )


def main(work: str, uri: str, zookeeper: str, options: str, seconds: str) -> None:
    """Do the work."""
    given = json.loads(Path(options).read_text())
    if work == "source":
        source(uri, zookeeper)
        return
    if work == "task":
        from airflow_provider_segtable.hooks.segtable import SegtableHook

        place = SegtableHook().place
        said("place", repr(place))
        given = dict(place.storage_options)
    table = opened(uri, zookeeper, given)
    WORKS[work](table, float(seconds))
    said("rows", json.dumps(numbers(table)))
    table.ports.coordinator.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
