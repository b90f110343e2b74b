"""What a state answers: kept versions, chunks for appends, versions above, deletes to apply."""

from dataclasses import replace

from airflow_provider_segtable.core.deletion import PredicateDelete
from airflow_provider_segtable.core.locks import FencingToken
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.families.plan_events import (
    PlanAborted,
    PlanInflight,
    PlanRequested,
)
from airflow_provider_segtable.core.predicate import IsNull
from airflow_provider_segtable.core.segment import ChunkKey, tombstone
from airflow_provider_segtable.core.time import DAY_US, Interval
from airflow_provider_segtable.core.timeline import Timeline
from tests.support.builders import (
    BASE,
    CHUNK,
    JANUARY,
    after,
    created,
    first,
    major_plan,
)

DAY = Interval(JANUARY.start, JANUARY.start + DAY_US)
FEBRUARY = Interval.parse("2013-02-01/2013-03-01")


def test_versions_are_kept_by_age_or_by_name() -> None:
    """From the oldest retained to the newest, and the tagged ones; none that is to come."""
    state = replace(created(), n=9, retained_from=5, tags={"start": 2})
    assert [n for n in range(-1, 12) if state.keeps(n)] == [2, 5, 6, 7, 8, 9]


def test_appends_go_to_the_visible_version() -> None:
    """To the base if there is none; a chunk inside the interval does not count."""
    day = ChunkKey(DAY, BASE + 5)
    state = created()
    assert state.append_chunk(JANUARY) == CHUNK
    state = after(state, Appended(segments=(first(0, chunk=day),)))
    assert state.append_chunk(JANUARY) == CHUNK
    assert state.append_chunk(DAY) == day


def test_appends_go_above_a_tombstone() -> None:
    """A wider one counts, because it would hide a lower version."""
    newer = ChunkKey(JANUARY, BASE + 5)
    timeline = Timeline.empty().with_changes(add=[tombstone(newer, BASE + 5), first(0)])
    state = replace(created(), timeline=timeline)
    assert state.append_chunk(DAY) == ChunkKey(DAY, BASE + 5)
    assert state.append_chunk(FEBRUARY) == ChunkKey(FEBRUARY, BASE)


def test_a_new_version_is_above_all_of_its_interval() -> None:
    """Above the base, what is present, and what an attempt was promised, even if it failed."""
    state = created()
    assert state.version_above(JANUARY) == BASE
    state = after(state, Appended(segments=(first(0), first(0, chunk=ChunkKey(DAY, BASE + 3)))))
    assert state.version_above(JANUARY) == BASE + 3
    assert state.version_above(FEBRUARY) == BASE
    for name, region, version in (("a", DAY, BASE + 7), ("b", FEBRUARY, BASE + 9)):
        plan = replace(major_plan((first(0),)), id=name, region=region)
        token = FencingToken("e", 1)
        state = after(
            state,
            PlanRequested(plan=plan),
            PlanInflight(plan_id=name, attempt="t", token=token, outputs=(), version=version),
            PlanAborted(plan_id=name, attempt="t", reason="no"),
        )
    assert state.version_above(JANUARY) == BASE + 7
    assert state.version_above(FEBRUARY) == BASE + 9
    assert state.pending_plans() == ()


def test_a_reader_applies_later_predicate_deletes() -> None:
    """Not those that the segment's writer had applied, its own event's included."""
    deletes = tuple(PredicateDelete(n=n, predicate=IsNull("carrier")) for n in (3, 4, 5))
    state = replace(created(), predicate_deletes=deletes)
    assert state.erased(replace(first(0), deletes_applied_through=4)) == deletes[2:]
    assert state.erased(first(0)) == deletes
