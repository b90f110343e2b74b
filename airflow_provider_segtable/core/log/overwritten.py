"""The event times that recent overwrites replaced, by which two overwrites notice each other.

An overwrite replaces all rows of its time, so it must see those that another one wrote first, even
if both found nothing to delete. Only overwrites that began before a recent one need these entries;
so the newest ``KEPT`` suffice. An author that has missed more has to look again.
"""

from dataclasses import dataclass

from airflow_provider_segtable.core.time.interval import Interval

KEPT = 256


@dataclass(frozen=True, slots=True)
class Overwritten:
    """Event ``n`` replaced the rows of these intervals; they are outer bounds."""

    n: int
    intervals: tuple[Interval, ...]


def rival(recent: tuple[Overwritten, ...], seen: int, intervals: tuple[Interval, ...]) -> int:
    """Return the newest event after ``seen`` that may have overwritten an interval, or 0."""
    since = [each for each in recent if each.n > seen]
    if intervals and len(since) == KEPT:
        return since[-1].n  # older ones are not recorded any more
    hits = (
        each.n
        for each in since
        if any(mine.overlaps(other) for mine in intervals for other in each.intervals)
    )
    return max(hits, default=0)
