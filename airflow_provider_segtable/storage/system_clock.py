"""The machine's own clock and randomness."""

import secrets
import time

from airflow_provider_segtable.core.time import Instant

_RANDOM = secrets.SystemRandom()
TOKEN_BYTES = 8


class SystemClock:
    """``ports.clock.Clock`` of this machine."""

    def now(self) -> Instant:
        """Return the wall clock in microseconds since the epoch, UTC."""
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        """Return seconds from an arbitrary origin; never goes back."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait for a number of seconds."""
        time.sleep(seconds)


class SystemRandomness:
    """``ports.clock.Randomness`` from the operating system."""

    def token(self) -> str:
        """Return 16 fresh hexadecimal digits."""
        return secrets.token_hex(TOKEN_BYTES)

    def uniform(self) -> float:
        """Return a number in [0, 1)."""
        return _RANDOM.random()
