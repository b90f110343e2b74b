"""How soon a commit is compacted, on a real Airflow of its own, by two ways of making the DAGs.

1. ``fleet``: ``fleet_dags`` for a folder of tables. ``table``: ``compaction_dags`` for one table,
   scheduled on ``commits_asset``. Both with a ZooKeeper, and the four components of Airflow with
   SQLite and LocalExecutor. The planner's sweep is an hour away: only the wake-up starts it.
2. Each round appends to one table, which makes a compaction due, and waits until that is completed,
   and until all runs have ended, also of the planner that it wakes again. The next round begins
   after a pause, as the trigger fires at most once in five seconds.
3. The times are those of Airflow's database and of the table's log: the wake-up is stored, the
   planner's task begins and ends, the compaction's task begins, its plan begins and is completed.
   Reported are medians and the 95th percentile of the seconds since the commit, and the median
   from one step to the next.
4. Python keeps its bytecode, as after an installation: else each task compiles what it imports.

Goal: the plan is completed within 6 s, at the median.

Usage: ``python benchmarks/fleet_latency.py [--ways fleet,table] [--quick] [--commits N]
[--tables N] [--json]``.
"""

import argparse
import json
import os
import sqlite3
import statistics
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from operator import sub
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pyarrow as pa

from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper
from airflow_provider_segtable.core.log.families.plan_events import PlanCompleted, PlanInflight
from airflow_provider_segtable.core.time import SECOND_US
from airflow_provider_segtable.library.table import Table
from tests.support.airflow_api import poll
from tests.support.airflow_stack import AirflowStack

GOAL_S = 6.0
PAUSE_S = 6.0
PATIENCE_S = 300.0
SCHEMA = pa.schema([("time", pa.timestamp("us", tz="UTC")), ("n", pa.int64())])
FLEET = "[properties]\ncompaction.min_segments = 2\n[groups.all]\ntables = ['*']\n"
FLEET_DAGS = """
from pathlib import Path
from airflow_provider_segtable.dag_factory import fleet_dags

fleet_dags(Path(__file__).with_name("fleet.toml"), name="lake", schedule=%r, upkeep=None)
"""
TABLE_DAGS = """
from airflow.sdk import AssetOrTimeSchedule, CronTriggerTimetable
from airflow_provider_segtable.dag_factory import compaction_dags
from airflow_provider_segtable.triggers.commits import commits_asset

hourly = CronTriggerTimetable(%r, timezone="UTC")
woken = AssetOrTimeSchedule(timetable=hourly, assets=[commits_asset(%r)])
compaction_dags(table="table_000", name="lake", schedule=woken)
"""
WAYS = ("fleet", "table")
POLICY = {"compaction.min_segments": "2"}
HOURLY = "{} * * * *"
PLANNER, MINOR = "segtable_planner__lake", "segtable_minor__lake"
STEPS = (
    *("wake-up stored", "planner's task begins", "planner's task ends"),
    *("compaction's task begins", "plan in flight", "plan completed"),
)
THE_GOAL = STEPS[-1]


def main(argv: list[str] | None = None) -> int:
    """Measure, and print the steps; 1 if the goal is missed, except with ``--quick``."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="one commit: does it still work?")
    parser.add_argument("--commits", type=int, default=20)
    parser.add_argument("--tables", type=int, default=20)
    parser.add_argument("--ways", default=",".join(WAYS))
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(argv)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # of all processes that are begun here
    commits, tables = (1, 2) if asked.quick else (asked.commits, asked.tables)
    missed = False
    for way in asked.ways.split(","):
        with tempfile.TemporaryDirectory(prefix="segtable-latency-") as folder:
            rounds = measured(Path(folder), way, commits, tables if way == "fleet" else 1)
        missed |= reported(way, rounds, as_json=asked.json) > GOAL_S
    return int(not asked.quick and missed)


def reported(way: str, rounds: Sequence[Mapping[str, float]], *, as_json: bool) -> float:
    """Print the steps of a way, and return the median of the last one."""
    found = {step: [each[step] for each in rounds] for step in STEPS}
    median = {step: statistics.median(values) for step, values in found.items()}
    if as_json:
        sys.stdout.write(json.dumps({"way": way, "seconds": found, "median": median}) + "\n")
        return median[THE_GOAL]
    before = dict.fromkeys(STEPS, [0.0] * len(rounds))
    before |= {step: found[last] for last, step in pairwise(STEPS)}
    sys.stdout.write(f"{way}: {len(rounds)} commits; goal {GOAL_S:g} s\n")
    for step, values in found.items():
        high = sorted(values)[max(0, round(0.95 * len(values)) - 1)]
        own = statistics.median(map(sub, values, before[step]))
        sys.stdout.write(
            f"{step:26} median {median[step]:6.2f} s   p95 {high:6.2f} s   its own {own:6.2f} s\n"
        )
    return median[THE_GOAL]


def measured(folder: Path, way: str, commits: int, tables: int) -> list[Mapping[str, float]]:
    """Return the seconds since the commit of each step, for each commit."""
    root, dags = folder / "tables", folder / "dags"
    dags.mkdir()
    (dags / "fleet.toml").write_text(FLEET)
    far = HOURLY.format((datetime.now(UTC).minute - 2) % 60)
    text = FLEET_DAGS % far if way == "fleet" else TABLE_DAGS % (far, str(root / "table_000"))
    (dags / "lake.py").write_text(text)
    with EmbeddedZooKeeper(folder / "zookeeper") as zookeeper:
        made = [table_at(root / f"table_{n:03}", zookeeper.address) for n in range(tables)]
        place = {"conn_type": "segtable", "host": str(root)}
        connection = json.dumps({**place, "extra": {"zookeeper": zookeeper.address}})
        env = {"AIRFLOW_CONN_SEGTABLE_DEFAULT": connection}
        with AirflowStack(folder / "home", dags, env) as airflow:
            airflow.unpause(MINOR)
            airflow.unpause(PLANNER)
            poll(lambda: _woken(airflow, None if way == "fleet" else made[0]), PATIENCE_S)
            return [one_round(airflow, made[n % tables]) for n in range(commits)]


def _woken(airflow: AirflowStack, table: Table | None) -> bool | None:
    """Return whether the planner was woken: a fleet's at the trigger's start, by a commit else."""
    if table is not None:
        append(table)
        time.sleep(PAUSE_S)
    found = [run for run in airflow.runs(PLANNER) if run.run_id.startswith("asset_triggered")]
    return any(run.ended for run in found) or None


def table_at(place: Path, zookeeper: str) -> Table:
    """Return a new table with one small segment."""
    table = Table.create(
        str(place),
        schema=SCHEMA,
        time_column="time",
        granularity="year",
        properties=POLICY,
        zookeeper=zookeeper,
    )
    append(table)
    return table


def append(table: Table) -> None:
    """Append a small segment."""
    table.append(pa.table([[datetime(2026, 1, 1, tzinfo=UTC)], [1]], schema=SCHEMA))


def one_round(airflow: AirflowStack, table: Table) -> Mapping[str, float]:
    """Append to a table, and return when each step followed, in seconds."""
    time.sleep(PAUSE_S)
    dags = (PLANNER, MINOR)
    poll(
        lambda: all(run.ended for dag in dags for run in airflow.runs(dag)[-4:]) or None, PATIENCE_S
    )
    log = table.ports.log
    append(table)
    state = log.load()
    committed, first = state.time, state.n + 1

    def completed() -> tuple[int, int] | None:
        events = list(log.events(first))
        begun = [each.time for each in events if isinstance(each.action, PlanInflight)]
        ended = [each.time for each in events if isinstance(each.action, PlanCompleted)]
        return (begun[0], ended[0]) if ended else None

    found = poll(completed, PATIENCE_S)
    if found is None:
        raise SystemExit(
            f"no compaction of {table.ports.uri} within {PATIENCE_S:g} s of its commit"
        )
    since = datetime.fromtimestamp(committed / SECOND_US, UTC) - timedelta(milliseconds=1)
    steps = (*times_of(airflow.home / "airflow.db", since), *found)
    return {step: (at - committed) / SECOND_US for step, at in zip(STEPS, steps, strict=True)}


def times_of(database: Path, since: datetime) -> tuple[int, int, int, int]:
    """Return the times of Airflow's steps since a commit, in microseconds."""
    text = since.strftime("%Y-%m-%d %H:%M:%S.%f")
    woken = "SELECT min(timestamp) FROM asset_event WHERE timestamp > ?"
    begun = "SELECT min(start_date) FROM task_instance WHERE dag_id = ? AND start_date > ?"
    ended = "SELECT min(end_date) FROM task_instance WHERE task_id = 'plan' AND start_date > ?"
    asked = ((woken, [text]), (begun, [PLANNER, text]), (ended, [text]), (begun, [MINOR, text]))
    with closing(sqlite3.connect(database, timeout=60)) as connection:
        rows = [connection.execute(*each).fetchone()[0] for each in asked]
    found = [datetime.fromisoformat(row).replace(tzinfo=UTC) for row in rows]
    event, planner, planned, minor = (round(at.timestamp() * SECOND_US) for at in found)
    return event, planner, planned, minor


if __name__ == "__main__":
    raise SystemExit(main())
