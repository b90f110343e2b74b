"""Manual compaction requests, which override the policy's conditions.

1. A request covers all chunks of an interval (or of the table). The policy still decides *how*:
   target sizes, and the clustering unless the request has one. The user decides *whether*: the
   policy's counts, ages, pauses and budgets do not apply.
2. Impossible requests are refused before any write: perfect rollup under segment locks, a
   change of granularity or buckets without a new version, a granularity finer than the rollup's, a
   clustering by missing columns or metrics, a z-order with sketches.
3. A request makes one plan per run of small neighbours (minor), per sortable run (semi-major), or
   per region that splits no chunk (major). A failed plan does not stop the others. A plan that is
   already pending is returned unchanged.
4. Of chosen segments, a minor compaction joins exactly these; the other kinds take the whole chunks
   that they lie in. Segments that cannot be compacted so are refused
   (``planning.finders.finder``). If a plan of the kind has compacted them already, the answer is
   that plan, completed.
5. Segments claimed by other plans are skipped; a major compaction locks the time chunk instead and
   waits for their workers. If no segment is left, the error gives the reasons.

Source of the idea: Druid's manual compaction tasks, CarbonData's ``ALTER TABLE .. COMPACT``.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import (
    CommitConflict,
    CommitUnknown,
    InvalidInput,
)
from airflow_provider_segtable.core.locks import check_allocation
from airflow_provider_segtable.core.log.families.plan_events import PlanRequested
from airflow_provider_segtable.core.log.plan import Plan, PlanState
from airflow_provider_segtable.core.log.plan_kinds import kind_named, kinds, with_option
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.schema import Order
from airflow_provider_segtable.core.segment import SegmentId
from airflow_provider_segtable.core.time import Cut, Granularity, Interval
from airflow_provider_segtable.planning.finders.finder import (
    Chosen,
    check_taken,
    check_visible,
    chosen_ids,
    finder_of,
    made_before,
)
from airflow_provider_segtable.planning.planner_context import PlannerContext, look_at_table
from airflow_provider_segtable.planning.properties import Policy
from airflow_provider_segtable.planning.selection import Skipped
from airflow_provider_segtable.table.committer import Change, Committed, Unknown, commit
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.property_checks import check_cut, checked_order

REASONS_SHOWN = 3
ASKED = "asked for by"
UNBOUNDED = 2**62


@dataclass(frozen=True, slots=True, kw_only=True)
class Asked:
    """The plans of a request: ``fresh`` are to be requested; ``known`` are pending or completed."""

    state: State
    fresh: tuple[Plan, ...]
    known: tuple[PlanState, ...]

    @property
    def plans(self) -> tuple[Plan, ...]:
        """Return all plans, in the order of time."""
        found = (*self.fresh, *(each.plan for each in self.known))
        return tuple(sorted(found, key=lambda each: each.position))


def request(ports: TableContext, kind: str, **wishes: Any) -> tuple[PlanState, ...]:
    """Request compactions of one kind; ``services.compaction.compact`` executes them.

    Args:
        ports: the table's ports.
        kind: ``minor``, ``semi-major`` or ``major``.
        wishes: as for ``asked_plans``.

    Returns:
        The plans in the order of time: pending, or completed by an earlier request (rule 4).

    Raises:
        InvalidInput, SegmentsRefused, SchemaMismatch: as ``asked_plans``; nothing is written.
        CommitConflict: conflicts with other writers refused all plans; request again.
        CommitUnknown: a reply was lost; request again, no plan is requested twice.
    """
    asked = asked_plans(ports, kind, **wishes)
    return _commit(ports, asked.state, asked.fresh, asked.known)


def commit_asked(ports: TableContext, asked: Asked) -> tuple[PlanState, ...]:
    """Request plans that were shown before; those requested meanwhile are returned as they are.

    Raises:
        CommitConflict, CommitUnknown: as ``request``.
    """
    newest = ports.log.refresh(asked.state)
    known = {each.plan.id: each for each in asked.known}
    for plan in asked.fresh:
        found = newest.plans.get(plan.id)
        if found is not None and (found.status.pending or found.completed):
            known[plan.id] = found
    fresh = [plan for plan in asked.fresh if plan.id not in known]
    return _commit(ports, newest, fresh, known.values())


def asked_plans(  # noqa: PLR0913 - each is an option
    ports: TableContext,
    kind: str,
    *,
    interval: Interval | None = None,
    segments: Sequence[SegmentId | str] | None = None,
    granularity: Granularity | str | None = None,
    clustering: str | Sequence[str] | None = None,
    buckets: int | None = None,
    rollup: Literal["best-effort", "perfect"] | None = None,
    policy: Policy | None = None,
    state: State | None = None,
) -> Asked:
    """Return the plans of a request, without a write.

    Args:
        ports: the table's ports.
        kind: ``minor``, ``semi-major`` or ``major``.
        interval: compact every chunk that it overlaps; the whole table by default.
        segments: compact these, by id (rule 4); instead of an interval.
        granularity: new granularity of the region (major only).
        clustering: sort order, e.g. ``carrier,origin``, a list of columns, or
            ``zorder(carrier,origin)``; "" sorts by event time; the policy's by default (not for
            minor).
        buckets: new number of buckets of the region's chunks (major, with a primary key).
        rollup: required rollup of a rollup table; only a major compaction is perfect.
        policy: overrides the policy in the table's properties.
        state: the newest state of the table, if the caller has just read it.

    Raises:
        InvalidInput: the request is impossible, or there is nothing to compact.
        SegmentsRefused: the chosen segments are unknown or hidden, or cannot be compacted so.
        SchemaMismatch: the clustering names a column that the table does not have.
    """
    state = ports.log.load() if state is None else state
    wanted = _kind(kind)
    cut = Cut(
        granularity=_granularity(granularity, wanted), buckets=_buckets(buckets, wanted, state)
    )
    check_cut(cut, state.table)
    _check_rollup(rollup, wanted, state)
    order = None if clustering is None else _order(clustering, wanted, state)
    policy = policy or Policy.read(state.table.properties)
    forced = _forced(policy, order, cut, state)
    found = look_at_table(state, forced, ports.clock.now())
    skipped: list[Skipped] = []
    ids = None if segments is None else _chosen(segments, interval)
    known = [
        each
        for each in state.plans.values()
        if (each.status.pending if ids is None else made_before(each, ids, state))
        and _meant(each.plan, wanted, interval, order, cut)
    ]
    why = f"{ASKED} {ports.author}"
    if ids is None:
        chunks = [c for c in found.chunks() if interval is None or c.interval.overlaps(interval)]
        plans = finder_of(wanted).asked(found, chunks, why, skipped)
    else:
        left = ids.difference(*(each.plan.inputs for each in known))
        check_visible(left, state)
        plans = finder_of(wanted).chosen(found, left, why, skipped)
        check_taken(left, plans, skipped)
    fresh = [plan for plan in plans if _is_new(plan, state)]
    if not fresh and not known:
        raise InvalidInput(_nothing(wanted, interval, found, skipped))
    return Asked(state=state, fresh=tuple(fresh), known=tuple(known))


def _forced(policy: Policy, order: str | None, cut: Cut, state: State) -> Policy:
    """Return the policy without its conditions, and with the request's settings."""
    return replace(
        policy,
        min_segments=2,
        max_age_minutes=0.0,
        tier_ratio=float("inf"),
        skip_offset_minutes=0.0,
        retry_aborted_minutes=0.0,
        max_plan_bytes=UNBOUNDED,
        clustering=checked_order(policy.clustering, state.table) if order is None else order,
        major_granularity=cut.granularity.value if cut.granularity else "",
        major_buckets=cut.buckets,
    )


def _chosen(segments: Sequence[SegmentId | str], interval: Interval | None) -> Chosen:
    if interval is not None:
        raise InvalidInput(f"interval {interval} and segments were given: give one of them")
    return chosen_ids(segments)


def _kind(name: str) -> type[Plan]:
    kind = kind_named(name)
    if kind is None:
        known = ", ".join(each.kind for each in kinds())
        raise InvalidInput(f"{name!r} is not a kind of compaction: write {known}")
    return kind


def _granularity(granularity: Granularity | str | None, kind: type[Plan]) -> Granularity | None:
    if granularity is None:
        return None
    if granularity not in list(Granularity):
        known = ", ".join(Granularity)
        raise InvalidInput(f"{granularity!r} is not a granularity: write one of {known}")
    if "granularity" not in kind.options:
        raise InvalidInput(
            f"a {kind.kind} compaction cannot repartition time (granularity {granularity}): it "
            f"stays inside its chunk's version; use a {with_option('granularity')} compaction"
        )
    return Granularity(granularity)


def _buckets(buckets: int | None, kind: type[Plan], state: State) -> int:
    if buckets is None:
        return 0
    if "buckets" not in kind.options:
        raise InvalidInput(
            f"a {kind.kind} compaction keeps each row in its bucket ({buckets} buckets were asked "
            f"for): use a {with_option('buckets')} compaction"
        )
    state.table.kind.check_buckets(buckets, state.table.name)
    return buckets


def _check_rollup(rollup: str | None, kind: type[Plan], state: State) -> None:
    if rollup is None:
        return
    if rollup not in ("best-effort", "perfect"):
        raise InvalidInput(f"rollup {rollup!r} is neither best-effort nor perfect")
    state.table.kind.check_degree(rollup, state.table.name)
    check_allocation(kind.lock_granularity, perfect_rollup=rollup == "perfect")


def _order(clustering: str | Sequence[str], kind: type[Plan], state: State) -> str:
    order = str(Order.given(clustering))
    if "clustering" not in kind.options:
        raise InvalidInput(
            f"a {kind.kind} compaction keeps the order of rows (clustering {order!r}): "
            f"use {with_option('clustering')}"
        )
    return checked_order(order, state.table)


def _is_new(plan: Plan, state: State) -> bool:
    known = state.plans.get(plan.id)
    return known is None or not known.status.pending


def _meant(
    plan: Plan,
    kind: type[Plan],
    interval: Interval | None,
    order: str | None,
    cut: Cut,
) -> bool:
    """Return whether a pending plan matches the request."""
    facts = plan.facts()
    return (
        isinstance(plan, kind)
        and (interval is None or plan.interval.overlaps(interval))
        and (order is None or facts["clustering"] == order)
        and (cut.granularity is None or facts["granularity"] == cut.granularity.value)
        and (not cut.buckets or facts["buckets"] == cut.buckets)
    )


def _nothing(
    kind: type[Plan], interval: Interval | None, found: PlannerContext, skipped: Iterable[Skipped]
) -> str:
    where = f" in {interval}" if interval else ""
    table = found.state.table.name
    reasons: Mapping[str, Interval] = {
        each.reason: each.chunk.interval
        for each in skipped
        if interval is None or each.chunk.interval.overlaps(interval)
    }
    if not reasons:
        return f"{table} has no rows{where}: there is nothing to compact"
    shown = [f"{chunk}: {reason}" for reason, chunk in list(reasons.items())[:REASONS_SHOWN]]
    more = len(reasons) - len(shown)
    tail = f"; and {more} more" if more > 0 else ""
    waits = any("pending" in reason for reason in reasons)
    way_out = "; run the pending plans first (segtable compact TABLE)" if waits else ""
    return (
        f"nothing to compact for a {kind.kind} compaction{where}: {'; '.join(shown)}{tail}{way_out}"
    )


def _commit(
    ports: TableContext, state: State, plans: Iterable[Plan], known: Iterable[PlanState]
) -> tuple[PlanState, ...]:
    asked = [each.plan.id for each in known]
    conflicts: list[str] = []
    for plan in plans:
        change = Change(
            action=PlanRequested(plan=plan), commit_id=f"request-{ports.randomness.token()}"
        )
        outcome = commit(ports, state, change)
        if isinstance(outcome, Unknown):
            raise CommitUnknown(
                f"the reply to event {outcome.n} was lost: request again, no plan is added twice"
            )
        if isinstance(outcome, Committed):
            state = outcome.state
            asked.append(plan.id)
        else:
            conflicts.append(outcome.reason)
    if conflicts:
        state = ports.log.refresh(state)
    answered = [state.plans[plan_id] for plan_id in asked if plan_id in state.plans]
    if not answered:
        raise CommitConflict(f"conflict with other requests: {'; '.join(conflicts)}; request again")
    return tuple(sorted(answered, key=lambda each: each.plan.position))
