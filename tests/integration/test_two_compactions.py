"""Two applications over one plan at once, and one that is told to stop; real processes."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper
from airflow_provider_segtable.core.log.families.plan_events import PlanCompleted, PlanInflight
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.services.planner import plan_table
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.table import Table

pytestmark = [
    pytest.mark.spark,
    pytest.mark.zookeeper,
    pytest.mark.slow,
]

APP = Path(__file__).parents[2] / "spark_apps" / "compact.py"
EVENTS = pa.schema([("at", pa.timestamp("us", "UTC")), ("n", pa.int64())])
ROWS_A_SEGMENT = 100


@pytest.fixture
def table(tmp_path: Path, zookeeper: EmbeddedZooKeeper) -> Iterator[Table]:
    """Return a table with three small segments."""
    made = Table.create(
        str(tmp_path / "table"),
        schema=EVENTS,
        time_column="at",
        granularity="month",
        properties={"compaction.min_segments": "2"},
        zookeeper=zookeeper.address,
    )
    for start in range(0, 3 * ROWS_A_SEGMENT, ROWS_A_SEGMENT):
        numbers = pa.array(range(start, start + ROWS_A_SEGMENT), pa.int64())
        at = pa.array([1_356_998_400_000_000 + n.as_py() for n in numbers], pa.int64())
        made.append(pa.table({"at": at.cast(pa.timestamp("us", "UTC")), "n": numbers}))
    yield made
    made.ports.coordinator.close()


def start(table: Table, plan: str, result: Path) -> subprocess.Popen[str]:
    where = ["--table", table.ports.uri, "--zookeeper", table.ports.coordinator.address]
    which = ["--plan", plan, "--result-file", str(result), "--master", "local[1]"]
    return subprocess.Popen(
        [sys.executable, str(APP), *where, *which],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=APP.parents[1],
        env={**os.environ, "PYTHONPATH": str(APP.parents[1])},
    )


def numbers(table: Table) -> list[int]:
    found: list[int] = table.snapshot().to_arrow()["n"].to_pylist()
    return sorted(found)


def events(table: Table, kind: type[Any]) -> list[Any]:
    return [e for e in EventLog(table.ports.storage).events(0) if isinstance(e.action, kind)]


def test_one_commits_and_the_other_says_so(table: Table, tmp_path: Path) -> None:
    """Of two applications started at once, one completes the plan; both end with exit code 0."""
    (launch,) = plan_table(table.ports).launches
    results = [tmp_path / "one.json", tmp_path / "two.json"]
    running = [start(table, launch.plan_id, result) for result in results]
    output = [process.communicate(timeout=400)[0] for process in running]

    assert [process.returncode for process in running] == [0, 0], output
    ended = sorted(json.loads(result.read_text())["plans"][0]["ended"] for result in results)
    assert ended.count("completed") == 1
    assert set(ended) - {"completed"} <= {"running elsewhere", "done already", "overtaken"}
    assert len(events(table, PlanCompleted)) == 1
    assert numbers(table) == list(range(3 * ROWS_A_SEGMENT))
    assert len(table.snapshot().segments()) == 1
    assert list(violations(table.state())) == []


@pytest.mark.long
def test_told_to_stop_it_lets_go(table: Table, tmp_path: Path) -> None:
    """SIGTERM in the middle: locks are given back at once, and the next run completes the plan."""
    (launch,) = plan_table(table.ports).launches
    known = table.state()
    first = start(table, launch.plan_id, tmp_path / "first.json")
    head = table.ports.coordinator.wait_head(known.table.table_id, beyond=known.n, wait_s=120)
    assert head == known.n + 1
    assert events(table, PlanInflight)
    first.send_signal(signal.SIGTERM)
    output = first.communicate(timeout=240)[0]

    assert first.returncode == 143, output
    assert "Traceback" not in output
    assert json.loads((tmp_path / "first.json").read_text())["code"] == 143
    assert table.ports.coordinator.locks(known.table.table_id) == ()
    assert numbers(table) == list(range(3 * ROWS_A_SEGMENT))

    second = start(table, launch.plan_id, tmp_path / "second.json")
    output = second.communicate(timeout=400)[0]
    assert second.returncode == 0, output
    assert len(events(table, PlanCompleted)) == 1
    assert numbers(table) == list(range(3 * ROWS_A_SEGMENT))
