"""What a lock request waits for, the same in every adapter.

1. A place in the queue counts as a lock on what it asks for: who came first goes first among
   requests that contest a segment, and a large request is not starved by small ones.
2. Requests that contest nothing never wait for each other, so an append waits for nobody.
3. Who gives up waiting is told who holds what since when, and the way out.
"""

from collections.abc import Sequence

from airflow_provider_segtable.core.errors import LockTimeout
from airflow_provider_segtable.core.interval import Instant, iso
from airflow_provider_segtable.core.lockbox import FencingToken, Lock, LockRequest

SECOND_US = 1_000_000


def place_in_queue(request: LockRequest, since: Instant) -> Lock:
    """Return the lock that stands for a waiting request, for ``core.lockbox.decide``."""
    return Lock(
        group=request.group,
        purpose=request.purpose,
        holder=request.holder,
        priority=request.priority,
        segments=request.segments,
        allocated=(),
        since=since,
        token=FencingToken("", 0),
    )


def timed_out(
    request: LockRequest, on: Sequence[Lock], *, address: str, now: Instant, waited_s: float
) -> LockTimeout:
    """Return the error for a request still blocked by ``on`` at its deadline."""
    first = on[0]
    contested = sorted(first.covered & request.segments)
    what = f"segment {contested[0]}" if contested else f"lock group {request.group}"
    if len(contested) > 1:
        what += f" and {len(contested) - 1} more"
    age_s = max(0, now - first.since) / SECOND_US
    others = f" ({len(on) - 1} more in the way)" if len(on) > 1 else ""
    return LockTimeout(
        f"{what} of table {request.table} is taken by {first.holder} for {first.purpose}, "
        f"group {first.group}, since {iso(first.since)} ({age_s:.0f} s){others}; gave up after "
        f"{waited_s:.1f} s at {address}. Wait longer, or stop that worker: its locks end with "
        "its session"
    )
