"""Expect when a table that misses its objective meets it again: once its plans have ended.

1. The plans that mend an aim are those that are pending or running, those that begin now, and those
   that are left. For ``stale_index`` only index plans count, for the aims about files only the
   other ones.
2. A plan is expected to end so long after its request as its minutes are estimated; one that is
   left, so long after the time that its reason names. The last one decides.
3. The time is the earliest one: a plan of another table may come first when there is room again,
   and later commits bring later files.
4. Without such a time it is unknown, and the reason is given. So it is for ``publish_lag``, which
   no plan mends.
"""

from collections.abc import Iterable, Iterator, Sequence

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.time import MINUTE_US, Instant, iso
from airflow_provider_segtable.planning.fleet.fleet_plan import (
    Begun,
    Left,
    Offer,
    TableLook,
)
from airflow_provider_segtable.planning.fleet.objectives import Miss

INDEX = "index"


@dataclass(frozen=True, slots=True, kw_only=True)
class Expected:
    """When a table is expected to meet its objective; without a time ``why`` says why not."""

    at: Instant | None = None
    why: str = ""

    def __str__(self) -> str:
        """Return the time, or the reason, in words."""
        if self.at is None:
            return f"when it is met is unknown: {self.why}"
        return f"expected to be met at {iso(self.at)} at the earliest: {self.why}"

    def facts(self) -> Facts:
        """Return the expectation as plain JSON values."""
        return {"at": None if self.at is None else iso(self.at), "why": self.why}


def expected(
    look: TableLook, chosen: Iterable[Offer], left: Iterable[Left], now: Instant
) -> Expected | None:
    """Return when a table meets its objective; None if it does now.

    Args:
        look: the table.
        chosen: its offers that begin now.
        left: its offers that do not.
        now: the wall clock.
    """
    if not look.misses:
        return None
    if any(miss.name == "publish_lag" for miss in look.misses):
        return Expected(why="the next commit, or the next upkeep run, publishes the table")
    begins = [offer for offer in chosen if _mends(offer.kind, look.misses)]
    waits = [each for each in left if _mends(each.offer.kind, look.misses)]
    pending = [each for each in look.begun if each.pending and _mends(each.kind, look.misses)]
    why = _unknown(pending, begins, waits)
    if why:
        return Expected(why=why)
    at = max((*_ends(pending, begins, waits, now), now))
    return Expected(at=at, why=_plans(pending, begins, waits))


def _mends(kind: str, misses: Iterable[Miss]) -> bool:
    return any((miss.name == "stale_index") == (kind == INDEX) for miss in misses)


def _unknown(pending: Sequence[Begun], begins: Sequence[Offer], waits: Sequence[Left]) -> str:
    """Return why no time is known; empty if one is."""
    if not (pending or begins or waits):
        return "no plan of the table is due, so that its own policy waits"
    stuck = next((each for each in waits if each.until is None), None)
    if stuck is not None:
        return f"plan {stuck.offer.plan_id} waits ({stuck.code}): {stuck.reason}"
    offers = (*begins, *(each.offer for each in waits))
    if not all((*(each.minutes for each in pending), *(each.minutes for each in offers))):
        last = max((each.until for each in waits if each.until is not None), default=None)
        until = "" if last is None else f"; the last of them may begin at {iso(last)}"
        return f"the work of {_plans(pending, begins, waits)} is not estimated{until}"
    return ""


def _ends(
    pending: Iterable[Begun], begins: Iterable[Offer], waits: Iterable[Left], now: Instant
) -> Iterator[Instant]:
    for begun in pending:
        yield begun.at + round(begun.minutes * MINUTE_US)
    for offer in begins:
        yield now + round(offer.minutes * MINUTE_US)
    for each in waits:
        yield (each.until or now) + round(each.offer.minutes * MINUTE_US)


def _plans(pending: Sequence[Begun], begins: Sequence[Offer], waits: Sequence[Left]) -> str:
    """Return numbers of plans in words."""
    numbers = (
        (len(pending), "pending or running"),
        (len(begins), "to begin now"),
        (len(waits), "waiting"),
    )
    return ", ".join(f"{counted(number, 'plan')} {how}" for number, how in numbers if number)
