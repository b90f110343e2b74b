"""What may be cleaned, why each other thing is kept, and what the log makes of it."""

from dataclasses import replace

import pytest

from airflow_provider_segtable.core.deletion import Deletion, PredicateDelete
from airflow_provider_segtable.core.locks import FencingToken
from airflow_provider_segtable.core.log.event import Conflict
from airflow_provider_segtable.core.log.events import Action
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.families.cleaning_events import (
    Cleaned,
    Keep,
    Swept,
    cleanable,
    still_cleanable,
)
from airflow_provider_segtable.core.log.families.plan_events import (
    PlanAborted,
    PlanCompleted,
    PlanInflight,
    PlanRequested,
)
from airflow_provider_segtable.core.log.families.repair_events import TableRepaired
from airflow_provider_segtable.core.log.families.tag_events import Tagged, Untagged
from airflow_provider_segtable.core.log.fold import admit
from airflow_provider_segtable.core.log.invariants import violations
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.predicate import IsNull
from airflow_provider_segtable.core.segment import ChunkKey, Shard, tombstone
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.core.timeline import Timeline
from airflow_provider_segtable.table.log.checkpoint import read_checkpoint, write_checkpoint
from tests.support.builders import (
    BASE,
    CHUNK,
    after,
    created,
    first,
    major_plan,
    merged,
    minor_plan,
)

TWO = (first(0), first(1))
PLAN = minor_plan(TWO)
BOTH = merged(32768, TWO)
TOKEN = FencingToken("epoch", 1)


def compacted() -> tuple[State, State]:
    """Return the table before and after two segments became one."""
    appended = after(created(), Appended(segments=TWO))
    return appended, after(
        appended,
        PlanRequested(plan=PLAN),
        PlanInflight(plan_id=PLAN.id, attempt="a", token=TOKEN, outputs=(BOTH.id,)),
        PlanCompleted(plan_id=PLAN.id, attempt="a", segments=(BOTH,)),
    )


def done(action: Action, state: State) -> State:
    admitted = admit(action, state)
    assert not isinstance(admitted, Conflict), admitted.reason
    return after(state, admitted)


def test_inputs_go_when_the_oldest_kept_version_does_not_show_them() -> None:
    """Whatever hid them is kept, so nobody will look for them."""
    before, now = compacted()
    found = cleanable(now, retained=[now])
    assert found.ids == tuple(segment.id for segment in TWO)
    assert found.retained_from == now.n
    found = cleanable(now, retained=[before])
    assert (found.ids, set(found.kept.values())) == ((), {Keep.RECENT})
    assert cleanable(now, retained=[now, before]).ids == ()


def test_only_what_is_still_cleanable_is_cleaned() -> None:
    """What another cleaner removed, and what a plan claims meanwhile, leaves the event."""
    _, now = compacted()
    both = Cleaned(retained_from=now.n, ids=tuple(segment.id for segment in TWO))
    rest = after(now, Cleaned(retained_from=now.n, ids=(TWO[0].id,)))
    assert admit(both, rest) == replace(both, ids=(TWO[1].id,))
    shown = Cleaned(retained_from=now.n, ids=(*both.ids, BOTH.id))
    assert admit(shown, now) == both


def test_predicate_deletes_go_once_every_segment_has_applied_them() -> None:
    """One segment that has not keeps them; a table without rows needs none."""
    deletes = tuple(PredicateDelete(n=n, predicate=IsNull("carrier")) for n in (3, 4, 5))
    cleaned = Cleaned(retained_from=9, ids=())
    for applied, left in (((4, 9), deletes[2:]), ((0, 9), deletes), ((5, 6), ()), ((), ())):
        present = [replace(first(p), deletes_applied_through=n) for p, n in enumerate(applied)]
        timeline = Timeline.empty().with_changes(add=present)
        state = replace(created(), n=9, predicate_deletes=deletes, timeline=timeline)
        assert after(state, cleaned).predicate_deletes == left


def test_deletions_are_pruned_through_the_newest_that_goes() -> None:
    """Those that stay do not count: a change that has read them need not look again."""
    applied, needing = replace(first(0), deletes_applied_through=4), first(1)
    vectors = {
        segment.id: (Deletion(n=n, path=f"deletes/{n}", rows=1),)
        for n, segment in ((3, applied), (5, needing))
    }
    timeline = Timeline.empty().with_changes(add=[applied, needing])
    state = replace(created(), n=9, vectors=vectors, timeline=timeline)
    cleaned = after(state, Cleaned(retained_from=9, ids=()))
    assert cleaned.vectors == {needing.id: vectors[needing.id]}
    assert cleaned.vectors_pruned_through == 3
    assert cleaned.pending_delete == {"deletes/3"}


def test_tagged_versions_keep_what_they_show() -> None:
    """A tag protects like retention, with its own reason."""
    before, now = compacted()
    assert set(cleanable(now, retained=[now], tagged=[before]).kept.values()) == {Keep.TAGGED}


def test_pending_plans_keep_their_inputs() -> None:
    """Also those that are hidden already."""
    _, now = compacted()
    plan = replace(PLAN, id="minor-another")
    waiting = after(now, PlanRequested(plan=plan))
    assert set(cleanable(waiting, retained=[waiting]).kept.values()) == {Keep.CLAIMED}
    assert still_cleanable(PLAN.inputs, waiting) == ()
    given_up = after(waiting, PlanAborted(plan_id=plan.id, attempt=None, reason="late"))
    assert still_cleanable(PLAN.inputs, given_up) == PLAN.inputs


def test_a_running_major_keeps_what_it_found() -> None:
    """Segments that came after the plan are its inputs too, until it is done."""
    late = (first(2), first(3))
    plan = major_plan(TWO)
    found = tuple(segment.id for segment in (*TWO, *late))
    state = after(
        created(),
        Appended(segments=(*TWO, *late)),
        PlanRequested(plan=plan),
        PlanInflight(
            plan_id=plan.id, attempt="a", token=TOKEN, outputs=(), inputs=found, version=BASE + 1
        ),
        Appended(segments=(merged(32768, late),)),  # hidden now, still to be read
    )
    assert cleanable(state, retained=[state]).kept == {s.id: Keep.CLAIMED for s in late}
    assert still_cleanable([segment.id for segment in late], state) == ()


def test_visible_and_waiting_segments_never_go() -> None:
    """What is visible is dropped from a cleaner's event, and so is half a group."""
    _, now = compacted()
    shard = Shard(partition=32769, root_start=0, root_end=2, minor_version=2, group_size=2)
    half = replace(BOTH, id=CHUNK.segment(32769), shard=shard)
    state = after(now, Appended(segments=(half,)))
    assert still_cleanable([BOTH.id, half.id, TWO[0].id], state) == (TWO[0].id,)
    assert cleanable(state, retained=[state]).kept == {half.id: Keep.STANDBY}
    claimed = after(state, PlanRequested(plan=replace(PLAN, id="odd", inputs=(half.id,))))
    assert cleanable(claimed, retained=[claimed]).kept == {half.id: Keep.CLAIMED}


def test_a_group_goes_as_a_whole() -> None:
    """As long as one member is claimed, the others stay."""
    shards = [
        Shard(partition=32768 + i, root_start=0, root_end=2, minor_version=1, group_size=2)
        for i in range(2)
    ]
    pair = [replace(first(0), id=CHUNK.segment(s.partition), shard=s) for s in shards]
    over = merged(32770, pair, minor_version=2)
    state = after(created(), Appended(segments=(*TWO, *pair, over)))
    claim = replace(PLAN, id="odd", inputs=(pair[0].id,))
    claimed = after(state, PlanRequested(plan=claim))
    kept = cleanable(claimed, retained=[claimed]).kept
    assert kept == {pair[0].id: Keep.CLAIMED, pair[1].id: Keep.GROUP}


def test_each_group_of_several_stays_whole() -> None:
    """Two groups with one claimed member each keep both of their others."""
    pairs = [
        [
            replace(
                first(0),
                id=CHUNK.segment(32768 + 2 * root + i),
                shard=Shard(
                    partition=32768 + 2 * root + i,
                    root_start=root,
                    root_end=root + 1,
                    minor_version=1,
                    group_size=2,
                ),
            )
            for i in range(2)
        ]
        for root in range(2)
    ]
    every = [segment for pair in pairs for segment in pair]
    over = merged(32772, every, minor_version=2)
    claim = replace(PLAN, id="odd", inputs=tuple(pair[0].id for pair in pairs))
    state = after(created(), Appended(segments=(*every, over)), PlanRequested(plan=claim))
    claimed, others = ({pair[i].id for pair in pairs} for i in range(2))
    kept = cleanable(state, retained=[state]).kept
    assert kept == dict.fromkeys(claimed, Keep.CLAIMED) | dict.fromkeys(others, Keep.GROUP)


def test_only_a_tombstone_stays_for_what_lies_below() -> None:
    """Rows that are hidden hide nothing: they go, though a lower version is kept."""
    low, middle, high = (ChunkKey(CHUNK.interval, BASE + n) for n in range(3))
    before = after(created(), Appended(segments=(first(0, chunk=low),)))
    rows, top = first(0, chunk=middle), first(0, chunk=high)
    state = after(before, Appended(segments=(rows, top)))
    assert cleanable(state, retained=[state], tagged=[before]).ids == (rows.id,)


def test_a_tombstone_stays_for_what_is_claimed_below() -> None:
    """A plan's input below would show again without it."""
    low, middle, high = (ChunkKey(CHUNK.interval, BASE + n) for n in range(3))
    old, dead, top = first(0, chunk=low), tombstone(middle, BASE), first(0, chunk=high)
    claim = replace(PLAN, id="odd", chunk=low, inputs=(old.id,))
    state = after(created(), Appended(segments=(old, dead, top)), PlanRequested(plan=claim))
    kept = cleanable(state, retained=[state]).kept
    assert kept == {old.id: Keep.CLAIMED, dead.id: Keep.BELOW}


def test_a_tombstone_goes_whatever_stays_elsewhere() -> None:
    """It hides nothing of another time, and nothing of its own version."""
    elsewhere = Interval.parse("2013-02-01/2013-03-01")
    newer = ChunkKey(CHUNK.interval, BASE + 1)
    dead, late = tombstone(newer, BASE), first(1, chunk=newer)
    both = merged(32768, (dead, late))
    stays = first(0, chunk=ChunkKey(elsewhere, BASE))
    state = after(created(), Appended(segments=(stays, dead, late, both)))
    assert cleanable(state, retained=[state]).ids == (dead.id, late.id)


def test_a_tombstone_outlives_what_it_hides() -> None:
    """It goes only with, or after, everything of lower versions below it."""
    low, middle, high = (ChunkKey(CHUNK.interval, BASE + n) for n in range(3))
    old, dead = first(0, chunk=low), tombstone(middle, BASE)
    top = first(0, chunk=high)
    before = after(created(), Appended(segments=(old,)))
    state = after(before, Appended(segments=(dead, top)))
    kept = cleanable(state, retained=[state], tagged=[before]).kept
    assert kept == {old.id: Keep.TAGGED, dead.id: Keep.BELOW}
    assert cleanable(state, retained=[state]).ids == (old.id, dead.id)
    assert still_cleanable([dead.id], state) == ()
    assert still_cleanable([dead.id], done(_cleaned(state, old.id), state)) == (dead.id,)


def test_a_tombstone_above_a_tombstone_stays_with_it() -> None:
    """The rule is followed from the lowest version up."""
    chunks = [ChunkKey(CHUNK.interval, BASE + n) for n in range(4)]
    old = first(0, chunk=chunks[0])
    dead = [tombstone(chunk, BASE) for chunk in chunks[1:3]]
    before = after(created(), Appended(segments=(old,)))
    state = after(before, Appended(segments=(*dead, first(0, chunk=chunks[3]))))
    kept = cleanable(state, retained=[state], tagged=[before]).kept
    assert [kept[each.id] for each in dead] == [Keep.BELOW, Keep.BELOW]


def _cleaned(state: State, *ids: object) -> Cleaned:
    return Cleaned(retained_from=state.n, ids=ids, tags=state.tags)  # type: ignore[arg-type]


def test_files_are_doomed_and_swept() -> None:
    """Segments leave at once, their files are remembered until somebody says they are gone."""
    _, now = compacted()
    cleaned = done(_cleaned(now, *PLAN.inputs), now)
    assert list(cleaned.timeline.segments()) == [BOTH]
    assert cleaned.pending_delete == {segment.path for segment in TWO}
    assert cleaned.retained_from == now.n
    assert not list(violations(cleaned))
    assert read_checkpoint(write_checkpoint(cleaned)) == cleaned
    swept = done(Swept(paths=(TWO[0].path, "data/other")), cleaned)
    assert swept.pending_delete == {TWO[1].path}
    assert isinstance(admit(Swept(paths=(TWO[0].path,)), swept), Conflict)
    assert isinstance(admit(_cleaned(now, *PLAN.inputs), swept), Conflict)


def test_a_repair_does_not_bring_back_a_doomed_file() -> None:
    """Its deletion may be under way."""
    _, now = compacted()
    cleaned = done(_cleaned(now, *PLAN.inputs), now)
    refused = admit(TableRepaired(segments=(TWO[0],), reason="found"), cleaned)
    assert isinstance(refused, Conflict)
    assert "cleaned meanwhile" in refused.reason


def test_ids_are_not_used_again() -> None:
    """What was cleaned keeps its id for ever."""
    _, now = compacted()
    cleaned = done(_cleaned(now, *PLAN.inputs), now)
    again = done(Appended(segments=(first(0),)), cleaned)
    assert CHUNK.segment(0) not in again.timeline


def test_a_shared_file_goes_with_the_last_that_names_it() -> None:
    """A carried-over segment keeps the file of its origin."""
    target = ChunkKey(CHUNK.interval, BASE + 1)
    carried = first(0).carried(target.segment(0), core=0)
    over = ChunkKey(CHUNK.interval, BASE + 2)
    state = after(created(), Appended(segments=(first(0),)), Appended(segments=(carried,)))
    once = done(_cleaned(state, CHUNK.segment(0)), state)
    assert once.pending_delete == frozenset()
    hidden = after(once, Appended(segments=(first(1, chunk=over),)))
    assert done(_cleaned(hidden, carried.id), hidden).pending_delete == {carried.path}


def test_a_cleaner_and_a_tagger_cannot_miss_each_other() -> None:
    """Whoever comes second learns of the first: a conflict, or a version that is not kept."""
    before, now = compacted()
    tagged = done(Tagged(name="a", n=before.n), now)
    missed = admit(_cleaned(now, *PLAN.inputs), tagged)
    assert isinstance(missed, Conflict)
    assert "'a'" in missed.reason
    cleaned = done(_cleaned(now, *PLAN.inputs), now)
    refused = admit(Tagged(name="a", n=before.n), cleaned)
    assert isinstance(refused, Conflict)
    assert f"kept are {now.n} to {cleaned.n}" in refused.reason
    assert done(Untagged(name="a"), tagged).tags == {}


@pytest.mark.parametrize("action", [Tagged(name="a", n=2), Tagged(name="b", n=99)])
def test_tags_are_unique_and_of_the_log(action: Action) -> None:
    """A name is used once, and for a version that there is."""
    _, now = compacted()
    assert isinstance(admit(action, done(Tagged(name="a", n=1), now)), Conflict)


def test_a_later_retention_wins() -> None:
    """Two cleaners with different retention: what has expired stays so."""
    _, now = compacted()
    cleaned = done(Cleaned(retained_from=3, ids=(), tags={}), now)
    assert isinstance(admit(Cleaned(retained_from=2, ids=(), tags={}), cleaned), Conflict)
    assert done(Cleaned(retained_from=2, ids=PLAN.inputs, tags={}), cleaned).retained_from == 3
    assert [n for n in range(5) if cleaned.keeps(n)] == [3, 4]
