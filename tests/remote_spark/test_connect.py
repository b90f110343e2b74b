"""A table through Spark Connect: the data source works, functions of the driver are refused."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper
from airflow_provider_segtable.table.table import Table
from tests.cluster.conftest import SCHEMA, ended
from tests.remote_spark import connect_client
from tests.remote_spark.yarn import free_ports
from tests.support.processes import importable

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.zookeeper]


@contextmanager
def served(port: int) -> Iterator[None]:
    """Run a Connect server on a port as long as the block runs."""
    command = [sys.executable, "-m", "tests.remote_spark.connect_server", str(port)]
    env = {**os.environ, "PYTHONPATH": importable()}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, env=env, text=True, **pipes) as server:
        assert server.stdout
        try:
            assert server.stdout.readline() == "READY\n"
            yield
        finally:
            server.communicate(timeout=120)


@pytest.fixture(scope="module")
def steps(
    zookeeper: EmbeddedZooKeeper, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, dict[str, Any]]:
    """Return what each step of the client says."""
    pytest.importorskip("grpc_status", reason="pyspark[connect] is not installed")
    folder = tmp_path_factory.mktemp("connect")
    for name in ("trips", "copy"):
        place = str(folder / name)
        made = Table.create(place, schema=SCHEMA, time_column="at", zookeeper=zookeeper.address)
        made.ports.coordinator.close()
    (port,) = free_ports(1)
    with served(port):
        done = _client(str(port), folder, zookeeper)
    lines = [line[5:] for line in done.stdout.splitlines() if line.startswith("STEP ")]
    told = {found["step"]: found for found in map(json.loads, lines)}
    for name in connect_client.STEPS:
        told.setdefault(name, {"error": f"not reached:\n{done.stderr[-3000:]}"})
    return told


def _client(
    port: str, folder: Path, zookeeper: EmbeddedZooKeeper
) -> subprocess.CompletedProcess[str]:
    program = (sys.executable, "-m", "tests.remote_spark.connect_client")
    return ended(
        subprocess.Popen(
            [*program, port, str(folder), zookeeper.address],
            env={**os.environ, "PYTHONPATH": importable()},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
    )


@pytest.mark.parametrize(
    ("step", "wanted"),
    [("written", [*range(60)]), ("filtered", [0, 1, 2]), ("in_sql", 61), ("followed", 61)],
)
def test_the_data_source(steps: dict[str, dict[str, Any]], step: str, wanted: object) -> None:
    """Reads, writes, SQL and streams of a client give what they give in the driver."""
    assert steps[step].get("found") == wanted, steps[step]


def test_an_error_keeps_its_name(steps: dict[str, dict[str, Any]]) -> None:
    """The client sees segtable's name and message."""
    error = steps["unknown_option"]["error"]
    assert error.startswith("IllegalArgumentException: InvalidInput: ")


@pytest.mark.parametrize("step", ["scanned", "ingested"])
def test_functions_of_the_driver(steps: dict[str, dict[str, Any]], step: str) -> None:
    """They are refused in one sentence, with the data source as the way out."""
    error = steps[step]["error"]
    assert error.startswith("InvalidInput: this is a session of Spark Connect")
    assert 'format("segtable")' in error
