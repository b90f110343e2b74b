"""``segtable table drop``: it shows, asks and drops."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.unit.cli.test_bad_input import refused


@pytest.fixture
def filled(facts: Callable[..., Any], table: str) -> str:
    facts("ingest", table, "trips.parquet")
    Path(table, "data", "mine.txt").write_text("mine")
    return table


def test_it_shows_and_drops(
    run: Callable[..., Any], facts: Callable[..., Any], filled: str
) -> None:
    """A dry run deletes nothing; then only the marker and a foreign file are left."""
    shown = facts("table", "drop", filled, "--dry-run")
    assert (shown["event"], shown["rows"], shown["segments"]) == (None, 48, 2)
    assert facts("table", "scan", filled, "--count")["rows"] == 48
    done = facts("table", "drop", filled, "--yes")
    assert (done["event"], done["files"], done["kept"]) == (2, shown["files"], ["data/mine.txt"])
    left = [str(path.relative_to(filled)) for path in Path(filled).rglob("*")]
    assert sorted(left) == [
        *("_segtable", "_segtable/expired", "_segtable/expired/00000000000000000003"),
        *("data", "data/mine.txt"),
    ]
    gone = run("table", "describe", filled)
    assert (gone.exit_code, "was dropped at" in gone.stderr) == (1, True)
    again = run("table", "drop", filled)
    assert (again.exit_code, "the rest of table trips (0 files" in again.stdout) == (0, True)


def test_a_new_table_takes_the_place(facts: Callable[..., Any], filled: str) -> None:
    """Its timeline begins where the old one ended."""
    facts("table", "drop", filled, "--yes")
    facts("table", "create", filled, "--like", "trips.parquet", "--time", "at")
    facts("ingest", filled, "trips.parquet")
    assert facts("table", "scan", filled, "--count")["rows"] == 48
    events = facts("table", "timeline", filled)["events"]
    assert [event["n"] for event in events] == [3, 4]


def test_it_asks(run: Callable[..., Any], filled: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """No answer, no terminal and --json without --yes: nothing is deleted."""
    silent = run("table", "drop", filled)
    assert (silent.exit_code, "no terminal" in silent.stderr) == (2, True)
    assert run("table", "drop", filled, "--json").exit_code == 2
    monkeypatch.setattr(
        "airflow_provider_segtable.cli.commands.table_commands.at_terminal", lambda: True
    )
    asked = run("table", "drop", filled)
    assert (asked.exit_code, "48 rows in 2 segments" in asked.stderr) == (1, True)
    assert "Drop the table?" in asked.stderr
    assert run("table", "describe", filled).exit_code == 0


def test_a_drop_needs_a_table_and_zookeeper(
    run: Callable[..., Any], filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A typing error is no success, and without ZooKeeper nothing is deleted."""
    wrong = run("table", "drop", "trip", "--yes", "--json")
    refused(wrong, 1, "NotATable", "holds no segtable table")
    monkeypatch.delenv("SEGTABLE_ZOOKEEPER")
    refused(
        run("table", "drop", filled, "--yes", "--json"), 3, "CoordinatorUnavailable", "zookeeper"
    )
    assert run("table", "describe", filled).exit_code == 0
