"""``segtable index``: indexes as people make, inspect and drop them."""

from pathlib import Path

import pytest

from airflow_provider_segtable.cli.input.options import seconds_of
from airflow_provider_segtable.core.errors import InvalidInput
from tests.unit.cli.conftest import Facts, Run


def test_the_status_of_an_index(run: Run, facts: Facts, table: str) -> None:
    """It says what is kept, how many of the visible files are known, and what to do next."""
    facts("ingest", table, "trips.parquet")
    (made,) = facts("index", "create", table, "all", "--kind", "files")["indexes"]
    assert (made["status"], made["indexed"], made["files"]) == ("building", 0, 2)
    assert made["lacking"] == ["2013-01-01T00:00:00Z/2013-01-03T00:00:00Z"]
    facts("ingest", table, "trips.parquet")
    (found,) = facts("index", "status", table, "all")["indexes"]
    assert (found["indexed"], found["files"], found["lag_commits"]) == (2, 4, 0)
    assert found["own_bytes"] > 0
    shown = run("index", "status", table).stdout
    assert "2 of 4" in shown
    assert "segtable index run trips all" in shown
    assert "all: files; building" in run("table", "describe", table).stdout
    (*_, last) = facts("table", "timeline", table)["events"]
    assert last["feeds"] == [made["id"]]


def test_the_values_of_columns_are_shown(run: Run, facts: Facts, table: str) -> None:
    """Without opening a data file; an index that keeps none says which kind does."""
    facts("index", "create", table, "amounts", "--columns", "amount,who")
    facts("index", "create", table, "all", "--kind", "files")
    facts("ingest", table, "trips.parquet")
    answer = facts("index", "show", table, "amounts")
    amount, who = sorted(answer["columns"], key=lambda each: str(each["column"]))
    assert (amount["column"], amount["files"], answer["files"]) == ("amount", 2, 2)
    assert amount["low"] < amount["high"]
    shown = run("index", "show", table, "amounts").stdout
    assert "Index amounts: 2 of 2 files" in shown
    assert str(who["high"]) in shown
    assert "kind column_stats" in " ".join(run("index", "show", table, "all").stderr.split())


def test_a_run_builds_what_is_lacking(run: Run, facts: Facts, table: str) -> None:
    """A scheduled plan is pending until a run; then the index is available, and nothing is left."""
    facts("ingest", table, "trips.parquet")
    facts("index", "create", table, "people", "--kind", "bloom_filter", "--columns", "who")
    (asked,) = facts("index", "schedule", table)["plans"]
    (waiting,) = facts("index", "status", table)["indexes"]
    assert (waiting["plan"], waiting["plan_status"]) == (asked["plan"], "requested")
    (done,) = facts("index", "run", table, "people", "--timeout", "5m")["runs"]
    assert (done["ended"], done["files"], done["left"]) == ("completed", 2, 0)
    assert done["plans"] == [asked["plan"]]
    assert done["message"].endswith("index people: built the entries about 2 files")
    (found,) = facts("index", "status", table)["indexes"]
    assert (found["status"], found["indexed"], found["plan"]) == ("available", 2, None)
    (again,) = facts("index", "run", table)["runs"]
    assert (again["ended"], again["files"]) == ("done already", 0)
    assert facts("index", "schedule", table)["plans"][0]["plan"] is None
    assert "lacks nothing" in run("index", "run", table).stdout


def test_what_an_index_saves(facts: Facts, run: Run, table: str) -> None:
    """The read is planned without indexes, with each, and with all."""
    run("table", "create", "hours", "--like", "trips.parquet", "--time", "at", "--granularity=hour")
    facts("ingest", "hours", "trips.parquet")
    facts("index", "create", "hours", "amounts", "--columns", "amount", "--run")
    facts("index", "create", "hours", "all", "--kind", "files")
    plans = facts("index", "explain", "hours", "--where", "amount > 11.5")["plans"]
    opened = [(plan["indexes"], plan["files_opened"]) for plan in plans]
    assert opened == [([], 48), (["amounts"], 1), (["all"], 48), (["amounts", "all"], 1)]
    assert "cannot judge" in plans[2]["notes"][0]["text"]
    shown = run("index", "explain", "hours", "--where", "amount > 11.5").stdout
    assert "1 of 48" in shown
    assert "There are no indexes" in run("index", "explain", table, "--where", "true").stdout
    assert run("index", "explain", table).exit_code == 2


def test_an_index_is_built_with_its_creation(facts: Facts, table: str) -> None:
    """``--run`` leaves nothing to do."""
    facts("ingest", table, "trips.parquet")
    (made,) = facts("index", "create", table, "amounts", "--columns", "amount", "--run")["indexes"]
    assert (made["status"], made["indexed"], made["files"]) == ("available", 2, 2)


def test_what_comes_after_a_creation_is_said(run: Run, facts: Facts, table: str) -> None:
    """The planner's DAG or a run; without the planner a run; nothing once nothing is lacking."""
    facts("ingest", table, "trips.parquet")
    created = ("index", "create", table, "all", "--kind", "files")
    assert "the planner's DAG builds the rest" in run(*created).stdout
    facts("table", "set", table, "compaction.indexes=off")
    told = " ".join(run("index", "status", table).stdout.split())
    assert "segtable index run trips all (the planner does not build it" in told
    run("index", "run", table)
    assert "Next" not in run("index", "status", table).stdout


def test_a_failed_build_with_a_creation_ends_with_1(run: Run, table: str) -> None:
    """The index is there; the message says why it was not built."""
    run("ingest", table, "trips.parquet")
    for path in Path(table, "data").rglob("*.parquet"):
        path.write_bytes(b"PAR1")
    done = run("index", "create", table, "amounts", "--columns", "amount", "--run")
    assert done.exit_code == 1
    assert "index amounts: " in done.stderr
    assert "building" in done.stdout


def test_a_run_needs_zookeeper(run: Run, table: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is looked for before anything is written, and before a wrong name is anything else."""
    monkeypatch.delenv("SEGTABLE_ZOOKEEPER")
    assert run("index", "create", table, "all", "--kind", "files", "--run").exit_code == 3
    assert "There are no indexes" in run("index", "status", table).stdout
    assert run("index", "run", table, "all").exit_code == 2


def test_an_index_that_cannot_be_read_is_shown(facts: Facts, table: str, tmp_path: Path) -> None:
    """The problem takes the place of the numbers; the other indexes are shown as ever."""
    for name in ("lost", "well"):
        facts("index", "create", table, name, "--kind", "files")
    (lost,) = facts("index", "status", table, "lost")["indexes"]
    for file in (tmp_path / table / "_segtable" / "indexes" / lost["id"]).rglob("*.json"):
        file.unlink()
    lost, well = facts("index", "status", table)["indexes"]
    assert (lost["files"], well["files"], well["problem"]) == (None, 0, None)
    assert lost["problem"]


def test_compactions_go_on_beside_an_index_that_cannot_be_read(
    run: Run, facts: Facts, table: str
) -> None:
    """All is compacted but the index; the exit code is a warning's, the way out a rebuild."""
    facts("ingest", table, "trips.parquet", "--rows-per-append", "4")
    (lost,) = facts("index", "create", table, "lost", "--kind", "files")["indexes"]
    for file in Path(table, "_segtable", "indexes", lost["id"]).rglob("*.json"):
        file.unlink()
    done = run("compact", table, "--all", "--property", "compaction.min_segments=2")
    assert done.exit_code == 7
    told = " ".join(done.stdout.split())
    assert "completed" in told
    assert f"way out: segtable index rebuild {table} lost" in told
    run("index", "rebuild", table, "lost")
    assert run("compact", table, "--all").exit_code == 0


def test_columns_have_their_present_names(facts: Facts, run: Run, table: str) -> None:
    """An index keeps to its columns through a rename, and begins anew with the same settings."""
    given = ("--kind", "bloom_filter", "--columns", "who, at", "--rate", "0.05")
    facts("index", "create", table, "people", *given)
    facts("table", "alter", table, "--rename", "who=name")
    (found,) = facts("index", "rebuild", table, "people")["indexes"]
    assert (found["columns"], found["settings"]) == (["name", "at"], {"rate": 0.05})
    assert (
        "bloom_filter on name, at, rate 0.05; available" in run("table", "describe", table).stdout
    )
    assert facts("index", "drop", table, "people")["indexes"] == []
    assert run("index", "drop", table, "people").exit_code == 2


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("1.5s", 1.5), ("15m", 900), ("2h", 7200)]
)
def test_durations(text: str, seconds: float) -> None:
    """A number has seconds, or its unit."""
    assert seconds_of(text, "--timeout") == seconds


def test_a_wrong_duration_is_named() -> None:
    """With its option, and with what would do."""
    with pytest.raises(InvalidInput, match=r"--timeout 'soon' is not a duration: write e.g. 90s"):
        seconds_of("soon", "--timeout")
