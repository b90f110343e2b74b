"""The guide to deletes: its commands work as they stand, and at its end the bytes are gone."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tests.guides import commands
from tests.unit.cli.conftest import Facts, Run, trips


def test_the_examples_of_the_guide_work(run: Run, facts: Facts, tmp_path: Path) -> None:
    """Every command ends well, and no data file holds what was to be forgotten."""
    pq.write_table(trips(48), tmp_path / "trips.parquet")
    late = trips(4, first_hour=46).set_column(2, "amount", pa.array([9.0] * 4))
    pq.write_table(late, tmp_path / "corrections.parquet")
    (tmp_path / "forget.csv").write_text("who\nuser 5\n")
    (tmp_path / "gone.csv").write_text("who\nuser 6\n")
    assert run("table", "create", "trips", "--like", "trips.parquet", "--time", "at").exit_code == 0
    assert run("ingest", "trips", "trips.parquet", "--rows-per-append", "12").exit_code == 0
    found = commands("deletes.md")
    assert len(found) == 8
    for arguments in found:
        result = run(*arguments)
        assert result.exit_code == 0, f"{arguments}: {result.stdout}{result.stderr}"
    assert _users(tmp_path / "trips") == {f"user {n}" for n in range(5)}
    assert facts("table", "describe", "trips")["counts"]["deleted_rows"] == 0
    assert facts("table", "scan", "trips", "--count")["rows"] == 32


def _users(table: Path) -> set[str]:
    """Return whom the data files name, whether the log shows them or not."""
    files = sorted((table / "data").rglob("*.parquet"))
    return {who for file in files for who in pq.read_table(file).column("who").to_pylist()}
