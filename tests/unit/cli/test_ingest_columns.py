"""``segtable ingest --columns --cast``, and a rollup table that takes what it needs of a file."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.cli.conftest import Facts, Run, trips
from tests.unit.cli.test_bad_input import nothing_written, refused


def test_some_columns_under_other_names(facts: Facts, table: str, tmp_path: Path) -> None:
    """A file may have more columns than the table, and other names."""
    rows = trips(2).rename_columns(["at", "name", "amount"]).append_column("more", pa.array([1, 2]))
    pq.write_table(rows, tmp_path / "raw.parquet")
    facts("ingest", table, "raw.parquet", "--columns", "at, who=name,amount")
    found = facts("table", "scan", table)["rows"]
    assert [row["who"] for row in found] == ["user 0", "user 1"]


def test_text_files_are_read_by_the_types_of_renamed_columns(
    facts: Facts, table: str, tmp_path: Path
) -> None:
    """A name of digits stays a text."""
    (tmp_path / "raw.csv").write_text("at,name,amount\n2013-01-01T00:00:00Z,007,1\n")
    facts("ingest", table, "raw.csv", "--columns", "at,who=name,amount")
    assert [row["who"] for row in facts("table", "scan", table)["rows"]] == ["007"]


def test_values_are_cast_when_asked(facts: Facts, table: str, tmp_path: Path) -> None:
    """Times and numbers may be texts, and texts numbers."""
    rows = pa.table({"at": ["2013-01-01T02:00:00+02:00"], "who": [7], "amount": ["0.5"]})
    pq.write_table(rows, tmp_path / "raw.parquet")
    facts("ingest", table, "raw.parquet", "--cast")
    assert facts("table", "scan", table)["rows"] == [
        {"at": "2013-01-01T00:00:00Z", "who": "7", "amount": 0.5}
    ]


def test_how_a_csv_is_written(facts: Facts, run: Run, tmp_path: Path) -> None:
    """Delimiter, encoding and texts for null are options of ``create --like`` and ``ingest``."""
    form = ("--delimiter", ";", "--encoding", "latin-1", "--null-text", "NA", "--null-text", "-")
    rows = "at;who;n\n2013-01-01T00:00;é;NA\n2013-01-02T00:00;-;1\n"
    (tmp_path / "x.csv").write_bytes(rows.encode("latin-1"))
    facts("table", "create", "x", "--like", "x.csv", "--time", "at", *form)
    assert "seems to be ';'" in run("ingest", "x", "x.csv", "--encoding", "latin-1").stderr
    facts("ingest", "x", "x.csv", *form)
    found = facts("table", "scan", "x")["rows"]
    assert [(row["who"], row["n"]) for row in found] == [("é", None), (None, 1)]
    (tmp_path / "y.csv").write_text("2013-01-03,NA,2\n")
    facts("ingest", "x", "y.csv", "--no-header")
    assert facts("table", "scan", "x")["rows"][2]["who"] == "NA"


@pytest.mark.parametrize(
    ("options", "word"),
    [
        (("--columns", "at,who,amount=price"), "'price'"),
        (("--columns", "at,at"), "'at' twice"),
        (("--columns", "at,,who"), "empty name"),
        (("--columns", "at,amount=who,who", "--cast"), "'amount' cannot be cast"),
    ],
)
def test_columns_that_do_not_fit(
    run: Run, table: str, tmp_path: Path, options: tuple[str, ...], word: str
) -> None:
    """The message names the column, and nothing is appended."""
    with nothing_written(tmp_path):
        result = run("ingest", table, "trips.parquet", *options, "--json")
    error = "InvalidInput" if "twice" in word or "empty" in word else "SchemaMismatch"
    refused(result, 2, error, word)


def test_a_rollup_table_takes_the_file_it_was_made_like(
    facts: Facts, run: Run, table: str, tmp_path: Path
) -> None:
    """It has fewer columns than the file, and takes just those."""
    made = run(
        *("table", "create", "daily", "--like", "trips.parquet", "--time", "at"),
        *("--dimension", "who", "--metric", "rides=count", "--query-granularity", "day"),
    )
    assert made.exit_code == 0, made.stderr
    done = facts("ingest", "daily", "trips.parquet")
    assert done["appends"][0]["file"] == "trips.parquet"
    assert sum(row["rides"] for row in facts("table", "scan", "daily")["rows"]) == 48
    rows = trips(2).append_column("more", pa.array([1, 2]))
    pq.write_table(rows, tmp_path / "trips.parquet")
    with nothing_written(tmp_path):  # an append table leaves nothing out silently
        refused(run("ingest", table, "trips.parquet", "--json"), 2, "SchemaMismatch", "'more'")
