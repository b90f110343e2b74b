"""A person asks for compaction: what is refused, and each kind from the request to its result."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from airflow_provider_segtable.core.errors import InvalidInput, SchemaMismatch
from airflow_provider_segtable.core.log.group_plans import SemiMajorPlan
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.log.plan import PlanState
from airflow_provider_segtable.core.time import DAY_US, Granularity, Interval
from airflow_provider_segtable.planning.properties import Policy
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compact_table import execution_order
from airflow_provider_segtable.services.compaction import Ended, compact
from airflow_provider_segtable.services.planner import plan_table
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.table import Table
from tests.support.clock import FakeClock
from tests.unit.services.conftest import HOUR_US, contents, rows

ROWS = [0, 1, 2, 3, 100, 101, 102, 103]
FIRST_HOUR = Interval(0, HOUR_US)
DAY = Interval(0, DAY_US)


def carried_out(ports: TableContext, asked: Sequence[PlanState]) -> None:
    """Carry plans out; each must be completed, and the state sound."""
    results = compact(ports, [known.plan.id for known in asked], in_process(ports.files))
    assert [(r.ended, r.message) for r in results if r.ended is not Ended.COMPLETED] == []
    assert len(results) == len(asked)
    assert list(violations(Table(ports).state())) == []


def chunks(ports: TableContext) -> list[Interval]:
    return [chunk.interval for chunk in Table(ports).state().timeline.visible_chunks()]


@pytest.mark.parametrize(
    ("kind", "wish", "words"),
    [
        ("full", {}, "'full' is not a kind of compaction: write minor, semi-major, major"),
        ("minor", {"granularity": "day"}, r"minor compaction cannot repartition time.*use a major"),
        ("semi-major", {"granularity": "day"}, "semi-major compaction cannot repartition time"),
        (
            "major",
            {"granularity": "decade"},
            "'decade' is not a granularity: write one of hour, day",
        ),
        ("minor", {"clustering": "row"}, "minor compaction keeps the order of rows"),
        ("major", {"clustering": "zorder(row)"}, r"zorder\(row\).*over 1 column:"),
        ("semi-major", {"clustering": [1]}, r"clustering \[1\] is not an order: write columns as"),
        ("major", {"rollup": "perfect"}, "not a rollup table, so perfect rollup is impossible"),
        ("major", {"rollup": "total"}, "'total' is neither best-effort nor perfect"),
        (
            "major",
            {"interval": Interval(DAY_US, 2 * DAY_US)},
            "has no rows in .*: there is nothing",
        ),
    ],
)
def test_nonsense_is_refused_before_anything_is_written(
    ports: TableContext, kind: str, wish: dict[str, object], words: str
) -> None:
    """The message shows the value and the way out, and the log stays as it is."""
    version = Table(ports).state().n
    with pytest.raises(InvalidInput, match=words):
        request(ports, kind, **wish)  # type: ignore[arg-type]
    assert Table(ports).state().n == version


def test_an_unknown_column_is_named(ports: TableContext) -> None:
    """An order of columns that the table does not have is a mistake in the schema."""
    with pytest.raises(SchemaMismatch, match=r"no column 'carrier' for the clustering.*at, row"):
        request(ports, "semi-major", clustering="row,carrier")


def test_nothing_to_compact_says_why(ports: TableContext) -> None:
    """After everything was joined, asking again tells what is left and why it is left."""
    carried_out(ports, request(ports, "minor"))
    with pytest.raises(InvalidInput, match=r"nothing to compact for a minor.*alone: no small"):
        request(ports, "minor")


def test_minor_now_whatever_the_policy_says(ports: TableContext) -> None:
    """Counts and ages do not matter; the author is named in the reason."""
    policy = Policy(min_segments=99, skip_offset_minutes=10.0**9)
    asked = request(ports, "minor", interval=FIRST_HOUR, policy=policy)
    assert [known.plan.chunk.interval for known in asked] == [FIRST_HOUR]
    assert "asked for by first" in asked[0].plan.reason
    carried_out(ports, asked)
    assert len(Table(ports).snapshot().segments()) == 5
    assert contents(ports) == ROWS


def test_asked_twice_is_planned_once(ports: TableContext, other: TableContext) -> None:
    """Whoever asks for what is pending already is given that."""
    mine = request(ports, "major")
    theirs = request(other, "major")
    assert [known.plan.id for known in mine] == [known.plan.id for known in theirs]
    assert len(Table(ports).state().plans) == 2


def test_semi_major_sorts_in_place(ports: TableContext) -> None:
    """A chunk is sorted by the wanted columns under its version; earlier versions stay readable."""
    before = Table(ports).state().n
    version = Table(ports).state().timeline.visible_chunks()[0].version
    asked = request(ports, SemiMajorPlan.kind, clustering=["row"])  # or "row"
    assert [known.plan.clustering for known in asked] == ["row", "row"]
    carried_out(ports, asked)
    segments = Table(ports).snapshot().segments()
    assert [(s.clustering, s.id.version) for s in segments] == [("row", version)] * 2
    assert contents(ports) == ROWS
    assert len(Table(ports).snapshot(version=before).segments()) == 8
    with pytest.raises(InvalidInput, match="sorted by row already, all in one piece"):
        request(ports, SemiMajorPlan.kind, clustering="row")


def test_major_starts_a_new_version(ports: TableContext) -> None:
    """Each chunk gets one core set at a higher version; what was before can be read still."""
    before = Table(ports).state()
    carried_out(ports, request(ports, "major"))
    segments = Table(ports).snapshot().segments()
    assert [s.shard.core for s in segments] == [1, 1]
    assert min(s.id.version for s in segments) > before.base_version
    assert contents(ports) == ROWS
    assert len(Table(ports).snapshot(version=before.n).segments()) == 8


def test_hours_become_a_day_and_hours_again(ports: TableContext) -> None:
    """Time is cut anew both ways; every version in between shows the same rows."""
    hours = Table(ports).state().n
    (asked,) = request(ports, "major", granularity="day", interval=FIRST_HOUR)
    assert (asked.plan.region, asked.plan.granularity) == (DAY, Granularity.DAY)
    carried_out(ports, [asked])
    assert chunks(ports) == [DAY]
    day = Table(ports).state().n
    Table(ports).append(rows(4))
    assert chunks(ports) == [DAY]
    (asked,) = request(ports, "major", granularity=Granularity.HOUR)
    assert asked.plan.region == DAY
    carried_out(ports, [asked])
    assert FIRST_HOUR in chunks(ports)
    assert Table(ports).state().overrides == ()
    assert contents(ports) == sorted([*ROWS, 4, 104])
    for version in (hours, day):
        earlier = Table(ports).snapshot(version=version)
        assert sorted(earlier.to_arrow().column("row").to_pylist()) == ROWS


def test_major_takes_over_what_is_pending(ports: TableContext) -> None:
    """A major compaction may be asked for over pending plans; the planner then gives those up."""
    minors = [launch.plan_id for launch in plan_table(ports).launches]
    carried_out(ports, request(ports, "major"))
    run = plan_table(ports)
    assert set(run.aborted) == set(minors)
    assert all("was replaced by plan major-" in reason for reason in run.aborted.values())
    assert run.launches == ()


def test_smaller_kinds_take_their_turn_first(ports: TableContext) -> None:
    """All pending plans of a table in one go: the minor ones, then the major one over them."""
    minors = {launch.plan_id for launch in plan_table(ports).launches}
    majors = {known.plan.id for known in request(ports, "major")}
    state = Table(ports).state()
    found = list(execution_order(state, [*majors, *minors]))
    assert [set(turn.plan_ids) for turn in found] == [minors, majors]
    assert [turn.wait_s for turn in found] == [0.0, 600.0]
    for turn in found:
        carried_out(ports, [state.plans[plan_id] for plan_id in turn.plan_ids])
    assert contents(ports) == ROWS


def test_semi_major_leaves_claimed_segments_alone(ports: TableContext) -> None:
    """Where another plan has all segments, the way out is to carry that one out first."""
    plan_table(ports)
    with pytest.raises(
        InvalidInput, match=r"claimed by pending plan minor-.*run the pending plans"
    ):
        request(ports, "semi-major", clustering="row")


def test_the_planner_runs_all_three_in_turn(ports: TableContext) -> None:
    """Joined while young, sorted when there is enough, replaced by a new version when cold."""
    policy = Policy(min_segments=4, clustering="row", semi_major="off", target_size=10**6)

    def run(policy: Policy) -> set[str]:
        launches = plan_table(ports, policy=policy).launches
        known = Table(ports).state().plans
        carried_out(ports, [known[launch.plan_id] for launch in launches])
        return {launch.kind for launch in launches}

    assert run(policy) == {"minor"}
    assert run(replace(policy, semi_major="auto", target_size=1)) == {"semi-major"}
    Table(ports).append(rows(4))
    assert run(policy) == set()
    assert isinstance(ports.clock, FakeClock)
    ports.clock.advance(2 * 86_400)
    assert run(policy) == {"major"}
    assert run(policy) == set()
    assert contents(ports) == sorted([*ROWS, 4, 104])
