"""What summaries alone must not rule out: plans just at a limit, and needs of several chunks."""

from dataclasses import replace

import pytest

from airflow_provider_segtable.core.log.group_plans import SemiMajorPlan
from airflow_provider_segtable.core.log.major_plan import MajorPlan
from airflow_provider_segtable.core.segment import ChunkKey, Segment
from airflow_provider_segtable.core.time import DAY_US, Granularity
from airflow_provider_segtable.planning.properties import Policy
from airflow_provider_segtable.planning.selection import BRIEFLY
from airflow_provider_segtable.planning.table_plan import plan_all
from tests.support.builders import BASE, CHUNK, JANUARY, created, first

COLD = BASE + 90 * DAY_US


def kinds(policy: Policy, *segments: Segment) -> list[str]:
    """Return the kinds of the plans that a brief run chooses."""
    state = created()
    state = replace(state, timeline=state.timeline.with_changes(add=segments))
    return [str(plan.kind) for plan in plan_all(state, policy, COLD, explain=BRIEFLY).chosen]


def sizes(*some: tuple[int, str]) -> list[Segment]:
    """Return segments of a chunk by size and clustering."""
    return [
        replace(first(at, size=size), clustering=order) for at, (size, order) in enumerate(some)
    ]


@pytest.mark.parametrize(("unsorted", "due"), [(999, False), (1000, True)])
@pytest.mark.parametrize(
    ("kind", "other"), [(SemiMajorPlan.kind, "major"), (MajorPlan.kind, "semi_major")]
)
def test_a_share_just_at_the_limit_is_due(kind: str, other: str, unsorted: int, due: bool) -> None:  # noqa: FBT001
    """Half of the bytes are unsorted, of half."""
    policy = replace(
        Policy(target_size=1000, clustering="carrier", min_segments=2),
        major_unclustered=0.5,
        semi_major_unclustered=0.5,
        **{other: "off"},
    )
    assert kinds(policy, *sizes((1000, "carrier"), (unsorted, ""))) == ([kind] if due else [])


def test_small_files_of_chunks_that_cross_count_together() -> None:
    """One in a month and one in a week of it: neither chunk has two."""
    week = ChunkKey(Granularity.WEEK.chunk(JANUARY.start + 9 * DAY_US), BASE + 1)
    policy = Policy(target_size=1000)
    alone = [first(0, size=1), first(0, size=1, chunk=week)]
    assert kinds(policy, *alone) == [MajorPlan.kind]
    assert kinds(policy, *alone[:1]) == kinds(policy, *alone[1:]) == []
    assert CHUNK.interval.encloses(week.interval)


@pytest.mark.parametrize(("size", "kind"), [(500, "major"), (501, "minor")])
def test_twice_the_ideal_number_of_segments_is_due(size: int, kind: str) -> None:
    """Two of 500 bytes could be one of 1,000; two that are larger are ideal, and joined at most."""
    assert kinds(Policy(target_size=1000), *sizes((size, ""), (size, ""))) == [kind]


@pytest.mark.parametrize(("size", "due"), [(1800, False), (1801, True)])
def test_one_oversized_file_beside_no_base_is_due(size: int, due: bool) -> None:  # noqa: FBT001
    """As the largest size is known, and not only its power of two."""
    found = kinds(Policy(target_size=1000), *sizes((1000, ""), (size, "")))
    assert found == ([MajorPlan.kind] if due else [])
