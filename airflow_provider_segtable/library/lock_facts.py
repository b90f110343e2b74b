"""The facts of a table's locks, as its coordinator has them; the log decides what is committed.

The command line draws them, and the page shows them.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict
from itertools import groupby
from typing import TYPE_CHECKING

from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.locks import (
    Allocation,
    Generation,
    Lock,
    LockRequest,
    contested,
)
from airflow_provider_segtable.core.segment import SegmentId
from airflow_provider_segtable.core.time import SECOND_US, Instant, iso

if TYPE_CHECKING:
    from airflow_provider_segtable.table.context import TableContext


def locks_facts(ports: "TableContext", table_id: str) -> Facts:
    """Return the holders, oldest first, and the waiters, in the order in which they are served.

    Raises:
        CoordinatorUnavailable: there is no coordinator, or it does not answer.
    """
    coordinator = ports.coordinator
    now, progress = ports.clock.now(), coordinator.progress(table_id)
    held, waiting = coordinator.locks(table_id), coordinator.waiters(table_id)
    return {
        "coordinator": coordinator.address,
        "locks": [lock_facts(lock, now, progress.get(lock.group, {})) for lock in held],
        "waiting": [
            {**lock_facts(place, now), "waits_for": waited_for(place, (*held, *waiting[:at]))}
            for at, place in enumerate(waiting)
        ],
        "unreadable": [asdict(stray) for stray in coordinator.strays(table_id)],
    }


def lock_facts(lock: Lock, now: Instant, progress: Mapping[str, str] | None = None) -> Facts:
    """Return one lock, or one place in the queue, as plain values."""
    state = "publishing" if lock.irrevocable else "revoked" if lock.revoked else "held"
    return {
        "group": lock.group,
        "purpose": lock.purpose,
        "holder": lock.holder,
        "state": "waiting" if lock.waiting else state,
        "mode": lock.mode.value,
        "granularity": lock.granularity.value,
        "priority": lock.priority,
        "yields": lock.yields,
        "since": iso(lock.since),
        "age_s": max(0, now - lock.since) // SECOND_US,
        "intervals": [str(each) for each in lock.intervals],
        "segments": list(_by_chunk(lock.segments)),
        "new_segments": list(_by_chunk(lock.allocated)),
        "wants_new_in": [str(chunk) for chunk in lock.chunks],
        "version": lock.version,
        "revoked_by": lock.revoked.by if lock.revoked else None,
        "progress": dict(progress or {}),
    }


def waited_for(place: Lock, before: Iterable[Lock]) -> list[str]:
    """Return the groups whose locks, or places before it, contest what a waiter asks for."""
    asked = LockRequest(
        table="",
        group=place.group,
        purpose=place.purpose,
        holder=place.holder,
        segments=place.segments,
        allocate=tuple(
            Allocation(chunk=chunk, generation=Generation.FIRST, count=1, at_least=0)
            for chunk in (() if place.intervals else place.chunks)
        ),
        mode=place.mode,
        intervals=place.intervals,
    )
    return [each.group for each in before if contested(asked, each)]


def _by_chunk(segments: Iterable[SegmentId]) -> Iterator[Facts]:
    for chunk, members in groupby(sorted(segments), key=lambda segment: segment.chunk):
        yield {
            "interval": str(chunk.interval),
            "version": chunk.version,
            "partitions": [segment.partition for segment in members],
        }
