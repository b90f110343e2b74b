"""Whose turn it is, of several buckets that are followed at once."""

import threading
from typing import Any

import pytest

from airflow_provider_segtable.core.errors import NotFound
from airflow_provider_segtable.core.log_store.reading import Reset
from airflow_provider_segtable.table.log_store.tail import BucketTurns
from tests.contract.worlds import PATIENCE_S, eventually


class Tail:
    """A follower that finds resets, one after the other; or waits, or fails once."""

    def __init__(self, *, slow: bool = False, fails: bool = False) -> None:
        self.going, self.found, self.fails, self.closed = threading.Event(), 0, fails, False
        if not slow:
            self.going.set()

    def read(self, wait_s: float) -> Reset | None:
        """Return the next reset."""
        if self.fails:
            self.fails = False
            raise NotFound("gone")
        if not self.going.wait(wait_s):
            return None
        self.found += 1
        return Reset(epoch=1, offset=self.found)

    def close(self) -> None:
        """Note it."""
        self.closed = True


def turns_of(**tails: Tail) -> tuple[BucketTurns, dict[int, Tail]]:
    """Return the turns of some followers: ``b0=...``."""
    made, given = BucketTurns(), {int(name[1:]): tail for name, tail in tails.items()}
    for bucket, tail in given.items():
        follower: Any = tail
        made.follow(bucket, follower)
    return made, given


def test_a_slow_bucket_holds_up_no_other() -> None:
    """What a bucket finds comes in order, at most one ahead of what was taken."""
    turns, tails = turns_of(b0=Tail(slow=True), b1=Tail())
    for n in range(1, 6):
        assert turns.take(PATIENCE_S) == (1, Reset(epoch=1, offset=n))
    assert tails[1].found <= 7
    tails[0].going.set()
    eventually(lambda: turns.take(PATIENCE_S) == (0, Reset(epoch=1, offset=1)))
    turns.close()
    assert all(each.closed for each in tails.values())
    assert turns.take(0) is None


def test_an_error_is_raised_once() -> None:
    """Then the bucket is followed again; a bucket that is left is not served any more."""
    turns, _ = turns_of(b0=Tail(fails=True))
    with pytest.raises(NotFound):
        turns.take(PATIENCE_S)
    assert turns.take(PATIENCE_S) == (0, Reset(epoch=1, offset=1))
    turns.leave(0)
    turns.leave(0)
    assert turns.take(0.01) is None
    assert turns.buckets == frozenset()
