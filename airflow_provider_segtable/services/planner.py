"""One planner run over a table: clean up stalled work, request plans, return launches.

1. Ids whose writer holds no lock any more are voided, so that they never break adjacency.
2. If no live worker holds a pending plan's lock or waits for it, the plan is launched again. It is
   aborted, with a reason, after ``max_attempts`` dead workers (a yield to a more urgent writer is
   not a death), or if its inputs were replaced because another compaction was faster.
3. Indexes of the index policy that the table does not have yet are requested, so that writers feed
   them from now on (``planning.finders.index``).
4. The plans that ``planning`` selects are committed as ``PlanRequested``. A plan's id is a
   function of its inputs, so two concurrent planners request it once.
5. A launch says which event left its plan as it is, and whose. So whoever emits launches as DAG
   runs knows them again, and emits each once (``operators.emission``).
6. A worker is live while its lock is: a lock lives as long as its session. The log is read before
   the locks, so a worker that finishes in between is never considered dead.
7. Each table inside the table, such as an index's own (``table.index_lifecycle``), then has a
   planner run by its own policy. Its feeds are copied first, so that they can be compacted, unless
   it is a dry run. A failure there is logged, and stops no other table.
8. A brief run of a large table notes for the next one, in whatever process, in which sidecars no
   plan may be due (``table.log.sidecar_notes``).
"""

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import field, replace

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import CommitConflict, InvalidInput, SegtableError
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.indexes.index_state import folder
from airflow_provider_segtable.core.locks import Generation, Lock
from airflow_provider_segtable.core.log.families.append_events import Voided
from airflow_provider_segtable.core.log.families.plan_events import PlanAborted, PlanRequested
from airflow_provider_segtable.core.log.plan import Plan, PlanState
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import SegmentId
from airflow_provider_segtable.core.time import Instant, Interval
from airflow_provider_segtable.planning.finders.index import WantedIndex, wanted_indexes
from airflow_provider_segtable.planning.properties import Policy
from airflow_provider_segtable.planning.selection import BRIEFLY, Planned, Skipped
from airflow_provider_segtable.planning.table_plan import (
    known_windows,
    plan_all,
    remember_windows,
    windows_basis,
)
from airflow_provider_segtable.table.committer import Change, Committed, commit
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.sidecar_notes import read_notes, write_notes
from airflow_provider_segtable.table.log.sidecars import has_sidecars
from airflow_provider_segtable.table.property_checks import check_cut, checked_order
from airflow_provider_segtable.table.publishing.refusing import blocking_schemas

SERVICE = "plan"
"""The name of the planner's notes about sidecars."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Launch:
    """A plan to execute now.

    ``interval`` is the time range of the plan, ``yields`` the number of yields so far, ``attempts``
    that of attempts. ``requested_at`` is when the plan was requested; ``event`` the plan's newest
    event, with its ``author`` and time, ``changed_at``. These are 0 in a dry run.
    """

    plan_id: str
    kind: str
    reason: str
    segments: int
    size: int
    interval: Interval | None = None
    yields: int = 0
    attempts: int = 0
    requested_at: Instant = 0
    changed_at: Instant = 0
    event: int = 0
    author: str = ""

    def facts(self) -> Facts:
        """Return the launch as plain JSON values."""
        return {
            "plan": self.plan_id,
            "kind": str(self.kind),
            "interval": str(self.interval) if self.interval else None,
            "segments": self.segments,
            "bytes": self.size,
            "reason": self.reason,
            "yields": self.yields,
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannerRun:
    """The result of a planner run or dry run.

    By plan id: ``running`` names the holder or waiter of the plan's locks, ``aborted`` the reason
    for an abort, ``yielded`` the yields of a pending plan and the note of the last one. By name:
    ``indexes`` gives the reason for each index that the run requests. ``due`` is the earliest time
    at which a run may find something else without an event of the log; None: never.
    """

    version: int
    launches: tuple[Launch, ...]
    skipped: tuple[Skipped, ...]
    running: Mapping[str, str]
    aborted: Mapping[str, str] = field(default_factory=dict)
    yielded: Mapping[str, str] = field(default_factory=dict)
    voided: tuple[SegmentId, ...] = ()
    indexes: Mapping[str, str] = field(default_factory=dict)
    due: Instant | None = None
    dry_run: bool = False

    def facts(self) -> Facts:
        """Return the result as plain JSON values."""
        return {
            "version": self.version,
            "dry_run": self.dry_run,
            "chosen": [launch.facts() for launch in self.launches],
            "skipped": [skipped.facts() for skipped in self.skipped],
            "running": dict(self.running),
            "yielded": dict(self.yielded),
            "aborted": list(self.aborted),
            "abort_reasons": dict(self.aborted),
            "voided": [str(segment_id) for segment_id in self.voided],
            "requested_indexes": dict(self.indexes),
        }


def plan_table(
    ports: TableContext, *, policy: Policy | None = None, dry_run: bool = False
) -> PlannerRun:
    """Run the planner over one table.

    Args:
        ports: the table's ports.
        policy: overrides the policy in the table's properties.
        dry_run: compute the result without writing; needs no coordinator.

    Raises:
        InvalidInput: the policy's clustering is not sortable, or its granularity is finer than
            the rollup's groups.
        SchemaMismatch: the policy's clustering names a column that the table does not have.
    """
    state = ports.log.load()
    policy = policy or Policy.read(state.table.properties)
    look = look_at(ports, state, policy, state.table.properties, dry_run=dry_run)
    return carry_out(ports, look, look.planned.chosen)


@dataclass(frozen=True, slots=True, kw_only=True)
class Look:
    """A table after a planner has cleaned up, before it requests any plan.

    ``held`` names the holder or waiter of each plan's locks, ``aborted`` the reason for each abort,
    ``skipped`` what was skipped beside the plans.
    """

    state: State
    policy: Policy
    planned: Planned
    held: Mapping[str, str]
    aborted: Mapping[str, str]
    abandoned: tuple[SegmentId, ...]
    wanted: tuple[WantedIndex, ...]
    skipped: tuple[Skipped, ...]
    dry_run: bool


def look_at(
    ports: TableContext,
    state: State,
    policy: Policy,
    properties: Mapping[str, str],
    *,
    explain: int | None = None,
    dry_run: bool = False,
) -> Look:
    """Clean up stalled work, request wanted indexes, and find the plans that are worthwhile.

    Args:
        ports: the table's ports.
        state: the newest version.
        policy: the conditions for compaction.
        properties: the index policy is in these.
        explain: as ``plan_all``.
        dry_run: write nothing; needs no coordinator.

    Raises:
        InvalidInput, SchemaMismatch: as ``plan_table``.
    """
    checked_order(policy.clustering, state.table)
    check_cut(policy.cut, state.table)
    locks = _locks(ports, state, blind=dry_run and ports.optional_coordinator is None)
    abandoned = () if locks is None else _abandoned(state, locks)
    held = {lock.purpose: lock.holder for lock in locks or ()}
    aborted: Mapping[str, str] = {}
    if not dry_run:
        state = _void(ports, state, abandoned)
        state, aborted = _abort_hopeless(ports, state, policy, held)
    skipped: list[Skipped] = []
    wanted = wanted_indexes(state, policy, properties, skipped)
    if not dry_run:
        state = _with_indexes(ports, state, wanted)
    return Look(
        state=state,
        policy=policy,
        planned=_planned(ports, state, policy, explain, dry_run=dry_run),
        held=held,
        aborted=aborted,
        abandoned=abandoned,
        wanted=wanted,
        skipped=tuple(skipped),
        dry_run=dry_run,
    )


def _planned(
    ports: TableContext, state: State, policy: Policy, explain: int | None, *, dry_run: bool
) -> Planned:
    """Return the plans that are worthwhile; a brief run of a large table goes by its notes."""
    blocking = blocking_schemas(state)
    if explain == BRIEFLY and has_sidecars(state):
        with _remembering(ports, state, policy, blocking, write=not dry_run):
            return plan_all(state, policy, ports.clock.now(), blocking, explain)
    return plan_all(state, policy, ports.clock.now(), blocking, explain)


@contextmanager
def _remembering(
    ports: TableContext,
    state: State,
    policy: Policy,
    blocking: Mapping[int, str],
    *,
    write: bool,
) -> Iterator[None]:
    """Take over what earlier runs noted about sidecars; afterwards keep it, if there is more."""
    if known_windows(state) is not None:  # this process has planned the version before
        yield
        return
    basis = windows_basis(state, policy, blocking)
    before = read_notes(ports.storage, SERVICE, basis)
    remember_windows(state, policy, blocking, before)
    yield
    after = known_windows(state)
    if write and after and after.keys() != before.keys():
        write_notes(ports.storage, SERVICE, basis, after)


def carry_out(ports: TableContext, look: Look, chosen: Sequence[Plan]) -> PlannerRun:
    """Request the chosen ones of the plans that were found, and return all launches.

    In a dry run nothing is requested.
    """
    state = look.state
    stalled = _stalled(state, look.held)
    if look.dry_run:
        fresh = [_launch_of_plan(plan) for plan in chosen]
    else:
        state = _request(ports, state, chosen)
        known_plans = [known for plan in chosen if (known := state.plans.get(plan.id))]
        fresh = [launch_of(known) for known in known_plans if known.status.pending]
    launches = [*(launch_of(known) for known in stalled), *fresh]
    return PlannerRun(
        version=state.n,
        launches=tuple({launch.plan_id: launch for launch in launches}.values()),
        skipped=(*look.planned.skipped, *look.skipped),
        running={plan: holder for plan, holder in look.held.items() if plan in state.plans},
        aborted=look.aborted,
        yielded={
            known.plan.id: _gave_way(known) for known in state.pending_plans() if known.yields
        },
        voided=look.abandoned,
        indexes={each.name: each.reason for each in look.wanted},
        due=look.planned.due,
        dry_run=look.dry_run,
    )


def _with_indexes(ports: TableContext, state: State, wanted: Sequence[WantedIndex]) -> State:
    """Request indexes; another planner may be first."""
    if not wanted:
        return state
    from airflow_provider_segtable.table.index_lifecycle import request_index

    for each in wanted:
        with suppress(CommitConflict, InvalidInput):
            request_index(ports, each.name, each.kind)
    return ports.log.refresh(state)


def _locks(ports: TableContext, state: State, *, blind: bool) -> tuple[Lock, ...] | None:
    """Return the held and the awaited locks, if anything hangs on them; None without a coordinator.

    Whether a worker or a writer lives is asked for pending plans and open ids alone.
    """
    if blind:
        return None
    coordinator, table = ports.coordinator, state.table.table_id
    if not state.pending_plans() and not any(True for _ in state.ids.holes(Generation.FIRST)):
        return ()
    return (*coordinator.locks(table), *coordinator.waiters(table))


def _request(ports: TableContext, state: State, chosen: Sequence[Plan]) -> State:
    lost = False
    for plan in chosen:
        change = Change(
            action=PlanRequested(plan=plan), commit_id=f"request-{ports.randomness.token()}"
        )
        outcome = commit(ports, state, change)
        lost = lost or not isinstance(outcome, Committed)
        state = outcome.state if isinstance(outcome, Committed) else state
    return ports.log.refresh(state) if lost else state


def launch_of(known: PlanState) -> Launch:
    """Return a pending plan as a launch."""
    return replace(
        _launch_of_plan(known.plan),
        yields=known.yields,
        attempts=known.attempts,
        requested_at=known.requested_at,
        changed_at=known.changed_at,
        event=known.last_n,
        author=known.author,
    )


def _launch_of_plan(plan: Plan) -> Launch:
    return Launch(
        plan_id=plan.id,
        kind=plan.kind,
        reason=plan.reason,
        segments=len(plan.inputs),
        size=plan.size,
        interval=plan.interval,
    )


def _gave_way(known: PlanState) -> str:
    times = "once" if known.yields == 1 else f"{known.yields} times"
    return f"yielded {times}, last: {known.note}"


def _abandoned(state: State, locks: tuple[Lock, ...]) -> tuple[SegmentId, ...]:
    alive = {segment_id for lock in locks for segment_id in lock.allocated}
    return tuple(hole for hole in state.ids.holes(Generation.FIRST) if hole not in alive)


def _void(ports: TableContext, state: State, abandoned: tuple[SegmentId, ...]) -> State:
    if not abandoned:
        return state
    action = Voided(ids=abandoned, reason="no live writer holds them")
    change = Change(action=action, commit_id=f"void-{ports.randomness.token()}")
    outcome = commit(ports, state, change)
    return outcome.state if isinstance(outcome, Committed) else state


def _abort_hopeless(
    ports: TableContext, state: State, policy: Policy, held: Mapping[str, str]
) -> tuple[State, Mapping[str, str]]:
    aborted: dict[str, str] = {}
    for known in _stalled(state, held):
        reason = _hopeless(known, state, policy)
        if reason is None:
            continue
        action = PlanAborted(plan_id=known.plan.id, attempt=known.attempt, reason=reason)
        outcome = commit(
            ports, state, Change(action=action, commit_id=f"abort-{ports.randomness.token()}")
        )
        if isinstance(outcome, Committed):
            state = outcome.state
            aborted[known.plan.id] = reason
    return state, aborted


def _hopeless(known: PlanState, state: State, policy: Policy) -> str | None:
    """Return the reason to abort a stalled plan, or None."""
    gone = known.plan.hopeless(state)
    if gone:
        return gone.reason
    died = known.attempts - known.yields
    if died < policy.max_attempts:
        return None
    return f"{counted(died, 'worker')} died over it, the last was {known.author}"


def _stalled(state: State, held: Mapping[str, str]) -> tuple[PlanState, ...]:
    return tuple(known for known in state.pending_plans() if known.plan.id not in held)


_LOG = logging.getLogger(__name__)


def plan_inner_tables(
    ports: TableContext, *, overrides: Mapping[str, str] | None = None, dry_run: bool = False
) -> Iterator[tuple[str, PlannerRun]]:
    """Yield the folder of each table inside a table, with its planner run.

    Args:
        ports: the table's ports.
        overrides: settings that replace the policies' of the tables inside, without prefix.
        dry_run: compute the runs without writing.

    Raises:
        SegtableError: the table's own log cannot be read.
    """
    if not ports.log.load().indexes:
        return
    from airflow_provider_segtable.table.index_lifecycle import forward_all, inner_tables

    if not dry_run:
        forward_all(ports, ports.log.load())
    given = {f"compaction.{name}": value for name, value in (overrides or {}).items()}
    for index, own in inner_tables(ports, ports.log.load()):
        try:
            policy = Policy.read({**own.log.load().table.properties, **given})
            run = plan_table(own, policy=policy, dry_run=dry_run)
        except (SegtableError, OSError) as error:
            _LOG.warning("index %s was not planned: %s", index.definition.name, error)
            continue
        yield folder(index.definition.id), run
