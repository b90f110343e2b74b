"""One cluster and one ZooKeeper for the suite; what drivers do on it, they do in processes."""

import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper
from airflow_provider_segtable.table.table import Table
from tests.cluster.standalone import Standalone
from tests.support.processes import importable

TIMEOUT_S = 500
SCHEMA = pa.schema([("at", pa.timestamp("us", "UTC")), ("k", pa.string()), ("row", pa.int64())])


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Standalone]:
    """Yield a running cluster."""
    made = Standalone(tmp_path_factory.mktemp("cluster"))
    try:
        made.start()
        yield made
    finally:
        made.stop()


@dataclass(frozen=True)
class Desk:
    """A folder from which commands are given, with a table ``trips`` named relatively."""

    folder: Path
    cluster: Standalone
    zookeeper: str

    @property
    def table(self) -> Table:
        """Open the table."""
        return Table.open(str(self.folder / "trips"), zookeeper=self.zookeeper)

    def file(self, start: int, rows: int = 60) -> str:
        """Write a file of rows numbered from ``start``, an hour each; return its name."""
        pq.write_table(numbered(start, rows), self.folder / f"{start}.parquet")
        return f"{start}.parquet"

    def rows(self) -> list[int]:
        """Return the numbers of the table's rows."""
        return sorted(self.table.snapshot().to_arrow(columns=["row"])["row"].to_pylist())

    def environment(self, **more: str) -> dict[str, str]:
        """Return the environment of a driver that is started here."""
        mine = {"SEGTABLE_ZOOKEEPER": self.zookeeper, "PYTHONPATH": importable()}
        return self.cluster.driver(**mine, **more)

    def start(self, arguments: Sequence[str], **env: str) -> subprocess.Popen[str]:
        """Start a command of segtable here; it shows where it hangs, before we give it up."""
        late = f"import faulthandler; faulthandler.dump_traceback_later({TIMEOUT_S - 20})"
        program = f"{late}; from airflow_provider_segtable.cli import main; main()"
        return subprocess.Popen(
            [sys.executable, "-c", program, *arguments],
            cwd=self.folder,
            env=self.environment(**env),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def run(self, arguments: Sequence[str], **env: str) -> subprocess.CompletedProcess[str]:
        """Run a command of segtable here."""
        return ended(self.start(arguments, **env))


def ended(
    process: subprocess.Popen[str], timeout_s: float = TIMEOUT_S
) -> subprocess.CompletedProcess[str]:
    """Wait for the end of a process, a bounded time, and return what it said."""
    try:
        stdout, stderr = process.communicate(timeout=timeout_s)
    except subprocess.TimeoutExpired:
        process.kill()
        stdout, stderr = process.communicate()
    return subprocess.CompletedProcess(process.args, process.returncode, stdout, stderr)


def numbered(start: int, rows: int) -> pa.Table:
    """Return rows of two keys, an hour each."""
    times = [datetime(2024, 1, 1, tzinfo=UTC) + timedelta(hours=n % 48) for n in range(rows)]
    keys = ["ab"[n % 2] for n in range(rows)]
    return pa.table([times, keys, range(start, start + rows)], schema=SCHEMA)


@pytest.fixture
def desk(tmp_path: Path, cluster: Standalone, zookeeper: EmbeddedZooKeeper) -> Desk:
    """Give an empty table of days, which two small segments are enough to compact."""
    made = Table.create(
        str(tmp_path / "trips"),
        schema=SCHEMA,
        time_column="at",
        properties={"compaction.min_segments": "2"},
        zookeeper=zookeeper.address,
    )
    made.ports.coordinator.close()
    return Desk(tmp_path, cluster, zookeeper.address)
