"""Pages outside of Airflow, for the unhappy cases: from memory, or by ``segtable ui``."""

import os
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import uvicorn
from starlette.types import ASGIApp

from airflow_provider_segtable.coordination.embedded_zookeeper import free_port
from tests.support.airflow_api import poll
from tests.support.processes import importable

START_S = 60.0


@contextmanager
def served(app: ASGIApp) -> Iterator[str]:
    """Serve an application by a thread; yield its address."""
    port = free_port()
    config = uvicorn.Config(app, port=port, log_level="error", lifespan="off")
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    assert poll(lambda: server.started or None, START_S)
    yield f"http://127.0.0.1:{port}/"
    server.should_exit = True
    thread.join(START_S)


@contextmanager
def served_by_command(root: Path, zookeeper: str) -> Iterator[str]:
    """Serve a lake by ``segtable ui``; yield the address that it prints."""
    segtable = "from airflow_provider_segtable.cli import main; main()"
    command = [sys.executable, "-c", segtable, "ui", "--root", str(root), "--port", "0"]
    process = subprocess.Popen(
        [*command, "--zookeeper", zookeeper],
        env={**os.environ, "PYTHONPATH": importable(), "PYTHONUNBUFFERED": "1", "NO_COLOR": "1"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    try:
        yield _printed(process)
    finally:
        process.terminate()
        process.communicate()


def _printed(process: "subprocess.Popen[str]") -> str:
    """Return the first address that a process prints."""
    until = time.monotonic() + START_S
    while time.monotonic() < until and process.stdout is not None:
        for word in process.stdout.readline().split():
            if word.startswith("http://"):
                return word
    raise TimeoutError("segtable ui printed no address")
