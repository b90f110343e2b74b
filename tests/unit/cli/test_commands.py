"""Commands in this process: answers, keys, streams."""

import csv
import io
import json
from pathlib import Path
from typing import Any

import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest

from airflow_provider_segtable.cli.app import app
from tests.unit.cli.conftest import Facts, Run, trips


def test_the_whole_way_of_a_table(facts: Facts, table: str) -> None:
    """Append, plan, compact, read: what was sent is there, in fewer segments."""
    appended = facts("ingest", table, "trips.parquet", "--rows-per-append", "4")
    assert [a["rows"] for a in appended["appends"]] == [4] * 12
    before = facts("table", "scan", table, "--checksum")
    dry = facts("plan", table, "--property", "compaction.min_segments=4")
    assert dry["dry_run"]
    assert [c["segments"] for c in dry["chosen"]] == [6, 6]
    assert facts("table", "describe", table)["version"] == appended["version"]
    done = facts("compact", table, "--all", "--property", "compaction.min_segments=4")
    assert [p["ended"] for p in done["plans"]] == ["completed"] * 2
    after = facts("table", "scan", table, "--checksum")
    assert {**after, "version": 0} == {**before, "version": 0}
    described = facts("table", "describe", table)
    assert described["counts"]["segments"] == 2
    assert described["counts"]["hidden_segments"] == 12
    assert described["health"]["small_segments"] == 2
    assert described["pending_plans"] == []


def test_a_plan_without_request_writes_nothing(facts: Facts, table: str) -> None:
    """Looking is free: the log is as long as before, and says why nothing is chosen."""
    facts("ingest", table, "trips.parquet")
    version = facts("table", "describe", table)["version"]
    found = facts("plan", table)
    assert (found["chosen"], found["version"]) == ([], version)
    assert "alone" in found["skipped"][0]["reason"]


def test_requested_plans_wait_until_compact_carries_them_out(facts: Facts, table: str) -> None:
    """``plan --request`` hands over to ``compact``; a second ``compact`` finds nothing."""
    facts("ingest", table, "trips.parquet", "--rows-per-append", "4")
    few = ("--property", "compaction.min_segments=4")
    asked = {launch["plan"] for launch in facts("plan", table, "--request", *few)["chosen"]}
    pending = facts("table", "describe", table)["pending_plans"]
    assert {plan["plan"] for plan in pending} == asked
    done = facts("compact", table)["plans"]
    assert {plan["plan"]: plan["ended"] for plan in done} == dict.fromkeys(asked, "completed")
    assert facts("compact", table)["plans"] == []
    again = facts("compact", table, *asked)["plans"]
    assert {plan["ended"] for plan in again} == {"done already"}


def test_an_unknown_plan_fails_by_name(run: Run, table: str) -> None:
    """The exit code is 1 and the answer names the plan."""
    result = run("compact", table, "minor-nobody-knows", "--json")
    assert result.exit_code == 1
    (plan,) = json.loads(result.stdout)["plans"]
    assert plan["ended"] == "failed"
    assert "minor-nobody-knows" in plan["message"]


def test_a_named_ingest_appends_once(facts: Facts, table: str) -> None:
    """Run again under its name, an ingest says so and appends nothing."""
    first = facts("ingest", table, "trips.parquet", "--commit-id", "monday")["appends"]
    again = facts("ingest", table, "trips.parquet", "--commit-id", "monday")["appends"]
    assert [a["appended_before"] for a in (*first, *again)] == [False, True]
    assert facts("table", "scan", table, "--count")["rows"] == 48


@pytest.mark.parametrize("name", ["rows.csv", "rows.jsonl", "rows.parquet"])
def test_formats_bring_the_same_rows(facts: Facts, table: str, tmp_path: Path, name: str) -> None:
    """CSV and JSON lines are read in the table's types: all formats give equal rows."""
    rows = trips(5)
    if name.endswith("csv"):
        pc.write_csv(rows, tmp_path / name)
    elif name.endswith("jsonl"):
        lines = (json.dumps({**r, "at": r["at"].isoformat()}) + "\n" for r in rows.to_pylist())
        (tmp_path / name).write_text("".join(lines))
    else:
        pq.write_table(rows, tmp_path / name)
    facts("ingest", table, name)
    found = facts("table", "scan", table)["rows"]
    assert [row["who"] for row in found] == rows.column("who").to_pylist()
    assert found[1] == {"at": "2013-01-01T01:00:00Z", "who": "user 1", "amount": 0.25}


def test_a_scan_chooses_columns_times_and_versions(facts: Facts, run: Run, table: str) -> None:
    """Columns in the order asked for, a half-open interval, any earlier version."""
    facts("ingest", table, "trips.parquet")
    facts("ingest", table, "trips.parquet")
    one_day = ("--interval", "2013-01-02/2013-01-03")
    found = facts("table", "scan", table, "--columns", "amount,who", *one_day, "--limit", "2")
    assert [list(row) for row in found["rows"]] == [["amount", "who"]] * 2
    assert facts("table", "scan", table, "--count", *one_day)["rows"] == 48
    assert facts("table", "scan", table, "--count", "--version", "1")["rows"] == 48
    assert run("table", "scan", table, "--count").stdout == "96\n"
    created = facts("table", "describe", table)["created"]
    assert facts("table", "scan", table, "--count", "--as-of", created)["rows"] == 0


def test_a_scan_takes_a_condition_and_a_tag(facts: Facts, run: Run, table: str) -> None:
    """Rows, their number and their checksum are those that match; two versions are refused."""
    facts("ingest", table, "trips.parquet", "--rows-per-append", "4")
    facts("tag", table, "whole")
    facts("delete", table, "--where", "amount >= 6")
    some = ("--where", "who = 'user 1' AND amount > 3", "--columns", "amount")
    now, then = ((), ("--tag", "whole"))
    left = [row["amount"] for row in facts("table", "scan", table, *some, *now)["rows"]]
    every = [row["amount"] for row in facts("table", "scan", table, *some, *then)["rows"]]
    assert 0 < len(left) < len(every)
    assert left == [amount for amount in every if amount < 6]
    assert facts("table", "scan", table, *some, *then, "--count")["rows"] == len(every)
    assert facts("table", "scan", table, *some, "--checksum")["rows"] == len(left)
    both = run("table", "scan", table, "--version", "1", *then, "--json")
    assert both.exit_code == 2
    assert "give one of them" in both.stderr


def test_csv_and_json_lines_are_for_machines(facts: Facts, run: Run, table: str) -> None:
    """Every row is printed, and nothing but rows."""
    facts("ingest", table, "trips.parquet")
    as_csv = run("table", "scan", table, "--format", "csv").stdout
    assert len(list(csv.DictReader(io.StringIO(as_csv)))) == 48
    lines = run("table", "scan", table, "--format", "json").stdout.splitlines()
    assert json.loads(lines[0]) == {"at": "2013-01-01T00:00:00Z", "who": "user 0", "amount": 0.0}
    assert len(lines) == 48


def test_the_timeline_tells_everything_in_order(facts: Facts, table: str) -> None:
    """Events are numbered without gaps, and the newest are shown if there are many."""
    facts("ingest", table, "trips.parquet", "--rows-per-append", "12")
    events = facts("table", "timeline", table)["events"]
    assert [e["n"] for e in events] == [0, 1, 2, 3, 4]
    assert [e["kind"] for e in events] == ["TableCreated"] + ["Appended"] * 4
    assert set(events[0]) == {"n", "time", "author", "commit", "kind", "summary", "feeds"}
    newest = facts("table", "timeline", table, "--limit", "2")
    assert (newest["earlier"], [e["n"] for e in newest["events"]]) == (3, [3, 4])


def test_people_see_what_scripts_see(facts: Facts, run: Run, table: str) -> None:
    """Each answer has a form for people, on standard output."""
    facts("ingest", table, "trips.parquet", "--rows-per-append", "4")
    assert "48 rows" in run("table", "describe", table).stdout
    assert "12 segments, 48 rows" in run("table", "segments", table).stdout
    assert "Appended" in run("table", "timeline", table).stdout
    assert "user 3" in run("table", "scan", table, "--limit", "4").stdout
    plan = run("plan", table)
    assert "only 6 adjacent small segments of 12" in plan.stdout
    assert "Nothing to compact" in plan.stdout
    done = run("compact", table, "--all", "--property", "compaction.min_segments=4").stdout
    assert done.count("completed") == 2
    hidden = run("table", "segments", table, "--all").stdout
    assert hidden.count("overshadowed") == 12


def test_help_teaches_by_example() -> None:
    """Every command's help shows how it is called."""
    import typer

    def walk(command: Any, path: str) -> None:
        for name, below in getattr(command, "commands", {}).items():
            walk(below, f"{path} {name}")
        if not hasattr(command, "commands"):
            assert f"{path}" in command.help.split("\n\n", 1)[1], f"{path} --help has no example"

    walk(typer.main.get_command(app), "segtable")


@pytest.mark.parametrize("name", ["compact", "ingest", "change"])
def test_spark_app_prints_a_path_for_spark_submit(run: Run, name: str) -> None:
    """The file is there, wherever the package is installed."""
    told = run("spark-app", name)
    assert Path(told.stdout.strip()).name == f"{name}.py"
    assert Path(told.stdout.strip()).is_file()
