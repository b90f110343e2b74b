"""The lock rules a second time, by brute force: every lock is a set of cells.

1. A cell is (hour, name): a segment's name in each hour of its interval. A time chunk lock has the
   cells (hour, ANY), which stand for every name in that hour.
2. Two locks touch in the cells they share. Nothing here knows of intervals, clipping or what is
   left of an interval: what was yielded is taken out of the set.
"""

from dataclasses import dataclass, field
from typing import TypeAlias

from airflow_provider_segtable.core.locks import LockRequest
from airflow_provider_segtable.core.segment import SegmentId
from airflow_provider_segtable.core.time import HOUR_US, Interval

ANY = "any"
Name: TypeAlias = object
Cell: TypeAlias = tuple[int, Name]
ALONG = {frozenset({"shared"}), frozenset({"append"})}


def hours(interval: Interval) -> set[int]:
    """Return the hours of an interval that has whole ones."""
    return set(range(interval.start // HOUR_US, interval.end // HOUR_US))


def cells_of(request: LockRequest, ids: tuple[SegmentId, ...] | None = None) -> set[Cell]:
    """Return the cells a request wants, or has; new ids have names nobody else knows yet."""
    if request.intervals:
        return {(hour, ANY) for interval in request.intervals for hour in hours(interval)}
    cells: set[Cell] = {(h, each) for each in request.segments for h in hours(each.interval)}
    if ids is not None:
        return cells | {(h, each) for each in ids for h in hours(each.interval)}
    for n, ask in enumerate(request.allocate):
        cells |= {(h, ("new", n)) for h in hours(ask.chunk.interval)}
    return cells


@dataclass
class Holder:
    """Who holds which cells."""

    request: LockRequest
    cells: set[Cell]
    ids: tuple[SegmentId, ...]
    irrevocable: bool = False
    revoked: bool = False


@dataclass
class Model:
    """All locks of a table."""

    holders: dict[str, Holder] = field(default_factory=dict)

    def shared(self, request: LockRequest, holder: Holder) -> set[Cell]:
        """Return the holder's cells that the request cannot have beside it."""
        if frozenset({request.mode.value, holder.request.mode.value}) in ALONG:
            return set()
        wanted, theirs = cells_of(request), holder.cells
        if (request.mode.value, holder.request.mode.value) == ("append", "replace"):
            wanted = {
                (h, ("new", n))
                for n, ask in enumerate(request.allocate)
                for h in hours(ask.chunk.interval)
                if not within(ask.chunk.interval, holder.request)
            }
        if (request.mode.value, holder.request.mode.value) == ("replace", "append"):
            inside = {each for each in holder.ids if within(each.interval, request)}
            theirs = {(h, name) for h, name in theirs if name not in inside}
        return {
            (hour, name)
            for hour, name in theirs
            if any(h == hour and (n == name or ANY in (n, name)) for h, n in wanted)
        }

    def verdict(self, request: LockRequest) -> tuple[str, set[str]]:
        """Return what becomes of a request, and whose locks are concerned."""
        rivals = {
            group: holder for group, holder in self.holders.items() if self.shared(request, holder)
        }
        if not rivals:
            return "granted", set()
        weak = all(
            holder.request.priority < request.priority
            and not holder.irrevocable
            and holder.request.yields < 3
            for holder in rivals.values()
        )
        return ("revokes" if weak else "waits"), set(rivals)

    def take(self, request: LockRequest, ids: tuple[SegmentId, ...]) -> None:
        """Note a grant, and what others lose by it: a segment as a whole, a chunk hour by hour."""
        for holder in self.holders.values():
            lost = self.shared(request, holder)
            holder.revoked = holder.revoked or bool(lost)
            names = {name for _, name in lost if name != ANY}
            holder.cells = {
                cell for cell in holder.cells if cell not in lost and cell[1] not in names
            }
        self.holders[request.group] = Holder(request, cells_of(request, ids), ids)

    def check(self) -> None:
        """Of no two locks of different groups that are not along with each other do cells meet."""
        everyone = list(self.holders.values())
        for one in everyone:
            for other in everyone:
                pair = frozenset({one.request.mode.value, other.request.mode.value})
                if one is other or pair in ALONG or pair == {"append", "replace"}:
                    continue
                meeting = {
                    a
                    for a in one.cells
                    for b in other.cells
                    if a[0] == b[0] and (a[1] == b[1] or ANY in (a[1], b[1]))
                }
                assert not meeting


def within(inner: Interval, replace: LockRequest) -> bool:
    """Tell whether one interval of a replace has every hour of another interval."""
    return any(hours(inner) <= hours(outer) for outer in replace.intervals)
