"""Rules of lock requests and claims, shared by all adapters.

1. For the requests behind it (``core.locks.ahead``), a place in the queue counts as a lock
   on its segments and intervals, so that small requests do not starve a large one.
2. A higher priority overtakes. A blocking lock that was granted after the place was taken is an
   overtaker. Each counts once as a yield, so that a place becomes firm in the end.
3. The error at the deadline names the holders, their locks and times, and the way out.
4. A request that has waited for ``SAY_AFTER_S`` logs the same as a warning, with the longest time
   that it may still take; again if another holder blocks it, and each ``SAY_EVERY_S``. So commands,
   the logs of applications and of Airflow's tasks show it.
"""

import logging
from collections.abc import Iterable, Sequence
from dataclasses import field

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput, LockRevoked, LockTimeout
from airflow_provider_segtable.core.locks import Extent, FencingToken, Lock, LockRequest, contested
from airflow_provider_segtable.core.time import SECOND_US, Instant, iso

SAY_AFTER_S = 2.0
SAY_EVERY_S = 60.0

_LOG = logging.getLogger("airflow_provider_segtable.coordination")


def place_in_queue(request: LockRequest, since: Instant, token: FencingToken) -> Lock:
    """Return a waiting request as a lock, for ``core.locks.decide``."""
    return Lock(
        group=request.group,
        purpose=request.purpose,
        holder=request.holder,
        priority=request.priority,
        segments=request.segments,
        allocated=(),
        since=since,
        token=token,
        mode=request.mode,
        intervals=request.intervals,
        yields=request.yields,
        waiting=True,
        chunks=tuple(dict.fromkeys(ask.chunk for ask in request.allocate)),
    )


def overtakers(place: Lock, on: Iterable[Lock]) -> set[str]:
    """Return the blocking groups that were granted after a place was taken."""
    return {lock.group for lock in on if not lock.waiting and place.token.older_than(lock.token)}


def refuse_paths(*names: str) -> None:
    """Raise ``InvalidInput`` for the name of a claim, or of its group, that is no node's name."""
    for name in names:
        if not name or "/" in name or "\0" in name or name in {".", ".."}:
            raise InvalidInput(
                f"{name!r} is not a name to claim: use one without '/', '.' and '..'"
            )


def revoked_error(lock: Lock) -> LockRevoked:
    """Return the error for the holder of a revoked lock."""
    by = lock.revoked.by if lock.revoked else "an unknown worker"
    return LockRevoked(
        f"the lock of {lock.group}, taken for {lock.purpose}, was revoked by {by}: do not commit; "
        "run the plan again"
    )


def timed_out(
    request: LockRequest, on: Sequence[Lock], *, address: str, now: Instant, waited_s: float
) -> LockTimeout:
    """Return the error for a request still blocked by ``on`` at its deadline."""
    return LockTimeout(
        f"{_blocked(request, on, now)}; gave up after {waited_s:.1f} s at {address}. Wait longer, "
        "or stop that worker: its locks end with its session"
    )


def _blocked(request: LockRequest, on: Sequence[Lock], now: Instant) -> str:
    """Return the held locks, their holder, its purpose and the start."""
    first = on[0]
    held = _named(contested(request, first)) or f"lock group {request.group}"
    verb = "is awaited, earlier in the queue, by" if first.waiting else "is held by"
    age_s = max(0, now - first.since) / SECOND_US
    others = f" ({len(on) - 1} more block it)" if len(on) > 1 else ""
    return (
        f"{held} of table {request.table} {verb} {first.holder} for {first.purpose}, "
        f"group {first.group}, since {iso(first.since)} ({age_s:.0f} s){others}"
    )


@dataclass(slots=True)
class WaitLog:
    """The log of one waiting request (rule 4).

    Attributes:
        request: the request.
        wait_s: how long it waits at most.
        session_s: how long the coordinator keeps the locks of a holder that died; 0 if it does not.
    """

    request: LockRequest
    wait_s: float
    session_s: float = 0.0
    _said: str = ""
    _due_s: float = field(default_factory=lambda: SAY_AFTER_S)

    def pause_s(self, waited_s: float) -> float:
        """Return how many seconds to wait until the next line, or the deadline."""
        return max(0.0, min(self.wait_s, self._due_s) - waited_s)

    def blocked(self, on: Sequence[Lock], *, now: Instant, waited_s: float) -> None:
        """Log the blocking holder, if that is due."""
        changed = self._said not in ("", on[0].group)
        if waited_s < self._due_s and not changed:
            return
        self._said, self._due_s = on[0].group, waited_s + SAY_EVERY_S
        dies = f", {self.session_s:.0f} s after its last sign of life" if self.session_s else ""
        _LOG.warning(
            "waiting for a lock: %s. Waits %.0f s more at most; if that worker died, its locks end "
            "with its session%s",
            _blocked(self.request, on, now),
            self.wait_s - waited_s,
            dies,
        )


def _named(extent: Extent) -> str:
    segments, intervals = sorted(extent.segments), sorted(extent.intervals)
    names = [f"segment {each}" for each in segments[:1]] + [f"{each}" for each in intervals[:1]]
    more = len(segments) + len(intervals) - 1
    return names[0] + (f" and {more} more" if more else "") if names else ""
