"""How long a bucket is left to its newest writer, by when it was taken."""

import pytest

from airflow_provider_segtable.core.log_store.tenure import (
    AT_ONCE,
    FIRST_S,
    MOST_S,
    WINDOW_US,
    left_alone_s,
)
from airflow_provider_segtable.core.time import SECOND_US

NOW = 10**15


@pytest.mark.parametrize(
    ("takeovers", "seconds"), [(0, 0), (1, 0), (AT_ONCE, 0), (3, 1), (4, 2), (6, 8), (20, MOST_S)]
)
def test_a_bucket_is_left_alone_the_longer_the_more_often_it_was_taken(
    takeovers: int, seconds: float
) -> None:
    """A job that is started anew waits for nothing; nobody waits for more than a minute."""
    assert left_alone_s([NOW - n for n in range(takeovers)], NOW) == seconds


def test_takeovers_of_long_ago_do_not_count_nor_does_time_that_has_passed() -> None:
    """A job that runs each minute without a row is never delayed."""
    each_minute = [NOW - n * 60 * SECOND_US for n in range(1000)]
    assert left_alone_s(each_minute, NOW + 60 * SECOND_US) == 0
    assert left_alone_s([NOW, NOW - 1, NOW - WINDOW_US], NOW) == 0
    assert left_alone_s([NOW, NOW - 1, NOW - 2], NOW + SECOND_US // 4) == FIRST_S * 3 / 4


def test_a_clock_that_is_behind_waits_for_the_whole_time_at_most() -> None:
    """Its present is before the event of the newest takeover."""
    assert left_alone_s([NOW, NOW - 1, NOW - 2], NOW - 3600 * SECOND_US) == FIRST_S


@pytest.mark.parametrize("first_commit_s", [0.5, 5, 30, 59])
def test_a_fight_ends_with_a_commit(first_commit_s: float) -> None:
    """Two jobs are started anew as soon as they are replaced, and commit after some time."""
    now, taken = float(NOW), [NOW]
    while (left_s := left_alone_s(taken[::-1], int(now))) < first_commit_s:
        now += max(left_s, 0.1) * SECOND_US
        taken.append(int(now))
    assert len(taken) <= 9
