"""Kills with SIGKILL at random moments over real processes, ZooKeeper and Spark.

Airflow's task and supervisor are killed in ``tests/airflow``.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import psutil
import pytest

from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.planner import plan_table
from airflow_provider_segtable.table.context import (
    SESSION_TIMEOUT_VARIABLE,
    TableContext,
    open_context,
)
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.table import Table
from tests.integration import kill_worker
from tests.simulation.ledger import Ledger
from tests.simulation.model import Append, Intention

SEED = 20130101
KILLS = int(os.environ.get("SEGTABLE_KILLS", "9"))
SESSION_S = 3
PATIENCE_S = 180.0
ENOUGH = 10  # acknowledged appends, for the test to say something
VICTIMS = ("append", "append", "compact", "python worker", "python worker", "zookeeper", "driver")
DRIVER_KILLS = max(1, KILLS // 15)  # each costs a start of Spark


class Intents(dict[str, Intention]):
    """What each append was to add; its commit id says it."""

    def __missing__(self, commit_id: str) -> Intention:
        """Return the rows of any append."""
        rows = tuple(kill_worker.rows_of(commit_id))
        return Append(rows=rows, times=(0,) * len(rows))


@dataclass(slots=True)
class Crew:
    """The running workers; whoever is killed is started again."""

    uri: str
    address: str
    folder: Path
    running: dict[str, subprocess.Popen[bytes]] = field(default_factory=dict)

    def start(self, mode: str, name: str) -> None:
        """Start a worker in a process group of its own."""
        script = str(Path(kill_worker.__file__))
        command = [sys.executable, script, mode, name, self.uri, self.address, str(self.folder)]
        with (self.folder / f"{name}.log").open("ab") as log:
            environ = {**os.environ, SESSION_TIMEOUT_VARIABLE: str(SESSION_S)}
            self.running[name] = subprocess.Popen(
                command, stdout=log, stderr=log, start_new_session=True, env=environ
            )

    def kill(self, mode: str, name: str) -> None:
        """Kill a worker and all its children, and start it anew."""
        os.killpg(self.running[name].pid, signal.SIGKILL)
        self.running[name].wait()
        self.start(mode, name)

    def python_workers(self) -> list[psutil.Process]:
        """Return the Python processes of Spark's executors."""
        try:
            family = psutil.Process(self.running["spark"].pid).children(recursive=True)
        except psutil.NoSuchProcess:
            return []
        return [child for child in family if "pyspark.daemon" in _command(child)]

    def end(self) -> None:
        """Ask all to stop, then make them."""
        (self.folder / "stop").touch()
        deadline = time.monotonic() + 20
        for worker in self.running.values():
            try:
                worker.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                os.killpg(worker.pid, signal.SIGKILL)
                worker.wait()


def _command(process: psutil.Process) -> str:
    try:
        return " ".join(process.cmdline())
    except psutil.Error:
        return ""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[EmbeddedZooKeeper]:
    with EmbeddedZooKeeper(tmp_path / "zookeeper") as started:
        yield started


@pytest.fixture
def ports(tmp_path: Path, server: EmbeddedZooKeeper) -> Iterator[TableContext]:
    made = open_context(str(tmp_path / "table"), zookeeper=server.address)
    Table.create(
        made.uri,
        schema=kill_worker.SCHEMA,
        time_column="at",
        granularity="hour",
        properties={
            "compaction.min_segments": "2",
            "compaction.tier_ratio": "1e9",  # so that one group a chunk is the end
            "compaction.max_attempts": "1000",
        },
    )
    (tmp_path / "crew").mkdir()
    yield made
    made.coordinator.close()


@pytest.mark.slow
@pytest.mark.timeout(KILLS * 12 + 600)
def test_kills_at_random_moments(
    ports: TableContext, server: EmbeddedZooKeeper, tmp_path: Path
) -> None:
    """Whoever is killed, and whenever: no row is lost or doubled, and the work gets finished."""
    crew = Crew(ports.uri, ports.coordinator.address, tmp_path / "crew")
    ledger = Ledger(columns=("row",), intended=Intents())
    killed: Counter[str] = Counter()
    randomness = random.Random(SEED)
    victims = _victims(randomness)  # drawn before anything can differ from run to run
    try:
        for mode, name in (
            ("append", "appender1"),
            ("append", "appender2"),
            ("spark", "spark"),
        ):
            crew.start(mode, name)
        _await_python_workers(crew)
        crew.start("compact", "compactor1")
        for victim in victims:
            time.sleep(randomness.uniform(0.2, 1.0))
            killed[_kill(victim, crew, server, randomness)] += 1
            ledger.check(ports, each=False)
        _await(lambda: len(list(_acknowledged(crew.folder))) > ENOUGH, "appends")
    finally:
        crew.end()
    ledger.acknowledged.update(_acknowledged(crew.folder))
    ledger.check(ports, each=False)
    assert len(ledger.acknowledged) > ENOUGH
    assert min(killed[kind] for kind in set(VICTIMS)) > 0, killed
    _finish(ports)
    ledger.check(ports, each=False)
    table_id = EventLog(ports.storage).load().table.table_id
    _await(lambda: not ports.coordinator.locks(table_id), "end of the locks of the dead")


def _victims(randomness: random.Random) -> list[str]:
    """Draw an order with every kind; without its driver Spark has no Python workers for a while."""
    others = [*set(VICTIMS) - {"python worker"}]
    others += [randomness.choice(VICTIMS) for _ in range(KILLS - 1 - len(others))]
    order = ["python worker", *randomness.sample(sorted(others), len(others))]
    drivers = [at for at, victim in enumerate(order) if victim == "driver"]
    for at in drivers[DRIVER_KILLS:]:
        order[at] = "compact"
    return order


def _kill(victim: str, crew: Crew, server: EmbeddedZooKeeper, randomness: random.Random) -> str:
    """Kill a victim, or the compactor if there is no such victim; return which."""
    workers = crew.python_workers()
    match victim:
        case "zookeeper":
            server.kill()
            time.sleep(randomness.uniform(0.0, 1.0))
            server.start()
        case "python worker" if workers:
            randomness.choice(workers).kill()
        case "driver":
            crew.kill("spark", "spark")
        case "append":
            crew.kill("append", randomness.choice(("appender1", "appender2")))
        case _:
            crew.kill("compact", "compactor1")
            victim = "compact"
    return victim


def _await_python_workers(crew: Crew) -> None:
    def there() -> bool:
        assert crew.running["spark"].poll() is None, "the Spark driver ended by itself"
        return bool(crew.python_workers())

    _await(there, "Python workers of Spark")


def _await(claim: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not claim():
        assert time.monotonic() < deadline, f"no {what} within {PATIENCE_S:g} s"
        time.sleep(0.1)


def _acknowledged(folder: Path) -> Iterator[str]:
    for acks in folder.glob("*.acks"):
        yield from acks.read_text().split()


def _finish(ports: TableContext) -> None:
    """The next planner runs finish the work, once the dead sessions have expired."""

    def finished() -> bool:
        plan_table(ports)
        kill_worker.compact_pending(ports, in_process(ports.files))
        state = EventLog(ports.storage).load()
        chunks = state.timeline.visible_chunks()
        return all(len(state.timeline.visible_groups(chunk)) == 1 for chunk in chunks)

    _await(finished, "end of the work by the next planner runs")
