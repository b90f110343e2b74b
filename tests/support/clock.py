"""Time and randomness controlled by a test.

``sleep`` never waits: it moves the clock. Equal seeds give equal tokens.
"""

import threading
from random import Random

from airflow_provider_segtable.core.time import Instant

START: Instant = 1_767_225_600_000_000  # 2026-01-01T00:00:00Z


class FakeClock:
    """``ports.clock.Clock`` that moves only by ``advance``, ``jump`` and ``sleep``."""

    def __init__(self, now: Instant = START) -> None:
        """Begin at ``now``."""
        self._mutex = threading.Lock()
        self._now = now
        self._elapsed_us = 0
        self.slept: list[float] = []

    def now(self) -> Instant:
        """Return the wall clock."""
        return self._now

    def monotonic(self) -> float:
        """Return seconds since this clock was made."""
        return self._elapsed_us / 1e6

    def sleep(self, seconds: float) -> None:
        """Advance the time at once, and record it in ``slept``."""
        self.slept.append(seconds)
        self.advance(seconds)

    def advance(self, seconds: float) -> None:
        """Advance both clocks."""
        with self._mutex:
            passed = max(0, round(seconds * 1e6))
            self._now += passed
            self._elapsed_us += passed

    def jump(self, to: Instant) -> None:
        """Set the wall clock, forward or back; the monotonic clock is unchanged."""
        self._now = to


class FakeRandomness:
    """``ports.clock.Randomness`` from a seed."""

    def __init__(self, seed: int = 0) -> None:
        """Seed the generator."""
        self._random = Random(seed)

    def token(self) -> str:
        """Return 16 hexadecimal digits."""
        return f"{self._random.getrandbits(64):016x}"

    def uniform(self) -> float:
        """Return a number in [0, 1)."""
        return self._random.random()
