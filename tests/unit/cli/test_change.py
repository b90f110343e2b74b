"""``delete``, ``update`` and ``merge`` in this process: rows, refusals, answers."""

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_segtable.core.errors import ChangeConflict
from airflow_provider_segtable.core.requests.change_request import Update
from airflow_provider_segtable.table.changes import arrow_engine
from airflow_provider_segtable.table.changes.arrow_engine import ArrowEngine
from airflow_provider_segtable.table.changes.row_change import Selected
from airflow_provider_segtable.table.changes.run_change import run_change
from airflow_provider_segtable.table.snapshot import Snapshot
from airflow_provider_segtable.table.table import Table
from tests.unit.cli.conftest import Facts, Run, trips
from tests.unit.cli.test_bad_input import nothing_written, refused

KEYS = "table version kind dry_run engine event matched deleted inserted changed_before seconds"


@pytest.fixture
def filled(run: Run, table: str) -> str:
    """The table with 48 rows in twelve segments: seven users, amounts 0 to 11.75."""
    assert run("ingest", table, "trips.parquet", "--rows-per-append", "4").exit_code == 0
    return table


def rows(table: str) -> list[dict[str, Any]]:
    """Return the rows of the newest version, in order."""
    found: list[dict[str, Any]] = Table.open(table).snapshot().to_arrow().to_pylist()
    return sorted(found, key=lambda row: (row["at"], row["amount"]))


def test_a_delete_takes_what_matches_and_says_how_many(facts: Facts, filled: str) -> None:
    """The answer has its keys, and the rows are what plain Python leaves."""
    before = rows(filled)
    told = facts("delete", filled, "--where", "who = 'user 3' and amount < 5")
    gone = [row for row in before if row["who"] == "user 3" and row["amount"] < 5]
    assert " ".join(told) == KEYS
    assert (told["matched"], told["deleted"], told["inserted"]) == (len(gone), len(gone), 0)
    assert (told["engine"], told["event"]) == ("local", told["version"])
    assert rows(filled) == [row for row in before if row not in gone]


def test_a_delete_needs_no_zookeeper(
    facts: Facts, filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Deletions are put into the log as they are; nobody has to be asked."""
    monkeypatch.delenv("SEGTABLE_ZOOKEEPER")
    assert facts("delete", filled, "--where", "amount >= 6")["deleted"] == 24


def test_a_dry_run_writes_nothing(run: Run, filled: str, tmp_path: Path) -> None:
    """It says how many rows match, of all three."""
    pq.write_table(trips(4), tmp_path / "source.parquet")
    asked = (
        ("delete", filled, "--where", "who = 'user 1'"),
        ("update", filled, "--where", "who = 'user 1'", "--set", "amount=1"),
        ("merge", filled, "source.parquet", "--on", "at"),
    )
    with nothing_written(tmp_path):
        for arguments in asked:
            told = json.loads(run(*arguments, "--dry-run", "--json").stdout)
            assert (told["matched"], told["event"]) == (4 if "merge" in arguments else 7, None)


def test_a_list_of_ids_is_a_file_with_one_column(facts: Facts, filled: str, tmp_path: Path) -> None:
    """Rows that equal a row of the file go; ``--on`` leaves columns of it aside."""
    (tmp_path / "ids.csv").write_text("who\nuser 5\nuser 6\nnobody\n")
    assert facts("delete", filled, "--matches", "ids.csv")["matched"] == 13
    assert {row["who"] for row in rows(filled)} == {f"user {n}" for n in range(5)}
    (tmp_path / "more.jsonl").write_text('{"who": "user 4", "amount": -1}\n')
    assert facts("delete", filled, "--matches", "more.jsonl")["matched"] == 0
    assert facts("delete", filled, "--matches", "more.jsonl", "--on", "who")["deleted"] == 7


def test_an_update_sets_values(facts: Facts, filled: str) -> None:
    """Old rows go, new ones come, in one event; null is a value."""
    sets = ("--set", "amount=-1.5", "--set", "who=null")
    told = facts("update", filled, *sets, "--where", "who in ('user 1', 'user 2')")
    assert (told["matched"], told["deleted"], told["inserted"]) == (14, 14, 14)
    changed = [row for row in rows(filled) if row["who"] is None]
    assert [row["amount"] for row in changed] == [-1.5] * 14
    assert facts("table", "scan", filled, "--count")["rows"] == 48


def test_values_are_computed_without_spark(facts: Facts, filled: str, tmp_path: Path) -> None:
    """Expressions over the old row, and in a merge over both sides, also other columns."""
    sets = ("--set", "amount = amount + 1", "--set", "who=upper(who)")
    told = facts("update", filled, *sets, "--where", "amount < 1")
    assert (told["engine"], told["matched"]) == ("local", 4)
    assert [row["amount"] for row in rows(filled)][:5] == [1.0, 1.25, 1.5, 1.75, 1.0]
    assert rows(filled)[0]["who"] == "USER 0"
    sold = trips(2).drop(["who", "amount"]).append_column("sold", pa.array([3, 4], pa.int8()))
    pq.write_table(sold, tmp_path / "sold.parquet")
    told = facts(
        *("merge", filled, "sold.parquet", "--on", "at", "--unmatched", "ignore"),
        *("--set", "amount=target.amount - source.sold"),
    )
    assert (told["engine"], told["matched"], told["inserted"]) == ("local", 2, 2)
    assert [row["amount"] for row in rows(filled)][:3] == [-2.0, -2.75, 1.5]


@pytest.mark.parametrize(
    ("options", "wanted", "left"),
    [
        ((), (2, 2, 4), 50),
        (("--matched", "ignore"), (2, 0, 2), 50),
        (("--matched", "delete", "--unmatched", "ignore"), (2, 2, 0), 46),
        (("--unmatched", "ignore"), (2, 2, 2), 48),
    ],
)
def test_a_merge_does_what_its_options_say(
    facts: Facts,
    filled: str,
    tmp_path: Path,
    options: tuple[str, ...],
    wanted: tuple[int, int, int],
    left: int,
) -> None:
    """Of four rows two are in the table by their key, and two are not."""
    source = trips(4, first_hour=46).set_column(2, "amount", pa.array([9.0] * 4))
    pq.write_table(source, tmp_path / "source.parquet")
    told = facts("merge", filled, "source.parquet", "--on", "at", *options)
    assert (told["matched"], told["deleted"], told["inserted"]) == wanted
    assert facts("table", "scan", filled, "--count")["rows"] == left


def test_a_named_change_changes_once(run: Run, facts: Facts, filled: str) -> None:
    """Run again under its name it says what it did before, and changes nothing more."""
    asked = ("update", filled, "--set", "amount=0", "--where", "amount < 1", "--commit-id", "zero")
    first, again = facts(*asked), facts(*asked)
    assert again == {**first, "changed_before": True, "seconds": again["seconds"]}
    assert "before, under this name" in run(*asked).stdout


def test_what_is_said_to_people(run: Run, filled: str) -> None:
    """One line: what matched, what went, what came, and the event; or that there was nothing."""
    done = run("delete", filled, "--where", "who = 'user 0'")
    assert done.stdout == "deleted: 7 rows matched, 7 deleted, 0 inserted: event 13\n"
    again = run("delete", filled, "--where", "who = 'user 0'")
    assert again.stdout == "0 rows matched: nothing to delete, nothing was written\n"
    log = run("table", "timeline", filled).stdout
    assert "delete: 7 rows deleted: where who = 'user 0'" in log
    assert "7 deleted, not yet removed from files" in run("table", "describe", filled).stdout


@pytest.mark.parametrize("kind", [("delete",), ("update", "--set", "amount=0")])
@pytest.mark.parametrize("which", [(), ("--where", ""), ("--where", " ")])
def test_all_rows_have_to_be_asked_for_by_name(
    run: Run, filled: str, tmp_path: Path, kind: tuple[str, ...], which: tuple[str, ...]
) -> None:
    """A forgotten condition changes nothing; ``--all`` beside one is refused, too."""
    command, *rest = kind
    with nothing_written(tmp_path):
        refused(run(command, filled, *rest, *which, "--json"), 2, "InvalidInput", "--all")
        both = run(command, filled, *rest, "--where", "true", "--all", "--json")
        refused(both, 2, "InvalidInput", "leave out")


def test_all_means_all(facts: Facts, filled: str) -> None:
    """An emptied table is a table."""
    assert facts("delete", filled, "--all")["deleted"] == 48
    assert facts("table", "scan", filled, "--count")["rows"] == 0


@pytest.mark.parametrize(
    ("arguments", "error", "word"),
    [
        (("delete", "--where", "whoo = 'a'"), "SchemaMismatch", "'whoo'"),
        (("delete", "--where", "who ="), "InvalidInput", "who ="),
        (("delete", "--where", "amount > ascii(who)"), "NeedsSpark", "--engine spark"),
        (("delete", "--matches", "ids.csv", "--on", "me"), "SchemaMismatch", "'me'"),
        (("delete", "--matches", "nowhere.csv"), "InvalidInput", "nowhere.csv"),
        (("update", "--matches", "no.csv", "--set", "amount=1"), "InvalidInput", "no.csv"),
        (("delete", "--matches", "foreign.csv"), "SchemaMismatch", "'you'"),
        (("delete", "--matches", "ids.csv", "--where", "true"), "NeedsSpark", "beside"),
        (("delete", "--matches", "ids.csv", "--option", "sep=;"), "NeedsSpark", "--option"),
        (("update", "--all", "--set", "amount"), "InvalidInput", "'amount'"),
        (("update", "--all", "--set", "amuont=1"), "SchemaMismatch", "'amuont'"),
        (("update", "--all", "--set", "amount=exp(amount)"), "NeedsSpark", "EXP(amount)"),
        (("update", "--all", "--set", "amount='much'"), "SchemaMismatch", "much"),
        (("update", "--all", "--set", "amount=amount / 0"), "SchemaMismatch", "division by zero"),
        (("update", "--all", "--set", "at=null"), "TimeOutOfRange", "null"),
        (("update", "--matches", "ids.csv", "--set", "amount=1"), "NeedsSpark", "--set"),
        (("update", "--all", "--set", "amount=1", "--set", "amount=2"), "InvalidInput", "twice"),
        (("merge", "ids.csv", "--on", "me"), "SchemaMismatch", "'me'"),
        (("merge", "ids.csv", "--on", "who"), "SchemaMismatch", "'at'"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_written(
    run: Run, filled: str, tmp_path: Path, arguments: tuple[str, ...], error: str, word: str
) -> None:
    """With ``--engine local`` what only Spark can do is wrong, too."""
    (tmp_path / "ids.csv").write_text("who\nuser 5\n")
    (tmp_path / "foreign.csv").write_text("you\nuser 5\n")
    command, *rest = arguments
    with nothing_written(tmp_path):
        result = run(command, filled, *rest, "--engine", "local", "--json")
    refused(result, 2, error, word)


def test_what_is_wrong_for_both_engines_starts_no_spark(
    run: Run, filled: str, tmp_path: Path
) -> None:
    """By default, too, a column that is not there is said at once."""
    for where, error, word in (
        ("whoo = 1", "SchemaMismatch", "'whoo'"),
        ("ascii(whoo) = 1", "SchemaMismatch", "'whoo'"),
        ("who =", "InvalidInput", "who ="),
        ("who = 'O'Hare'", "InvalidInput", "'O''Hare'"),
        ("who = 'a' and when > 1", "InvalidInput", "in backticks: `when`"),
        ("amount = 'much'", "InvalidInput", "'much'"),
        ("max(amount) > 1", "InvalidInput", "several rows"),
        ("amount = null", "InvalidInput", "IS NULL"),
    ):
        refused(run("delete", filled, "--where", where, "--json"), 2, error, word)
    update = run("update", filled, "--set", "amount=1 +", "--all", "--json")
    refused(update, 2, "InvalidInput", "not a value in Spark's SQL")
    refused(run("delete", filled, "--matches", "no.csv", "--json"), 2, "InvalidInput", "no.csv")
    (tmp_path / "sold.csv").write_text("at,n\n2013-01-01T00:00:00Z,1\n")
    merge = ("merge", filled, "sold.csv", "--on", "at", "--unmatched", "ignore", "--json", "--set")
    for value in ("source.m", "upper(source.m)", "target.m"):
        refused(run(*merge, f"amount={value}"), 2, "SchemaMismatch", "no column 'm'")


@pytest.mark.parametrize("command", ["update", "merge"])
def test_without_zookeeper_nothing_is_inserted(
    run: Run, filled: str, command: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is said before a row is read, with what to start; the exit code is 3."""
    monkeypatch.delenv("SEGTABLE_ZOOKEEPER")
    asked = {
        "update": ("--set", "amount=1", "--all"),
        "merge": ("trips.parquet", "--on", "at"),
    }
    result = run(command, filled, *asked[command], "--json")
    refused(result, 3, "CoordinatorUnavailable", "segtable zookeeper start")


def test_an_update_that_others_always_overtake_ends_with_4(
    run: Run, filled: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The message names the winner, and a script may run it again."""

    class Overtaken(ArrowEngine):
        """An engine beside which somebody always changes the same rows first."""

        turn = 0

        def select(self, snapshot: Snapshot, *given: Any, **more: Any) -> Selected[pa.Table]:
            found = super().select(snapshot, *given, **more)
            self.turn += 1
            run_change(
                snapshot.ports,
                Update(set={"amount": -float(self.turn)}, where="who = 'user 1'"),
                ArrowEngine(),
            )
            return found

    monkeypatch.setattr(arrow_engine, "ArrowEngine", Overtaken)
    result = run("update", filled, "--set", "amount=1", "--where", "who = 'user 1'", "--json")
    refused(result, 4, ChangeConflict.__name__, "event", "run it again")


def test_a_rollup_table_forgets_by_dimensions(run: Run, facts: Facts, table: str) -> None:
    """A condition over a dimension deletes; one over a metric, and an update, are refused."""
    made = run(
        *("table", "create", "daily", "--like", "trips.parquet", "--time", "at"),
        *("--dimension", "who", "--metric", "total=sum(amount)", "--query-granularity", "day"),
    )
    assert made.exit_code == 0, made.stderr
    facts("ingest", "daily", "trips.parquet")
    told = facts("delete", "daily", "--where", "who = 'user 2'")
    assert (told["matched"], told["deleted"]) == (2, None)
    again = run("delete", "daily", "--where", "who = 'user 1'")
    assert again.stdout == "deleted: 2 rows matched: event 3\n"
    assert "2 pending predicate deletes" in run("table", "describe", "daily").stdout
    kept = {row["who"] for row in rows_of("daily")}
    assert not kept & {"user 1", "user 2"}
    assert len(kept) == 5
    refused(run("delete", "daily", "--where", "total > 3", "--json"), 2, "InvalidInput", "'total'")
    update = run("update", "daily", "--set", "who='x'", "--all", "--json")
    refused(update, 2, "InvalidInput", "rollup table")
    assert table


def rows_of(name: str) -> list[dict[str, Any]]:
    """Return the rows of a table, in any order."""
    found: list[dict[str, Any]] = Table.open(name).snapshot().to_arrow().to_pylist()
    return found
