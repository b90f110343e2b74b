"""Rollup tables by the command line."""

import pytest

from airflow_provider_segtable.table.table import Table
from tests.unit.cli.conftest import Facts, Run

SCHEMA = "at timestamp[us, tz=UTC], word string, n int"
FEW = ("--dimension", "word", "--metric", "rows=count", "--metric", "n = sum(n)")


def test_a_rollup_table_is_made_filled_and_read(facts: Facts, run: Run) -> None:
    """Options make the stored columns; CSV rows of the input columns arrive rolled up."""
    made = facts(
        "table", "create", "t", "--time", "at", "--schema", SCHEMA, *FEW,
        "--query-granularity", "hour",
    )  # fmt: skip
    assert [column["name"] for column in made["schema"]] == ["at", "word", "rows", "n"]
    assert made["kind"] == "rollup"
    assert made["kind_settings"]["metrics"] == ["rows=count", "n=sum(n)"]
    with open("rows.csv", "w") as file:  # noqa: PTH123 - the test's folder is the current one
        file.write("at,word,n\n")
        file.writelines(f"2013-01-01T00:{at:02}:00Z,{'ab'[at % 2]},{at}\n" for at in range(10))
    facts("ingest", "t", "rows.csv")
    rows = facts("table", "scan", "t")["rows"]
    assert [(row["word"], row["rows"], row["n"]) for row in rows] == [("a", 5, 20), ("b", 5, 25)]
    assert run("table", "create", "u", "--time", "at", "--like", "rows.csv", *FEW).exit_code == 0


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--metric", "n"), "'n' is not a metric"),
        (("--metric", "n=median(n)"), "'median' is not a kind of metric: choose one of sum, min"),
        (("--query-granularity", "decade"), "'decade' is not a query granularity"),
        (("--query-granularity", "month", *FEW), "'month' is coarser than the table's granu"),
        (("--dimension", "word"), "nothing would be kept of 'n'"),
        (
            ("--dimension", "wrod", "--metric", "n=sum(n)"),
            "no column 'wrod' for the dimension: did you mean 'word'?",
        ),
    ],
)
def test_wrong_options_name_the_value(run: Run, options: tuple[str, ...], message: str) -> None:
    """What cannot be understood is shown, with what could be."""
    result = run("table", "create", "t", "--time", "at", "--schema", SCHEMA, *options)
    assert result.exit_code != 0
    assert message in " ".join(result.stderr.replace("│", " ").split())


def test_compaction_changes_no_answer(facts: Facts) -> None:
    """Small segments become one with one row a group; metrics and events add up to the same."""
    facts("table", "create", "t", "--time", "at", "--schema", SCHEMA, *FEW,
          "--query-granularity", "day", "--property", "compaction.min_segments=4")  # fmt: skip
    with open("rows.csv", "w") as file:  # noqa: PTH123 - the test's folder is the current one
        file.write("at,word,n\n")
        file.writelines(f"2013-01-01T{at:02}:00:00Z,{'ab'[at % 2]},{at}\n" for at in range(24))
    facts("ingest", "t", "rows.csv", "--rows-per-append", "4")
    before = Table.open("t").snapshot()
    assert facts("table", "scan", "t", "--count")["rows"] == before.count() == 12
    told = facts("table", "scan", "t", "--rolled-up", "--checksum")
    assert facts("table", "scan", "t", "--rolled-up", "--count")["rows"] == told["rows"] == 2
    done = facts("compact", "t", "--all")
    assert facts("table", "scan", "t", "--checksum")["checksum"] == told["checksum"]
    assert [plan["ended"] for plan in done["plans"]] == ["completed"]
    after = Table.open("t").snapshot()
    assert after.count() == 2
    assert [segment.events for segment in after.segments()] == [24]
    assert after.rolled_up().equals(before.rolled_up())
    assert after.to_arrow().equals(before.rolled_up())
