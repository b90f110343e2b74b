"""``segtable ingest`` with Spark: its session ends with the command, however that ends."""

from collections.abc import Generator
from pathlib import Path

import pytest

from airflow_provider_segtable.cli import on_spark
from airflow_provider_segtable.core.errors import ExecutionFailed
from tests.unit.cli.conftest import Run


def _fails() -> Generator[None]:
    raise ExecutionFailed("a task was lost")
    yield


def test_the_session_ends_with_a_command_that_fails(
    run: Run, table: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Left to the interpreter's own end, PySpark waits for ever for a thread that is frozen."""
    ended = []

    def session(*_: object) -> Generator[None]:
        try:
            yield from _fails()
        finally:
            ended.append("session")

    monkeypatch.setattr(on_spark, "ingest_files", session)
    (tmp_path / "rows.csv").touch()
    failed = run("ingest", table, "rows.csv", "--engine", "spark")
    assert failed.exit_code == 1
    assert "a task was lost" in failed.stderr
    assert ended == ["session"]
