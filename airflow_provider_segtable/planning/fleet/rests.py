"""Rests: a place where a run gained little is left alone for a while.

1. The *gain* of a completed plan is the best of these shares: of the files that it was expected to
   remove, those that went; of the overlap above one, what went; of the bytes, those that went; and
   those that were reordered. It is unknown if the plan was to remove no file, and its inputs did
   not overlap, or this was not measured (``core.log.work``).
2. Below ``LITTLE`` a run gained little. Then no plan of its kind begins over the same time and
   bucket for as long as an aborted plan's inputs rest (``compaction.retry_aborted_minutes``). The
   time doubles with each further run in a row that gained little, up to ``LONGEST_US``.
3. New rows end the rest: at least ``NEW`` of the bytes of the next plan were written since.
4. An unknown gain, or more than a little one, ends the row of runs.
"""

from collections.abc import Iterable, Mapping
from itertools import takewhile
from typing import TypeAlias

from airflow_provider_segtable.core.log.plan import Plan, PlanState
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.time import DAY_US, MINUTE_US, Instant, Interval
from airflow_provider_segtable.planning.properties import Policy

LITTLE = 0.1
NEW = 0.25
LONGEST_US = DAY_US

_Place: TypeAlias = tuple[str, Interval, int]
Runs: TypeAlias = Mapping[_Place, list[PlanState]]
"""Completed plans by kind, time and bucket."""


def gained(known: PlanState) -> float | None:
    """Return the share of the possible gain that a completed plan had; None if it is unknown."""
    work, expected = known.work, len(known.plan.inputs) - known.plan.outputs
    if work is None or (expected < 1 and work.overlap_before <= 1):
        return None
    files = (work.files_read - work.files_written) / expected if expected >= 1 else 0.0
    above = work.overlap_before - 1
    overlap = (work.overlap_before - work.overlap_after) / above if above > 0 else 0.0
    size = max(work.bytes_read, 1)
    return max(files, overlap, 1 - work.bytes_written / size, work.reordered / size, 0.0)


def runs_of(plans: Iterable[PlanState]) -> Runs:
    """Return the completed plans of a table by their places."""
    runs: dict[_Place, list[PlanState]] = {}
    for known in plans:
        if known.completed:
            runs.setdefault(_place(known.plan), []).append(known)
    return runs


def rests_until(state: State, policy: Policy, runs: Runs, plan: Plan) -> Instant | None:
    """Return when the rest ends in which a plan would begin; it may have ended already.

    Args:
        state: the table.
        policy: it says how long a first rest is.
        runs: the completed plans of the table.
        plan: a plan that is not requested yet.
    """
    newest_first = sorted(runs.get(_place(plan), ()), key=lambda known: -known.last_n)
    little = tuple(takewhile(_gained_little, newest_first))
    if not little or _new(state, plan, little[0].changed_at) >= NEW * plan.size:
        return None
    first_us = policy.retry_aborted_minutes * MINUTE_US
    doubled = first_us * 2.0 ** min(len(little) - 1, 16)
    return little[0].changed_at + round(min(doubled, max(first_us, LONGEST_US)))


def _place(plan: Plan) -> _Place:
    return str(plan.kind), plan.interval, plan.chunk.bucket


def _gained_little(known: PlanState) -> bool:
    share = gained(known)
    return share is not None and share < LITTLE


def _new(state: State, plan: Plan, since: Instant) -> int:
    """Return the bytes of a plan's inputs that were written later."""
    inputs = (state.timeline.get(each) for each in plan.inputs)
    return sum(each.size for each in inputs if each and each.created > since)
