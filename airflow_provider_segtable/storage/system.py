"""The real clock and real randomness."""

import random
import secrets
import time

from airflow_provider_segtable.core.interval import Instant


class SystemClock:
    """This host's clock."""

    def now(self) -> Instant:
        """Return the wall clock in microseconds since the epoch."""
        return time.time_ns() // 1_000

    def monotonic(self) -> float:
        """Return seconds that never go back."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)


class SystemChance:
    """The operating system's randomness."""

    def token(self) -> str:
        """Return 16 hexadecimal digits nobody can guess."""
        return secrets.token_hex(8)

    def uniform(self) -> float:
        """Return a number in [0, 1)."""
        return random.random()  # noqa: S311  # jitter, not a secret
