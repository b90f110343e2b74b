"""Random tables whose chunks do not nest in the cut that the policy wants, replaced for a while.

Weeks do not end where months and years do, so that regions of time grow into each other, and
chunks stick out over the edges of zones. Whatever was appended, replaced and cut anew before, the
planner's answer must be

1. disjoint: no two plans share an instant, and each region cuts no visible chunk apart;
2. complete: a chunk that is not cut as wanted is in just one plan's region, or has a reason;
3. harmless: after each plan every row that was appended is shown, once.
"""

from dataclasses import replace
from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.locks import Generation
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.families.plan_events import PlanRequested
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.log.major_plan import MajorPlan
from airflow_provider_segtable.core.segment import ChunkKey, Shard
from airflow_provider_segtable.core.time import DAY_US, Granularity, parse_instant
from airflow_provider_segtable.planning.properties import Policy
from airflow_provider_segtable.planning.selection import Planned
from tests.examples import examples
from tests.property.test_planning import History, Row
from tests.support.builders import DEFINITION, created
from tests.unit.planning.one_kind import plan_of

FIRST = parse_instant("2018-01-01")
NEAR_EDGES = (0, 25, 27, 30, 55)
"""Days before which weeks, months or both end soon."""


class Weeks(History):
    """A table that is cut by the week at first, over a few months."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        start = self.draw.choice([Granularity.WEEK, Granularity.WEEK, Granularity.MONTH])
        self.state = created(replace(DEFINITION, granularity=start))
        self.wanted()

    def wanted(self) -> None:
        """Want time to be cut in some way from now on."""
        cut = self.draw.choice(["month", "month", "year", "week", "", ""])
        self.policy = Policy(
            target_size=self.draw.choice([500, 5000]),
            major_granularity=cut,
            major_after_minutes=0.0,
            skip_offset_minutes=self.draw.choice([0.0, 0.0, 10 * 1440.0]),
            max_plans=self.draw.choice([1, 64]),
        )

    def append(self) -> None:
        """Append a few rows to some day."""
        self.append_to(self.draw.choice(NEAR_EDGES) + self.draw.randrange(6))

    def append_to(self, day: int) -> None:
        """Append a few rows to a day, counted from the first of January."""
        at = FIRST + day * DAY_US
        chunk = self.state.append_chunk(self.state.layout.chunk(at))
        shard = Shard.first_generation(self.state.id_space(chunk, Generation.FIRST).next)
        shard = replace(shard, core=self.state.timeline.core(chunk))
        rows = [Row(at + k, chunk.segment(shard.partition), k) for k in range(3)]
        assert self.commit(Appended(segments=(self.file(chunk, shard, rows),)))

    def replace_some(self) -> None:
        """Plan, and carry some of the plans out."""
        for plan in self.checked().chosen:
            assert self.commit(PlanRequested(plan=plan)), plan
            if self.draw.random() < 0.8:
                self.finish(plan)
                self.check_rows()

    def checked(self) -> Planned:
        """Ask the planner, and check what it says."""
        found = plan_of(MajorPlan, self.state, self.policy, self.now)
        regions = sorted(plan.interval for plan in found.chosen)
        assert all(a.end <= b.start for a, b in pairwise(regions)), regions
        assert all(skipped.reason for skipped in found.skipped)
        timeline, shown = self.state.timeline, dict[ChunkKey, int]()
        for region in regions:
            for chunk in timeline.visible_chunks(region):
                assert region.encloses(chunk.interval), f"{region} cuts {chunk} apart"
                shown[chunk] = shown.get(chunk, 0) + 1
        waits = [s.chunk.interval for s in found.skipped if s.kind == MajorPlan.kind]
        for chunk in filter(self.needs, timeline.visible_chunks()):
            explained = any(piece.overlaps(chunk.interval) for piece in waits)
            plans = shown.get(chunk, 0)
            assert plans == 1 or (not plans and explained), f"{chunk} is in {plans} plans"
        return found

    def needs(self, chunk: ChunkKey) -> bool:
        """Tell, by brute force, whether a chunk with rows is cut otherwise than wanted."""
        cut = self.policy.cut.granularity
        rows = any(g.segments[0].rows for g in self.state.timeline.visible_groups(chunk))
        return rows and cut is not None and cut.chunk(chunk.interval.start) != chunk.interval

    def check_rows(self) -> None:
        """Every row that was appended and not deleted is shown once."""
        shown = [
            row
            for found in self.state.timeline.lookup()
            for segment in found.segments
            if segment.rows
            for row in self.rows[segment.path]
            if found.interval.holds(row.at) and row not in self.gone
        ]
        left = {row for rows in self.rows.values() for row in rows}.difference(self.gone)
        assert len(shown) == len(left)
        assert set(shown) == left
        assert list(violations(self.state)) == []


@examples(60)
@given(st.integers(0, 2**32), st.integers(3, 25))
def test_regions_are_disjoint_and_no_chunk_is_forgotten(seed: int, steps: int) -> None:
    """Each chunk to be cut anew is in one plan or has a reason, and plans never overlap."""
    table = Weeks(seed)
    for _ in range(steps):
        table.draw.choice([table.append, table.append, table.replace_some])()
        if table.draw.random() < 0.3:
            table.wanted()
    table.idle_us = 0
    table.replace_some()


def test_a_week_that_sticks_into_a_month_hides_none_of_its_rows() -> None:
    """A major compaction over both, that wants no other cut, shows the end of January still."""
    table = Weeks(0)
    table.state = created(replace(DEFINITION, granularity=Granularity.WEEK))
    table.policy = Policy(target_size=500, major_granularity="month", major_after_minutes=0.0)
    table.append_to(2)
    for plan in table.checked().chosen:
        assert table.commit(PlanRequested(plan=plan))
        table.finish(plan)
    for day in (29, 32, 33, 34):
        table.append_to(day)
    table.policy = Policy(target_size=5000, major_after_minutes=0.0)
    (plan,) = table.checked().chosen
    assert table.commit(PlanRequested(plan=plan))
    table.finish(plan)
    table.check_rows()
