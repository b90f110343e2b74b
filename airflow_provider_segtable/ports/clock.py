"""Time and chance, passed in so that a simulation can own both.

1. ``now`` may jump either way; nothing correct may depend on it alone (the log orders events).
2. ``sleep`` is the only way our code waits; ``monotonic`` measures deadlines.
3. ``token`` returns 16 hexadecimal digits nobody can guess or repeat.
"""

from typing import Protocol

from airflow_provider_segtable.core.time.interval import Instant


class Clock(Protocol):
    """Wall clock, deadline clock and waiting."""

    def now(self) -> Instant:
        """Return the wall clock in microseconds since the epoch, UTC."""
        ...

    def monotonic(self) -> float:
        """Return seconds from an arbitrary origin; never goes back."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait."""
        ...


class Randomness(Protocol):
    """Randomness."""

    def token(self) -> str:
        """Return 16 fresh hexadecimal digits."""
        ...

    def uniform(self) -> float:
        """Return a number in [0, 1), for jitter."""
        ...
