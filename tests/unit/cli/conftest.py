"""The command line in this process, over a coordinator in memory and tables below ``tmp_path``."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from uuid import uuid4

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from typer.testing import CliRunner, Result

from airflow_provider_segtable.cli.app import app

Run = Callable[..., Result]
HOUR_US = 3_600_000_000
NEW_YEAR_US = 1_356_998_400_000_000  # 2013-01-01

Facts = Callable[..., Any]
"""Runs a command that must go well, and parses its ``--json`` answer."""


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return what runs a command in ``tmp_path`` with a coordinator of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SEGTABLE_ZOOKEEPER", f"memory://{uuid4()}")
    monkeypatch.setenv("SEGTABLE_HOME", str(tmp_path / "home"))
    runner = CliRunner()

    def invoke(*arguments: str) -> Result:
        return runner.invoke(app, list(arguments), catch_exceptions=False)

    return invoke


@pytest.fixture
def facts(run: Run) -> Facts:
    """Return what runs a command that must go well, and parses its ``--json`` answer."""

    def invoke(*arguments: str) -> Any:
        result = run(*arguments, "--json")
        assert result.exit_code == 0, result.stderr
        return json.loads(result.stdout)

    return invoke


def trips(hours: int = 3, first_hour: int = 0) -> pa.Table:
    """Return small rows of the schema the tests use."""
    at = [NEW_YEAR_US + (first_hour + hour) * HOUR_US for hour in range(hours)]
    return pa.table(
        {
            "at": pa.array(at, pa.timestamp("us", "UTC")),
            "who": pa.array([f"user {hour % 7}" for hour in range(hours)]),
            "amount": pa.array([hour / 4 for hour in range(hours)]),
        }
    )


@pytest.fixture
def table(run: Run, tmp_path: Path) -> str:
    """A table ``trips``, empty, with a file ``trips.parquet`` of 48 rows on two days."""
    pq.write_table(trips(48), tmp_path / "trips.parquet")
    made = run("table", "create", "trips", "--like", "trips.parquet", "--time", "at")
    assert made.exit_code == 0, made.stderr
    return "trips"
