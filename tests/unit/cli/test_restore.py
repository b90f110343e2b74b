"""``segtable table restore``: it shows, asks and restores."""

from collections.abc import Callable
from typing import Any


def test_it_shows_and_restores(facts: Callable[..., Any], table: str) -> None:
    """A dry run writes nothing; with --yes the rows are back, and the timeline says so."""
    facts("ingest", table, "trips.parquet")
    before = facts("table", "scan", table, "--count")["rows"]
    version = facts("table", "describe", table)["version"]
    facts("delete", table, "--where", "amount >= 0")
    assert facts("table", "scan", table, "--count")["rows"] == 0
    shown = facts("table", "restore", table, "--version", str(version), "--dry-run")
    assert (shown["event"], shown["rows"]) == (None, before)
    done = facts("table", "restore", table, "--version", str(version), "--yes")
    assert (done["event"], done["restored"]) == (version + 2, version)
    assert facts("table", "scan", table, "--count")["rows"] == before
    last = facts("table", "timeline", table, "--limit", "1")["events"][0]
    assert last["kind"] == "VersionRestored"
    assert last["summary"].startswith(f"version {version} again: ")


def test_it_asks(run: Callable[..., Any], facts: Callable[..., Any], table: str) -> None:
    """Without an answer nothing happens; --json cannot ask."""
    facts("ingest", table, "trips.parquet")
    facts("delete", table, "--where", "amount >= 0")
    named = ("table", "restore", table, "--version", "1")
    refused = run(*named)
    assert refused.exit_code == 1
    assert "Restore it?" in refused.stderr
    assert run(*named, "--json").exit_code == 2
    assert facts("table", "scan", table, "--count")["rows"] == 0
