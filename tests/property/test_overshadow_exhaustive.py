"""All small histories: the incremental timeline equals the rules after every possible step.

How "every order of arrival and departure" is finite: a timeline is a value, so it is enough to
check every *edge*, each present set and each segment that may come to it or leave it. If adding
leads from T(S) to exactly T(S + x), and removing back, then by induction every sequence of adds
and removes, however long, ends in T(what is present); and T is compared with the naive rules.

The members of a group are interchangeable by their descriptors, so a group of two is absent,
half there or there; all other subsets are taken.
"""

from collections.abc import Iterable
from itertools import combinations, product

import pytest

from airflow_provider_segtable.core.segment import GroupKey, Segment
from airflow_provider_segtable.core.timeline import GroupState, Timeline
from tests.property.overshadow_model import (
    CHUNK,
    Made,
    all_groups,
    druid,
    families,
    full_groups,
    greedy,
    roots,
    segment,
)

Counts = frozenset[tuple[Made, int]]


def small_histories(roots: int, compactions: int, outputs: int) -> set[Counts]:
    """Return every present set of every history, as how many members of which groups."""
    present = set()
    for family in families(roots, compactions, outputs):
        for counts in product(*(range(made.size + 1) for made in family)):
            there = zip(family, counts, strict=True)
            present.add(frozenset((made, count) for made, count in there if count))
    return present


def crossing_sets(most: int) -> set[Counts]:
    """Return sets of groups over four roots whose ranges no compaction could have made."""
    ranges = [(start, end) for start, end in combinations(range(5), 2) if end - start > 1]
    made = [Made(start, end, minor, 1) for start, end in ranges for minor in (1, 2)]
    chosen = (c for size in range(most + 1) for c in combinations(made, size))
    return {frozenset((one, 1) for one in choice) for choice in chosen}


def members(counts: Counts) -> list[Segment]:
    return [segment(made, index) for made, count in counts for index in range(count)]


def one_less(counts: Counts) -> Iterable[tuple[Counts, Segment]]:
    """Yield each set that lacks one segment, and the segment."""
    for made, count in counts:
        less = counts - {(made, count)} | ({(made, count - 1)} if count > 1 else set())
        yield less, segment(made, count - 1)


def visible_keys(timeline: Timeline) -> list[GroupKey]:
    return [group.key for group in timeline.visible_groups(CHUNK)]


def check_edges(present: set[Counts]) -> dict[Counts, Timeline]:
    """Build T of every set, and check that every step leads from T to T."""
    built: dict[Counts, Timeline] = {frozenset(): Timeline.empty()}
    for counts in sorted(present - set(built), key=lambda c: sum(n for _, n in c)):
        for less, last in one_less(counts):
            arrived = built[less].with_changes(add=[last])
            expected = built.setdefault(counts, arrived)
            assert arrived == expected, f"adding {last.shard} to {sorted(less)}"
            gone = expected.with_changes(remove=[last.id])
            assert gone == built[less], f"removing {last.shard} from {sorted(counts)}"
    return built


def check_states(timeline: Timeline, held: list[Segment], visible: set[GroupKey]) -> None:
    for key in all_groups(held):
        hidden = any(v.overlaps(key) and v.minor_version > key.minor_version for v in visible)
        expected = GroupState.OVERSHADOWED if hidden else GroupState.STANDBY
        expected = GroupState.VISIBLE if key in visible else expected
        assert timeline.state(CHUNK, key) is expected, f"{key} among {sorted(all_groups(held))}"


def check_tiling(full: Iterable[GroupKey], visible: set[GroupKey]) -> None:
    """No root is visible twice, and any range that full groups could tile is covered."""
    assert sum(key.root_end - key.root_start for key in visible) == len(roots(visible))
    assert roots(visible) == roots(full)


def check_histories(largest: tuple[int, int, int]) -> None:
    for counts, timeline in check_edges(small_histories(*largest)).items():
        held = members(counts)
        visible = druid(held)
        assert visible_keys(timeline) == sorted(visible), f"visible of {sorted(counts)}"
        assert list(timeline.segments()) == sorted(held, key=lambda s: s.id)
        check_states(timeline, held, visible)
        check_tiling(full_groups(held), visible)
        assert timeline.complete(CHUNK) == (
            bool(held) and roots(visible) >= roots(all_groups(held))
        )


@pytest.mark.parametrize(
    "largest",
    [(4, 2, 2), (4, 3, 1)],
    ids=["4 roots, 2 compactions, outputs <= 2", "4, 3, 1"],
)
def test_every_step_of_every_small_history_obeys_the_rule(largest: tuple[int, int, int]) -> None:
    """After any adds and removes, visible is Druid's predicate over what is present.

    Size: all histories of at most 4 first-generation segments, 2 compactions (nested, adjacent,
    of one group alone) and 2 outputs each; of 4, 3 and 1. Each edge is walked both ways.
    """
    check_histories(largest)


@pytest.mark.long
@pytest.mark.timeout(900)
def test_every_step_of_larger_histories_obeys_the_rule() -> None:
    """The same for 4 first-generation segments, 3 compactions and up to 2 outputs each.

    Size: 1 621 histories, 98 656 present sets, 468 752 edges.
    """
    check_histories((4, 3, 2))


@pytest.mark.parametrize("most", [5, pytest.param(12, marks=pytest.mark.long)])
def test_every_step_over_crossing_ranges_obeys_the_general_rule(most: int) -> None:
    """Even sets that no compaction makes have one answer, whatever the order.

    Size: the 1 586 sets of at most 5 of the 6 ranges of two or more of 4 roots, at minor versions
    1 and 2; all 4 096 in a long run.
    """
    for counts, timeline in check_edges(crossing_sets(most)).items():
        held = members(counts)
        visible = greedy(held)
        assert visible_keys(timeline) == sorted(visible), f"visible of {sorted(counts)}"
        check_states(timeline, held, visible)


def test_the_two_rules_agree_on_what_compaction_makes() -> None:
    """The general rule and Druid's predicate name the same groups for legal histories."""
    for counts in small_histories(4, 2, 2):
        assert greedy(members(counts)) == druid(members(counts)), f"{sorted(counts)}"
