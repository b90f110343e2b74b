"""``segtable table scan``: rows, columns and versions together."""

import json

import pytest

from tests.unit.cli.conftest import Facts, Run
from tests.unit.cli.test_bad_input import refused


@pytest.fixture
def tagged(facts: Facts, table: str) -> str:
    """The table with 48 rows, as tagged ``full``, and without those of user 1 now."""
    facts("ingest", table, "trips.parquet")
    facts("tag", table, "full")
    facts("delete", table, "--where", "who = 'user 1'")
    return table


def test_a_condition_over_columns_that_are_not_shown(facts: Facts, tagged: str) -> None:
    """The columns of the condition are read, and not printed."""
    told = facts("table", "scan", tagged, "--where", "amount < 1", "--columns", "who")
    assert told["rows"] == [{"who": "user 0"}, {"who": "user 2"}, {"who": "user 3"}]


def test_a_tag_shows_its_rows(facts: Facts, tagged: str) -> None:
    """What was deleted since is there, with the condition and the columns of one's choice."""
    where = ("--where", "upper(who) = 'USER 1' and amount + 1 < 3", "--columns", " amount , who ")
    assert facts("table", "scan", tagged, *where)["rows"] == []
    told = facts("table", "scan", tagged, *where, "--tag", "full")
    assert told["rows"] == [{"amount": 0.25, "who": "user 1"}]
    counted = facts("table", "scan", tagged, "--tag", "full", "--where", "amount < 1", "--count")
    assert counted["rows"] == 4


@pytest.mark.parametrize(
    ("arguments", "error", "word"),
    [
        (("--columns", "nope"), "SchemaMismatch", "'nope': the table has at, who, amount"),
        (("--columns", "who,who"), "InvalidInput", "each once"),
        (("--where", "nope = 1"), "SchemaMismatch", "'nope'"),
        (("--where", "who ="), "InvalidInput", "EQ"),
        (("--where", ""), "InvalidInput", "is empty"),
        (("--where", "soundex(who) = 'a'"), "NeedsSpark", "load(TABLE).where(CONDITION)"),
        (("--where", "amount / 0 > 1"), "InvalidInput", "division by zero"),
        (("--tag", "nope"), "InvalidInput", "the table has full"),
        (("--tag", "full", "--version", "1"), "InvalidInput", "give one of them"),
    ],
)
def test_what_cannot_be_read_is_said(
    run: Run, tagged: str, arguments: tuple[str, ...], error: str, word: str
) -> None:
    """In one line, with what there is; no class names of a parser."""
    result = run("table", "scan", tagged, *arguments, "--json")
    refused(result, 2, error, word)
    assert "<class" not in json.loads(result.stdout)["message"]


def test_a_scan_explains_itself(facts: Facts, run: Run, tagged: str) -> None:
    """By lines for people, and by the same plan as JSON; no row is shown."""
    asked = ("table", "scan", tagged, "--where", "amount < 1", "--columns", "who", "--explain")
    told = facts(*asked)
    assert (told["files_opened"], told["columns"]) == (2, ["who", "amount"])
    assert [step["by"] for step in told["steps"]][:2] == ["hidden", "time_chunks"]
    shown = run(*asked).stdout
    assert f"opens 2 files, 1 for the footer alone; reads {told['row_groups_read']} row" in shown
    assert "user" not in shown


@pytest.mark.parametrize("more", [("--count",), ("--limit", "0"), ("--format", "csv")])
def test_explaining_shows_no_rows(run: Run, tagged: str, more: tuple[str, ...]) -> None:
    """Options about rows are refused rather than ignored; so is a change feed."""
    result = run("table", "scan", tagged, "--explain", *more, "--json")
    refused(result, 2, "InvalidInput", f"so {more[0]} would do nothing")
    feed = ("--since-version", "0", "--changes", "--explain", "--json")
    refused(run("table", "scan", tagged, *feed), 2, "InvalidInput", "leave changes out")
