"""Random logs under simulated plans of all kinds: each state is sound, and no row is lost."""

from dataclasses import replace
from random import Random

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.log.events import Event
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.log.plan import PlanStatus
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import ChunkKey, Segment
from airflow_provider_segtable.core.time import DAY_US, HOUR_US, SECOND_US, Granularity
from airflow_provider_segtable.planning.fleet.simulated_table import begun, ended, replayed
from airflow_provider_segtable.planning.properties import Policy
from airflow_provider_segtable.planning.table_plan import plan_all
from tests.examples import examples
from tests.support.builders import BASE, DEFINITION, created, first

HOURS = 6
START = BASE - 10 * DAY_US
POLICIES = (
    Policy(min_segments=2, target_size=5_000),
    Policy(min_segments=3, semi_major_unclustered=0.0, target_size=3_000, clustering="carrier"),
    Policy(min_segments=2, major_granularity="day", target_size=4_000, major_after_minutes=0),
)


class Log:
    """The appends of a log; each knows only the ids of its own."""

    def __init__(self, draw: Random) -> None:
        self.draw = draw
        self.numbers: dict[int, int] = {}
        self.rows = 0

    def append(self, n: int) -> Event:
        """Return an event with one to three files, as the log has them."""
        segments = tuple(self._file() for _ in range(self.draw.randint(1, 3)))
        self.rows += sum(each.rows for each in segments)
        action, at = Appended(segments=segments), BASE + n * SECOND_US
        return Event(n=n, time=at, commit=f"log-{n}", author="writer", action=action)

    def _file(self) -> Segment:
        hour = self.draw.randrange(HOURS)
        number = self.numbers[hour] = self.numbers.get(hour, -1) + 1
        interval = Granularity.HOUR.chunk(START + hour * HOUR_US)
        rows = self.draw.randint(1, 40)
        made = first(number, rows=rows, size=100 * rows, chunk=ChunkKey(interval, BASE))
        return replace(made, time_min=interval.start + self.draw.randrange(HOUR_US // 2))


def visible_rows(state: State) -> int:
    return sum(each.rows for each in state.timeline.visible_summaries().values())


@given(st.integers(0, 2**32), st.sampled_from(POLICIES), st.integers(4, 25))
@examples(40)
def test_simulated_plans_keep_every_row_and_leave_sound_states(
    seed: int, policy: Policy, steps: int
) -> None:
    """Whatever is appended while they run; what they claim has ended in the end."""
    draw = Random(seed)
    log = Log(draw)
    state = created(replace(DEFINITION, granularity=Granularity.HOUR))
    running: list[str] = []
    for n in range(1, steps):
        at = BASE + n * SECOND_US
        following = replayed(state, log.append(n))
        assert following is not None
        state = following
        if draw.random() < 0.6:
            for plan in plan_all(state, policy, at + DAY_US).chosen:
                state = begun(state, plan, at)
                running.append(plan.id)
        draw.shuffle(running)
        while running and draw.random() < 0.5:
            state = ended(state, running.pop(), policy.target_size, at)
        assert not [*violations(state)]
        assert visible_rows(state) == log.rows
    for plan_id in running:
        state = ended(state, plan_id, policy.target_size, state.time)
    assert not [*violations(state)]
    assert visible_rows(state) == log.rows
    assert {each.status for each in state.plans.values()} <= {PlanStatus.COMPLETED}
