"""What `make fleet` judges by finds each thing that it is there to find."""

from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np

from airflow_provider_segtable.coordination.memory import MemoryService
from airflow_provider_segtable.core.log.families.plan_events import PlanRequested
from airflow_provider_segtable.core.time import MINUTE_US
from airflow_provider_segtable.planning.fleet.fleet_file import read_fleet
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compaction import compact
from airflow_provider_segtable.services.planner import plan_table
from airflow_provider_segtable.table.table import Table, create_table
from tests.stress.fleet.lake import SCHEMA, Lake, carry_out, expected, fleet_file, found
from tests.stress.fleet.verdict import (
    PlanLife,
    TableStory,
    lost_or_twice,
    most_at_once,
    over_bytes,
)
from tests.support.in_memory import context_in_memory, defined_by


def life(minute: int, size: int, until: int | None = None) -> PlanLife:
    """Return a plan that is requested in a minute, and may end in another one."""
    ended = None if until is None else until * MINUTE_US
    at = minute * MINUTE_US
    return PlanLife(
        table="t", plan=f"p{minute}", kind="minor", size=size, fed=at, requested=at, ended=ended
    )


def test_each_hour_is_held_against_the_budget() -> None:
    """A window slides; a plan that is larger than the budget may be alone in it."""
    assert not [*over_bytes("t", [life(0, 6), life(59, 4), life(60, 6)], 10)]
    assert len([*over_bytes("t", [life(0, 6), life(59, 5), life(90, 6)], 10)]) == 2
    assert not [*over_bytes("t", [life(0, 60), life(60, 60)], 10)]


def test_plans_at_once_are_counted() -> None:
    """One that ends makes room at the same moment; one that never ended is pending still."""
    assert most_at_once([life(0, 1, until=5), life(5, 1, until=9), life(9, 1)]) == 1
    assert most_at_once([life(0, 1), life(5, 1, until=9), life(8, 1, until=9)]) == 3


def test_the_story_of_a_table_is_its_log() -> None:
    """Commits by id, and each plan from its newest input to its end; a second request is found."""
    ports = context_in_memory(MemoryService())
    create_table(ports, defined_by(SCHEMA, properties={"compaction.min_segments": "2"}))
    for turn in range(5):
        carry_out(Table(ports), "changed", turn, f"w-{turn}")
    plan_table(ports)
    (pending,) = ports.log.load().pending_plans()
    compact(ports, [pending.plan.id], in_process(ports.files))
    events = [*ports.log.events(0)]
    story = TableStory("t").read(events)
    assert not story.problems
    assert [(each.plan, each.completed) for each in story.lives] == [(pending.plan.id, True)]
    assert story.lives[0].fed <= story.lives[0].requested
    assert np.array_equal(found(Table(ports)), expected("changed", range(5)))
    assert not [*lost_or_twice("w", range(5), story.commits, "t")]
    assert len([*lost_or_twice("w", range(6), story.commits + Counter({"w-1": 1}), "t")]) == 2
    (at,) = (n for n, each in enumerate(events) if isinstance(each.action, PlanRequested))
    again = [*events[: at + 1], replace(events[at], n=events[at].n + 1)]
    assert "was requested while pending" in TableStory("t").read(again).problems[0]


def test_the_file_of_the_lake_fits_its_tables() -> None:
    """It is valid, and has a group for each table."""
    lake = Lake(root=Path("lake"), tables=200, busy=20, broken=5)
    fleet = read_fleet(fleet_file(lake), "fleet.toml")
    names = (*lake.busy_names, *lake.still_names, *lake.broken_names)
    assert len(set(names)) == lake.tables
    assert all(fleet.holds(name) for name in names)
