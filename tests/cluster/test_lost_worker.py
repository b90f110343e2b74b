"""A worker that is killed while a compaction runs on it."""

import json
import subprocess
import time

import psutil
import pytest

from tests.cluster.conftest import TIMEOUT_S, Desk, ended, numbered

pytestmark = [
    pytest.mark.slow,
    pytest.mark.kills,
    pytest.mark.spark,
    pytest.mark.zookeeper,
]


def test_a_compaction_outlives_a_worker(desk: Desk) -> None:
    """The job ends on the other worker, or cleanly and then on a rerun; rows are exact."""
    table = desk.table
    for start in (0, 60):
        table.append(numbered(start, 60))
    table.ports.coordinator.close()
    command = ["compact", "trips", "--kind", "major", "--engine", "spark", "--json"]
    running = desk.start(command)
    executor = first_with_python(desk, running)
    worker = executor.parent()
    assert worker is not None
    for process in (worker, executor):
        process.kill()
    told = ended(running)
    try:
        if told.returncode:
            assert "failed" in {plan["ended"] for plan in json.loads(told.stdout)["plans"]}
            again = desk.run(command)
            assert again.returncode == 0, (told.stderr, again.stderr)
        assert desk.rows() == list(range(120))
    finally:
        desk.cluster.add_worker().wait()  # for the tests that follow


def first_with_python(desk: Desk, running: subprocess.Popen[str]) -> psutil.Process:
    """Return the first executor that has begun a task: its Python is there."""
    deadline = time.monotonic() + TIMEOUT_S
    while time.monotonic() < deadline:
        assert running.poll() is None, running.communicate()
        for executor in desk.cluster.executors():
            try:
                if executor.children():
                    return executor
            except psutil.NoSuchProcess:
                continue
    raise AssertionError("no executor began a task")
