"""SIGKILL for processes that write through an embedded log store: real Flight, real ZooKeeper."""

import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper
from airflow_provider_segtable.core.log_store.manifest import BEGINNING
from airflow_provider_segtable.core.log_store.reading import Reset
from airflow_provider_segtable.library.log_stores import log_finder
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.table.context import SESSION_TIMEOUT_VARIABLE
from airflow_provider_segtable.table.log_store.tail import BucketTail, LogRecords
from tests.contract.worlds import eventually
from tests.unit.library.log_world import SCHEMA, logged

SESSION_S = 2
ENOUGH = 40


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Table]:
    """A table whose log store commits only now and then by itself."""
    with EmbeddedZooKeeper(tmp_path / "zookeeper") as server:
        made = Table.create(
            str(tmp_path / "table"),
            schema=SCHEMA,
            time_column="at",
            granularity="all",
            properties={"log_store.checkpoint_rows": "15"},
            zookeeper=server.address,
        )
        yield made
        made.ports.coordinator.close()


class Writer:
    """A process with an embedded log store."""

    def __init__(self, table: Table) -> None:
        zookeeper = table.ports.coordinator.address
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.integration.log_worker", table.ports.uri, zookeeper],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, SESSION_TIMEOUT_VARIABLE: str(SESSION_S)},
        )
        self.opened = self.heard()

    def heard(self) -> list[str]:
        """Return the next answer."""
        assert self._process.stdout
        return self._process.stdout.readline().split()

    def told(self, *words: object) -> list[str]:
        """Give a command; return the answer."""
        assert self._process.stdin
        self._process.stdin.write(" ".join(map(str, words)) + "\n")
        self._process.stdin.flush()
        return self.heard()

    def kill(self) -> None:
        """End the process as it is."""
        self._process.kill()
        with self._process:  # closes its pipes, and waits
            pass

    def end(self) -> None:
        """Let it end by itself."""
        self._process.communicate()
        assert self._process.returncode == 0


@pytest.fixture
def start(table: Table) -> Iterator[Callable[[], Writer]]:
    """Starts writers; all have ended with the test."""
    started: list[Writer] = []

    def begin() -> Writer:
        started.append(Writer(table))
        return started[-1]

    yield begin
    for each in started:
        each.kill()


class Follower:
    """A reader of the bucket that is never restarted, and all that it has."""

    def __init__(self, table: Table) -> None:
        self.seen: list[int] = []
        self.resets: list[int] = []
        self._tail = BucketTail(table.ports, 0, BEGINNING, log_finder(table.ports))
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._follow, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop reading."""
        self._ending.set()
        self._thread.join()

    def _follow(self) -> None:
        while not self._ending.is_set():
            match self._tail.read(0.2):
                case LogRecords(first=first, rows=rows):
                    assert first == len(self.seen)
                    self.seen += rows.column("id").to_pylist()
                case Reset(offset=offset):
                    self.resets.append(offset)
                    del self.seen[offset:]
        self._tail.close()


def test_killed_writers_lose_nothing_that_was_committed(
    table: Table, start: Callable[[], Writer]
) -> None:
    """The next one goes on from the committed end; a reader is reset there, and has all of it."""
    reader = Follower(table)
    first = start()
    assert first.opened == ["open", "1", "0"]
    first.told("append", 0, 5)
    assert first.told("checkpoint")[0] == "version"
    assert first.told("append", 100, 3) == ["appended", "8"]
    eventually(lambda: reader.seen == [0, 1, 2, 3, 4, 100, 101, 102])
    first.kill()
    second = start()
    assert second.opened == ["open", "2", "5"]
    appended, committed = map(int, second.told("stream", 1000))
    while committed < ENOUGH or committed == 5 + appended:
        appended, committed = map(int, second.heard())
    second.kill()
    third = start()
    kept = int(third.opened[2])
    assert committed <= kept <= 5 + appended + 1
    expected = [0, 1, 2, 3, 4, *range(1000, 1000 + kept - 5)]
    assert logged(table) == expected
    third.told("append", 9000, 2)
    third.end()
    assert logged(table) == [*expected, 9000, 9001]
    eventually(lambda: reader.seen == [*expected, 9000, 9001])
    reader.end()
    assert reader.resets[0] == 5
    assert all(offset <= kept for offset in reader.resets)
