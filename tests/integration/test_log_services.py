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

from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper
from airflow_provider_segtable.library.log_reader import BucketReset, TableLogReader
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.services.log_directory import addresses
from airflow_provider_segtable.table.log_store.tail import LogRecords
from tests.contract.worlds import PATIENCE_S, eventually

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


class Follower:
    """A reader, and what it knows of the records: it forgets what was discarded."""

    def __init__(self, reader: TableLogReader) -> None:
        self.reader = reader
        self.seen: dict[tuple[int, int], int] = {}

    def sees(self, count: int) -> bool:
        """Read until so many records are there; return whether they are those from 0 up."""
        while len(self.seen) < count:
            match self.reader.read(PATIENCE_S):
                case LogRecords(bucket=bucket, first=first, rows=found):
                    values = enumerate(found["x"].to_pylist(), first)
                    self.seen |= {(bucket, offset): x for offset, x in values}
                case BucketReset(bucket=bucket, offset=end):
                    kept = [at for at in self.seen if at[0] != bucket or at[1] < end]
                    self.seen = {at: self.seen[at] for at in kept}
                case other:
                    raise AssertionError(other)
        return sorted(self.seen.values()) == [*range(count)]


def test_writers_and_readers_go_along_when_services_fail(services: Services) -> None:
    """Stopped: replaced, fenced when it wakes, and back. Killed: replaced. Ended: all committed."""
    for _ in range(2):
        services.serve()
    eventually(services.are_shared)
    table = services.table
    writer, follower = table.log_writer(embedded=False), Follower(table.log_reader("earliest"))
    writer.append(rows(*range(5)))
    writer.append(rows(*range(5, 10)))
    assert follower.sees(10)

    stopped = services.served()[0]
    services.processes[stopped].send_signal(signal.SIGSTOP)
    for n in range(10, 14):
        writer.append(rows(n))
    assert stopped not in services.served().values()
    services.processes[stopped].send_signal(signal.SIGCONT)
    eventually(services.are_shared)
    assert follower.sees(14)

    services.kill(services.served()[1])
    for n in range(14, 18):
        writer.append(rows(n))
    assert follower.sees(18)
    writer.close()
    assert [services.end(pid) for pid in [*services.processes]] == [0]
    assert sorted(table.scan().to_arrow()["x"].to_pylist()) == [*range(18)]
    assert services.served() == {}
    follower.reader.close()
    for line in ("serves bucket", "lost bucket 0", "is over", "checkpoint of the log"):
        assert line in services.said()
