"""The doctor over a real ZooKeeper, with a worker that is killed in the middle of its work."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from airflow_provider_segtable.coordination.address import connect
from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper
from airflow_provider_segtable.core.recovery.diagnosis import Severity
from airflow_provider_segtable.health.doctor import examine
from airflow_provider_segtable.health.verify import verify
from airflow_provider_segtable.planning.findings.health_findings import Bounds
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.planner import plan_table
from airflow_provider_segtable.table.context import (
    SESSION_TIMEOUT_VARIABLE,
    TableContext,
    open_context,
)
from airflow_provider_segtable.table.table import Table
from tests.integration import kill_worker

pytestmark = [pytest.mark.zookeeper]

SESSION_S = 6  # ends soon, but not while its holder is only slow
WORKER = """
import sys, time
from airflow_provider_segtable.services.compaction import compact
from airflow_provider_segtable.table.context import open_context

def hang(jobs):
    print("working", flush=True)
    while True:
        time.sleep(1)
        yield from ()

ports = open_context(sys.argv[1], zookeeper=sys.argv[2], author="worker to be killed")
compact(ports, sys.argv[3:], hang)
"""


@pytest.fixture
def ports(tmp_path: Path, zookeeper: EmbeddedZooKeeper) -> Iterator[TableContext]:
    """Return a table of two chunks with three small segments each."""
    made = open_context(str(tmp_path / "table"), zookeeper=zookeeper.address)
    Table.create(
        made.uri,
        schema=kill_worker.SCHEMA,
        time_column="at",
        granularity="hour",
        properties={"compaction.min_segments": "2", "compaction.max_attempts": "3"},
    )
    for turn in range(3):
        Table(made).append(kill_worker.batch(f"appender1-{turn}"))
    yield made
    made.coordinator.close()


def codes(ports: TableContext, **bounds: float) -> dict[str, Severity]:
    told = examine(ports, Bounds(pending_minutes=0, **bounds)).findings  # type: ignore[arg-type]
    return {finding.code: finding.severity for finding in told}


def test_a_killed_worker_is_noticed_and_its_plan_finished(
    ports: TableContext, tmp_path: Path
) -> None:
    """While it lives there is nothing to say but its lock; killed, its plan is abandoned."""
    assert codes(ports) == {}
    plans = [launch.plan_id for launch in plan_table(ports).launches]
    script = tmp_path / "worker.py"
    script.write_text(WORKER)
    root = str(Path(__file__).parents[2])
    environ = {**os.environ, SESSION_TIMEOUT_VARIABLE: str(SESSION_S), "PYTHONPATH": root}
    command = [sys.executable, str(script), ports.uri, ports.coordinator.address, plans[0]]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environ) as worker:
        assert worker.stdout
        try:
            assert worker.stdout.readline() == "working\n"
            (other,) = [f.where for f in examine(ports, Bounds(pending_minutes=0)).findings]
            assert other == plans[1]  # nobody has that one
            assert "old-lock" in codes(ports, lock_minutes=0)
        finally:
            worker.send_signal(signal.SIGKILL)
    deadline = time.monotonic() + 180
    while "dying-attempts" not in codes(ports):
        assert time.monotonic() < deadline, "the dead worker's session never expired"
        time.sleep(0.2)
    assert codes(ports) == {
        "abandoned-plan": Severity.WARNING,
        "dying-attempts": Severity.WARNING,
    }
    assert verify(ports, all_versions=True, deep=True).findings == ()
    kill_worker.compact_pending(ports, in_process(ports.files))
    assert codes(ports) == {}
    assert verify(ports, all_versions=True, deep=True).findings == ()


def test_a_coordinator_that_is_gone_is_critical(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The finding names the address, and reading still works."""
    monkeypatch.setitem(connect.__kwdefaults__, "connect_timeout_s", 0.5)  # for a quick test
    with EmbeddedZooKeeper(tmp_path / "zookeeper") as server:
        address = server.address
    made = open_context(str(tmp_path / "table"), zookeeper=address)
    Table.create(made.uri, schema=kill_worker.SCHEMA, time_column="at", granularity="hour")
    try:
        (told,) = examine(made).findings
    finally:
        made.coordinator.close()
    assert (told.code, told.severity) == ("no-coordinator", Severity.CRITICAL)
    assert address.removeprefix("zk://").partition("/")[0] in told.what
