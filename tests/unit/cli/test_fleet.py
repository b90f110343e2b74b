"""``segtable fleet``: check a fleet file, and show what it says about a table."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

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
