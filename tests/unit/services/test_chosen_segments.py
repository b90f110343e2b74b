"""A person chooses segments to compact: exactly these, or refused with the reason."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from airflow_provider_segtable.core.errors import InvalidInput, SegmentsRefused
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.group_plans import MinorPlan
from airflow_provider_segtable.core.log.plan import PlanState, PlanStatus
from airflow_provider_segtable.core.segment import SegmentId
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.planning.finders.finder import finder_of, made_before
from airflow_provider_segtable.planning.planner_context import look_at_table
from airflow_provider_segtable.planning.properties import Policy
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compaction import Ended, compact
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.table import Table
from tests.support.builders import (
    BASE,
    CHUNK,
    after,
    created,
    first,
    merged,
)
from tests.unit.services.conftest import HOUR_US, contents

SMALL = Policy(target_size=1)


def visible(ports: TableContext, hour: int = 0) -> list[SegmentId]:
    """Return the visible segments of an hour, by partition."""
    interval = Interval(hour * HOUR_US, (hour + 1) * HOUR_US)
    return sorted(s.id for s in Table(ports).state().timeline.visible_segments(interval))


def carried_out(ports: TableContext, asked: Sequence[PlanState]) -> None:
    results = compact(ports, [known.plan.id for known in asked], in_process(ports.files))
    assert {result.ended for result in results} == {Ended.COMPLETED}


def test_minor_joins_exactly_these(ports: TableContext) -> None:
    """Whatever the policy says of their number; in two hours by two plans; rows stay."""
    before = contents(ports)
    some = [*visible(ports)[1:3], *visible(ports, 1)[:2]]
    asked = request(ports, "minor", segments=[str(each) for each in some])
    assert [known.plan.inputs for known in asked] == [tuple(some[:2]), tuple(some[2:])]
    assert request(ports, "minor", segments=some) == asked
    carried_out(ports, asked)
    assert [len(visible(ports, hour)) for hour in (0, 1)] == [3, 3]
    assert contents(ports) == before


@pytest.mark.parametrize("kind", ["semi-major", "major"])
def test_other_kinds_take_the_whole_chunk(ports: TableContext, kind: str) -> None:
    """The chunk of the chosen segment, and no other."""
    asked = request(ports, kind, segments=visible(ports)[2:3])
    assert [known.plan.inputs for known in asked] == [tuple(visible(ports))]
    assert request(ports, kind, segments=visible(ports)[:1]) == asked


def refused(ports: TableContext, kind: str, some: Sequence[SegmentId | str], words: str) -> None:
    version = Table(ports).state().n
    with pytest.raises(SegmentsRefused, match=words):
        request(ports, kind, segments=some)
    assert Table(ports).state().n == version


def test_what_is_no_visible_segment_is_refused(ports: TableContext) -> None:
    """No id, an unknown one, one that was replaced; nothing is written."""
    first, second = visible(ports)[:2]
    refused(ports, "minor", [], "no segment is chosen")
    refused(ports, "minor", ["7"], "'7' is not a segment id: copy one from")
    refused(ports, "minor", [first.chunk.segment(99)], f"has no segment {first.chunk.segment(99)}")
    carried_out(ports, request(ports, "minor", segments=[first, second]))
    third = visible(ports)[0]
    refused(ports, "minor", [second, third], f"segment {second} is hidden: others have replaced it")
    for kind in ("semi-major", "major"):
        refused(ports, kind, [second], f"segment {second} is hidden: others have replaced it")


@pytest.mark.parametrize("kind", ["minor", "semi-major", "major"])
def test_a_choice_that_was_compacted_is_answered_by_its_plans(
    ports: TableContext, kind: str
) -> None:
    """A retry requests nothing again; what it left undone it finds pending."""
    some = [*visible(ports)[1:3], *visible(ports, 1)[:2]]
    asked = request(ports, kind, segments=some)
    carried_out(ports, asked[:1])
    version = Table(ports).state().n
    again = request(ports, kind, segments=some)
    assert [known.plan for known in again] == [known.plan for known in asked]
    assert [known.completed for known in again] == [True, False]
    assert Table(ports).state().n == version


def test_a_choice_that_is_visible_again_is_compacted_anew() -> None:
    """A completed plan counts only while its outputs hide the chosen segments."""
    state = after(created(), Appended(segments=(first(0), first(1))))
    ids = frozenset(each.id for each in state.timeline.visible_segments())
    (plan,) = finder_of(MinorPlan).chosen(look_at_table(state, Policy(), BASE), ids, "", [])
    done = PlanState(
        plan=plan,
        status=PlanStatus.COMPLETED,
        requested_at=BASE,
        changed_at=BASE,
        last_n=2,
        author="a",
    )
    assert not made_before(done, ids, state)
    assert made_before(replace(done, status=PlanStatus.REQUESTED), ids, state)
    hidden = state.timeline.with_changes(add=[merged(40_000, state.timeline.visible_segments())])
    assert made_before(done, ids, replace(state, timeline=hidden))
    assert not made_before(
        replace(done, status=PlanStatus.ABORTED), ids, replace(state, timeline=hidden)
    )


def test_what_cannot_be_joined_is_refused(ports: TableContext) -> None:
    """One alone, no neighbours, too large together, part of a group."""
    some = visible(ports)
    refused(ports, "minor", some[:1], "one segment without deleted rows: choose a neighbour")
    refused(ports, "minor", [some[0], some[2]], r"not neighbours: .* \[0, 1\) and \[2, 3\)")
    with pytest.raises(SegmentsRefused, match="more than one output may have, 2 B"):
        request(ports, "minor", segments=some, policy=SMALL)


def test_parts_of_a_group_are_refused() -> None:
    """A group is replaced as a whole; the message names the rest of it."""
    state = after(created(), Appended(segments=(first(0), first(1))))
    whole = merged(40_000, state.timeline.visible_segments())
    parts = [
        replace(whole, id=CHUNK.segment(p), shard=replace(whole.shard, partition=p, group_size=2))
        for p in (40_000, 40_001)
    ]
    state = replace(state, timeline=state.timeline.with_changes(add=parts))
    found = look_at_table(state, Policy(), BASE)
    with pytest.raises(SegmentsRefused, match=f"replaced as a whole: choose {parts[1].id}, too"):
        finder_of(MinorPlan).chosen(found, frozenset({parts[0].id}), "", [])
    (plan,) = finder_of(MinorPlan).chosen(found, frozenset(part.id for part in parts), "", [])
    assert plan.inputs == tuple(part.id for part in parts)


def test_what_another_plan_compacts_is_refused(ports: TableContext) -> None:
    """Its name is in the message."""
    some = visible(ports)
    (pending,) = request(ports, "minor", segments=some[:2])
    refused(
        ports, "minor", some[1:3], f"being compacted: claimed by pending plan {pending.plan.id}"
    )
    refused(ports, "semi-major", some[:1], f"claimed by pending plan {pending.plan.id}")
    (major,) = request(ports, "major", segments=visible(ports, 1)[:1])
    refused(ports, "minor", visible(ports, 1)[:2], f"pending plan {major.plan.id}")


def test_deleted_rows_make_one_segment_worth_it(ports: TableContext) -> None:
    """It is written again without them."""
    Table(ports).delete("row = 0")
    (asked,) = request(ports, "minor", segments=visible(ports)[:1])
    carried_out(ports, [asked])
    assert 0 not in contents(ports)


def test_an_interval_excludes_segments(ports: TableContext) -> None:
    """One of the two says what is meant."""
    with pytest.raises(InvalidInput, match="give one of them"):
        request(ports, "minor", segments=visible(ports), interval=Interval(0, HOUR_US))
