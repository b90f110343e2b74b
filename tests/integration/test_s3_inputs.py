"""Files of an object store as inputs of ``segtable``, without Spark."""

import gzip
import json
from io import BytesIO

import pyarrow.csv as pc
import pyarrow.parquet as pq
import pytest
from obstore.store import S3Store

from tests.support.s3 import BUCKET, LoopbackS3
from tests.unit.cli.conftest import Run, run, trips

__all__ = ["run"]


@pytest.fixture
def lake(s3: LoopbackS3, monkeypatch: pytest.MonkeyPatch) -> str:
    """A folder in S3 with six trips as Parquet and six as compressed CSV."""
    monkeypatch.setenv("SEGTABLE_STORAGE_OPTIONS", json.dumps(s3.storage_options))
    store = S3Store(BUCKET, prefix="lake", **s3.storage_options)  # type: ignore[arg-type]
    parquet, text = BytesIO(), BytesIO()
    pq.write_table(trips(6), parquet)
    pc.write_csv(trips(6, first_hour=6), text)
    store.put("day=1/trips.parquet", parquet.getvalue())
    store.put("trips.csv.gz", gzip.compress(text.getvalue()))
    store.put("forget/a b.csv", b"who\nuser 1\n")
    store.put("forget/more.csv", b"who\nuser 2\n")
    store.put("paid.jsonl", b'{"at": "2013-01-01T00:00:00Z", "amount": 99.5}\n')
    return s3.uri("lake")


def test_files_of_s3_are_ingested(run: Run, lake: str) -> None:
    """Their columns make a table, and their rows come in; local files beside them, too."""
    parquet, text = f"{lake}/day=1/trips.parquet", f"{lake}/trips.csv.gz"
    made = run("table", "create", "t", "--like", parquet, "--time", "at", "--json")
    assert [each["name"] for each in json.loads(made.stdout)["schema"]] == ["at", "who", "amount"]
    done = json.loads(run("ingest", "t", parquet, text, "--commit-id", "one", "--json").stdout)
    assert [(each["file"], each["rows"]) for each in done["appends"]] == [(parquet, 6), (text, 6)]
    again = json.loads(run("ingest", "t", text, "--commit-id", "one", "--json").stdout)
    assert again["appends"][0]["appended_before"]
    day = ("--overwrite", "2013-01-01/2013-01-02")
    told = json.loads(run("ingest", "t", parquet, *day, "--json").stdout)
    assert (told["engine"], told["inserted"]) == ("local", 6)


def test_files_of_s3_select_rows_and_are_merged(run: Run, lake: str) -> None:
    """By name and by pattern, in this process; a key that is not there is named."""
    parquet = f"{lake}/day=1/trips.parquet"
    assert run("table", "create", "t", "--like", parquet, "--time", "at").exit_code == 0
    assert run("ingest", "t", f"{lake}/*/tr?ps.parquet").exit_code == 0
    forget = ("delete", "t", "--matches", f"{lake}/forget/*.csv", "--json")
    gone = json.loads(run(*forget).stdout)
    assert (gone["engine"], gone["matched"]) == ("local", 2)
    merge = ("merge", "t", f"{lake}/paid.jsonl", "--on", "at", "--unmatched", "ignore", "--json")
    told = json.loads(run(*merge).stdout)
    assert (told["engine"], told["matched"], told["inserted"]) == ("local", 1, 1)
    paid = json.loads(
        run("table", "scan", "t", "--where", "amount > 99", "--count", "--json").stdout
    )
    assert paid["rows"] == 1
    result = run("delete", "t", "--matches", f"{lake}/nope.csv", "--json")
    assert (result.exit_code, json.loads(result.stdout)["error"]) == (2, "InvalidInput")
    assert "nope.csv" in result.stderr


def test_a_store_that_does_not_answer_is_said(run: Run, lake: str) -> None:
    """No Spark is started for it if the local engine is asked for; the reason names the store."""
    parquet = f"{lake}/day=1/trips.parquet"
    assert run("table", "create", "t", "--like", parquet, "--time", "at").exit_code == 0
    nowhere = ("--storage-option", "endpoint=http://127.0.0.1:9", "--engine", "local", "--json")
    result = run("delete", "t", "--matches", parquet, *nowhere)
    told = json.loads(result.stdout)
    assert (result.exit_code, told["error"]) == (2, "NeedsSpark")
    assert "cannot be reached" in told["message"]
    result = run("ingest", "t", parquet, *nowhere)
    assert json.loads(result.stdout)["error"] == "StorageError"
    assert "Traceback" not in result.output


def test_a_wrong_name_is_said_in_one_line(run: Run, lake: str) -> None:
    """A key that is not there, and a scheme that is none, are named; nothing is appended."""
    assert run("table", "create", "t", "--schema", "at timestamp", "--time", "at").exit_code == 0
    for name, word in (
        (f"{lake}/nope.parquet", "nope.parquet"),
        ("ftp://a/b.csv", "ftp://a/b.csv"),
    ):
        result = run("ingest", "t", name, "--json")
        assert (result.exit_code, json.loads(result.stdout)["error"]) == (2, "InvalidInput")
        assert word in result.stderr
        assert "Traceback" not in result.output
