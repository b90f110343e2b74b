"""The id of a load is one promise over all its parts: each row of its file is appended once."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.unit.cli.conftest import Facts, Run, trips

HEAD = "at,who,amount\n"
LINES = [f"2013-01-01T0{n}:00:00Z,user {n},{n}\n" for n in range(5)]


@pytest.fixture
def load(run: Run, table: str, tmp_path: Path) -> Callable[..., Any]:
    """Return what loads lines of one file under one id, in parts of some rows."""

    def invoke(lines: list[str], rows_a_part: int | None = None, *more: str) -> Any:
        (tmp_path / "day.csv").write_text(HEAD + "".join(lines))
        part = ["--rows-per-append", str(rows_a_part)] if rows_a_part else []
        asked = ("ingest", table, "day.csv", "--commit-id", "z", *part, *more, "--json")
        return json.loads(run(*asked).stdout)

    return invoke


def _rows(facts: Facts, table: str = "trips") -> list[str]:
    return [row["who"] for row in facts("table", "scan", table)["rows"]]


WHO = [f"user {n}" for n in range(5)]


@pytest.mark.parametrize(("first", "then"), [(2, None), (None, 2), (2, 3), (1, 2), (3, 1)])
def test_a_repeat_with_other_parts_appends_nothing(
    load: Callable[..., Any], facts: Facts, first: int | None, then: int | None
) -> None:
    """A load that is complete is repeated with parts of any size, and no row comes twice."""
    made = load(LINES, first)
    again = load(LINES, then)
    assert _rows(facts) == WHO
    assert not any(each["appended_before"] for each in made["appends"])
    assert [each["appended_before"] for each in again["appends"]] == [True]
    assert again["version"] == made["version"]


@pytest.mark.parametrize("then", [None, 1, 2, 3])
def test_a_load_that_failed_goes_on(
    load: Callable[..., Any], facts: Facts, then: int | None
) -> None:
    """Corrected after its second part failed, a load goes on after the last committed row."""
    wrong = [*LINES[:3], "2013-01-01T03:00:00Z,user 3,3\n", ",user 4,4\n"]
    assert load(wrong, 2)["error"] == "TimeOutOfRange"
    assert _rows(facts) == WHO[:4]
    done = load(LINES, then)["appends"]
    assert _rows(facts) == WHO
    assert [each["appended_before"] for each in done] == [True, False]
    assert load(LINES)["appends"][0]["appended_before"]


def test_other_rows_under_the_id_of_a_load(load: Callable[..., Any], facts: Facts) -> None:
    """Neither other rows in the committed part nor more rows after the end are taken silently."""
    load([*LINES[:2], ",nobody,0\n"], 2)
    told = load([LINES[1], *LINES[3:]])
    assert told["error"] == "InvalidInput"
    for words in ("day.csv", "'z'", "first 2 rows"):
        assert words in told["message"]
    assert load(LINES[:1])["error"] == "InvalidInput"
    load(LINES)
    assert _rows(facts) == WHO
    longer = load([*LINES, "2013-01-02T00:00:00Z,more,1\n"])
    assert "5 rows" in longer["message"]
    assert _rows(facts) == WHO


def test_the_log_tells_the_parts(load: Callable[..., Any], facts: Facts) -> None:
    """The timeline shows which rows of which load an event has."""
    load(LINES, 3)
    lines = [each["summary"] for each in facts("table", "timeline", "trips")["events"]]
    assert "rows 3 to 5 of 5 of load z/day.csv" in "\n".join(lines)


def test_a_load_in_one_part_is_called_whole(load: Callable[..., Any]) -> None:
    """Then its numbers of rows say nothing new."""
    assert load(LINES)["appends"][0]["summary"].endswith("; all of load z/day.csv")


def test_a_file_without_rows_appends_nothing(
    load: Callable[..., Any], run: Run, facts: Facts
) -> None:
    """An hourly load of an empty file is no error: it says so, and makes no event."""
    told = load([])
    assert (told["version"], told["appends"][0]["version"]) == (0, None)
    assert told["appends"][0]["rows"] == 0
    again = run("ingest", "trips", "day.csv")
    assert (again.exit_code, "no rows: nothing to append" in again.stderr) == (0, True)
    load(LINES)
    assert _rows(facts) == WHO


BAD = (
    "at,who,amount\n"
    "2013-01-01T00:00:00Z,a,1\n"
    ",b,2\n"
    "2013-01-01T00:00:00Z,c,much\n"
    "2013-02-30T00:00:00Z,d,3\n"
    "0000-01-01T00:00:00Z,e,4\n"
    "2013-01-01T00:00:00Z,f,5\n"
)


@pytest.mark.parametrize("more", [(), ("--overwrite", "chunks"), ("--commit-id", "z")])
def test_bad_rows_are_set_aside(
    run: Run, table: str, facts: Facts, tmp_path: Path, more: tuple[str, ...]
) -> None:
    """Rows that do not fit go to a file, with their numbers and reasons; the others are loaded."""
    (tmp_path / "bad.csv").write_text(BAD)
    assert run("ingest", table, "bad.csv", *more).exit_code == 2
    told = facts("ingest", table, "bad.csv", "--bad-rows", "aside.jsonl", *more)
    assert told["set_aside"] == 4
    assert _rows(facts) == ["a", "f"]
    lines = [json.loads(line) for line in (tmp_path / "aside.jsonl").read_text().splitlines()]
    assert sorted((line["row"], line["values"]["who"]) for line in lines) == [
        *[(1, "b"), (2, "c"), (3, "d"), (4, "e")]
    ]
    assert (
        "'much' is not a value of type double" in {line["row"]: line["reason"] for line in lines}[2]
    )
    assert {line["file"] for line in lines} == {"bad.csv"}
    again = run("ingest", table, "bad.csv", "--bad-rows", "aside.jsonl", *more)
    assert "4 rows set aside in aside.jsonl" in again.stderr
    assert len((tmp_path / "aside.jsonl").read_text().splitlines()) == 4


NEEDY = "at timestamp not null, id int, who string not null"
DAY = "2013-01-01T00:00:00Z"


def test_rows_with_null_where_there_must_be_none_are_set_aside(
    run: Run, facts: Facts, tmp_path: Path
) -> None:
    """A column that is not null refuses a file by row, in each format, or sets the row aside."""
    run("table", "create", "plain", "--schema", NEEDY, "--time", "at")
    (tmp_path / "b.csv").write_text(f"at,id,who\n{DAY},x,a\n{DAY},2,b\n{DAY},4,\n,,\n")
    lines = (f'{{"id": 5, "at": "{DAY}", "who": {who}}}\n' for who in ('"f"', "null"))
    (tmp_path / "b.jsonl").write_text("".join(lines))
    said = run("ingest", "plain", "b.jsonl").stderr
    assert "column 'who' is not null in the table, but row 1 (from 0) is" in said
    told = facts("ingest", "plain", "b.csv", "b.jsonl", "--bad-rows", "aside.jsonl")
    assert (told["set_aside"], sorted(_rows(facts, "plain"))) == (4, ["b", "f"])
    found = [json.loads(line) for line in (tmp_path / "aside.jsonl").read_text().splitlines()]
    assert [(each["row"], each["reason"][:21]) for each in found] == [
        (0, "column 'id': 'x' is n"),
        (2, "column 'who' is null,"),
        (3, "event time at is null"),
        (1, "column 'who' is null,"),
    ]


def test_rows_without_a_key_are_set_aside(run: Run, facts: Facts, tmp_path: Path) -> None:
    """A null key does not refuse the file; columns beside the key and the time may be null."""
    more = ("--time", "at", "--primary-key", "id")
    assert "column who may be null" in run("table", "create", "k", "--schema", NEEDY, *more).stderr
    (tmp_path / "b.csv").write_text(f"at,id,who\n{DAY},1,a\n{DAY},,b\n{DAY},2,\n")
    assert "column 'id' is null, first in row 1 (from 0)" in run("ingest", "k", "b.csv").stderr
    told = facts("ingest", "k", "b.csv", "--bad-rows", "aside.jsonl")
    assert (told["set_aside"], told["appends"][0]["rows"]) == (1, 2)


def test_bad_rows_of_parquet(run: Run, table: str, facts: Facts, tmp_path: Path) -> None:
    """In other formats these are the rows without a valid event time."""
    at = pa.array([0, None, 2], pa.timestamp("us", "UTC"))
    pq.write_table(trips().set_column(0, "at", at), tmp_path / "bad.parquet")
    told = facts("ingest", table, "bad.parquet", "--bad-rows", "aside.jsonl")
    assert (told["set_aside"], _rows(facts)) == (1, ["user 0", "user 2"])
    for path in ("s3://bucket/x", str(tmp_path), "no/such"):
        given = ("ingest", table, "bad.parquet", "--bad-rows", path)
        assert "cannot take the bad rows" in run(*given).stderr
