"""Time and randomness, passed in so that a simulation can control both.

1. ``now`` may jump either way; correctness must not depend on it alone (the log orders events).
2. Code waits only by ``sleep``; ``monotonic`` measures deadlines.
3. ``token`` returns 16 hexadecimal digits that cannot be guessed and never repeat.
"""

from typing import Protocol

from airflow_provider_segtable.core.time import Instant


class Clock(Protocol):
    """The wall clock, the deadline clock and waiting."""

    def now(self) -> Instant:
        """Return the wall clock in microseconds since the epoch, UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds from an arbitrary origin, never decreasing."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait for a number of seconds."""
        ...


class Randomness(Protocol):
    """A source of randomness."""

    def token(self) -> str:
        """Return 16 fresh hexadecimal digits."""
        ...

    def uniform(self) -> float:
        """Return a number in [0, 1), for jitter."""
        ...
