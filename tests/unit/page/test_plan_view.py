"""Plans and reasons, and the simulation of other properties."""

from dataclasses import replace

import pytest

from airflow_provider_segtable.core.log.families.plan_events import PlanRequested
from airflow_provider_segtable.core.time import MINUTE_US, SECOND_US
from airflow_provider_segtable.page.held_locks import HeldLocks
from airflow_provider_segtable.page.plan_view import left_alone, plans_of
from airflow_provider_segtable.page.sources import all_below_the_root
from airflow_provider_segtable.page.table_planning import holds, planning_of, with_properties
from airflow_provider_segtable.planning.selection import Code
from airflow_provider_segtable.table.committer import Change, commit
from tests.support.shown_lake import ShownLake
from tests.support.worked_table import NAME, WorkedTable


@pytest.fixture(scope="module")
def worked() -> WorkedTable:
    """Return a table with a past."""
    return WorkedTable()


def test_a_done_plan_has_expectation_and_measure_side_by_side(worked: WorkedTable) -> None:
    """It was to remove 13 files, and did."""
    found = worked.ask("/api/plans")
    (done,) = found["done"]
    assert (done["expected_files_removed"], done["files_removed"]) == (13, 13)
    assert (done["gained"], done["overlap_before"], done["overlap_after"]) == (1.0, 14.0, 1.0)
    assert found["done_total"] == 1


def test_a_plan_that_would_begin_has_gain_and_cost(worked: WorkedTable) -> None:
    """Deleted rows make a compaction worthwhile."""
    (chosen,) = worked.ask("/api/plans")["chosen"]
    assert (chosen["kind"], chosen["segments"], chosen["outputs"]) == ("minor", 4, 1)
    assert chosen["gain"] >= 3.0
    assert "of its rows are deleted" in chosen["reason"]


def test_a_place_that_is_left_has_a_code_and_the_number_that_would_change_it() -> None:
    """Five small files of twelve; a later look would differ."""
    lake = ShownLake(NAME)
    lake.append(NAME, 5)
    answer = lake.browser().get("/api/plans", table=NAME).json()["data"]
    left = {each["code"]: each for each in answer["left"]}
    few = left[Code.TOO_FEW]
    assert few["number"] == {
        "name": "compaction.min_segments",
        "value": 5.0,
        "bound": 12.0,
        "unit": "segments",
    }
    assert few["until"] is not None
    assert "only 5 adjacent small segments of 12" in few["sentence"]
    assert Code.NOT_COLD in left
    assert answer["chosen"] == []


def test_a_reason_names_its_place() -> None:
    """The time chunk and the partitions in it."""
    lake = ShownLake(NAME)
    lake.append(NAME, 1)
    state = lake.tables[NAME].log.load()
    (segment,) = state.timeline.segments()
    planning = planning_of(state, all_below_the_root(), NAME, state.time)
    (alone,) = [each for each in left_alone(planning) if each.code == Code.ALONE]
    assert (alone.places, alone.place.partitions) == (1, "0")
    assert alone.place.interval == str(segment.id.interval)


def test_a_running_plan_has_its_holder_and_the_share_that_is_done() -> None:
    """As its worker reports beside its lock."""
    lake = ShownLake(NAME)
    lake.append(NAME, 14)
    ports = lake.tables[NAME]
    state = ports.log.load()
    planning = planning_of(state, all_below_the_root(), NAME, state.time)
    (plan,) = planning.chosen
    commit(ports, state, Change(action=PlanRequested(plan=plan), commit_id="r"))
    lock = {
        "purpose": plan.id,
        "holder": "host:7",
        "state": "held",
        "progress": {"stage": "0: join", "done": "3 of 12 jobs"},
    }
    state = ports.log.load()
    after = planning_of(state, all_below_the_root(), NAME, state.time)
    held, now = HeldLocks(held=(lock,)), state.time + MINUTE_US
    found = plans_of(state, after, held, now, 10, left_alone(after))
    (pending,) = found.pending
    assert (pending.holder, pending.share, pending.waiting) == ("host:7", 0.25, False)
    assert pending.age_seconds == pytest.approx(60.0, abs=0.1)
    assert found.chosen == []
    assert Code.CLAIMED in {each.code for each in found.left}


def test_a_planning_that_took_long_is_kept_although_the_table_went_on() -> None:
    """One that took a second holds for twenty; a quick one is made anew for each version."""
    lake = ShownLake(NAME)
    lake.append(NAME, 5)
    state = lake.tables[NAME].log.load()
    quick = planning_of(state, all_below_the_root(), NAME, state.time)
    slow = replace(quick, took_s=1.0)
    later, much_later = state.time + 19 * SECOND_US, state.time + 21 * SECOND_US
    assert holds(quick, state.n, later)
    assert not holds(quick, state.n + 1, later)
    assert holds(slow, state.n + 1, later)
    assert not holds(slow, state.n + 1, much_later)


def test_a_simulation_shows_the_plans_that_other_properties_make() -> None:
    """With two files instead of twelve a plan begins; before, the place had a reason."""
    lake = ShownLake(NAME)
    lake.append(NAME, 5)
    body = {"properties": {"compaction.min_segments": "2"}}
    answer = lake.browser().post(f"/api/simulate?table={NAME}", body)
    found = answer.json()["data"]
    difference = found["difference"]
    assert found["before"]["chosen"] == []
    assert [each["segments"] for each in found["after"]["chosen"]] == [5]
    assert difference["properties"] == [
        {"name": "compaction.min_segments", "before": "12", "after": "2"}
    ]
    (begun,) = [each for each in difference["places"] if each["begins"]]
    assert "only 5 adjacent" in begun["before"]
    assert begun["after"].startswith("minor: 5 small segments")
    assert difference["sentence"].startswith("1 plan more over ")
    assert lake.tables[NAME].log.load().n == 5, "a simulation writes nothing"


def test_a_simulation_of_the_same_properties_has_no_difference(worked: WorkedTable) -> None:
    """Nothing begins and nothing ends."""
    state = worked.table.state()
    assert with_properties(state, {}) == state
    answer = worked.browser.post(f"/api/simulate?table={NAME}", {"properties": {}})
    difference = answer.json()["data"]["difference"]
    assert (difference["begun"], difference["dropped"], difference["places"]) == ([], [], [])
    assert difference["sentence"] == "the same plans begin"


@pytest.mark.parametrize(
    ("properties", "message"),
    [
        ({"compaction.min_segment": "2"}, "is not a property"),
        ({"compaction.min_segments": "two"}, "is not a whole number"),
        ({"compaction.clustering": "nowhere"}, "nowhere"),
        ({"compaction.deleted_share": "7"}, "at most 1"),
    ],
)
def test_a_simulation_of_nonsense_is_refused(
    worked: WorkedTable, properties: dict[str, str], message: str
) -> None:
    """As the alteration would be."""
    answer = worked.browser.post(f"/api/simulate?table={NAME}", {"properties": properties})
    assert answer.status_code == 400
    assert message in answer.json()["message"]
