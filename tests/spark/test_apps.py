"""The applications: exit codes, the result line, one-line errors."""

import json
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

from airflow_provider_segtable.services.planner import plan_table
from airflow_provider_segtable.spark.driver.session import RESULT_PREFIX
from airflow_provider_segtable.table.remote_results import fetch
from airflow_provider_segtable.table.table import Table
from spark_apps import change, compact, ingest
from tests.spark.conftest import MakeTable

pytestmark = [pytest.mark.spark, pytest.mark.zookeeper]

EVENTS = pa.schema([("at", pa.timestamp("us", "UTC")), ("n", pa.int64())])


def where(table: Table) -> list[str]:
    return ["--table", table.ports.uri, "--zookeeper", table.ports.coordinator.address]


def result_of(capsys: pytest.CaptureFixture[str]) -> dict[str, object]:
    last = capsys.readouterr().out.splitlines()[-1]
    assert last.startswith(RESULT_PREFIX)
    found: dict[str, object] = json.loads(last.removeprefix(RESULT_PREFIX))
    return found


def test_ingest_then_compact(
    spark: SparkSession,
    make_table: MakeTable,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A CSV becomes segments, all pending plans are carried out, and a second run says so."""
    table = make_table(EVENTS, compaction__min_segments="2")
    read = [*where(table), "--rows-per-segment", "20"]
    for start in (0, 50):
        source = tmp_path / f"rows{start}.csv"
        lines = [f"2013-01-{1 + n % 28:02d}T00:00:00Z,{n}" for n in range(start, start + 50)]
        source.write_text("\n".join(["at,n", *lines]))
        read += ["--source", str(source)]
    for _ in range(2):
        assert ingest.main([*read, "--commit-id", "same"]) == 0
        assert result_of(capsys)["rows"] == 100
    assert table.snapshot().count() == 100
    (launch,) = plan_table(table.ports).launches

    file = tmp_path / "result.json"
    assert compact.main([*where(table), "--all-pending", "--result-file", str(file)]) == 0
    told = json.loads(file.read_text())
    assert told == result_of(capsys)
    assert [plan["ended"] for plan in told["plans"]] == ["completed"]

    assert compact.main([*where(table), "--plan", launch.plan_id]) == 0
    assert "done already" in json.dumps(result_of(capsys))
    assert table.snapshot().count() == 100
    assert spark.range(1).count() == 1  # a session that was there before is left alone


def test_bad_rows_are_set_aside(
    make_table: MakeTable, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Rows of each file that do not fit go to the driver's file, which names theirs."""
    table, folder, aside = make_table(EVENTS), tmp_path / "some rows", tmp_path / "aside.jsonl"
    folder.mkdir()
    for n in range(2):
        (folder / f"{n}.csv").write_text(f"at,n\n2013-01-01T00:00:00Z,{n}\n,1\n2013-01-01,x\n")
    read = [*where(table), "--bad-rows", str(aside)]
    sources = ["--source", str(folder / "0.csv"), "--source", f"{folder}/*.csv"]
    assert ingest.main([*read, *sources]) == 0
    told = result_of(capsys)
    assert (told["rows"], told["set_aside"]) == (3, 6)
    lines = [json.loads(line) for line in aside.read_text().splitlines()]
    places = Counter((Path(line["file"]).name, line["row"]) for line in lines)
    assert places == {("0.csv", 1): 1, ("0.csv", 2): 1, ("0.csv", None): 2, ("1.csv", None): 2}
    assert {Path(line["file"]).parent for line in lines} == {folder}
    stream = ["--source", str(folder), "--format", "csv", "--checkpoint", str(tmp_path / "state")]
    assert ingest.main([*read, *stream]) == 2
    assert "a stream has none" in str(result_of(capsys)["error"])


def test_a_plan_that_nobody_made_is_a_failure(
    make_table: MakeTable, capsys: pytest.CaptureFixture[str]
) -> None:
    """The result says which plan, and Spark is never started for it."""
    table = make_table(EVENTS)
    assert compact.main([*where(table), "--plan", "minor-20130101-000000000000"]) == 1
    assert "has no plan minor-20130101-000000000000" in json.dumps(result_of(capsys))


@pytest.mark.parametrize(
    ("wrong", "code", "said"),
    [
        (["--plan", "x", "--all-pending"], 2, "not allowed with"),
        (["--plan", "x", "--storage-option", "region"], 2, "KEY=VALUE"),
        (["--plan", "x", "--table", "ftp://x"], 2, "ftp"),
        (["--plan", "x", "--result-file", "/no/folder/x"], 2, "/no/folder"),
        (["--plan", "x", "--table", "/nowhere/at/all"], 1, "NotATable"),
    ],
)
def test_wrong_arguments(
    wrong: list[str], code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """What is wrong stands on standard error, without a stack, and the exit code tells kinds."""
    assert compact.main(["--table", "/t", "--zookeeper", "127.0.0.1:1", *wrong]) == code
    told = capsys.readouterr().err
    assert said in told
    assert "Traceback" not in told


def test_no_java(
    make_table: MakeTable,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Without Java the plan is not even begun."""
    table = make_table(EVENTS)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    assert compact.main([*where(table), "--all-pending"]) == 3
    assert "JavaMissing: Java is missing: none on PATH" in capsys.readouterr().err


def test_changes(
    spark: SparkSession,
    make_table: MakeTable,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """Delete, update and merge say what they did, once for each name; a dry run writes nothing."""
    table = make_table(EVENTS)
    ingest_rows = spark.sql("select timestamp'2013-01-01 00:00:00' at, id n from range(100)")
    ingest_rows.write.parquet(str(tmp_path / "rows.parquet"))
    assert ingest.main([*where(table), "--source", str(tmp_path / "rows.parquet")]) == 0
    capsys.readouterr()

    def told(*given: str, code: int = 0) -> dict[str, object]:
        assert change.main([given[0], *where(table), *given[1:]]) == code
        return result_of(capsys)

    tried = told("delete", "--where=n % 2 = 0", "--dry-run")
    assert (tried["matched"], tried["event"], table.snapshot().count()) == (50, None, 100)
    done = told("delete", "--where=n % 2 = 0", "--commit-id=one")
    assert (done["kind"], done["event"], done["deleted"], done["inserted"]) == ("delete", 2, 50, 0)
    again = told("delete", "--where=n % 2 = 0", "--commit-id=one")
    assert (again["event"], again["deleted"]) == (2, 50)

    listed = tmp_path / "listed.csv"
    listed.write_text(
        "at,n\n2013-01-02T00:00:00Z,1\n2013-01-02T00:00:00Z,3\n2013-01-02T00:00:00Z,1000"
    )
    matches = ("--matches", str(listed), "--on", "n")
    done = told("update", "--set=n=-n", "--set", "at=at + interval 1 day", *matches)
    assert (done["matched"], done["deleted"], done["inserted"]) == (2, 2, 2)
    done = told("merge", "--source", str(listed), "--on=n", "--matched=delete")
    assert (done["matched"], done["deleted"], done["inserted"]) == (0, 0, 3)
    done = told(
        "merge", "--source", str(listed), "--on=n", "--matched=delete", "--unmatched=ignore"
    )
    assert (done["matched"], done["deleted"], done["inserted"]) == (3, 3, 0)
    left = sorted(table.snapshot().to_arrow()["n"].to_pylist())
    assert left == [-3, -1, *range(5, 100, 2)]


def test_what_the_log_does_not_tell_is_left_for_who_waits(
    spark: SparkSession,  # noqa: ARG001  # the session that the application uses
    make_table: MakeTable,
) -> None:
    """That nothing matched, and what failed; not what was committed."""
    table = make_table(EVENTS)
    storage = table.ports.storage
    table.append(pa.table([[datetime(2013, 1, 1, tzinfo=UTC)], [1]], schema=EVENTS))

    def left(name: str, condition: str) -> Mapping[str, object] | None:
        given = [f"--where={condition}", f"--commit-id={name}", f"--leave-result={name}"]
        change.main(["delete", *where(table), *given])
        return fetch(storage, name)

    nothing, wrong = left("nothing", "n = 2"), left("wrong", "nn = 1")
    assert nothing is not None
    assert (nothing["code"], nothing["event"], nothing["matched"]) == (0, None, 0)
    assert wrong is not None
    assert (wrong["code"], "nn" in str(wrong["error"])) == (2, True)
    assert left("done", "n = 1") is None
    assert table.snapshot().count() == 0


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (["delete"], "select rows"),
        (["update", "--where=true"], "--set COLUMN=EXPRESSION"),
        (["update", "--where=true", "--set=n=1", "--set=n=2"], "set more than once"),
        (["merge", "--source=x.csv"], "--on"),
        (["merge", "--source=x.csv", "--on=n", "--where=true"], "--where has no meaning"),
        (["delete", "--where=true", "--set=n=1"], "--set has no meaning"),
        (["vacuum"], "invalid choice"),
    ],
)
def test_wrong_changes(wrong: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    """What is wrong is told before the table is looked at, with the exit code of arguments."""
    assert change.main([*wrong, "--table", "/t", "--zookeeper", "127.0.0.1:1"]) == 2
    assert said in capsys.readouterr().err
