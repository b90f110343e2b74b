"""Follows several buckets at once, and gives their records in turn.

1. Each bucket has a thread of its own, which follows it (``tail``) and holds one thing that it has
   found, until it is taken. So a bucket that is slow, or far behind, holds up no other one, and a
   reader that takes nothing holds up everything: memory is bounded.
2. Buckets that have something are served in turn: none is served twice while another one waits.
3. An error of a bucket is raised once by ``take``; then the bucket is followed again.
4. Buckets come and go (``follow``, ``leave``), as members of a consumer group share them.
"""

import threading
import time
from collections import deque
from dataclasses import dataclass, field

from airflow_provider_segtable.table.log_store.tail import BucketTail, Found

SLICE_S = 0.2
"""Longest wait of a bucket's thread before it looks whether it is wanted still."""


@dataclass(slots=True)
class _Followed:
    """A bucket's follower, its thread, and what it has found."""

    tail: BucketTail
    thread: threading.Thread = field(init=False)
    ready: "deque[Found | Exception]" = field(default_factory=deque)
    wanted: bool = True


class BucketTurns:
    """Several buckets, each followed by a thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._followed: dict[int, _Followed] = {}
        self._turns: deque[int] = deque()

    @property
    def buckets(self) -> frozenset[int]:
        """Return the buckets that are followed."""
        return frozenset(self._followed)

    def follow(self, bucket: int, tail: BucketTail) -> None:
        """Begin to follow a bucket."""
        followed = _Followed(tail=tail)
        followed.thread = threading.Thread(
            target=self._run, args=(bucket, followed), name=f"log-bucket-{bucket}", daemon=True
        )
        with self._changed:
            self._followed[bucket] = followed
        followed.thread.start()

    def leave(self, bucket: int) -> None:
        """Follow a bucket no more, and drop what it has found; wait for its thread."""
        with self._changed:
            followed = self._followed.pop(bucket, None)
            self._turns = deque(each for each in self._turns if each != bucket)
            if followed is None:
                return
            followed.wanted = False
            self._changed.notify_all()
        followed.thread.join()

    def take(self, wait_s: float) -> tuple[int, Found] | None:
        """Return what the next bucket in turn has found; None if nothing comes in time.

        Raises:
            SegtableError: a bucket could not be read; the next call goes on.
        """
        deadline = time.monotonic() + wait_s
        with self._changed:
            while not self._turns:
                left = deadline - time.monotonic()
                if left <= 0 or not self._changed.wait(left):
                    return None
            bucket = self._turns.popleft()
            found = self._followed[bucket].ready.popleft()
            self._changed.notify_all()
        if isinstance(found, Exception):
            raise found
        return bucket, found

    def close(self) -> None:
        """Follow no bucket any more."""
        with self._changed:
            for followed in self._followed.values():
                followed.wanted = False
            self._changed.notify_all()
        for bucket in self.buckets:
            self.leave(bucket)

    def _run(self, bucket: int, followed: _Followed) -> None:
        while followed.wanted:
            found: Found | Exception | None
            try:
                found = followed.tail.read(SLICE_S)
            except Exception as error:  # noqa: BLE001 - the reader's thread gets it
                found = error
            if found is not None:
                self._offer(bucket, followed, found)
        followed.tail.close()

    def _offer(self, bucket: int, followed: _Followed, found: Found | Exception) -> None:
        """Wait until the last find was taken, and offer the next."""
        with self._changed:
            while followed.wanted and followed.ready:
                self._changed.wait()
            if followed.wanted:
                followed.ready.append(found)
                self._turns.append(bucket)
                self._changed.notify_all()
