"""Reads with the live tail of a log store: what they show, at one point, and what they keep."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from airflow_provider_segtable.core.errors import InvalidInput, LogStoreUnavailable
from airflow_provider_segtable.core.log_store.bucket import Limits
from airflow_provider_segtable.core.log_store.manifest import BEGINNING
from airflow_provider_segtable.core.requests.read_request import read_request
from airflow_provider_segtable.core.tables.evolution import AddColumn, RenameColumn
from airflow_provider_segtable.core.tables.keyed_kind import PrimaryKey
from airflow_provider_segtable.data.open_files import MemoryFiles
from airflow_provider_segtable.table.log_store.checkpointing import begin_epoch
from airflow_provider_segtable.table.log_store.positions import log_lag
from airflow_provider_segtable.table.log_store.union_scan import UnionScan
from tests.unit.table import keyed_indexed
from tests.unit.table.logged import rows_of
from tests.unit.table.streamed import Streamed, table_of


def numbers(scan: UnionScan) -> list[int]:
    """Return the row numbers that a scan reads."""
    return sorted(scan.to_arrow().column("row").to_pylist())


def filled(kept: int = 0) -> Streamed:
    """Return a table: rows 0 to 5 are committed, 6 to 9 are in bucket 0, 10 to 12 in bucket 1."""
    made = Streamed(table_of(), Limits(kept_checkpoints=kept))
    made.send(0, rows_of(range(4)))
    made.send(1, rows_of(range(4, 6)))
    made.checkpoint()
    made.send(0, rows_of(range(6, 10)))
    made.send(1, rows_of(range(10, 13)))
    return made


@pytest.fixture
def streamed() -> Streamed:
    """Return a table whose store keeps nothing that is committed."""
    return filled()


def test_the_tail_is_read_as_rows_of_the_table(streamed: Streamed) -> None:
    """Columns, conditions, times and counts hold for both; the version is the table's."""
    assert numbers(streamed.union()) == [*range(13)]
    assert streamed.union().count() == 13
    assert numbers(streamed.union(where="row > 4 and row < 8")) == [5, 6, 7]
    hour = streamed.union(interval="1970-01-01T01:00/1970-01-01T02:00")
    assert numbers(hour) == [n for n in range(13) if n * 7 % 3 == 1]
    assert streamed.union(columns=["name"]).to_arrow().column_names == ["name"]
    assert streamed.union().version == streamed.table.state().n


def test_a_read_stores_nothing(streamed: Streamed) -> None:
    """Neither in the log nor among the files; a plain read shows what is committed."""
    files = streamed.table.ports.files
    assert isinstance(files, MemoryFiles)
    before = {*files.store}, [*streamed.table.ports.storage.list("")], streamed.client.status()
    assert len(numbers(streamed.union())) == 13
    after = {*files.store}, [*streamed.table.ports.storage.list("")], streamed.client.status()
    assert after == before
    assert numbers(streamed.table.scan()) == [*range(6)]  # type: ignore[arg-type]


def test_a_scan_shows_the_same_rows_whenever_it_is_read(streamed: Streamed) -> None:
    """Later records, commits and deletes do not show in it."""
    scan = streamed.union()
    streamed.send(0, rows_of([20]))
    streamed.checkpoint()
    streamed.table.delete(where="row < 20")
    assert numbers(scan) == [*range(13)]
    assert numbers(streamed.union()) == [20]


def test_of_a_key_the_newest_record_wins_and_deletes_count() -> None:
    """Records of the tail are later than all that is committed."""
    made = Streamed(table_of(PrimaryKey(key=("row",), buckets=2)))
    made.table.upsert(rows_of([1, 2, 3]))
    changed = rows_of([1, 2, 4])
    changed = changed.set_column(2, "name", [["new", "gone", "new"]])
    made.send(0, changed, [False, True, False])
    found = made.union(columns=["row", "name"]).to_arrow().sort_by("row").to_pylist()
    assert [(row["row"], row["name"]) for row in found] == [(1, "new"), (3, "n3"), (4, "new")]


def test_of_a_key_in_two_buckets_a_read_shows_what_the_checkpoint_will() -> None:
    """The record of the higher bucket is the later one; a writer that routes by key has none."""
    made = Streamed(table_of(PrimaryKey(key=("row",), buckets=2)))
    for bucket in (1, 0):
        rows = rows_of([7])
        made.send(bucket, rows.set_column(2, "name", [[f"in {bucket}"]]))
    found = made.union(columns=["name"]).to_arrow().to_pylist()
    made.checkpoint()
    after = made.table.scan(columns=["name"]).to_arrow()  # type: ignore[arg-type]
    assert found == after.to_pylist() == [{"name": "in 1"}]


def test_a_key_that_moves_to_another_day_has_one_row(tmp_path: Path) -> None:
    """An index of records corrects what the tail replaces, in memory alone."""
    table = keyed_indexed.new_table(tmp_path)
    keyed_indexed.upsert(table, {"key": 1, "seq": 1}, {"key": 2, "seq": 1})
    made = Streamed(table)
    moved = keyed_indexed.rows({"key": 1, "day": 3, "seq": 2}, {"key": 3, "day": 1})
    made.send(0, moved.drop_columns([keyed_indexed.DELETED]))
    files = sorted(each for each in tmp_path.rglob("*") if each.is_file())
    found = made.union(columns=["key", "seq"]).to_arrow().sort_by("key").to_pylist()
    assert found == [{"key": 1, "seq": 2}, {"key": 2, "seq": 1}, {"key": 3, "seq": 0}]
    assert sorted(each for each in tmp_path.rglob("*") if each.is_file()) == files
    assert made.union(where="seq < 2").count() == 2
    assert table.scan(where="key = 1", columns=["seq"]).to_arrow().to_pylist() == [{"seq": 1}]


def test_the_tail_has_the_columns_that_its_store_was_started_with(streamed: Streamed) -> None:
    """An alteration renames and adds columns under a running store."""
    streamed.table.alter(
        columns=[RenameColumn(name="name", new="title"), AddColumn(name="more", type="int64")]
    )
    streamed.table.delete(where="row = 0")
    found = streamed.union(columns=["row", "title", "more"], where="row > 9").to_arrow()
    assert sorted(found.to_pylist(), key=lambda row: row["row"]) == [
        {"row": n, "title": f"n{n}", "more": None} for n in range(10, 13)
    ]


Happens = Callable[[Streamed], None]


def committed(made: Streamed) -> None:
    """Commit the tail; the store keeps nothing that is committed."""
    made.checkpoint()


def committed_and_appended(made: Streamed) -> None:
    """Commit the tail, and append to it."""
    made.checkpoint()
    made.send(0, rows_of([20, 21]))


def appended_and_committed(made: Streamed) -> None:
    """Append, and commit more than there was before."""
    made.send(0, rows_of([20, 21]))
    made.checkpoint()


@pytest.mark.parametrize("moment", ["status", "reader"])
@pytest.mark.parametrize("happens", [committed, committed_and_appended, appended_and_committed])
@pytest.mark.parametrize("kept", [0, 2])
def test_a_commit_meanwhile_shows_each_row_once(moment: str, happens: Happens, kept: int) -> None:
    """Rows that were appended before the read are in it, wherever they are now."""
    streamed = filled(kept)
    streamed.interrupted(**{moment: lambda: happens(streamed)})
    found = numbers(streamed.union())
    assert found[:13] == [*range(13)]
    assert found[13:] in ([], [20, 21])


@pytest.mark.parametrize("moment", ["status", "reader"])
def test_discarded_records_are_not_shown(streamed: Streamed, moment: str) -> None:
    """A new writer that writes others at their offsets meanwhile: only its records may show."""

    def replaced() -> None:
        streamed.begin(0)
        streamed.send(0, rows_of([20, 21, 22, 23]))

    streamed.interrupted(**{moment: replaced})
    found = numbers(streamed.union())
    assert found in ([*range(6), 10, 11, 12], [*range(6), 10, 11, 12, 20, 21, 22, 23])


def test_a_replaced_service_has_no_tail(streamed: Streamed) -> None:
    """Its records will never be committed: another service has begun an epoch in the log."""
    begin_epoch(streamed.table.ports, (0, 1), owner="host:8")
    scan = streamed.union()
    assert numbers(scan) == [*range(6)]
    assert "bucket 0: its service is in epoch 1, which epoch 2 has replaced" in str(scan.explain())


def test_a_service_speaks_for_the_buckets_that_it_has(
    streamed: Streamed, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that lost a bucket to another one, and has not heard of it, hides none of its rows."""
    old, taken = streamed.client, Streamed(streamed.table, buckets=(0,))
    taken.send(0, rows_of(range(20, 23)))
    monkeypatch.setattr(taken, "find", lambda bucket: old if bucket else taken.client)
    assert numbers(taken.union()) == [*range(6), 10, 11, 12, 20, 21, 22]
    lags = log_lag(taken.table.ports, taken.find, {0: BEGINNING, 1: BEGINNING}).buckets
    assert {bucket: lag.records for bucket, lag in lags.items()} == {0: 7, 1: 5}


def test_a_plan_says_what_was_found_of_each_bucket(streamed: Streamed) -> None:
    """Also if no service holds the buckets: then the version alone is read."""
    plan = streamed.union().explain()
    assert plan.log_notes == ("bucket 0: 4 records", "bucket 1: 3 records")
    streamed.checkpoint()
    assert streamed.union().explain().log_notes[0] == "bucket 0: all is committed"
    streamed.served = False
    scan = streamed.union()
    assert numbers(scan) == [*range(13)]
    assert scan.explain().facts["log_notes"][1] == "bucket 1: no service holds it"


def test_a_service_that_does_not_answer_is_an_error(streamed: Streamed) -> None:
    """Its records may be alive; the message has the way out."""
    streamed.store.shutdown()
    with pytest.raises(LogStoreUnavailable, match=r"5 attempts: .* shut down.*without include_log"):
        streamed.union()


@pytest.mark.parametrize(
    ("asked", "named"),
    [
        ({"version": 1}, "version"),
        ({"as_of": "2030-01-01"}, "as_of"),
        ({"tag": "a"}, "tag"),
        ({"since_version": 1}, "a start"),
        ({"rolled_up": True}, "rolled_up"),
        ({"base_only": True}, "base_only"),
    ],
)
def test_what_a_read_with_the_tail_cannot_have(asked: dict[str, Any], named: str) -> None:
    """The error names the argument to leave out."""
    with pytest.raises(InvalidInput, match=f"leave out {named}, or include_log"):
        read_request(include_log=True, **asked)
