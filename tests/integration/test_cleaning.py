"""Cleaning a table on a real disk: real clocks and ages, real processes, the command line.

A command has a process of its own where several clean at once; the others run in this one.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from typer.testing import CliRunner

from airflow_provider_segtable.cli.app import app
from airflow_provider_segtable.coordination.memory import MemoryCoordinator, MemoryService
from airflow_provider_segtable.core.errors import VersionExpired
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compaction import compact
from airflow_provider_segtable.services.planner import plan_table
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.table import Table

REPOSITORY = Path(__file__).parents[2]
SEGTABLE = (sys.executable, "-c", "from airflow_provider_segtable.cli import main; main()")
ALL = ("--retention-hours", "0", "--retention-versions", "1", "--orphan-hours", "0")
SCHEMA = pa.schema([("at", pa.timestamp("us", "UTC")), ("row", pa.int64())])
TIMEOUT_S = 240.0


@pytest.fixture
def table(tmp_path: Path) -> Iterator[Table]:
    """Fifty appends, all of them compacted twice; version 3 is tagged."""
    made = Table.create(
        str(tmp_path / "t"),
        schema=SCHEMA,
        time_column="at",
        properties={"compaction.min_segments": "2", "compaction.tier_ratio": "1e9"},
    )
    coordinator = MemoryCoordinator(made.ports.clock, MemoryService())
    table = Table(replace(made.ports, optional_coordinator=coordinator))
    for turn in range(50):
        table.append(pa.table({"at": [turn], "row": [turn]}, SCHEMA))
        if turn % 25 == 24:
            plans = [launch.plan_id for launch in plan_table(table.ports).launches]
            compact(table.ports, plans, in_process(table.ports.files))
    table.tag("early", version=3)
    lost = tmp_path / "t" / "data" / "_runs" / "lost.arrow"
    lost.parent.mkdir(exist_ok=True)
    lost.write_bytes(b"x" * 10)
    yield table
    coordinator.close()


def start(*arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [*SEGTABLE, *arguments, "--json"],
        env={**os.environ, "PYTHONPATH": str(REPOSITORY)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def answer(process: subprocess.Popen[str]) -> dict[str, object]:
    out, err = process.communicate(timeout=TIMEOUT_S)
    assert process.returncode == 0, err
    found: dict[str, object] = json.loads(out)
    return found


def run(*arguments: str) -> dict[str, object]:
    """Return the answer of a command in this process."""
    done = CliRunner().invoke(app, [*arguments, "--json"], catch_exceptions=False)
    assert done.exit_code == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


def files(table: Table) -> set[str]:
    return {entry.path for entry in table.ports.storage.list("data")}


def needed(table: Table) -> set[str]:
    states = (table.state(), table.snapshot(tag="early").state)
    return {s.path for state in states for s in state.timeline.visible_segments()}


def rows(table: Table, **which: object) -> list[int]:
    found = table.snapshot(**which).to_arrow(columns=["row"])  # type: ignore[arg-type]
    return sorted(found.column("row").to_pylist())


def test_three_processes_clean_at_once(table: Table) -> None:
    """What is left is exactly what is needed, and the log begins at a checkpoint."""
    uri = table.ports.uri
    dry = run("clean", uri, "--dry-run", *ALL)
    assert len(files(table)) > 50
    cleaners = [start("clean", uri, *ALL) for _ in range(3)]
    assert all(answer(cleaner)["retained_from"] for cleaner in cleaners)
    run("clean", uri, *ALL)
    assert len(dry["segments"]) > 40  # type: ignore[arg-type]
    assert files(table) == needed(table)
    assert not table.state().pending_delete
    assert EventLog(table.ports.storage).first() >= 32
    assert rows(table) == list(range(50))
    assert rows(table, tag="early") == [0, 1, 2]
    with pytest.raises(VersionExpired):
        table.snapshot(version=5)
    table.append(pa.table({"at": [7], "row": [50]}, SCHEMA))
    assert rows(table) == list(range(51))


def test_the_defaults_keep_a_young_table_whole(table: Table) -> None:
    """Within 24 hours every version can be read, and no file is called an orphan."""
    before = files(table)
    cleaned = run("clean", table.ports.uri)
    assert (cleaned["segments"], cleaned["orphans"], cleaned["log_files"]) == ([], [], [])
    assert cleaned["young"] == 1
    assert files(table) == before
    assert rows(table, version=5) == [0, 1, 2, 3, 4]


def test_tags_from_the_command_line(table: Table) -> None:
    """A name is set, listed and taken away; the log's commands work when event 0 is gone."""
    uri = table.ports.uri
    run("tag", uri, "late", "--version", "9")
    listed = run("tag", uri, "--list")
    assert listed["tags"] == [{"name": "early", "version": 3}, {"name": "late", "version": 9}]
    run("tag", uri, "early", "--delete")
    run("clean", uri, *ALL)
    assert rows(table, tag="late") == list(range(9))
    earlier = run("table", "timeline", uri, "--limit", "0")["earlier"]
    assert earlier == EventLog(table.ports.storage).first()
    run("table", "describe", uri)
