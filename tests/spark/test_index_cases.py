"""RFC-45's cases in which Spark builds, or writes: ZooKeeper, files on disk, SIGKILL of a driver.

All of them without Spark are in ``tests/integration/test_index_cases.py``.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

from airflow_provider_segtable.core.indexes.index_state import IndexStatus
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.services.compaction import Ended
from airflow_provider_segtable.services.index_run import IndexRun, run_index
from airflow_provider_segtable.spark.writes.dataframe_ingest import ingest
from airflow_provider_segtable.spark.writes.distribution import spark_execute
from airflow_provider_segtable.table.context import SESSION_TIMEOUT_VARIABLE
from airflow_provider_segtable.table.table import Table
from tests.contract.worlds import eventually
from tests.simulation.indexes.index_oracle import wrong_indexes
from tests.spark.conftest import MakeTable
from tests.spark.index_driver import PIECE
from tests.spark.test_index_builds import DAYS_90, EVENTS
from tests.unit.table.interleaving import before_event

pytestmark = [pytest.mark.spark, pytest.mark.zookeeper]

SESSION_S = 2
NAME = "stats"


def later(spark: SparkSession) -> DataFrame:
    """Return rows of two months that the table has, and of others."""
    return spark.sql(DAYS_90.replace("id * 1944000000", "id * 5000000000")).coalesce(1)


@pytest.fixture
def table(spark: SparkSession, make_table: MakeTable) -> Table:
    """Three months, which no index knows."""
    made = make_table(EVENTS)
    ingest(made.ports, spark.sql(DAYS_90).coalesce(1))
    return made


@contextmanager
def killed_driver(table: Table, folder: Path) -> Iterator[None]:
    """Let a driver build the first piece of the index, and more; kill it with its JVM then."""
    command = [sys.executable, "-m", "tests.spark.index_driver", table.ports.uri, NAME, str(folder)]
    environ = {
        **os.environ,
        "SEGTABLE_ZOOKEEPER": table.ports.coordinator.address,
        SESSION_TIMEOUT_VARIABLE: str(SESSION_S),
    }
    with (folder / "driver.log").open("wb") as log:
        driver = subprocess.Popen(
            command, env=environ, stdout=log, stderr=log, start_new_session=True
        )
    try:
        eventually(lambda: (folder / "driver.there").exists() or driver.poll() is not None)
        assert driver.poll() is None, (folder / "driver.log").read_text()
        yield
    finally:
        with suppress(ProcessLookupError):  # it failed
            os.killpg(driver.pid, signal.SIGKILL)
        driver.wait()


def built(spark: SparkSession, table: Table) -> IndexRun:
    """Build what the index lacks in Spark tasks; wait for the end of a dead driver's session."""
    runs: list[IndexRun] = []

    def completed() -> bool:
        runs.append(run_index(table.ports, NAME, spark_execute(spark)))
        return runs[-1].ended is Ended.COMPLETED

    eventually(completed)
    return runs[-1]


def check(table: Table) -> None:
    """Check that the index is available, lacks nothing, and has what the files give."""
    state = table.ports.log.load()
    index = state.indexes[NAME]
    assert not [*violations(state)]
    assert not [*wrong_indexes(state, table.ports)]
    assert index.current
    assert index.status is IndexStatus.AVAILABLE


def test_a_driver_is_killed_between_pieces_while_spark_writes(
    spark: SparkSession, table: Table, tmp_path: Path
) -> None:
    """Its first piece stays, the ingest feeds its own files, and the next run builds the rest."""
    table.create_index(NAME, "column_stats", ["n", "who"])
    before = len(table.snapshot().segments())
    with killed_driver(table, tmp_path):
        ingest(table.ports, later(spark))
        assert table.index(NAME).status is IndexStatus.BUILDING
    assert built(spark, table).files == before - PIECE
    check(table)


def test_an_ingest_older_than_the_request_lands_after_the_build(
    spark: SparkSession, table: Table
) -> None:
    """It was not waited for, and feeds the index that came while its tasks wrote."""

    def requested_and_built() -> None:
        table.create_index(NAME, "column_stats", ["n", "who"])
        assert built(spark, table).left == 0

    ports = before_event(table.ports, requested_and_built, word="Appended")
    landed = table.ports.log.event(ingest(ports, later(spark)).n)
    assert landed is not None
    assert [feed.index for feed in landed.feeds] == [table.index(NAME).definition.id]
    check(table)
