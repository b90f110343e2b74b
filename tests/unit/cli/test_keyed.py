"""Primary-key tables by the command line."""

import json
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_segtable.planning.findings import health_findings
from airflow_provider_segtable.table.context import open_context
from airflow_provider_segtable.table.log_store.checkpointing import begin_epoch
from tests.unit.cli.conftest import Facts, Run

SCHEMA = "id int not null, at timestamp, seq int, text string, seq_a int, a int"
KEYED = ("--time", "at", "--schema", SCHEMA, "--granularity", "all", "--primary-key", "id")
ORDERS = (*KEYED, "--buckets", "2", "--ordering", "seq")


def lines(name: str, *rows: dict[str, Any]) -> str:
    """Write a file of JSON lines, and return its name."""
    at = {"at": "2013-01-01T00:00:00Z"}
    Path(name).write_text("".join(json.dumps({**at, **row}) + "\n" for row in rows))
    return name


def whole(key: int, seq: int, text: str) -> dict[str, Any]:
    """Return a row with all columns."""
    return {"id": key, "seq": seq, "text": text, "seq_a": None, "a": None}


def texts(facts: Facts, *options: str) -> dict[int, str]:
    """Return the texts that a scan finds, by key."""
    rows = facts("table", "scan", "t", "--columns", "id,text", *options)["rows"]
    return {row["id"]: row["text"] for row in rows}


def test_a_column_joins_the_group_that_is_named(facts: Facts, run: Run) -> None:
    """The group is named by its ordering column, and a default in a group is refused."""
    facts(
        *("table", "create", "t", *KEYED),
        *("--merge", "partial_update", "--group", "seq_a=a", "--buckets", "1"),
    )
    changed = facts("table", "alter", "t", "--add", "b string group seq_a", "--rename", "text=note")
    assert changed["kind_settings"]["groups"] == ["a, b by seq_a"]
    for option, words in (
        ("c int group seq_a default 1", "joins the group 'seq_a', so it has no default"),
        ("c int group seq", "its groups are seq_a"),
    ):
        result = run("table", "alter", "t", "--add", option)
        assert result.exit_code == 2
        assert words in " ".join(result.stderr.split())


def test_files_are_upserted_without_zookeeper(
    facts: Facts, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The highest ordering value wins, a marked row deletes its key, and nobody needs a lock."""
    monkeypatch.delenv("SEGTABLE_ZOOKEEPER")
    made = facts("table", "create", "t", *ORDERS)
    assert made["kind_settings"]["primary_key"] == ["id"]
    first = lines("first.jsonl", *(whole(key, 1, "old") for key in range(3)))
    told = run("ingest", "t", first)
    assert "upserted first.jsonl: event 1" in told.stderr
    late = lines(
        "late.jsonl",
        {**whole(0, 2, "new"), "gone": False},
        {**whole(1, 0, "late"), "gone": False},
        {"id": 2, "seq": 2, "gone": True},
    )
    facts("ingest", "t", late, "--deleted", "gone")
    assert texts(facts) == {0: "new", 1: "old"}
    assert facts("delete", "t", "--where", "id = 0")["deleted"] == 1
    assert texts(facts) == {1: "old"}
    assert facts("update", "t", "--set", "text='set'", "--where", "id = 1")["inserted"] == 1
    assert texts(facts) == {1: "set"}
    more = lines("more.jsonl", {"id": 1, "seq": 3, "text": "m"}, {"id": 5, "seq": 1, "text": "n"})
    merged = facts("merge", "t", more, "--on", "id")
    assert (merged["matched"], merged["deleted"], merged["inserted"]) == (1, 1, 2)
    assert texts(facts) == {1: "m", 5: "n"}
    assert texts(facts, "--version", "1") == dict.fromkeys(range(3), "old")


def test_partial_updates_fill_columns(facts: Facts) -> None:
    """A file has some of the columns; groups are ordered by their own."""
    facts("table", "create", "t", *KEYED, "--merge", "partial_update", "--group", "seq_a=a")
    facts("ingest", "t", lines("a.jsonl", {"id": 1, "seq_a": 5, "a": 5}))
    facts("ingest", "t", lines("b.jsonl", {"id": 1, "text": "here"}))
    facts("ingest", "t", lines("c.jsonl", {"id": 1, "seq_a": 4, "a": 4}))
    (row,) = facts("table", "scan", "t")["rows"]
    assert (row["text"], row["a"], row["seq_a"]) == ("here", 5, 5)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--buckets", "0"), "--buckets 0: rows are merged only by a primary key: add --primary"),
        (("--merge", "latest"), "--merge latest: rows are merged only by a primary key"),
        (("--primary-key", "id", "--dimension", "text"), "--primary-key id keeps one row for each"),
        (("--primary-key", "nope"), "no column 'nope' for the primary key"),
        (("--primary-key", "id,,a"), "--primary-key 'id,,a' has an empty name"),
        (("--primary-key", "id", "--buckets", "0"), "0 buckets: choose 1 to 65536"),
        (("--primary-key", "id", "--group", "seq_a=a"), "use 'partial_update' for groups"),
        (("--primary-key", "id", "--group", "a"), "--group 'a' is not KEY=VALUE"),
        (
            ("--primary-key", "id", "--group", "a=seq", "--group", "a=text"),
            "an ordering column has one group",
        ),
    ],
)
def test_wrong_options_name_the_value(run: Run, options: tuple[str, ...], message: str) -> None:
    """The message has the option, its value and the way out; no table is made."""
    result = run("table", "create", "t", "--time", "at", "--schema", SCHEMA, *options)
    assert result.exit_code == 2
    assert message in " ".join(result.stderr.split())
    assert not Path("t").exists()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        (("ingest", "t", "rows.jsonl", "--deleted", "gone"), "column 'gone' says which rows"),
        (("ingest", "t", "rows.jsonl", "--deleted", "text"), "the table has a column of this name"),
        (("ingest", "t", "rows.jsonl", "--columns", "id,at,seq,a,seq_a"), "'text' is missing"),
        (
            ("ingest", "t", "rows.jsonl", "--deleted", "g", "--overwrite", "chunks"),
            "an overwrite all that it names",
        ),
        (("ingest", "t", "rows.jsonl", "--overwrite", "chunks"), "not overwritten by time"),
        (("merge", "t", "rows.jsonl", "--on", "text"), "join on the key; or upsert whole rows"),
        (("update", "t", "--set", "id=2", "--where", "id = 1"), "it cannot be set"),
        (("table", "alter", "t", "--drop", "seq"), "it is the ordering column"),
        (("table", "set", "t", "compaction.clustering=text"), "sorted by that: id"),
        (("compact", "t", "--kind", "minor", "--buckets", "8"), "use a major compaction"),
        (("compact", "t", "--kind", "major", "--buckets", "0"), "0 buckets: choose 1 to 65536"),
    ],
)
def test_what_a_key_forbids_is_refused(
    facts: Facts, run: Run, command: tuple[str, ...], message: str
) -> None:
    """Nothing is written, and the message says what to do instead."""
    facts("table", "create", "t", *ORDERS)
    lines("rows.jsonl", whole(1, 1, "a"))
    facts("ingest", "t", "rows.jsonl")
    result = run(*command)
    assert result.exit_code == 2, result.stderr
    assert message in " ".join(result.stderr.split())
    assert texts(facts) == {1: "a"}


def test_only_a_primary_key_has_deleted_rows(run: Run, facts: Facts, table: str) -> None:
    """An append table is told how to delete instead."""
    del facts
    result = run("ingest", table, "trips.parquet", "--deleted", "gone")
    assert result.exit_code == 2
    assert "has no primary key: delete the rows by a condition" in " ".join(result.stderr.split())


def test_the_log_store_is_described(facts: Facts, run: Run) -> None:
    """Each bucket with its epoch and its owner, and the event of the epoch."""
    facts("table", "create", "t", *ORDERS)
    assert facts("table", "describe", "t")["log_store"] == []
    begin_epoch(open_context("t"), [0, 1], owner="host:7")
    known = {"epoch": 1, "owner": "host:7", "committed": 0}
    assert facts("table", "describe", "t")["log_store"] == [
        {"bucket": 0, **known},
        {"bucket": 1, **known},
    ]
    shown = " ".join(run("table", "describe", "t").stdout.split())
    assert "log store 2 buckets, 0 committed records; newest epoch 1 of host:7" in shown
    newest = facts("table", "timeline", "t")["events"][-1]
    assert newest["summary"] == "log store: epoch 1 of 2 buckets begun by host:7"


def test_what_readers_merge_is_shown(facts: Facts, run: Run) -> None:
    """Log files, base files, buckets and the runs of a read; old base files are read on request."""
    facts("table", "create", "t", *ORDERS)
    lines("rows.jsonl", *(whole(key, 1, "old") for key in range(8)))
    facts("ingest", "t", "rows.jsonl")
    assert facts("table", "scan", "t", "--base-only", "--count")["rows"] == 0
    assert len(facts("compact", "t", "--kind", "semi-major")["plans"]) == 2
    lines("more.jsonl", *(whole(key, 2, "new") for key in range(8)))
    facts("ingest", "t", "more.jsonl")
    described = facts("table", "describe", "t")
    groups = described["file_groups"]
    assert (groups["buckets"], groups["base_files"], groups["log_files"]) == (2, 2, 2)
    assert (groups["read_amplification"], described["counts"]["chunks"]) == (2.0, 1)
    assert 0.3 < groups["log_share"] < 0.7
    found = facts("table", "segments", "t")["segments"]
    assert [(each["bucket"], each["file"]) for each in found] == [
        *((0, "base"), (0, "log"), (1, "base"), (1, "log"))
    ]
    assert set(texts(facts, "--base-only").values()) == {"old"}
    assert set(texts(facts).values()) == {"new"}
    assert {each["bucket"] for each in facts("plan", "t")["skipped"]} == {0, 1}
    for command in (("table", "describe"), ("table", "segments"), ("plan",)):
        assert "bucket" in run(*command, "t").stdout


def test_only_keys_have_base_files(run: Run, table: str) -> None:
    """Other tables, and windows, are read as a whole."""
    result = run("table", "scan", table, "--base-only")
    assert "has no primary key: leave it out" in " ".join(result.stderr.split())
    result = run("table", "scan", table, "--base-only", "--since-version", "0")
    assert "base_only leaves out the newest records" in " ".join(result.stderr.split())


def test_the_life_of_a_table(facts: Facts, run: Run) -> None:
    """Tags, restores, cleaning, checks and a drop work as for other tables."""
    facts("table", "create", "t", *ORDERS, "--property", "retention.versions=1")
    for seq in range(1, 4):
        lines("rows.jsonl", *(whole(key, seq, f"at {seq}") for key in range(4)))
        facts("ingest", "t", "rows.jsonl")
        facts("compact", "t", "--kind", "semi-major")
        if seq == 1:
            facts("tag", "t", "first")
    assert texts(facts, "--tag", "first") == dict.fromkeys(range(4), "at 1")
    facts("clean", "t", "--retention-hours", "0", "--orphan-hours", "0")
    assert texts(facts, "--tag", "first") == dict.fromkeys(range(4), "at 1")
    facts("table", "restore", "t", "--tag", "first", "--yes")
    assert texts(facts) == dict.fromkeys(range(4), "at 1")
    lines("rows.jsonl", *(whole(key, 2, "again") for key in range(2)))
    facts("ingest", "t", "rows.jsonl")
    facts("compact", "t", "--kind", "semi-major")
    assert texts(facts) == {0: "again", 1: "again", 2: "at 1", 3: "at 1"}
    assert run("verify", "t", "--deep", "--all-versions").exit_code == 0
    assert facts("doctor", "t")["findings"] == []
    facts("table", "drop", "t", "--yes")
    assert run("table", "describe", "t").exit_code != 0


def test_the_planner_compacts_what_pays(facts: Facts) -> None:
    """As a DAG run does: plans are requested with reasons, carried out, and the rows stay."""
    facts("table", "create", "t", *ORDERS, "--property", "compaction.min_segments=3")
    for seq in range(4):
        lines("rows.jsonl", *(whole(key, seq, f"at {seq}") for key in range(4)))
        facts("ingest", "t", "rows.jsonl")
    chosen = facts("plan", "t", "--request")["chosen"]
    assert {each["kind"] for each in chosen} <= {"minor", "semi-major"}
    done = facts("compact", "t", "--all")["plans"]
    assert {each["plan"] for each in chosen} == {each["plan"] for each in done}
    groups = facts("table", "describe", "t")["file_groups"]
    assert (groups["buckets"], groups["read_amplification"]) == (2, 1.0)
    assert texts(facts) == dict.fromkeys(range(4), "at 3")


@pytest.mark.parametrize("granularity", ["all", "day"])
def test_the_doctor_knows_how_to_renew_used_up_ids(
    facts: Facts, run: Run, monkeypatch: pytest.MonkeyPatch, granularity: str
) -> None:
    """The command that ``limit-near`` names starts a version with ids of its own."""
    monkeypatch.setattr(health_findings, "NEARLY", 3 / 2**30)
    facts("table", "create", "t", *ORDERS, "--granularity", granularity)
    for seq in range(4):
        facts("ingest", "t", lines("a.jsonl", *(whole(key, seq, f"{seq}") for key in range(9))))
    found = [f for f in doctored(run) if f["code"] == "limit-near"]
    assert len(found) == 1
    assert found[0]["what"].startswith("4 of 1,073,741,824 first-generation ids")
    assert run(*found[0]["do"].split()[1:]).exit_code == 0
    assert not [f for f in doctored(run) if f["code"] == "limit-near"]
    assert texts(facts) == dict.fromkeys(range(9), "3")


def doctored(run: Run) -> list[dict[str, Any]]:
    """Return what the doctor finds."""
    findings: list[dict[str, Any]] = json.loads(run("doctor", "t", "--json").stdout)["findings"]
    return findings


def test_verify_counts_records_of_a_primary_key_table(facts: Facts, run: Run) -> None:
    """A tombstone is in a file, and is no row."""
    facts("table", "create", "t", *ORDERS)
    facts("ingest", "t", lines("first.jsonl", *(whole(key, 1, "old") for key in range(3))))
    facts("delete", "t", "--where", "id = 0")
    checked = facts("verify", "t", "--deep")["checked"]
    assert (checked["rows"], checked["records"]) == (0, 4)
    assert run("verify", "t", "--deep").stdout.strip().endswith(", 4 records")
