"""``segtable logstore serve`` as real processes that are killed, stopped, and ended."""

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from airflow_provider_segtable.coordination.embedded_zookeeper.embedded_server import (
    EmbeddedZooKeeper,
)
from airflow_provider_segtable.core.errors import Fenced
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.services.log_store.directory import addresses
from airflow_provider_segtable.testing.zookeeper import zookeeper
from tests.contract.worlds import PATIENCE_S, eventually

__all__ = ["zookeeper"]
pytestmark = [pytest.mark.slow, pytest.mark.kills, pytest.mark.zookeeper]

SESSION_S = 3.0
SERVE = "from airflow_provider_segtable.cli import main; main()"
SCHEMA = pa.schema([pa.field("at", pa.timestamp("us", "UTC"), nullable=False), ("x", pa.int64())])


def rows(*values: int) -> pa.Table:
    """Return rows with these values."""
    return pa.table({"at": pa.array([0] * len(values), SCHEMA[0].type), "x": [*values]}, SCHEMA)


class Services:
    """A table of two buckets, and processes that serve it."""

    def __init__(self, folder: Path, zookeeper: str) -> None:
        self.folder, self.address = folder, f"{zookeeper}/log-services"
        self.processes: dict[int, subprocess.Popen[bytes]] = {}
        self.table = Table.create(
            str(folder / "t"),
            schema=SCHEMA,
            time_column="at",
            properties={"log_store.buckets": "2", "log_store.checkpoint_seconds": "3600"},
            zookeeper=self.address,
        )
        self.id = self.table.state().table.table_id

    def serve(self) -> None:
        """Start another service."""
        environment = {**os.environ, "SEGTABLE_SESSION_TIMEOUT_S": str(SESSION_S)}
        command = ["logstore", "serve", str(self.folder / "t"), "--zookeeper", self.address]
        with (self.folder / f"said-{len(self.processes)}").open("wb") as said:
            made = subprocess.Popen(
                [sys.executable, "-c", SERVE, *command], stderr=said, env=environment
            )
        self.processes[made.pid] = made

    def served(self) -> dict[int, int]:
        """Return the process that has each bucket."""
        found = addresses(self.table.ports.coordinator, self.id)
        pids = {bucket: re.search(r":(\d+)-", at.service) for bucket, at in found.items()}
        return {bucket: int(pid[1]) for bucket, pid in pids.items() if pid}

    def are_shared(self) -> bool:
        """Return whether two services have a bucket each."""
        served = self.served()
        return len(served) == len({*served.values()}) == 2

    def are_left_by(self, pid: int) -> bool:
        """Return whether both buckets are served, and not by this service."""
        served = self.served()
        return len(served) == 2 and pid not in served.values()

    def end(self, pid: int) -> int:
        """Ask a service to end; return its exit code."""
        process = self.processes.pop(pid)
        process.send_signal(signal.SIGTERM)
        return process.wait(PATIENCE_S)

    def kill(self, pid: int) -> None:
        """End a service at once."""
        process = self.processes.pop(pid)
        process.kill()
        process.wait(PATIENCE_S)

    def said(self) -> str:
        """Return what all services have printed."""
        return "".join(each.read_text() for each in sorted(self.folder.glob("said-*")))


@pytest.fixture
def services(zookeeper: EmbeddedZooKeeper, tmp_path: Path) -> Iterator[Services]:
    made = Services(tmp_path, zookeeper.hosts)
    yield made
    for pid in [*made.processes]:
        made.kill(pid)
    made.table.ports.coordinator.close()


def test_services_take_over_from_each_other(services: Services) -> None:
    """Killed: its writer goes on elsewhere. Stopped: fenced, then back. Ended: all is committed."""
    for _ in range(3):
        services.serve()
    eventually(services.are_shared)
    table = services.table
    writer = table.log_writer(embedded=False)
    writer.append(rows(*range(10)))
    services.kill(services.served()[0])
    for n in range(10, 20):
        writer.append(rows(n))
    assert sorted(table.scan(include_log=True).to_arrow()["x"].to_pylist()) == [*range(20)]
    writer.checkpoint()
    assert sorted(table.scan().to_arrow()["x"].to_pylist()) == [*range(20)]
    eventually(services.are_shared)

    writer.append(rows(100))
    stopped = services.served()[0]
    services.processes[stopped].send_signal(signal.SIGSTOP)
    eventually(lambda: services.are_left_by(stopped))
    second = table.log_writer(embedded=False)
    second.append(rows(20))
    second.checkpoint()
    services.processes[stopped].send_signal(signal.SIGCONT)
    eventually(services.are_shared)
    second.append(rows(21))
    with pytest.raises(Fenced):
        writer.append(rows(101))

    assert [services.end(pid) for pid in [*services.processes]] == [0, 0]
    assert sorted(table.scan().to_arrow()["x"].to_pylist()) == [*range(22)]
    assert services.served() == {}
    for line in (r"serves bucket", r"lost bucket", r"handed over bucket", r"checkpoint of the log"):
        assert re.search(line, services.said())
