"""A restore, as the log computes it: what comes back, what is left alone, what is refused."""

from dataclasses import replace

import pytest

from airflow_provider_segtable.core.deletion import Deletion, PredicateDelete
from airflow_provider_segtable.core.locks import FencingToken
from airflow_provider_segtable.core.log.event import Conflict
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.families.plan_events import (
    PlanAborted,
    PlanInflight,
    PlanRequested,
)
from airflow_provider_segtable.core.log.families.repair_events import TableRepaired
from airflow_provider_segtable.core.log.families.restore_events import (
    VersionRestored,
    changes_anything,
    restoration,
)
from airflow_provider_segtable.core.log.fold import admit
from airflow_provider_segtable.core.log.plan import PlanStatus
from airflow_provider_segtable.core.log.state import KEPT, Overwritten, State
from airflow_provider_segtable.core.predicate import IsNull
from airflow_provider_segtable.core.segment import (
    ChunkKey,
    Segment,
    SegmentId,
    Shard,
    roots_of,
    tombstone,
)
from airflow_provider_segtable.core.tables.rollup_kind import Metric, Rollup
from airflow_provider_segtable.core.time import DAY_US, Granularity, GranularityOverride, Interval
from airflow_provider_segtable.core.timeline import Timeline
from tests.support.builders import (
    BASE,
    CHUNK,
    DEFINITION,
    JANUARY,
    after,
    created,
    first,
    major_plan,
    minor_plan,
)

FEBRUARY = Interval.parse("2013-02-01/2013-03-01")
FEB = ChunkKey(FEBRUARY, BASE)
TWO = (first(0), first(1))
DAILY = (GranularityOverride(JANUARY, Granularity.DAY),)


def loaded(*more: Segment) -> State:
    """Return a table with two segments of January, and others, at event 1."""
    return after(created(), Appended(segments=(*TWO, *more)))


def admitted(old: State, state: State) -> VersionRestored:
    """Return the restore of a version as it would be committed."""
    action = admit(restoration(old), state)
    assert isinstance(action, VersionRestored), action
    return action


def refused(old: State, state: State) -> str:
    """Return why a restore is refused."""
    conflict = admit(restoration(old), state)
    assert isinstance(conflict, Conflict)
    return conflict.reason


def shown(state: State) -> list[tuple[str, int]]:
    """Return the visible files and their partitions."""
    return [(s.path, s.id.partition) for s in state.timeline.visible_segments() if s.rows]


def deleted(state: State, **events: int) -> State:
    """Return the table with a row of a root deleted by an event: ``p0=2``."""
    roots = {CHUNK.segment(int(name[1:])): n for name, n in events.items()}
    vectors = {
        root: (*state.vectors.get(root, ()), Deletion(n=n, path=f"deletes/{n}", rows=n))
        for root, n in roots.items()
    }
    newest = max(state.n, *roots.values())
    return replace(state, n=newest, vectors={**state.vectors, **vectors})


def rewritten(partition: int, of: Segment, **changed: object) -> Segment:
    """Return a segment whose hidden columns name the rows of others."""
    return replace(first(partition), lineage=(), roots=roots_of((of,)), **changed)  # type: ignore[arg-type]


def with_segments(*segments: Segment, n: int = 9) -> State:
    """Return a table with these segments alone."""
    timeline = Timeline.empty().with_changes(add=segments)
    return replace(created(), n=n, timeline=timeline)


def test_only_regions_whose_rows_differ_are_carried_over() -> None:
    """January had an append since: its two files come back as a new version; February stays."""
    old = loaded(first(0, chunk=FEB))
    now = after(old, Appended(segments=(first(2),)))
    action = admitted(old, now)
    assert {s.id.interval for s in action.segments} == {JANUARY}
    assert [s.path for s in action.segments] == [s.path for s in TWO]
    assert [s.shard for s in action.segments] == [Shard.first_generation(p, core=2) for p in (0, 1)]
    assert [s.origin for s in action.segments] == [s.id for s in TWO]
    assert {s.id.version for s in action.segments} == {now.time + 1}
    assert shown(after(now, action)) == shown(old)


def test_a_region_that_was_empty_is_hidden() -> None:
    """What was appended to February since is hidden by a tombstone of now."""
    old = loaded()
    now = after(old, Appended(segments=(first(0, chunk=FEB),)))
    action = admitted(old, now)
    assert action.segments == (tombstone(ChunkKey(FEBRUARY, now.time + 1), now.time),)
    assert shown(after(now, action)) == shown(old)


def test_a_chunk_without_rows_comes_back_as_a_tombstone() -> None:
    """Empty segments are carried over beside others with rows, and only there."""
    emptied = replace(first(0), rows=0, path="", events=0, size=0, row_groups=0)
    for old, rows in (
        (with_segments(emptied), [0]),
        (with_segments(emptied, first(1)), [0, 10]),
    ):
        now = after(old, Appended(segments=(first(2),)))
        action = admitted(old, now)
        assert [s.rows for s in action.segments] == rows
        assert [s.shard.core for s in action.segments] == [len(rows)] * len(rows)


def test_the_same_rows_are_left_alone() -> None:
    """Deletions that the version had, and segments without rows, make no difference."""
    old = deleted(loaded(), p0=4)
    assert admitted(old, replace(old, n=9)).segments == ()
    assert not changes_anything(admitted(old, old), old)
    emptied = tombstone(FEB, BASE)
    assert admitted(loaded(), loaded(emptied)).segments == ()


def test_what_was_restored_already_is_left_alone() -> None:
    """The same files under other ids, with the same deletions, show the same rows."""
    old = deleted(loaded(), p0=4)
    now = after(deleted(old, p0=5, p1=6), Appended(segments=(first(2),)))
    restored = after(now, admitted(old, now))
    again = admitted(old, restored)
    assert (again.segments, again.vectors) == ((), ())
    assert not changes_anything(again, restored)
    later = deleted(restored, p1=restored.n + 1)
    assert len(admitted(old, later).segments) == 2
    assert len(admitted(now, restored).segments) == 3


def test_two_files_of_one_id_are_two_files() -> None:
    """A writer without locks took an id twice, and the later file got another one."""
    old = loaded()
    twin = replace(first(2), origin=TWO[0].id)
    now = after(old, Appended(segments=(twin,)))
    assert [s.path for s in admitted(old, now).segments] == [s.path for s in TWO]


def test_later_deletions_bring_rows_back() -> None:
    """A segment from which rows were deleted since is carried over as having applied all."""
    old = deleted(loaded(), p0=4)
    now = deleted(old, p1=5)
    action = admitted(old, now)
    assert [s.deletes_applied_through for s in action.segments] == [now.n, now.n + 1]
    restored = after(now, action)
    found = [restored.deletions(each) for each in restored.timeline.visible_segments()]
    again = Deletion(n=restored.n, path="deletes/4", rows=4)
    assert found == [{TWO[0].id: (again,)}, {}]


def test_what_the_version_had_deleted_is_recorded_again_by_file() -> None:
    """One file of vectors names the roots that need it, with their counts and its checksum."""
    each = Deletion(n=4, path="deletes/4", rows=1, checksum="c" * 16)
    late = Deletion(n=6, path="deletes/6", rows=5)
    roots = [segment.id for segment in TWO]
    vectors = {roots[0]: (each, late), roots[1]: (replace(each, rows=2),)}
    old = replace(loaded(), n=5, vectors=vectors)
    (file,) = admitted(old, replace(old, n=6)).vectors
    assert (file.path, dict(file.rows)) == ("deletes/4", {roots[0]: 1, roots[1]: 2})
    assert (file.checksum, file.size) == ("c" * 16, 0)


def test_conditions_after_the_version_are_undone_in_a_rollup_table() -> None:
    """Those up to the version stay; segments that the later ones hid rows of are carried over.

    So plans that left these rows out end.
    """
    kind = Rollup(dimensions=("carrier",), metrics=(Metric.parse("n=count()"),))
    conditions = tuple(PredicateDelete(n=n, predicate=IsNull("carrier")) for n in (4, 5, 6))
    old = replace(loaded(), n=5, predicate_deletes=conditions[:2])
    old = replace(old, table=replace(DEFINITION, kind=kind))
    now = replace(old, n=6, predicate_deletes=conditions)
    action = admitted(old, now)
    hidden = [s.path for s in old.timeline.visible_segments()]
    assert [s.path for s in action.segments] == hidden
    assert changes_anything(action, now)
    done = after(now, action)
    assert done.predicate_deletes == conditions[:2]
    assert not changes_anything(admitted(old, done), done)
    late = admitted(old, after(now, Appended(segments=(first(2),))))
    assert [s.deletes_applied_through for s in late.segments] == [0, 0]


def test_time_is_cut_as_in_the_version() -> None:
    """The same rows are carried over where granularity differs; the overrides come back."""
    old = loaded(first(0, chunk=FEB))
    now = replace(old, n=2, overrides=DAILY)
    action = admitted(old, now)
    assert {s.id.interval for s in action.segments} == {JANUARY}
    assert after(now, action).overrides == ()
    back = replace(action, segments=())
    assert changes_anything(back, now)
    assert not changes_anything(back, old)


def test_the_granularity_of_the_version_decides_its_regions() -> None:
    """What was appended to a day since leaves the other days of that time alone."""
    days = [Interval(JANUARY.start + n * DAY_US, JANUARY.start + (n + 1) * DAY_US) for n in (0, 1)]
    of_days = [first(0, chunk=ChunkKey(day, BASE)) for day in days]
    old = replace(with_segments(*of_days), overrides=DAILY)
    now = after(old, Appended(segments=(first(1, chunk=ChunkKey(days[1], BASE)),)))
    action = admitted(old, now)
    assert action.overrides == DAILY
    assert [s.id.interval for s in action.segments] == [days[1]]
    later = replace(now, overrides=())
    assert [s.id.interval for s in admitted(old, later).segments if s.rows] == days
    assert after(later, admitted(old, later)).overrides == DAILY


def test_a_version_that_is_not_kept_is_refused() -> None:
    """The message says which are; a tag keeps one."""
    old = loaded()
    now = replace(after(old, Appended(segments=(first(2),))), retained_from=2)
    assert refused(old, now) == ("version 1 was cleaned: kept are 2 to 2, and tagged versions")
    assert admitted(old, replace(now, tags={"good": 1})).segments


@pytest.mark.parametrize("add", [(), (replace(TWO[0], size=999),)], ids=["removed", "changed"])
def test_a_segment_that_a_repair_took_is_refused(add: tuple[Segment, ...]) -> None:
    """It is not what the version showed, whether it is gone or another."""
    old = loaded()
    now = after(old, TableRepaired(lost=(TWO[0].id,), segments=add, reason="lost"))
    assert refused(old, now).startswith(f"version 1 showed {TWO[0].id}, which a repair has ")


def test_roots_with_uneven_deletions_are_refused() -> None:
    """Of one root's rows in two segments, one has applied a delete and the other waits for it."""
    left, right = first(0), first(1)
    both = replace(rewritten(2, left), roots=roots_of((left, right)))
    for applied, problem in ((5, True), (4, True), (3, False), (6, False)):
        other = replace(both, id=CHUNK.segment(3), shard=Shard.first_generation(3))
        segments = (both, replace(other, deletes_applied_through=applied))
        old = deleted(with_segments(*segments, n=6), p0=4, p1=6)
        now = after(old, Appended(segments=(first(7),)))
        assert isinstance(admit(restoration(old), now), Conflict) == problem, applied
        if problem:
            assert f"different deletes to rows of {left.id}" in refused(old, now)


def test_chunks_of_one_version_must_not_hide_rows_of_each_other() -> None:
    """A month with rows in a day that has a chunk of its own cannot share a version with it."""
    day = ChunkKey(Interval(JANUARY.start, JANUARY.start + DAY_US), BASE + 5)
    month = replace(first(0), time_max=JANUARY.start + 5)
    beside = replace(first(0), time_min=JANUARY.start + DAY_US)
    for segment, problem in ((month, True), (beside, False)):
        old = with_segments(segment, first(0, chunk=day))
        now = after(old, Appended(segments=(first(5),)))
        assert isinstance(admit(restoration(old), now), Conflict) == problem
    old = with_segments(month, first(0, chunk=day))
    now = after(old, Appended(segments=(first(5),)))
    assert f"{day.interval.name}_{now.time + 1} would hide rows of" in refused(old, now)


def test_regions_split_neither_chunks_nor_time() -> None:
    """What was appended to a month hides and brings back the days that it encloses."""
    day = ChunkKey(Interval(JANUARY.start, JANUARY.start + DAY_US), BASE + 5)
    beside = replace(first(0), time_min=JANUARY.start + DAY_US)
    old = with_segments(beside, first(0, chunk=day), first(0, chunk=FEB))
    now = after(old, Appended(segments=(first(1),)))
    found = {s.id.interval for s in admitted(old, now).segments if s.rows}
    assert found == {JANUARY, day.interval}
    both = after(now, Appended(segments=(first(1, chunk=FEB),)))
    found = {s.id.interval for s in admitted(old, both).segments if s.rows}
    assert found == {JANUARY, day.interval, FEBRUARY}
    early = replace(first(0, chunk=day), time_max=day.interval.start)
    only = with_segments(early)
    later = after(only, Appended(segments=(first(1, chunk=day),)))
    hidden = [s.id.interval for s in admitted(only, later).segments if not s.rows]
    assert hidden == [Interval(day.interval.end, JANUARY.end)]


def test_the_new_version_is_above_all_and_unused() -> None:
    """It is above versions, attempts and the clock, and its ids were never given out."""
    old = loaded()
    now = after(old, Appended(segments=(first(2),)))

    def version(state: State) -> int:
        return admitted(old, state).segments[0].id.version

    assert version(now) == now.time + 1
    high = ChunkKey(JANUARY, now.time + DAY_US)
    assert version(after(now, Appended(segments=(first(0, chunk=high),)))) == high.version + 1
    for used, free in (((1, 2, 4), 3), ((1, 3), 2)):
        taken = [SegmentId(JANUARY, now.time + ahead, 0) for ahead in used]
        assert version(replace(now, ids=now.ids.settle(taken))) == now.time + free
    plan = major_plan(TWO)
    started = after(
        now,
        PlanRequested(plan=plan),
        PlanInflight(
            plan_id=plan.id,
            attempt="a",
            token=FencingToken("t", 1),
            outputs=(),
            inputs=(),
            version=high.version,
        ),
    )
    assert version(started) == high.version + 1


def test_plans_of_restored_regions_end() -> None:
    """Pending ones over a restored region are aborted with a note; others go on."""
    beside = (first(0, chunk=FEB), first(1, chunk=FEB))
    january, february, over = minor_plan(TWO), minor_plan(beside), major_plan(TWO)
    old = loaded(*beside)
    ended = PlanAborted(plan_id=over.id, attempt=None, reason="no more")
    now = after(
        old,
        PlanRequested(plan=over),
        ended,
        PlanRequested(plan=january),
        PlanRequested(plan=february),
        Appended(segments=(first(2),)),
    )
    restored = after(now, admitted(old, now))
    plans = restored.plans
    assert plans[january.id].status is PlanStatus.ABORTED
    assert plans[january.id].note == "version 1 was restored"
    assert (plans[january.id].last_n, plans[january.id].changed_at) == (restored.n, restored.time)
    assert plans[february.id] == now.plans[february.id]
    assert plans[over.id] == now.plans[over.id]


def test_authors_that_began_before_look_again() -> None:
    """The restore counts as an overwrite of its regions, and as pruning of vectors."""
    old = loaded()
    far = tuple(Overwritten(n, (FEBRUARY,)) for n in range(KEPT))
    now = replace(after(old, Appended(segments=(first(2),))), overwritten=far)
    restored = after(now, admitted(old, now))
    assert restored.overwritten == (*far[1:], Overwritten(restored.n, (JANUARY,)))
    assert restored.vectors_pruned_through == restored.n
