"""When a log store's service makes a checkpoint: by age, size, number of records, or on request.

1. A checkpoint is due when the oldest waiting record is ``seconds`` old, or when ``nbytes`` or
   ``records`` wait, whichever comes first; or when one is requested.
2. After a failure nothing is tried for a pause, which doubles with each failure in a row. The
   records wait, and writers wait behind them for room: nothing is lost.
3. Times are seconds of a clock that never goes back, so that a host's clock may be set.
"""

import math
from dataclasses import dataclass
from typing import TypeAlias

from airflow_provider_segtable.core.counted import MIB
from airflow_provider_segtable.core.errors import InvalidInput

FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPolicy:
    """Bounds of what waits for a checkpoint."""

    seconds: float = 10.0
    nbytes: float = 32 * MIB
    records: float = 1_000_000

    def __post_init__(self) -> None:
        """Refuse bounds that would ask for a checkpoint of nothing."""
        for name in ("seconds", "nbytes", "records"):
            if not getattr(self, name) > 0:
                raise InvalidInput(
                    f"checkpoints after {getattr(self, name)} {name}: give more than 0"
                )


ON_REQUEST = CheckpointPolicy(seconds=math.inf, nbytes=math.inf, records=math.inf)
"""Checkpoints are made on request alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """What waits for a checkpoint, and since when."""

    nbytes: int
    records: int
    since_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """How many attempts in a row have failed, and when the last one did."""

    count: int = 0
    at_s: float = -math.inf

    @property
    def over_s(self) -> float:
        """Return when the pause after the last failure ends."""
        pause = FIRST_PAUSE_S * 2.0 ** min(self.count - 1, 10)
        return self.at_s + min(LONGEST_PAUSE_S, pause)


NO_FAILURES = Failures()


@dataclass(frozen=True, slots=True)
class Due:
    """A checkpoint is due, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing is due for so many seconds, unless more records come."""

    seconds: float


Step: TypeAlias = Due | Wait


def next_step(
    policy: CheckpointPolicy,
    backlog: Backlog,
    failures: Failures,
    *,
    now_s: float,
    requested: bool = False,
) -> Step:
    """Return whether a checkpoint is due now, or for how long none is."""
    pause_s = failures.over_s - now_s
    age_s = now_s - backlog.since_s
    due = {
        "requested": requested,
        "size": backlog.nbytes >= policy.nbytes,
        "records": backlog.records >= policy.records,
        "age": backlog.records > 0 and age_s >= policy.seconds,
    }
    reason = next((name for name, holds in due.items() if holds), None)
    if reason is not None:
        return Wait(pause_s) if pause_s > 0 else Due(reason)
    return Wait(policy.seconds - age_s if backlog.records else policy.seconds)
