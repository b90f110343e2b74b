"""``segtable ingest --overwrite``: the guide's commands work, what does not fit is refused."""

from pathlib import Path

import pyarrow.parquet as pq

from tests.guides import commands
from tests.unit.cli.conftest import Facts, Run, trips


def test_the_commands_of_the_guide_load_a_day_again(run: Run, facts: Facts, tmp_path: Path) -> None:
    """The day is there once after each command, in one event each time that it changes."""
    pq.write_table(trips(48), tmp_path / "trips.parquet")
    pq.write_table(trips(20, first_hour=24), tmp_path / "day.parquet")
    pq.write_table(trips(24, first_hour=24), tmp_path / "corrected.parquet")
    assert run("table", "create", "trips", "--like", "trips.parquet", "--time", "at").exit_code == 0
    assert run("ingest", "trips", "trips.parquet", "--rows-per-append", "12").exit_code == 0
    told = [facts(*arguments) for arguments in commands("loading-again.md")]
    counts = [(each["event"], each["deleted"], each["inserted"]) for each in told]
    assert counts == [(None, 24, 20), (5, 24, 20), (5, 24, 20), (6, 20, 24), (7, 24, 24)]
    assert [each["changed_before"] for each in told] == [False, False, True, False, False]
    assert facts("table", "scan", "trips", "--count")["rows"] == 48
    assert "overwrite: 24 rows deleted" in run("table", "timeline", "trips").stdout.replace(
        "\n", " "
    )


def test_a_dry_run_counts_what_would_be_replaced(facts: Facts, table: str, tmp_path: Path) -> None:
    """The counts are those of the overwrite that follows, of an interval or of a condition."""
    pq.write_table(trips(48), tmp_path / "trips.parquet")
    pq.write_table(trips(5, first_hour=24), tmp_path / "late.parquet")
    facts("ingest", table, "trips.parquet")
    version = facts("table", "describe", table)["version"]
    for which in (
        ("--overwrite", "2013-01-02/2013-01-03"),
        ("--overwrite-where", "at >= timestamp '2013-01-02 00:00:00'"),
    ):
        told = facts("ingest", table, "late.parquet", *which, "--dry-run")
        assert (told["dry_run"], told["event"], told["version"]) == (True, None, version)
        assert (told["deleted"], told["inserted"]) == (24, 5)
    told = facts("ingest", table, "late.parquet", *which)
    assert (told["dry_run"], told["deleted"], told["inserted"]) == (False, 24, 5)
    assert facts("table", "scan", table, "--count")["rows"] == 24 + 5


def test_what_does_not_fit_is_refused(run: Run, table: str, tmp_path: Path) -> None:
    """Rows outside the interval, several appends, and what is no interval are wrong arguments."""
    pq.write_table(trips(48), tmp_path / "both.parquet")
    day = ("--overwrite", "2013-01-01/2013-01-02")
    for options, word in (
        (day, "24 of 48 rows"),
        ((*day, "--rows-per-append", "5"), "an overwrite is one event"),
        (("--overwrite", "monday"), "START/END"),
        ((*day, "--overwrite-where", "true"), "2 of interval and where"),
        (("--overwrite-where", ""), "is empty"),
        (("--overwrite-where", "at < timestamp '2013-01-02 00:00:00'"), "24 of 48 rows"),
        (("--overwrite-where", "initcap(who) = 'A'", "--engine", "local"), "--engine spark"),
        (("--dry-run",), "add --overwrite"),
    ):
        refused = run("ingest", table, "both.parquet", *options)
        assert refused.exit_code == 2, refused.stdout
        assert word in " ".join(refused.stderr.split())
