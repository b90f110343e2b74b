"""A process that ends publishes its commits first; one that is killed leaves them to others."""

import subprocess
import sys
from pathlib import Path

import pytest

from airflow_provider_segtable.library.table import Table

WRITER = """
import atexit, os, sys, time
import pyarrow as pa
from airflow_provider_segtable.library.table import Table

root, end = sys.argv[1:]
schema = pa.schema([pa.field("at", pa.timestamp("us", "UTC"), nullable=False), ("n", pa.int64())])
on = {"publish.delta": "on", "publish.iceberg": "on"}
table = Table.create(root, schema=schema, time_column="at", primary_key="n", properties=on)
if end == "fork":  # as a task of Airflow: a child that runs what was registered in it, and no more
    atexit._clear()
    if os.fork():
        os.wait()
        os._exit(0)
for n in range(6):
    table.append(pa.table({"at": [n], "n": [n]}).cast(schema))
if end == "fork":
    atexit._run_exitfuncs()
    os._exit(0)
if end == "killed":
    print("committed", flush=True)
    time.sleep(600)
"""


def command(root: Path, end: str) -> list[str]:
    return [sys.executable, "-c", WRITER, str(root), end]


def lags(root: Path) -> set[int | None]:
    return {each.lag_events for each in Table.open(str(root)).published().values()}


@pytest.mark.parametrize("end", ["exit", "fork"])
def test_a_short_script_publishes_before_it_ends(tmp_path: Path, end: str) -> None:
    """All is published, in fewer versions than commits."""
    subprocess.run(command(tmp_path / "t", end), check=True, timeout=120)
    assert lags(tmp_path / "t") == {0}
    versions = [*(tmp_path / "t/_delta_log").glob("*.json")]
    assert len(versions) < 7


def test_a_killed_process_leaves_its_commits_to_the_next_publisher(tmp_path: Path) -> None:
    """No row is lost; the next publication shows all."""
    root = tmp_path / "t"
    with subprocess.Popen(command(root, "killed"), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "committed\n"
        process.kill()
    table = Table.open(str(root))
    assert table.scan().count() == 6
    table.publish()
    assert lags(root) == {0}
