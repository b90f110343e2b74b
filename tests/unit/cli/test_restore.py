"""``segtable table restore``: it shows, asks and restores."""

from collections.abc import Callable
from pathlib import Path
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


def test_columns_come_back_when_asked(
    run: Callable[..., Any], facts: Callable[..., Any], table: str
) -> None:
    """The output says how columns differ, and what came back: rows, segments, columns."""
    facts("ingest", table, "trips.parquet")
    facts("table", "alter", table, "--drop", "who", "--add", "stops int", "--rename", "amount=fare")
    stays = run("table", "restore", table, "--version", "1", "--dry-run")
    assert "--columns would change them: columns back: who; gone: stops" in stays.stderr
    done = run("table", "restore", table, "--version", "1", "--columns", "--yes")
    assert "columns back: who; gone: stops; renamed: fare to amount: event 3" in done.stdout
    again = facts("table", "restore", table, "--version", "1", "--columns", "--yes")
    assert (again["columns_event"], again["columns"]["back"]) == (None, [])
    assert list(facts("table", "scan", table, "--limit", "1")["rows"][0]) == ["at", "who", "amount"]


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


def test_times_and_tags(facts: Callable[..., Any], table: str) -> None:
    """Both name a version, and a version that shows the same rows needs no event."""
    facts("ingest", table, "trips.parquet")
    facts("tag", table, "full")
    time = facts("table", "timeline", table)["events"][-1]["time"]
    for named in (("--tag", "full"), ("--as-of", time)):
        facts("delete", table, "--where", "amount >= 0")
        assert facts("table", "restore", table, *named, "--yes")["rows"] == 48
        assert facts("table", "scan", table, "--count")["rows"] == 48
    newest = facts("table", "describe", table)["version"]
    assert facts("table", "restore", table, "--version", str(newest))["event"] is None


def test_what_cannot_come_back_is_refused(
    run: Callable[..., Any], facts: Callable[..., Any], table: str
) -> None:
    """A lost file, a version that never was, none or two that are named: one line each."""
    facts("ingest", table, "trips.parquet")
    lost = min(Path(table, "data").rglob("*.parquet"))
    lost.unlink()
    assert run("repair", table, "--accept-loss", "--yes").exit_code == 0
    refusals = (
        (("--version", "1"), 1, "which a repair has removed or changed since"),
        (("--version", "99"), 1, "has no event 99"),
        (("--tag", "none"), 2, "there is no tag 'none'"),
        ((), 2, "give a version, a time or a tag"),
        (("--version", "1", "--tag", "x"), 2, "one"),
    )
    for named, code, words in refusals:
        refused = run("table", "restore", table, *named, "--yes")
        assert (refused.exit_code, words in " ".join(refused.stderr.split())) == (code, True), named
