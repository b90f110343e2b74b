"""``segtable fleet``: check a fleet file, and show what it says about a table."""

import json
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from airflow_provider_segtable.cli.commands import fleet_commands
from airflow_provider_segtable.cli.display import output

FILE = """\
[fleet]
name = "lake"
[properties]
compaction.min_segments = 8
[groups.trips]
tables = ["tri*"]
priority = 2
[groups.empty]
tables = ["nothing/*"]
[tables.gone]
priority = 3
"""


@pytest.fixture
def file(tmp_path: Path, table: str) -> str:
    """A fleet file beside the table ``trips``."""
    assert table
    (tmp_path / "fleet.toml").write_text(FILE)
    return "fleet.toml"


def test_a_check_lists_the_tables_of_each_group(
    run: Callable[..., Any], facts: Callable[..., Any], file: str
) -> None:
    """A group without a table, and a named table that is not there, are warnings."""
    found = facts("fleet", "check", file)
    tables = {group["group"]: group["tables"] for group in found["groups"]}
    assert (tables, found["missing"]) == ({"trips": ["trips"], "empty": []}, ["gone"])
    told = " ".join(run("fleet", "check", file).output.split())
    assert "group empty has no table below" in told
    assert "table gone is not there" in told


def test_a_check_offline_reads_the_file_alone(facts: Callable[..., Any], file: str) -> None:
    """It looks for no table, not even at a root that is not there."""
    found = facts("fleet", "check", file, "--offline", "--root", "s3://nowhere/at-all")
    assert [group["group"] for group in found["groups"]] == ["trips", "empty"]
    assert found["single"] == ["gone"]


def test_faults_are_told_by_line(run: Callable[..., Any], tmp_path: Path) -> None:
    """All of them; the exit code says that nothing was done."""
    (tmp_path / "bad.toml").write_text("[budget]\nplans = 0\n[group]\n")
    result = run("fleet", "check", "bad.toml", "--json")
    assert result.exit_code == 2
    assert [fault["line"] for fault in json.loads(result.stdout)["faults"]] == [2, 3]
    assert "bad.toml:3: 'group' is unknown here: did you mean 'groups'?" in result.stderr
    assert "2 faults" in result.stderr
    assert run("fleet", "show", "bad.toml", "trips").exit_code == 2


@pytest.mark.parametrize("name", ["missing.toml", "s3.parquet", "."])
def test_a_file_that_is_none_is_refused(run: Callable[..., Any], tmp_path: Path, name: str) -> None:
    """One that is not there, a folder, and one that is no text."""
    (tmp_path / "s3.parquet").write_bytes(b"PAR1\xff\xfe")
    result = run("fleet", "check", name)
    assert result.exit_code == 2
    assert "fleet file" in " ".join(result.stderr.split())


def test_a_tables_settings_are_shown_with_their_source(
    run: Callable[..., Any], facts: Callable[..., Any], file: str
) -> None:
    """What the file says and what it wins over; the table's own value wins over the file's."""
    shown = {each["key"]: each for each in facts("fleet", "show", file, "trips")["settings"]}
    assert shown["priority"]["source"] == "fleet.toml:7 group trips"
    segments = shown["compaction.min_segments"]
    assert (segments["value"], segments["over"][0]["value"]) == ("8", "12")
    run("table", "set", "trips", "compaction.min_segments=5")
    shown = {each["key"]: each for each in facts("fleet", "show", file, "trips")["settings"]}
    assert shown["compaction.min_segments"]["value"] == "5"
    assert shown["compaction.min_segments"]["source"].startswith("the table, event ")
    every = facts("fleet", "show", file, "trips", "--effective")["settings"]
    assert {each["key"] for each in every} > {"retention.hours", "priority"}


def test_a_table_outside_the_fleet_is_said(run: Callable[..., Any], file: str) -> None:
    """One that is not there, too: its settings are the file's."""
    told = " ".join(run("fleet", "show", file, "other").output.split())
    assert "no group of the file matches it" in told
    assert "holds no segtable table" in told


def test_a_plan_tells_what_begins_and_why_the_rest_does_not(
    run: Callable[..., Any], facts: Callable[..., Any], file: str, tmp_path: Path
) -> None:
    """Nothing is written; tables that are named and are not there are said."""
    for _ in range(3):
        run("ingest", "trips", "trips.parquet")
    before = facts("table", "describe", "trips")["version"]
    text = FILE.replace("compaction.min_segments = 8", "compaction.min_segments = 2")
    (tmp_path / file).write_text(text)
    found = facts("fleet", "plan", file)
    assert [each["table"] for each in found["chosen"]] == ["trips", "trips"]
    assert [each["error"][:9] for each in found["tables"] if each["error"]] == ["NotATable"]
    (tmp_path / file).write_text(f"{text}\n[groups.trips.quota]\nplans = 1\n")
    found = facts("fleet", "plan", file)
    assert [each["code"] for each in found["left"]] == ["group-plans"]
    told = " ".join(run("fleet", "plan", file).output.split())
    assert "Begins now" in told
    assert "1 plan of group trips pending or running, of plans = 1" in told
    assert facts("table", "describe", "trips")["version"] == before


def test_the_status_has_a_line_a_table_the_worst_first(
    run: Callable[..., Any], file: str, tmp_path: Path
) -> None:
    """What cannot be read makes the exit code; what misses its objective is said with numbers."""
    run("ingest", "trips", "trips.parquet")
    result = run("fleet", "status", file, "--json")
    assert result.exit_code == 6
    tables = json.loads(result.stdout)["tables"]
    assert [each["table"] for each in tables] == ["gone", "trips"]
    assert tables[1]["lag_seconds"] == {"index": None, "publication": None, "log_store": None}
    missed = FILE.replace("priority = 2", "objective = {files_read = 0.5}").split("[tables.gone]")[
        0
    ]
    (tmp_path / file).write_text(missed)
    result = run("fleet", "status", file)
    assert result.exit_code == 0
    assert "files_read 1, of 0.5" in " ".join(result.output.split())


def test_a_status_is_drawn_again_until_it_is_interrupted(
    run: Callable[..., Any], file: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a terminal, where a second live display would be refused."""
    screen, drawn = Console(force_terminal=True, file=StringIO(), width=120), []
    monkeypatch.setattr(fleet_commands, "out", screen)
    monkeypatch.setattr(output, "err", screen)

    def sleep(seconds: float) -> None:
        drawn.append(seconds)
        if len(drawn) == 2:
            raise KeyboardInterrupt

    monkeypatch.setattr(fleet_commands, "sleep", sleep)
    assert run("fleet", "status", file, "--watch", "3").exit_code == 130
    assert drawn == [3, 3]
    assert "trips" in screen.file.getvalue()
    assert run("fleet", "status", file, "--watch", "3", "--json").exit_code == 2


def test_a_past_time_is_simulated_with_two_files(
    run: Callable[..., Any], facts: Callable[..., Any], file: str, tmp_path: Path
) -> None:
    """Side by side; a file that freezes everything begins nothing. Nothing is written."""
    text = FILE.split("[tables.gone]", maxsplit=1)[0]
    text = text.replace("min_segments = 8", "min_segments = 2")
    (tmp_path / file).write_text(text)
    (tmp_path / "frozen.toml").write_text(f"freeze = true\n{text}")
    for _ in range(3):
        run("ingest", "trips", "trips.parquet")
    before = facts("table", "describe", "trips")["version"]
    options = (file, "--with", "frozen.toml", "--last", "30s", "--every", "1s")
    found = facts("fleet", "simulate", *options)
    served, frozen = found["simulations"]
    assert (served["file"], frozen["file"]) == (file, "frozen.toml")
    assert sum(each["plans"] for each in served["periods"]) > 0
    assert sum(each["plans"] for each in frozen["periods"]) == 0
    assert frozen["waited_longest"][0]["code"] == "frozen"
    told = " ".join(run("fleet", "simulate", *options).output.split())
    assert "frozen.toml; trips waited longest" in told
    assert facts("table", "describe", "trips")["version"] == before
    refused = run("fleet", "simulate", file, "--last", "1h", "--every", "2h")
    assert (refused.exit_code, "give a shorter time" in refused.stderr) == (2, True)
