"""``segtable advise``: taken as it is printed, each advice saves about as many files as it says."""

import shlex
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from airflow_provider_segtable import Table
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.table.read_recorder import ReadRecorder
from tests.unit.cli.conftest import HOUR_US, NEW_YEAR_US, Facts, Run

USERS = 40
Scans = Callable[[Table], list[Any]]


def recorded(scans: Scans) -> None:
    """Read a table; its facts are written as at the end of a process."""
    table = Table.open("t")
    recorder = ReadRecorder()
    for scan in scans(Table(replace(table.ports, reads=recorder))):
        scan.to_arrow()
    recorder.close()


def opened(scans: Scans) -> float:
    """Return the number of files that a read opens, on average."""
    plans = [len(scan.explain().files) for scan in scans(Table.open("t"))]
    return sum(plans) / len(plans)


def made(run: Run, *options: str, rows: pa.Table, files: int) -> None:
    """Create a table that records all reads, and append rows in some files."""
    pq.write_table(rows, "rows.parquet")
    settings = ("--property", "statistics.reads=all", *options)
    done = run("table", "create", "t", "--like", "rows.parquet", "--time", "at", *settings)
    assert done.exit_code == 0, done.stderr
    many = rows.num_rows // files
    for n in range(files):
        pq.write_table(rows.slice(n * many, many), f"{n}.parquet")
    assert run("ingest", "t", *(f"{n}.parquet" for n in range(files))).exit_code == 0


def events(count: int, apart_us: int, width: int = 8) -> pa.Table:
    """Return rows of users: each user once in ``USERS`` rows, in a mixed order."""
    return pa.table(
        {
            "at": pa.array(
                [NEW_YEAR_US + n * apart_us for n in range(count)], pa.timestamp("us", "UTC")
            ),
            "user": [n * 7 % USERS for n in range(count)],
            "text": [f"{n * 7919 % 100_003:0{width}}" for n in range(count)],
        }
    )


def of_users(table: Table) -> list[Any]:
    return [table.scan(where=f"user = {n}") for n in range(0, USERS, 5)]


def taken(run: Run, facts: Facts, kind: str, scans: Scans) -> tuple[Any, float, float]:
    """Take an advice: return it, and the files that a read opened before and after."""
    recorded(scans)
    before = opened(scans)
    found = {each["kind"]: each for each in facts("advise", "t")["advice"]}[kind]
    for command in found["commands"]:
        program, *arguments = shlex.split(command)
        assert program == "segtable"
        done = run(*arguments)
        assert done.exit_code == 0, done.stderr
    return found, before, opened(scans)


def test_a_bloom_filter_for_single_values(run: Run, facts: Facts) -> None:
    """Of 20 files each user is in a few: the estimate is the number of those."""
    made(run, rows=events(400, 1_000_000), files=20)

    def rare(table: Table) -> list[Any]:
        return [table.scan(where=f"text = '{n * 7919 % 100_003:08}'") for n in (3, 77, 390)]

    found, before, after = taken(run, facts, "bloom_filter", rare)
    assert (found["reads"], found["files_opened"], before) == (3, 20, 20)
    assert found["tests"] == "text (equality)"
    assert found["files_estimated"] == pytest.approx(1.19)
    assert after == pytest.approx(found["files_estimated"], abs=0.5)
    kinds = {each["kind"] for each in facts("advise", "t")["advice"]}
    assert kinds == {"compaction"}


def test_small_files_joined(run: Run, facts: Facts) -> None:
    """A chunk of small files becomes one file; then there is nothing to advise."""
    made(run, rows=events(200, 1_000_000), files=8)
    found, before, after = taken(run, facts, "compaction", of_users)
    assert (found["files_opened"], before) == (8, 8)
    assert (found["files_estimated"], after) == (1, 1)
    assert "1.0 files each now" in facts("advise", "t")["nothing"]


def test_a_clustering_and_its_index(run: Run, facts: Facts) -> None:
    """A chunk of several files is sorted, so that a user's rows are in one or two of them."""
    small = ("--property", "compaction.target_size=8000")
    made(run, *small, rows=events(40_000, 1_000_000), files=20)
    found, before, after = taken(run, facts, "clustering", of_users)
    assert (found["files_opened"], before) == (20, 20)
    assert found["files_estimated"] < 4
    assert after == pytest.approx(found["files_estimated"], abs=1.0)
    assert "clustering" not in {each["kind"] for each in facts("advise", "t")["advice"]}


def test_coarser_time_chunks(run: Run, facts: Facts) -> None:
    """Reads of half a day open a file an hour; by days they open one, or two at midnight."""
    made(run, "--granularity", "hour", rows=events(48, HOUR_US), files=1)

    def half_days(table: Table) -> list[Any]:
        starts = (NEW_YEAR_US + n * HOUR_US for n in range(0, 37, 3))
        return [table.scan(interval=Interval(at, at + 12 * HOUR_US)) for at in starts]

    found, before, after = taken(run, facts, "granularity", half_days)
    assert (found["files_opened"], before) == (12, 12)
    assert found["files_estimated"] == pytest.approx(1 + 11 / 24, abs=0.01)
    assert after == pytest.approx(found["files_estimated"], abs=0.25)


def test_fewer_buckets(run: Run, facts: Facts) -> None:
    """A bucket of a few rows is a file of its own for nothing."""
    keyed = ("--primary-key", "text,at", "--buckets", "8")
    made(run, *keyed, rows=events(400, 1_000_000), files=1)
    found, before, after = taken(run, facts, "buckets", lambda table: [table.scan()])
    assert (found["files_opened"], before) == (8, 8)
    assert (found["files_estimated"], after) == (1, 1)


def test_a_table_without_recorded_reads(run: Run, facts: Facts) -> None:
    """The answer says why there is no advice, and what would change that."""
    pq.write_table(events(4, HOUR_US), "rows.parquet")
    run("table", "create", "t", "--like", "rows.parquet", "--time", "at")
    shown = run("advise", "t")
    assert shown.exit_code == 0
    assert "nothing to advise, because reads are not recorded" in shown.stdout
    assert "statistics.reads=sampled" in shown.stdout
    run("table", "set", "t", "statistics.reads=all")
    answer = facts("advise", "t")
    assert (answer["advice"], answer["reads"], answer["from"]) == ([], 0, None)
    assert "no read is recorded yet" in answer["nothing"]
    recorded(lambda table: [table.scan()])
    assert "open 0.0 files each now" in facts("advise", "t")["nothing"]
