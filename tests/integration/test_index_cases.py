"""RFC-45's cases with real processes: ZooKeeper, files on disk, SIGKILL.

All of them, as interleavings, are in ``tests/unit/table/test_index_cases.py``.
"""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pytest

from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper
from airflow_provider_segtable.core.indexes.index_kind import ColumnStats
from airflow_provider_segtable.core.indexes.index_state import IndexState, IndexStatus
from airflow_provider_segtable.core.log.group_plans import SemiMajorPlan
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compaction import Ended, compact
from airflow_provider_segtable.services.index_run import IndexRun, run_index
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.table import chosen_files
from airflow_provider_segtable.table.context import (
    SESSION_TIMEOUT_VARIABLE,
    TableContext,
    open_context,
)
from airflow_provider_segtable.table.index_lifecycle import request_index
from airflow_provider_segtable.table.table import Table
from tests.contract.worlds import eventually
from tests.integration.index_worker import NAME, SCHEMA, batch
from tests.simulation.indexes.index_oracle import wrong_indexes

SESSION_S = 3
PATIENCE_S = 90.0
ENDED = (Ended.COMPLETED, Ended.DONE_ALREADY)
BEFORE = 3
"""Appends before the index is requested."""


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedZooKeeper]:
    with EmbeddedZooKeeper(tmp_path_factory.mktemp("zookeeper")) as started:
        yield started


@pytest.fixture(autouse=True)
def used_for_one_file(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the index be used for tables as small as these."""
    monkeypatch.setattr(chosen_files, "LEAST_FILES", 1)


@pytest.fixture
def ports(tmp_path: Path, server: EmbeddedZooKeeper) -> Iterator[TableContext]:
    """A table of six files, whose index is requested and not built."""
    made = open_context(str(tmp_path / "table"), zookeeper=server.address, author="test")
    table = Table.create(made.uri, schema=SCHEMA, time_column="at", granularity="hour")
    assert table
    for turn in range(BEFORE):
        Table(made).append(batch(turn))
    request_index(made, NAME, ColumnStats(columns=(2,)))
    yield made
    made.coordinator.close()


@contextmanager
def stopped(mode: str, ports: TableContext, folder: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Run a worker until right before its event; kill it in the end, wherever it is."""
    address = ports.coordinator.address
    command = [sys.executable, "-m", "tests.integration.index_worker", mode, ports.uri, address]
    environ = {**os.environ, SESSION_TIMEOUT_VARIABLE: str(SESSION_S)}
    with (folder / f"{mode}.log").open("wb") as log:
        worker = subprocess.Popen([*command, str(folder)], env=environ, stdout=log, stderr=log)
    try:
        eventually((folder / f"{mode}.there").exists)
        yield worker
    finally:
        worker.send_signal(signal.SIGKILL)
        worker.wait()


def built(ports: TableContext) -> IndexRun:
    """Build the index in this process."""
    return run_index(ports, NAME, in_process(ports.files))


def index_of(ports: TableContext) -> IndexState:
    """Return the index as of now."""
    return ports.log.load().indexes[NAME]


def check(ports: TableContext, turns: list[int]) -> None:
    """Check the index, and that a scan which may use it finds the rows of these turns."""
    state = ports.log.load()
    assert not [*violations(state)]
    assert not [*wrong_indexes(state, ports)]
    assert index_of(ports).current
    assert index_of(ports).status is IndexStatus.AVAILABLE
    numbers = sorted(number for turn in turns for number in range(turn * 10, turn * 10 + 10))
    for least in (0, numbers[-1]):
        found = Table(ports).scan(columns=["row"], where=f"row >= {least}").to_arrow()
        rows = sorted(found.column("row").to_pylist())
        assert rows == [number for number in numbers if number >= least]


def test_a_writer_is_killed_while_the_indexer_runs(ports: TableContext, tmp_path: Path) -> None:
    """Case 1: the index is built without it; when it is run again, the writer feeds the index."""
    with stopped("append", ports, tmp_path):
        done = built(ports)
        assert (done.ended, done.files) == (Ended.COMPLETED, 2 * BEFORE)
        check(ports, [*range(BEFORE)])
    Table(ports).append(batch(90), commit_id="dies")
    check(ports, [*range(BEFORE), 90])


def test_the_indexer_is_killed_while_a_writer_writes(ports: TableContext, tmp_path: Path) -> None:
    """Case 2: the writer commits and feeds; the next run takes the plan over, and completes it."""
    with stopped("index", ports, tmp_path):
        Table(ports).append(batch(7))
        assert index_of(ports).status is IndexStatus.BUILDING
        assert index_of(ports).lagging_commits == 0
    eventually(lambda: built(ports).ended in ENDED)
    check(ports, [*range(BEFORE), 7])


def test_writers_services_and_two_indexers_at_once(
    ports: TableContext, server: EmbeddedZooKeeper
) -> None:
    """Cases 3 to 5: four authors with sessions of their own, and nobody fails or waits for it."""

    def appender(number: int) -> None:
        mine = others[number]
        for turn in range(4):
            Table(mine).append(batch(10 + number * 10 + turn))

    def compactor(number: int) -> None:
        mine = others[number]
        for _ in range(2):
            plans = [each.plan.id for each in request(mine, SemiMajorPlan.kind)]
            compact(mine, plans, in_process(mine.files))

    def indexer(number: int) -> None:
        for _ in range(2):
            run_index(others[number], NAME, in_process(others[number].files), timeout_s=0.0)

    others = [
        open_context(ports.uri, zookeeper=server.address, author=f"author{number}")
        for number in range(5)
    ]
    tasks = (appender, appender, compactor, indexer, indexer)
    with ThreadPoolExecutor(len(tasks)) as pool:
        for running in [pool.submit(task, number) for number, task in enumerate(tasks)]:
            running.result(timeout=PATIENCE_S)
    eventually(lambda: built(ports).left == 0)
    check(ports, [*range(BEFORE), *(10 + n * 10 + turn for n in range(2) for turn in range(4))])
    for other in others:
        other.coordinator.close()
