"""Rules of lock requests and claims, shared by all adapters.

1. For the requests behind it (``core.locks.lockbox.ahead``), a place in the queue counts as a lock
   on its segments and intervals, so that small requests do not starve a large one.
2. A higher priority overtakes. A blocking lock that was granted after the place was taken is an
   overtaker. Each counts once as a yield, so that a place becomes firm in the end.
3. The error at the deadline names the holders, their locks and times, and the way out.
"""

from collections.abc import Iterable, Sequence

from airflow_provider_segtable.core.errors import InvalidInput, LockRevoked, LockTimeout
from airflow_provider_segtable.core.locks.lockbox import (
    Extent,
    FencingToken,
    Lock,
    LockRequest,
    contested,
)
from airflow_provider_segtable.core.time.interval import Instant, iso

SECOND_US = 1_000_000


def place_in_queue(request: LockRequest, since: Instant, token: FencingToken) -> Lock:
    """Return a waiting request as a lock, for ``core.locks.lockbox.decide``."""
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
    first = on[0]
    what = _named(contested(request, first)) or f"lock group {request.group}"
    verb = "is awaited, earlier in the queue, by" if first.waiting else "is held by"
    age_s = max(0, now - first.since) / SECOND_US
    others = f" ({len(on) - 1} more block it)" if len(on) > 1 else ""
    return LockTimeout(
        f"{what} of table {request.table} {verb} {first.holder} for {first.purpose}, "
        f"group {first.group}, since {iso(first.since)} ({age_s:.0f} s){others}; gave up after "
        f"{waited_s:.1f} s at {address}. Wait longer, or stop that worker: its locks end with "
        "its session"
    )


def _named(extent: Extent) -> str:
    segments, intervals = sorted(extent.segments), sorted(extent.intervals)
    names = [f"segment {each}" for each in segments[:1]] + [f"{each}" for each in intervals[:1]]
    more = len(segments) + len(intervals) - 1
    return names[0] + (f" and {more} more" if more else "") if names else ""
