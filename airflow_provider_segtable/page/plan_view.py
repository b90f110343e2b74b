"""Plans and reasons: the work of a table, done, running and due, and a reason for every rest.

1. *Pending* plans wait for a worker; *running* ones have one, with the progress that it reports.
2. *Done* plans have the expectation and the measure side by side.
3. *Chosen* plans would begin now. *Left* is everything else, with a code, a sentence, and the
   number that would change it.
"""

import re
from collections.abc import Iterator, Mapping, Sequence

from fastapi import APIRouter
from pydantic import Field

from airflow_provider_segtable.core.log.plan import Plan, PlanState, PlanStatus
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import ChunkKey
from airflow_provider_segtable.core.time import SECOND_US, Instant, Interval, iso
from airflow_provider_segtable.page.answer import Answer, Shown
from airflow_provider_segtable.page.answer import Limit as MostListed
from airflow_provider_segtable.page.held_locks import HeldLocks, LockReader
from airflow_provider_segtable.page.lake import Lake, Seen
from airflow_provider_segtable.page.plan_bars import Place, PlanBar, bar_of, place_of
from airflow_provider_segtable.page.recent import Recent
from airflow_provider_segtable.page.table_planning import Planning, plannings_of
from airflow_provider_segtable.planning.fleet.fleet_plan import Left
from airflow_provider_segtable.planning.fleet.rests import gained
from airflow_provider_segtable.planning.selection import Code, Skipped, Threshold


class PlanOffer(Shown):
    """A plan that would begin now."""

    id: str
    kind: str
    place: Place
    segments: int
    rows: int
    bytes: int = Field(description="of its inputs: the cost")
    outputs: int
    gain: float = Field(description="segments that it removes or tidies")
    expected_seconds: float
    reason: str
    clustering: str
    granularity: str | None
    index: str


class PlanProgress(Shown):
    """A pending or running plan."""

    bar: PlanBar
    place: Place
    outputs: int
    expected_seconds: float
    age_seconds: float = Field(description="since its request")
    holder: str = Field(description="holder of its locks, or waiter for them; empty if none")
    waiting: bool = Field(description="whether its worker waits for locks")
    progress: dict[str, str] = Field(description="as its worker reports it")
    share: float | None = Field(description="of the work, 0 to 1; None if not reported")


class PlanDone(Shown):
    """A completed or aborted plan: expected and measured."""

    bar: PlanBar
    place: Place
    expected_outputs: int
    expected_files_removed: int
    files_removed: int | None
    expected_seconds: float
    gained: float | None = Field(description="share of the possible gain, 0 to 1; None: unknown")
    overlap_before: float | None = Field(description="files over one instant, on average")
    overlap_after: float | None
    bytes_reordered: int | None


class Limit(Shown):
    """The number that would change a decision: the present value, and the bound."""

    name: str = Field(description="the property, e.g. compaction.min_segments")
    value: float | None
    bound: float | None
    unit: str = Field(description="bytes, seconds, segments, share, plans; empty: a count")


class LeftAlone(Shown):
    """A part of the table that no plan is made for."""

    place: Place
    places: int = Field(description="number of time chunks or buckets with equal reasons")
    kind: str
    code: str = Field(description="stable word")
    sentence: str
    number: Limit | None
    until: str | None = Field(description="when the reason ends by itself, ISO-8601 UTC")


class Plans(Shown):
    """All work of a table at one version."""

    pending: list[PlanProgress]
    running: list[PlanProgress]
    done: list[PlanDone] = Field(description="newest first")
    chosen: list[PlanOffer] = Field(description="best first")
    left: list[LeftAlone]
    done_total: int
    left_total: int
    planned_version: int = Field(description="the version that chosen and left are of")
    planned_at: str = Field(description="when they were found, ISO-8601 UTC")
    whole: bool = Field(description="whether all places were looked at")
    due: str | None = Field(description="when another look may differ by itself")
    trouble: str = Field(description="why progress is not known; empty if it is")


# Pure functions
def plans_of(
    state: State,
    planning: Planning,
    locks: HeldLocks,
    now: Instant,
    limit: int,
    left: Sequence[LeftAlone],
) -> Plans:
    """Return all work of a table, and all that has none.

    Args:
        state: the newest version.
        planning: its planning.
        locks: the locks that its workers hold.
        now: the wall clock.
        limit: most plans and reasons of each list.
        left: ``left_alone`` of the planning.
    """
    pending = [_progress(known, planning, locks, now) for known in state.pending_plans()]
    ended = [known for known in state.plans.values() if not known.status.pending]
    newest = sorted(ended, key=lambda known: -known.last_n)
    due = planning.planned.due
    requested = {known.plan.id for known in state.plans.values() if not _aborted(known)}
    return Plans(
        pending=[each for each in pending if each.bar.status != "inflight"][:limit],
        running=[each for each in pending if each.bar.status == "inflight"][:limit],
        done=[_done(known, planning) for known in newest[:limit]],
        chosen=[offer_of(plan, planning) for plan in planning.chosen if plan.id not in requested][
            :limit
        ],
        left=[*left[:limit]],
        done_total=len(ended),
        left_total=len(left),
        planned_version=planning.n,
        planned_at=iso(planning.now),
        whole=planning.planned.whole,
        due=None if due is None else iso(due),
        trouble=locks.trouble,
    )


def _aborted(known: PlanState) -> bool:
    return known.status is PlanStatus.ABORTED


def offer_of(plan: Plan, planning: Planning) -> PlanOffer:
    """Return a plan that would begin now."""
    facts = plan.facts()
    return PlanOffer(
        id=plan.id,
        kind=plan.kind,
        place=_place(plan),
        segments=len(plan.inputs),
        rows=plan.rows,
        bytes=plan.size,
        outputs=plan.outputs,
        gain=round(planning.gain(plan), 3),
        expected_seconds=round(planning.seconds(plan), 3),
        reason=plan.reason,
        clustering=facts["clustering"] or "",
        granularity=facts["granularity"],
        index=facts["index"] or "",
    )


def _place(plan: Plan) -> Place:
    if plan.claim.segments is None:
        return place_of(ChunkKey(plan.interval, plan.chunk.version))
    return place_of(plan.chunk, tuple(each.partition for each in plan.inputs))


def _progress(known: PlanState, planning: Planning, locks: HeldLocks, now: Instant) -> PlanProgress:
    plan, lock = known.plan, locks.of_purpose(known.plan.id)
    progress: Mapping[str, str] = lock["progress"] if lock else {}
    return PlanProgress(
        bar=bar_of(known),
        place=_place(plan),
        outputs=plan.outputs,
        expected_seconds=round(planning.seconds(plan), 3),
        age_seconds=max(0, now - known.requested_at) / SECOND_US,
        holder=lock["holder"] if lock else "",
        waiting=lock is not None and lock["state"] == "waiting",
        progress=dict(progress),
        share=_share(progress.get("done", "")),
    )


def _share(done: str) -> float | None:
    """Return the share in a report such as ``3 of 12 jobs``; None if it has none."""
    found = re.match(r"(\d+) of (\d+)", done)
    if found is None or not int(found[2]):
        return None
    return min(1.0, int(found[1]) / int(found[2]))


def _done(known: PlanState, planning: Planning) -> PlanDone:
    plan, work, share = known.plan, known.work, gained(known)
    measured = work is not None and work.overlap_before > 0
    return PlanDone(
        bar=bar_of(known),
        place=_place(plan),
        expected_outputs=plan.outputs,
        expected_files_removed=max(0, len(plan.inputs) - plan.outputs),
        files_removed=None if work is None else work.files_read - work.files_written,
        expected_seconds=round(planning.seconds(plan), 3),
        gained=None if share is None else round(max(0.0, min(1.0, share)), 4),
        overlap_before=round(work.overlap_before, 3) if work and measured else None,
        overlap_after=round(work.overlap_after, 3) if work and measured else None,
        bytes_reordered=work.reordered if work and measured else None,
    )


# Reasons
_FIRST = (
    Code.RESTING,
    Code.TOO_LARGE,
    Code.DRAINING,
    Code.CLAIMED,
    Code.RUN_PLANS,
    Code.RUN_BYTES,
    Code.NEXT_RUN,
    Code.NOT_COLD,
    Code.HOT,
    Code.SORTED_LATELY,
    Code.TOO_FEW,
    Code.TOO_LITTLE,
    Code.APART,
    Code.ALONE,
    Code.INDEX,
    Code.OTHER,
)
"""The order of reasons: what a person may change or waits for; then what is well as it is."""
_RANKS = {code: at for at, code in enumerate((*_FIRST, *(c for c in Code if c not in _FIRST)))}


def left_alone(planning: Planning) -> list[LeftAlone]:
    """Return everything without a plan that begins: limits first, neighbours in one entry."""
    held = [_held_back(each) for each in planning.held_back]
    groups: dict[tuple[str, Code, str, int], list[Skipped]] = {}
    for each in planning.skipped:
        key = (each.kind, each.code, str(each.reason), each.chunk.bucket)
        groups.setdefault(key, []).append(each)
    ranked = sorted(groups.items(), key=lambda item: (_RANKS[item[0][1]], item[0][0]))
    return [*held, *(left for _, some in ranked for left in _joined(some))]


def _joined(some: Sequence[Skipped]) -> Iterator[LeftAlone]:
    """Yield equal reasons as one entry for each run of neighbouring time chunks, newest first."""
    runs: list[list[Skipped]] = []
    for each in sorted(some, key=lambda one: one.chunk.interval):
        if runs and each.chunk.interval.start <= runs[-1][-1].chunk.interval.end:
            runs[-1].append(each)
        else:
            runs.append([each])
    for run in reversed(runs):
        yield _left(run)


def _left(run: Sequence[Skipped]) -> LeftAlone:
    first = run[0]
    end = max(each.chunk.interval.end for each in run)
    chunk = ChunkKey(Interval(first.chunk.interval.start, end), 0, first.chunk.bucket)
    number, until = first.threshold, first.until
    return LeftAlone(
        place=place_of(chunk, first.partitions if len(run) == 1 else ()),
        places=len({each.chunk.interval for each in run}),
        kind=first.kind,
        code=first.code.value,
        sentence=str(first.reason),
        number=None if number is None else _limit(number),
        until=None if until is None else iso(until),
    )


def _limit(found: Threshold) -> Limit:
    return Limit(name=found.setting, value=found.value, bound=found.wanted, unit=found.unit)


def _held_back(left: Left) -> LeftAlone:
    offer = left.offer
    return LeftAlone(
        place=Place(interval=str(offer.interval), bucket=None, partitions=""),
        places=1,
        kind=offer.kind,
        code=left.code.value,
        sentence=f"{left.reason}; it would be: {offer.reason}",
        number=None,
        until=None if left.until is None else iso(left.until),
    )


# The lake's answers
def routes(lake: Lake) -> APIRouter:
    """Return the routes of plans."""
    router, plannings, locks = APIRouter(), plannings_of(lake), LockReader()
    reasons: Recent[tuple[str, int, Instant], list[LeftAlone]] = Recent(16)

    def plans_seen(seen: Seen, *, limit: int) -> Plans:
        state, found = seen.state, plannings.of(seen)
        held = locks.read(seen) if state.pending_plans() else HeldLocks()
        key = (state.table.table_id, found.n, found.now)
        left = reasons.of(key, lambda: left_alone(found))
        return plans_of(state, found, held, seen.ports.clock.now(), limit, left)

    @router.get("/api/plans")
    async def plans(table: str, limit: MostListed = 200) -> Answer[Plans]:
        return await lake.answer(table, plans_seen, limit=limit)

    return router
