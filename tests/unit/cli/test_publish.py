"""``segtable publish``: what is published, what other readers see of it, and how it ends."""

import json
from pathlib import Path

import pytest

from airflow_provider_segtable.cli.display.output import Exit
from airflow_provider_segtable.formats.formats import FORMATS
from airflow_provider_segtable.health.published_readers import READERS
from tests.unit.cli.conftest import Facts, Run

ALL = tuple(word for name in FORMATS for word in ("--format", name))


@pytest.fixture
def filled(run: Run, table: str) -> str:
    """A table of two days, from which half of the rows are deleted."""
    assert run("ingest", table, "trips.parquet", "--rows-per-append", "24").exit_code == 0
    assert run("delete", table, "--where", "amount >= 3 and amount < 9").exit_code == 0
    return table


def test_a_table_is_published_once_and_readers_agree(facts: Facts, filled: str) -> None:
    """Every reader that is installed sees the log's rows; the next run puts nothing."""
    first = facts("publish", filled, *ALL)["formats"]
    assert [(each["outcome"], each["event"]) for each in first] == [("PublishedNow", 3)] * len(
        FORMATS
    )
    again = facts("publish", filled, *ALL)["formats"]
    assert {each["outcome"] for each in again} == {"AlreadyPublished"}
    found = facts("publish", filled, "--check")
    assert found["findings"] == []
    assert {(check["event"], check["rows"]) for check in found["formats"]} == {(3, 24)}
    for check in found["formats"]:
        usable = {each.name for each in READERS[check["format"]] if not each.lacking()}
        same = {each["reader"] for each in check["readers"] if each["verdict"] == "same"}
        assert usable == same


def test_a_table_that_is_created_so_is_published_with_each_commit(run: Run, facts: Facts) -> None:
    """``--publish`` sets the property; ``describe`` has event, lag and address."""
    made = ("table", "create", "t", "--schema", "at timestamp", "--time", "at")
    assert facts(*made, "--publish", "delta")["properties"] == {"publish.delta": "on"}
    (status,) = facts("table", "describe", "t")["published"]
    assert (status["format"], status["enabled"]) == ("delta", True)
    assert facts("table", "set", "t", "publish.on_commit=off")["version"] == 1
    run("publish", "t")
    (status,) = facts("table", "describe", "t")["published"]
    assert (status["lag_events"], status["lag_s"], status["error"]) == (0, 0.0, None)
    assert status["address"].endswith("/t")
    assert "as delta" in run("table", "describe", "t").stdout


def test_the_lag_is_counted_in_events_that_change_what_is_shown(
    run: Run, facts: Facts, filled: str
) -> None:
    """A tag is none; an append is one, until it is published."""
    facts("publish", filled, "--format", "delta")
    assert run("tag", filled, "here").exit_code == 0
    assert facts("table", "describe", filled)["published"][0]["lag_events"] == 0
    assert run("ingest", filled, "trips.parquet").exit_code == 0
    assert facts("table", "describe", filled)["published"][0]["lag_events"] == 1
    assert "1 event behind" in run("table", "describe", filled).stdout
    facts("publish", filled, "--format", "delta")
    assert facts("table", "describe", filled)["published"][0]["lag_events"] == 0


def test_rows_that_are_not_shown_end_with_5(run: Run, facts: Facts, filled: str) -> None:
    """Publishing in full, which the finding names, puts it right."""
    facts("publish", filled, "--format", "delta")
    facts("publish", filled, "--check")
    log = Path(filled, "_delta_log")
    (version,) = sorted(log.glob("*.json"))
    lines = [json.loads(line) for line in version.read_text().splitlines()]
    kept = [line for line in lines if "add" not in line] + [e for e in lines if "add" in e][1:]
    version.write_text("\n".join(map(json.dumps, kept)))
    result = run("publish", filled, "--check", "--format", "delta", "--json")
    assert result.exit_code == Exit.WRONG
    found = json.loads(result.stdout)
    assert {each["code"] for each in found["findings"]} == {"published-rows"}
    assert all(filled in each["do"] for each in found["findings"])
    assert "differs" in run("publish", filled, "--check").stdout
    facts("publish", filled, "--format", "delta", "--full")
    assert facts("publish", filled, "--check")["findings"] == []


def test_what_is_published_can_be_removed(facts: Facts, filled: str) -> None:
    """The property is off, the folder is empty, and the table as it was."""
    facts("table", "set", filled, "publish.delta=on")
    assert facts("publish", filled)["formats"][0]["event"] == 4
    gone = facts("publish", filled, "--remove", "--format", "delta")
    assert gone["removed"]["delta"]
    assert not [*Path(filled, "_delta_log").rglob("*.json")]
    described = facts("table", "describe", filled)
    assert (described["published"], described["properties"]["publish.delta"]) == ([], "off")
    assert facts("table", "scan", filled, "--count")["rows"] == 24


def test_a_catalog_that_does_not_have_the_version_ends_with_1(run: Run, filled: str) -> None:
    """The version is published all the same, and the message names the catalog."""
    catalog = ("publish.iceberg_catalog=nowhere", "publish.iceberg_table=a.b")
    assert run("table", "set", filled, *catalog).exit_code == 0
    result = run("publish", filled, "--format", "iceberg")
    assert result.exit_code == Exit.FAILED
    assert "iceberg: event 4 is published as version 1" in result.stdout
    assert "not in its catalog" in result.stdout
    assert "nowhere" in result.stdout


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ((), "published in no format"),
        (("--check",), "segtable publish trips --format delta"),
        (("--remove",), "--format delta"),
        (("--format", "hudi"), "choose among"),
        (("--check", "--full"), "give one of them"),
    ],
)
def test_a_wrong_question_ends_with_2_and_the_way_out(
    run: Run, table: str, options: tuple[str, ...], said: str
) -> None:
    """Nothing is written, and the message says what to write instead."""
    result = run("publish", table, *options)
    assert result.exit_code == Exit.USAGE
    assert said in result.stderr
    assert not Path(table, "_delta_log").exists()


def test_what_a_format_cannot_show_ends_with_1(run: Run) -> None:
    """The other format is published all the same; the reason names the column, as an error does."""
    made = ("table", "create", "t", "--schema", "at timestamp, n uint64", "--time", "at")
    assert run(*made).exit_code == 0
    result = run("publish", "t", *ALL)
    assert result.exit_code == Exit.FAILED
    assert "error: delta: not published: column 'n'" in " ".join(result.stderr.split())
    assert "not published" not in result.stdout
