"""All work that reaches Spark's tasks, by one driver, on executors with a bare Python."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper
from tests.cluster import journey
from tests.cluster.conftest import TIMEOUT_S, ended
from tests.cluster.standalone import Standalone
from tests.support.processes import importable

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.zookeeper,
]

Steps = dict[str, dict[str, Any]]


@pytest.fixture(scope="module")
def steps(
    cluster: Standalone, zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> Steps:
    """Run the driver; return what each step says."""
    return journeyed(cluster, zookeeper, tmp_path_factory.mktemp("journey"))


def journeyed(
    cluster: Standalone,
    zookeeper: EmbeddedZooKeeper,
    folder: Path,
    python: str = sys.executable,
    timeout_s: float = TIMEOUT_S,
) -> Steps:
    """Run the driver by a Python; return what each step says."""
    driver = subprocess.Popen(
        [
            *(python, "-m", "tests.cluster.journey"),
            *(str(folder), zookeeper.address, json.dumps(cluster.settings)),
        ],
        env={**os.environ, "PYTHONPATH": importable()},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    done = ended(driver, timeout_s)
    lines = [line[5:] for line in done.stdout.splitlines() if line.startswith("STEP ")]
    told = {found["step"]: found for found in map(json.loads, lines)}
    for name in journey.STEPS:
        told.setdefault(name, {"error": f"not reached:\n{done.stderr[-3000:]}"})
    return told


def found(steps: Steps, name: str) -> Any:
    assert "error" not in steps[name], steps[name]["error"]
    return steps[name]["found"]


def test_ingest_all_compactions_and_deletes(steps: Steps) -> None:
    """Minor, semi-major and major compaction keep exactly the rows that were not deleted."""
    gone = {0, 60, 120}
    wanted = [[row for row in range(end) if row not in gone] for end in (60, 120, 180)]
    assert found(steps, "appended") == wanted


def test_changes(steps: Steps) -> None:
    """An update, a merge and a delete by address do what they say."""
    updated = {0: 1000, 2: 1002}
    rows = [updated.get(row, row) for row in range(62) if row != 5]
    assert found(steps, "changed") == sorted(rows)


def test_rollup_tables(steps: Steps) -> None:
    """Totals and estimates of a rollup table are the same after a major compaction."""
    before, after = found(steps, "rolled up")
    assert sum(row[1] for row in before) == 120
    assert sum(row[2] for row in before) == sum(range(120))
    assert after == before


def test_a_stream(steps: Steps) -> None:
    """A stream that goes on from its checkpoint appends each row once."""
    assert found(steps, "streamed") == list(range(20))


def test_the_data_source(steps: Steps) -> None:
    """A query and a stream give the rows that are not deleted, a change feed each change."""
    rows = [row for row in range(60) if row != 7]
    assert found(steps, "followed") == [rows, sorted([*rows, 0, 1, 2]), 61, len(rows)]


def test_a_log_store(steps: Steps) -> None:
    """Tasks read each record once, from files and from the service in the driver."""
    assert found(steps, "log followed") == [*range(60)]


def test_primary_keys(steps: Steps) -> None:
    """Upserts, deletes, merges on read and both compactions leave one row a key that is there."""
    wanted = [[row for row in range(60) if row % 10 != number] for number in (0, 0, 1, 1)]
    assert found(steps, "keyed") == wanted


def test_an_index(steps: Steps) -> None:
    """Tasks build the entries of all files, and a scan finds the row by them."""
    ended, files, rows = found(steps, "indexed")
    assert (ended, rows) == ("completed", [7])
    assert files > 1


def test_a_scan_in_tasks(steps: Steps) -> None:
    """What Spark's reader cannot read, tasks read by Arrow, without deleted rows."""
    assert found(steps, "read by Arrow") == [9]
