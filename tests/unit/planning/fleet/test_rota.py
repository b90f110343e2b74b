"""A rota: each table's moment comes once in a period, whenever runs are."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.time import HOUR_US, parse_instant
from airflow_provider_segtable.planning.fleet.rota import WEEK_US, due, sampled

START = parse_instant("2026-01-01")
NAMES = [f"events/{n}" for n in range(200)]


@given(st.lists(st.integers(1, 60), min_size=1, max_size=300))
def test_each_table_is_due_once_a_week(hours: list[int]) -> None:
    """However long the pauses between runs are: none is left out, and none comes twice."""
    now, counts = START, Counter[str]()
    for pause in hours:
        since, now = now, now + pause * HOUR_US
        counts.update(name for name in NAMES[:20] if due(name, since, now))
    weeks = (now - START) / WEEK_US
    assert all(int(weeks) <= counts[name] <= int(weeks) + 1 for name in NAMES[:20])


def test_moments_are_spread_over_the_week() -> None:
    """No run has much more to do than another one."""
    runs = Counter(
        hour
        for hour in range(0, 168, 24)
        for name in NAMES
        if due(name, START + hour * HOUR_US, START + (hour + 24) * HOUR_US)
    )
    assert runs.total() == len(NAMES)
    assert max(runs.values()) < 3 * min(runs.values())


def test_another_part_is_looked_at_more_closely_each_week() -> None:
    """In four weeks all of them, each once."""
    found = Counter(
        name for week in range(4) for name in NAMES if sampled(name, START + week * WEEK_US, 4)
    )
    assert set(found.values()) == {1}
    assert len(found) == len(NAMES)
    first = sum(sampled(name, START, 4) for name in NAMES)
    assert len(NAMES) / 8 < first < len(NAMES) / 2
