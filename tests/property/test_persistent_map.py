"""The persistent mapping and the recent commits, against a plain dictionary."""

import random

from hypothesis import given
from hypothesis import strategies as st

from airflow_provider_segtable.core.log.state import LEAST_DELTA, PersistentMap, RecentCommits
from tests.examples import examples


@examples(50)
@given(st.randoms(use_true_random=False), st.sampled_from([5, 60, 4000]))
def test_any_entries_equal_a_plain_dictionary(draw: random.Random, keys: int) -> None:
    """After each change all entries, their order and number are a dictionary's; old values stay."""
    naive: dict[int, int] = dict.fromkeys(range(0, keys, 7), 0)
    mapping = PersistentMap(dict(naive))
    for _ in range(3 * LEAST_DELTA):
        before, old = mapping, dict(naive)
        some = {draw.randrange(keys): draw.random() for _ in range(draw.randrange(4))}
        naive |= some
        mapping = mapping.with_entries(some)
        assert before == old, "a change reached into the old value"
        assert len(mapping) == len(naive)
        assert mapping.get(-1) is None
    assert list(mapping.items()) == list(naive.items())
    assert mapping == naive


@examples(20)
@given(st.integers(1, 200), st.integers(1, 500))
def test_exactly_the_newest_commits_are_kept(keep: int, events: int) -> None:
    """However many events there were, the ids of the last ``keep`` are known, oldest first."""
    commits = RecentCommits()
    for n in range(events):
        commits = commits.added({f"commit-{n}": n}, n, keep)
    kept = {f"commit-{n}": n for n in range(max(0, events - keep), events)}
    assert list(commits.items()) == list(kept.items())
    assert commits.get("commit-0") == kept.get("commit-0")
