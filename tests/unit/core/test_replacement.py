"""New versions: what is carried over, what hides, what does not balance."""

from dataclasses import replace

import pytest

from airflow_provider_segtable.core.errors import RowsOutOfBalance
from airflow_provider_segtable.core.locks import FencingToken, Generation
from airflow_provider_segtable.core.log.event import Conflict
from airflow_provider_segtable.core.log.families.append_events import Appended, Voided
from airflow_provider_segtable.core.log.families.change_events import RowsChanged
from airflow_provider_segtable.core.log.families.plan_events import (
    PlanCompleted,
    PlanInflight,
    PlanRequested,
    PlanYielded,
)
from airflow_provider_segtable.core.log.fold import admit
from airflow_provider_segtable.core.log.plan import Plan, PlanStatus
from airflow_provider_segtable.core.log.replacement import closed_region, hidden_by_equals
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import ChunkKey, Segment, Shard, roots_of
from airflow_provider_segtable.core.time import (
    DAY_US,
    Granularity,
    GranularityOverride,
    Interval,
    Layout,
)
from tests.support.builders import (
    BASE,
    CHUNK,
    JANUARY,
    after,
    created,
    first,
    major_plan,
    minor_plan,
)

VERSION = BASE + 1_000
TWO = (first(0), first(1))
NEW = ChunkKey(JANUARY, VERSION)
DAY = Interval(JANUARY.start, JANUARY.start + DAY_US)
REST = Interval(DAY.end, JANUARY.end)


def major(granularity: Granularity | None = None) -> Plan:
    return replace(major_plan(TWO, granularity=granularity), id=f"major-{granularity}")


def core(partition: int, size: int, chunk: ChunkKey = NEW, rows: int = 10) -> Segment:
    return replace(
        first(partition, chunk=chunk, rows=rows),
        shard=Shard.first_generation(partition, core=size, base=size if partition < size else 0),
        roots=roots_of(TWO),
    )


def start(plan: Plan, version: int = VERSION) -> PlanInflight:
    return PlanInflight(
        plan_id=plan.id,
        attempt="a1",
        token=FencingToken("e", 1),
        outputs=(),
        inputs=tuple(s.id for s in TWO),
        version=version,
    )


def running(plan: Plan) -> State:
    return after(created(), Appended(segments=TWO), PlanRequested(plan=plan), start(plan))


def done(plan: Plan, *segments: Segment) -> PlanCompleted:
    return PlanCompleted(plan_id=plan.id, attempt="a1", segments=segments)


def test_what_was_appended_meanwhile_gets_an_id_of_the_new_version() -> None:
    """The commit itself carries over: next partition, same file, the footer's id as origin."""
    plan = major()
    state = after(running(plan), Appended(segments=(first(2), first(5))))
    admitted = admit(done(plan, core(0, 2), core(1, 2)), state)
    assert isinstance(admitted, PlanCompleted)
    late = admitted.segments[2:]
    assert [s.id for s in late] == [NEW.segment(2), NEW.segment(3)]
    assert [s.origin for s in late] == [CHUNK.segment(2), CHUNK.segment(5)]
    assert [s.path for s in late] == [first(2).path, first(5).path]
    assert [s.shard.core for s in late] == [2, 2]
    visible = after(state, admitted).timeline.visible_segments()
    assert {s.id.chunk for s in visible} == {NEW}
    assert sum(s.rows for s in visible) == 40


def test_an_append_that_comes_later_still_finds_its_place() -> None:
    """A writer that began before the version changed commits into the new one."""
    plan = major()
    state = after(running(plan), done(plan, core(0, 1, rows=20)))
    admitted = admit(Appended(segments=(first(7),)), state)
    assert isinstance(admitted, Appended)
    (placed,) = admitted.segments
    assert (placed.id, placed.origin, placed.shard.core) == (NEW.segment(1), CHUNK.segment(7), 1)


def test_a_carried_segment_may_be_the_first_of_its_chunk() -> None:
    """Where the compaction wrote nothing, what was appended starts at 0 and has no core set."""
    plan = major(Granularity.DAY)
    second = Interval(DAY.end, DAY.end + DAY_US)
    late = replace(first(2), time_min=second.start, time_max=second.end - 1)
    day = replace(
        core(0, 1, ChunkKey(DAY, VERSION), rows=20), time_min=DAY.start, time_max=DAY.end - 1
    )
    admitted = admit(done(plan, day), after(running(plan), Appended(segments=(late,))))
    assert isinstance(admitted, PlanCompleted)
    carried = admitted.segments[1]
    assert (carried.id, carried.shard.core) == (ChunkKey(second, VERSION).segment(0), 0)


def test_what_was_appended_elsewhere_stays_where_it_is() -> None:
    """Only segments of the region are carried over."""
    plan = major()
    february = first(0, chunk=ChunkKey(Interval(JANUARY.end, JANUARY.end + 28 * DAY_US), BASE))
    state = after(running(plan), Appended(segments=(february,)))
    made = (core(0, 2), core(1, 2))
    assert admit(done(plan, *made), state) == done(plan, *made)


def test_tombstones_hide_what_lies_before_between_and_after() -> None:
    """Each stretch of the region without rows gets one, as old as the newest event."""
    plan = major(Granularity.DAY)
    days = [Interval(JANUARY.start + n * DAY_US, JANUARY.start + (n + 1) * DAY_US) for n in (1, 4)]
    made = [
        replace(core(0, 1, ChunkKey(day, VERSION)), time_min=day.start, time_max=day.end - 1)
        for day in days
    ]
    state = running(plan)
    admitted = admit(done(plan, *made), state)
    assert isinstance(admitted, PlanCompleted)
    dead = admitted.segments[2:]
    assert [s.id.chunk for s in dead] == [
        ChunkKey(Interval(JANUARY.start, days[0].start), VERSION),
        ChunkKey(Interval(days[0].end, days[1].start), VERSION),
        ChunkKey(Interval(days[1].end, JANUARY.end), VERSION),
    ]
    assert {(s.tombstone, s.created) for s in dead} == {(True, state.time)}


def test_a_carried_segment_gets_no_id_that_the_log_has_settled() -> None:
    """An id of the new version that was voided meanwhile stays unused."""
    plan = major()
    void = Voided(ids=(NEW.segment(2),), reason="its writer is gone")
    state = after(running(plan), Appended(segments=(first(2),)))
    assert admit(void, state) == void
    admitted = admit(done(plan, core(0, 2), core(1, 2)), after(state, void))
    assert isinstance(admitted, PlanCompleted)
    assert [segment.id for segment in admitted.segments[2:]] == [NEW.segment(3)]


def test_a_moved_append_settles_the_id_in_its_footer() -> None:
    """Two files written under one id never share a root: the second has its own id as its root."""
    plan = major()
    state = after(running(plan), done(plan, core(0, 1, rows=20)))
    early = admit(Appended(segments=(first(7),)), state)
    assert isinstance(early, Appended)
    assert [run.root for run in early.segments[0].runs] == [CHUNK.segment(7)]
    settled = after(state, early)
    assert not settled.id_space(CHUNK, Generation.FIRST).free(7)
    late = admit(Appended(segments=(replace(first(7), path="data/other"),)), settled)
    assert isinstance(late, Appended)
    assert [run.root for run in late.segments[0].runs] == [NEW.segment(2)]


def test_a_region_cut_anew_is_one_commit_with_tombstones_and_a_zone() -> None:
    """All days change at once; the stretch without rows hides the month by a tombstone."""
    plan = major(Granularity.DAY)
    day = replace(
        core(0, 1, ChunkKey(DAY, VERSION), rows=20), time_min=DAY.start, time_max=DAY.end - 1
    )
    admitted = admit(done(plan, day), running(plan))
    assert isinstance(admitted, PlanCompleted)
    state = after(running(plan), admitted)
    assert [v.interval for v in state.timeline.lookup()] == [DAY, REST]
    assert [s.tombstone for s in state.timeline.visible_segments()] == [False, True]
    assert state.layout.chunk(REST.end - 1) == Interval(REST.end - DAY_US, REST.end)
    inside = Interval(REST.start, REST.start + DAY_US)
    assert state.append_chunk(inside) == ChunkKey(inside, VERSION)


def test_rows_in_two_new_chunks_are_a_conflict_never_a_loss() -> None:
    """Without its lock, a wide append meets the new cut: it, or the compaction, must try again."""
    plan = major(Granularity.DAY)
    day = replace(
        core(0, 1, ChunkKey(DAY, VERSION), rows=20), time_min=DAY.start, time_max=DAY.end - 1
    )
    slipped = after(running(plan), Appended(segments=(first(2),)))
    refused = admit(done(plan, day), slipped)
    assert isinstance(refused, Conflict)
    assert "was repartitioned" in refused.reason
    late = admit(Appended(segments=(first(2),)), after(running(plan), done(plan, day)))
    assert isinstance(late, Conflict)
    assert "write it again" in late.reason
    changed = RowsChanged(kind="update", segments=(first(2),))
    assert admit(changed, after(running(plan), done(plan, day))) == late


def test_a_version_whose_chunks_would_hide_each_others_rows_is_refused() -> None:
    """February begins later than the week at its start, so its first days would be lost."""
    weeks = Interval.parse("2012-12-31/2013-02-04")
    week = Interval(weeks.end - 7 * DAY_US, weeks.end)
    february = Interval.parse("2013-02-01/2013-03-01")
    plan = replace(major(), region=Interval(weeks.start, february.end))
    state = replace(running(plan), overrides=(GranularityOverride(weeks, Granularity.WEEK),))
    made = core(0, 1, ChunkKey(week, VERSION))
    beside = replace(core(0, 1, ChunkKey(february, VERSION)), time_min=week.end)
    with pytest.raises(RowsOutOfBalance, match="would be hidden by chunk"):
        admit(done(plan, made, beside), state)
    before = replace(made, time_max=february.start - 1)
    assert isinstance(admit(done(plan, before, beside), state), PlanCompleted)


def test_a_version_must_be_new() -> None:
    """A version that any chunk or attempt of the region has, or one below, is refused."""
    plan = major()
    state = after(created(), Appended(segments=TWO), PlanRequested(plan=plan))
    for version in (BASE, BASE - 1):
        refused = admit(start(plan, version), state)
        assert isinstance(refused, Conflict)
        assert "higher one" in refused.reason
    promised = after(state, start(plan))
    assert isinstance(admit(start(plan, VERSION), promised), Conflict)


def test_one_major_at_a_time_over_a_region_and_minors_may_wait_beside_it() -> None:
    """A pending major keeps others of its region out of the log; it does not wait for minors."""
    state = after(created(), Appended(segments=TWO), PlanRequested(plan=minor_plan(TWO)))
    assert isinstance(admit(PlanRequested(plan=major()), state), PlanRequested)
    pending = after(created(), Appended(segments=TWO), PlanRequested(plan=major()))
    for plan in (minor_plan(TWO), major(Granularity.DAY)):
        refused = admit(PlanRequested(plan=plan), pending)
        assert isinstance(refused, Conflict)
        assert "claimed" in refused.reason


def test_who_yields_waits_again_and_counts() -> None:
    """A revoked attempt puts its plan back; only its newest attempt may say so."""
    plan = major()
    yielded = PlanYielded(plan_id=plan.id, attempt="a1", reason="revoked")
    state = after(running(plan), yielded)
    known = state.plans[plan.id]
    assert (known.status, known.yields) == (PlanStatus.REQUESTED, 1)
    other = replace(yielded, attempt="a0")
    assert isinstance(admit(other, running(plan)), Conflict)


@pytest.mark.parametrize(
    ("made", "words"),
    [
        ((core(0, 1, rows=19),), "events: expected 20, found 19"),
        ((core(0, 2), core(2, 2)), "core set of"),
        ((core(0, 2), core(1, 3)), "core set of"),
        ((core(0, 1, CHUNK, rows=20),), "version of"),
        ((core(0, 1, ChunkKey(DAY, VERSION), rows=20),), "time chunk of"),
        ((replace(core(0, 1, rows=20), time_max=JANUARY.end),), "time chunk of"),
    ],
)
def test_versions_that_do_not_balance_are_refused(made: tuple[Segment, ...], words: str) -> None:
    """Lost rows, torn core sets, foreign versions and chunks are named before anything changes."""
    plan = major()
    with pytest.raises(RowsOutOfBalance, match=words):
        admit(done(plan, *made), running(plan))


def test_a_region_cuts_no_chunk_apart() -> None:
    """It grows to whole chunks of what is there and of what is to be."""
    march = Interval(JANUARY.end + 28 * DAY_US, JANUARY.end + 59 * DAY_US)
    elsewhere = first(0, chunk=ChunkKey(march, BASE))
    state = after(created(), Appended(segments=(*TWO, elsewhere)))
    assert closed_region(DAY, None, state) == JANUARY
    weeks = closed_region(DAY, Granularity.WEEK, state)
    assert weeks.start <= JANUARY.start < JANUARY.end <= weeks.end
    assert Granularity.WEEK.chunk(weeks.end - 1).end == weeks.end


@pytest.mark.parametrize(
    ("override", "to", "carried"),
    [
        (None, None, True),
        (None, Granularity.DAY, True),
        (None, Granularity.MONTH, True),
        (None, Granularity.WEEK, True),
        (None, Granularity.HOUR, False),
        (Granularity.HOUR, Granularity.DAY, True),
        (Granularity.WEEK, Granularity.DAY, False),
        (Granularity.WEEK, Granularity.MONTH, False),
        (Granularity.ALL, Granularity.YEAR, False),
    ],
)
def test_appends_are_carried_only_where_no_part_of_the_region_gets_finer(
    override: Granularity | None, to: Granularity | None, *, carried: bool
) -> None:
    """One part that is refined, or whose chunks cross the new edges, decides for the region."""
    layout = Layout(granularity=Granularity.DAY)
    if override is not None:
        layout = layout.recut(Interval(DAY.end, DAY.end + DAY_US), override)
    assert major(to).carries_appends(layout) is carried


def test_of_equal_versions_the_narrower_of_two_that_begin_together_hides_the_other() -> None:
    """Its rows show, those of the wider chunk there do not; another version is not asked."""
    wide, narrow = first(0), first(0, chunk=ChunkKey(DAY, BASE))
    assert list(hidden_by_equals([narrow, wide])) == [(wide, narrow.id.chunk)]
    assert list(hidden_by_equals([wide, first(0, chunk=ChunkKey(DAY, VERSION))])) == []
