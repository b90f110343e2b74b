"""The minor planner: what it picks, in which order, and why it leaves the rest."""

from dataclasses import replace

import pytest

from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log.families.append_events import Appended, Voided
from airflow_provider_segtable.core.log.families.plan_events import PlanAborted, PlanRequested
from airflow_provider_segtable.core.log.group_plans import MinorPlan
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import ChunkKey, Segment
from airflow_provider_segtable.core.time import DAY_US, MINUTE_US, Granularity, Interval
from airflow_provider_segtable.core.timeline import PackedChunk
from airflow_provider_segtable.planning import selection
from airflow_provider_segtable.planning.properties import Policy
from airflow_provider_segtable.planning.selection import Planned
from airflow_provider_segtable.planning.table_plan import plan_all
from airflow_provider_segtable.table.log.checkpoint import read_checkpoint, write_checkpoint
from airflow_provider_segtable.table.log.checkpoint_chunks import CheckpointChunks
from tests.support.builders import BASE, CHUNK, after, created, first
from tests.unit.planning.one_kind import plan_of

POLICY = Policy(target_size=1000, min_segments=4)
NOW = BASE + MINUTE_US


def table(*segments: Segment) -> State:
    return after(created(), Appended(segments=segments))


def sized(*sizes: int, chunk: ChunkKey = CHUNK) -> tuple[Segment, ...]:
    return tuple(first(p, size=size, chunk=chunk) for p, size in enumerate(sizes))


def partitions(planned: Planned) -> list[list[int]]:
    return [[i.partition for i in plan.inputs] for plan in planned.chosen]


def reasons(planned: Planned) -> str:
    return "\n".join(skipped.reason for skipped in planned.skipped)


def test_enough_small_neighbours_are_joined() -> None:
    """Four adjacent small segments make one plan with a reason people can read."""
    planned = plan_of(MinorPlan, table(*sized(10, 10, 10, 10)), POLICY, NOW)
    assert partitions(planned) == [[0, 1, 2, 3]]
    assert planned.chosen[0].reason == ("4 small segments of 10 B -> 1 of 40 B: at least 4 of them")


def test_too_few_wait_until_they_are_old() -> None:
    """Three small segments wait, and say for what; after an hour they are joined."""
    state = table(*sized(10, 10, 10))
    waiting = plan_of(MinorPlan, state, POLICY, NOW)
    assert partitions(waiting) == []
    assert "only 3 adjacent small segments of 4, oldest 1 min of 60" in reasons(waiting)
    assert plan_all(state, POLICY, NOW).due == BASE + 60 * MINUTE_US
    assert plan_all(state, replace(POLICY, min_segments=3, major="off"), NOW).due is None
    assert partitions(plan_of(MinorPlan, state, POLICY, BASE + 60 * MINUTE_US)) == [[0, 1, 2]]


def test_few_that_fill_an_output_are_joined() -> None:
    """Two segments of half the target each need no third."""
    assert partitions(plan_of(MinorPlan, table(*sized(500, 500)), POLICY, NOW)) == [[0, 1]]


def test_large_segments_split_runs() -> None:
    """A large segment is left alone and its neighbours are not joined across it."""
    planned = plan_of(MinorPlan, table(*sized(300, 300, 300, 900, 300, 300, 300)), POLICY, NOW)
    assert sorted(partitions(planned)) == [[0, 1, 2], [4, 5, 6]]
    assert "large enough: 900 B, 90 % of the target" in reasons(planned)


def test_outputs_stay_near_the_target() -> None:
    """A long run is cut into batches that fill one output each, none oversized."""
    planned = plan_of(MinorPlan, table(*sized(*[100] * 40)), POLICY, NOW)
    assert {sum(100 for _ in inputs) for inputs in partitions(planned)} == {1000}
    assert len(planned.chosen) == 4


def test_few_new_rows_never_rewrite_a_large_neighbour() -> None:
    """Size tiers: a group over four times the rest of its batch is left out."""
    planned = plan_of(MinorPlan, table(*sized(600, 5, 5, 5, 5)), POLICY, NOW)
    assert partitions(planned) == [[1, 2, 3, 4]]


def test_holes_separate_and_voids_do_not() -> None:
    """An allocated id may still be published, so its neighbours are not adjacent."""
    four = tuple(first(p, size=10) for p in (0, 1, 3, 4))
    assert partitions(plan_of(MinorPlan, table(*four), POLICY, NOW)) == []
    voided = after(table(*four), Voided(ids=(CHUNK.segment(2),), reason="dead"))
    assert partitions(plan_of(MinorPlan, voided, POLICY, NOW)) == [[0, 1, 3, 4]]


def test_claimed_and_resting_inputs_are_left_alone() -> None:
    """Inputs of a pending plan are claimed; those of an aborted one rest, then come back."""
    state = table(*sized(10, 10, 10, 10))
    plan = plan_of(MinorPlan, state, POLICY, NOW).chosen[0]
    pending = after(state, PlanRequested(plan=plan))
    again = plan_of(MinorPlan, pending, POLICY, NOW)
    assert again.chosen == ()
    assert f"claimed by pending plan {plan.id}" in reasons(again)
    aborted = after(pending, PlanAborted(plan_id=plan.id, attempt=None, reason="5 workers died"))
    assert "rests 60 min" in reasons(plan_of(MinorPlan, aborted, POLICY, NOW))
    later = plan_of(MinorPlan, aborted, POLICY, NOW + 61 * MINUTE_US)
    assert later.chosen[0].id == plan.id


def test_budget_takes_the_best_first() -> None:
    """Under a budget, most segments removed per byte wins; the rest says why it waits."""
    february = ChunkKey(Interval.parse("2013-02-01/2013-03-01"), CHUNK.version)
    state = table(*sized(400, 400), *sized(10, 10, 10, 10, chunk=february))
    policy = Policy(target_size=1000, min_segments=4, max_plans=1)
    planned = plan_of(MinorPlan, state, policy, NOW)
    assert [plan.chunk for plan in planned.chosen] == [february]
    assert "over the budget of 1 plan a run" in reasons(planned)


def test_hot_chunks_can_be_skipped() -> None:
    """With an offset, chunks that end close to now are left alone."""
    policy = Policy(
        target_size=1000, min_segments=4, skip_offset_minutes=10, skip_offset_from="now"
    )
    just_ended = CHUNK.interval.end + 5 * MINUTE_US
    planned = plan_of(MinorPlan, table(*sized(10, 10, 10, 10)), policy, just_ended)
    assert planned.chosen == ()
    assert "ends less than 10 min before now" in reasons(planned)


def test_the_offset_counts_from_the_latest_data() -> None:
    """A table that is loaded years late keeps its hot end, by its latest row."""
    february = ChunkKey(Interval.parse("2013-02-01/2013-03-01"), CHUNK.version)
    third = CHUNK.interval.end + 2 * DAY_US
    latest = (replace(s, time_max=third) for s in sized(10, 10, 10, 10, chunk=february))
    state = table(*sized(10, 10, 10, 10), *latest)
    policy = replace(POLICY, min_segments=4, skip_offset_minutes=1440, major="off")
    planned = plan_all(state, policy, NOW)
    assert [plan.chunk for plan in planned.chosen] == [CHUNK]
    assert "before the latest event time, 2013-02-03T00:00:00Z" in reasons(planned)
    assert plan_all(state, replace(policy, skip_offset_minutes=2881), NOW).chosen == ()
    by_clock = plan_all(state, replace(policy, skip_offset_from="now"), NOW)
    assert {plan.chunk for plan in by_clock.chosen} == {CHUNK, february}


def test_without_an_offset_the_running_chunk_is_compacted() -> None:
    """An offset of none leaves nothing alone, also not a chunk that is not over yet."""
    running = CHUNK.interval.start + 2 * DAY_US
    segments = (replace(s, created=running) for s in sized(*[10] * 12))
    assert len(plan_of(MinorPlan, table(*segments), POLICY, running).chosen) == 1


def test_equal_states_give_equal_plans() -> None:
    """Planning is a function: the same state plans the same, ids included."""
    state = table(*sized(*[100] * 12))
    assert plan_of(MinorPlan, state, POLICY, NOW) == plan_of(MinorPlan, state, POLICY, NOW)


def test_policy_is_read_from_properties() -> None:
    """Properties override defaults; other prefixes are not its business."""
    policy = Policy.read({"compaction.target_size": "1000", "owner": "flights team"})
    assert policy == Policy(target_size=1000)


@pytest.mark.parametrize(
    ("properties", "words"),
    [
        ({"compaction.taget_size": "1"}, "'compaction.taget_size' is not a property"),
        ({"compaction.target_size": "big"}, "'big' is not a whole number"),
        ({"compaction.min_segments": "1"}, "min_segments = 1 is too low: at least 2"),
    ],
)
def test_wrong_properties_are_refused_by_name(properties: dict[str, str], words: str) -> None:
    """A typo never silently means a default."""
    with pytest.raises(InvalidInput, match=words):
        Policy.read(properties)


def test_a_large_table_is_examined_only_where_plans_are_chosen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of 30 equal chunks the two earliest win; no other is decoded, and all have a reason."""
    months = Granularity.MONTH
    chunks = [ChunkKey(months.chunk(BASE), BASE)]
    while len(chunks) < 30:
        chunks.append(ChunkKey(months.chunk(chunks[-1].interval.end), BASE))
    state = table(*(s for chunk in chunks for s in sized(*[8] * 10, chunk=chunk)))
    packed = read_checkpoint(write_checkpoint(state))
    monkeypatch.setattr(selection, "LOOKS", 50)
    planned = plan_all(packed, replace(POLICY, max_plans=2), NOW)
    assert [plan.chunk for plan in planned.chosen] == chunks[:2]
    some = next(packed.timeline.chunks())
    assert isinstance(some, PackedChunk)
    assert isinstance(some.source, CheckpointChunks)
    assert some.source.chunk.cache_info().misses == 2
    assert {skipped.chunk for skipped in planned.skipped} >= set(chunks[2:])
    assert "over the budget of 2 plans a run: 10 segments of 80 B in all" in reasons(planned)
