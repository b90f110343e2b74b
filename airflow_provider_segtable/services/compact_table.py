"""Compact a table: plan, carry out plans of all kinds in one process, and plan again.

Order of execution, so that the plans of one process never wait for each other:

1. Smaller kinds run first (``Plan.rank``): the lock of a larger one may wait for segments that a
   smaller one holds.
2. A kind has its own patience (``Plan.wait_s``). Without any, a plan whose segments another worker
   holds is left to that worker.
3. The caller chooses how plans are carried out (``CarryOut``): in this process, or on Spark.

Compaction of a table (``compact_table``; it logs progress to
``airflow_provider_segtable.compaction``, one line a plan):

4. By the policy, each round makes the plans that pay after the round before, and carries out all
   pending plans. The call ends when a round finds none.
5. A plan is tried once a call. So a plan that cannot end here, because its locks are held elsewhere
   or its inputs are damaged, does not make the rounds endless. Nor do continuing appends: after the
   first round a plan is carried out only if its inputs existed in the first round, or are outputs
   of such plans. All other plans are ``left``.
6. By a kind, the whole request is one round (``services.request``).
7. By the policy, the tables of the table's indexes are compacted likewise, by their own policies,
   after their feeds are copied. An unreadable index fails its own plans alone, and is named with
   the reason. The run still succeeds: only a rebuild mends the index.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from shlex import quote

from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import (
    ExecutionFailed,
    InvalidInput,
    SegtableError,
)
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.log.plan import Plan
from airflow_provider_segtable.core.log.plan_kinds import kinds, smallest
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import SegmentId
from airflow_provider_segtable.core.time import Granularity, Interval
from airflow_provider_segtable.planning.engine import only_spark
from airflow_provider_segtable.planning.properties import Policy
from airflow_provider_segtable.services.attempt import Execute, in_process
from airflow_provider_segtable.services.compaction import (
    Ended,
    PlanResult,
    Report,
    compact,
    knowing,
)
from airflow_provider_segtable.services.planner import plan_table
from airflow_provider_segtable.services.request import request
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.index_lifecycle import (
    forward_all,
    inner_tables,
    unreadable_index,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanBatch:
    """Plans that may run together, and how long to wait for their locks."""

    plan_ids: tuple[str, ...]
    wait_s: float


def execution_order(
    state: State, plan_ids: Iterable[str], wait_s: float | None = None
) -> Iterator[PlanBatch]:
    """Yield plans in execution order.

    Args:
        state: the table's state; plans that it does not contain run first.
        plan_ids: the plans to execute.
        wait_s: how long to wait for locks; if None, that of each kind.
    """
    by_kind: dict[type[Plan], list[str]] = {kind: [] for kind in kinds()}
    for plan_id in dict.fromkeys(plan_ids):
        known = state.plans.get(plan_id)
        by_kind[type(known.plan) if known else smallest()].append(plan_id)
    for kind, ids in by_kind.items():
        if ids:
            yield PlanBatch(plan_ids=tuple(ids), wait_s=kind.wait_s if wait_s is None else wait_s)


def carry_out(
    ports: TableContext,
    plan_ids: Sequence[str],
    execute: Execute,
    *,
    wait_s: float | None = None,
    parallelism: int = 2,
    timeout_s: float | None = None,
    report: Report = lambda _: None,
) -> tuple[PlanResult, ...]:
    """Execute plans, smaller kinds first.

    Args:
        ports: the table's ports, with a coordinator.
        plan_ids: the plans to execute.
        execute: runs the kernel jobs.
        wait_s: how long to wait for locks of other processes; if None, the default of each kind.
        parallelism: approximate number of concurrent jobs.
        timeout_s: after this time an index build pauses; the table's setting if None.
        report: called with each result, for progress.

    Returns:
        One result per plan, in the order in which they ended.
    """
    return tuple(
        result
        for batch in execution_order(knowing(ports.log, plan_ids), plan_ids, wait_s)
        for result in compact(
            ports,
            batch.plan_ids,
            execute,
            wait_s=batch.wait_s,
            parallelism=parallelism,
            timeout_s=timeout_s,
            report=report,
        )
    )


_log = logging.getLogger("airflow_provider_segtable.compaction")

CarryOut = Callable[[TableContext, Sequence[str]], tuple[PlanResult, ...]]
"""Carries out plans of a table, and returns one result per plan."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Rounds:
    """All plans that were carried out, and by index name, why it cannot be read.

    ``failed`` are the failed plans, except plans that build or compact such an index.
    """

    results: tuple[PlanResult, ...]
    failed: tuple[PlanResult, ...]
    unreadable: Mapping[str, str] = field(default_factory=dict)

    def facts(self) -> Facts:
        """Return the result as plain JSON values."""
        return {
            "plans": [result.facts() for result in self.results],
            "unreadable_indexes": dict(self.unreadable),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class CompactionResult:
    """The result of a compaction: the newest version, one result per plan, and the plans left.

    ``left`` has the ids of the plans that are still pending.
    """

    version: int
    plans: tuple[PlanResult, ...]
    left: tuple[str, ...] = ()

    @property
    def segments_in(self) -> int:
        """Return the number of segments that completed plans replaced."""
        return sum(plan.segments_in for plan in self.plans if plan.ended is Ended.COMPLETED)

    @property
    def segments_out(self) -> int:
        """Return the number of segments that completed plans made."""
        return sum(plan.segments_out for plan in self.plans if plan.ended is Ended.COMPLETED)

    def __repr__(self) -> str:
        """Return the counts, on one line."""
        return (
            f"CompactionResult(version={self.version}, plans={len(self.plans)}, "
            f"segments_in={self.segments_in}, segments_out={self.segments_out}, "
            f"left={len(self.left)})"
        )


def compact_table(
    ports: TableContext,
    *,
    kind: str | None = None,
    interval: Interval | None = None,
    segments: Sequence[SegmentId | str] | None = None,
    granularity: Granularity | str | None = None,
    clustering: str | Sequence[str] | None = None,
    buckets: int | None = None,
    wait_s: float | None = None,
) -> CompactionResult:
    """Compact a table in this process; arguments as for ``library.Table.compact``.

    Raises:
        InvalidInput: only Spark can compact the table, or the request is impossible.
        ExecutionFailed: a plan failed; the others were carried out.
    """
    state = ports.log.load()
    if why := only_spark(state):
        raise InvalidInput(f"{ports.uri} cannot be compacted in this process: {why}; use Spark")
    _check(
        kind,
        {
            "interval": interval,
            "segments": segments,
            "granularity": granularity,
            "clustering": clustering,
            "buckets": buckets,
        },
    )

    def run(own: TableContext, ids: Sequence[str]) -> tuple[PlanResult, ...]:
        return carry_out(own, ids, in_process(own.files), wait_s=wait_s, report=_tell)

    if kind is None:
        rounds = compact_all(ports, run)
    else:
        asked = request(
            ports,
            kind,
            interval=interval,
            segments=segments,
            granularity=granularity,
            clustering=clustering,
            buckets=buckets,
            state=state,
        )
        results = run(ports, [known.plan.id for known in asked])
        rounds = Rounds(results=results, failed=failed_of(results))
    _check_ended(ports, rounds)
    state = ports.log.known()
    return CompactionResult(version=state.n, plans=rounds.results, left=pending(state))


def compact_all(ports: TableContext, carry_out: CarryOut, policy: Policy | None = None) -> Rounds:
    """Compact a table by its policy, then its indexes' tables by theirs.

    Args:
        ports: the table's ports, with a coordinator.
        carry_out: carries out the plans of a round.
        policy: overrides the policy in the table's properties.
    """
    results = compact_by_policy(ports, carry_out, policy)
    state = ports.log.load()
    forward_all(ports, state)
    failed, unreadable = failed_of(results), {}
    for index, own in inner_tables(ports, ports.log.load()):
        name = index.definition.name
        builds = {each.plan_id for each in failed if _builds(name, each.plan_id, state)}
        inner, error = _inner_rounds(own, carry_out)
        wrong = failed_of(inner)
        if (builds or wrong or error) and (why := unreadable_index(ports, index) or error):
            unreadable[name] = why
            _log.warning("index %s cannot be read: %s; %s", name, why, rebuilding(ports.uri, name))
            failed, wrong = tuple(each for each in failed if each.plan_id not in builds), ()
        results, failed = (*results, *inner), (*failed, *wrong)
    return Rounds(results=results, failed=failed, unreadable=unreadable)


def failed_of(results: Iterable[PlanResult]) -> tuple[PlanResult, ...]:
    """Return the results of plans that failed."""
    return tuple(result for result in results if result.ended is Ended.FAILED)


def rebuilding(uri: str, name: str) -> str:
    """Return the way out for an index that cannot be read."""
    return f"segtable index rebuild {quote(uri)} {name}"


def _builds(name: str, plan_id: str, state: State) -> bool:
    known = state.plans.get(plan_id)
    return known is not None and known.plan.facts().get("index") == name


def _inner_rounds(own: TableContext, carry_out: CarryOut) -> tuple[tuple[PlanResult, ...], str]:
    """Compact the table of an index; return why that was impossible, too, or an empty text."""
    try:
        return compact_by_policy(own, carry_out), ""
    except (SegtableError, OSError) as error:
        return (), str(error)


def compact_by_policy(
    ports: TableContext, carry_out: CarryOut, policy: Policy | None = None
) -> tuple[PlanResult, ...]:
    """Plan and carry out compactions, again and again, until all that was there is compacted.

    Args:
        ports: the table's ports, with a coordinator.
        carry_out: carries out the plans of a round.
        policy: overrides the policy in the table's properties.
    """
    results: tuple[PlanResult, ...] = ()
    first: State | None = None
    made: frozenset[SegmentId] = frozenset()
    while True:
        plan_table(ports, policy=policy)
        state = ports.log.known()
        first = first or state
        made = _made(first, made, state)
        tried = {result.plan_id for result in results}
        untried = [
            known.plan.id
            for known in state.pending_plans()
            if known.plan.id not in tried and _of(first, made, known.plan.inputs)
        ]
        if not untried:
            return results
        results += carry_out(ports, untried)


def _of(first: State, made: frozenset[SegmentId], inputs: Sequence[SegmentId]) -> bool:
    """Return whether segments were there at first, or are among those made of them."""
    return all(each in made or each in first.timeline for each in inputs)


def _made(first: State, made: frozenset[SegmentId], state: State) -> frozenset[SegmentId]:
    """Return the outputs of completed plans whose inputs are first segments, or such outputs."""
    plans = (known for known in state.plans.values() if known.completed)
    return made.union(*(known.outputs for known in plans if _of(first, made, known.inputs)))


def pending(state: State) -> tuple[str, ...]:
    """Return the ids of all plans that wait or run."""
    return tuple(known.plan.id for known in state.pending_plans())


def _check(kind: str | None, wishes: dict[str, object]) -> None:
    given = [f"{name}={value!s}" for name, value in wishes.items() if value is not None]
    if kind is None and given:
        raise InvalidInput(f"{', '.join(given)} was given without a kind: give kind, too")


def _tell(result: PlanResult) -> None:
    level = logging.ERROR if result.ended is Ended.FAILED else logging.INFO
    made, rows = counted(result.segments_out, "segment"), counted(result.rows, "row")
    counts = f"{result.segments_in} -> {made}, {rows}"
    _log.log(level, "%s: %s", result.plan_id, f"{result.ended.value} {result.message or counts}")


def _check_ended(ports: TableContext, rounds: Rounds) -> None:
    if rounds.failed:
        first, plans = rounds.failed[0], len(rounds.results)
        raise ExecutionFailed(
            f"{len(rounds.failed)} of {plans} compaction plans of {ports.uri} failed, the first, "
            f"{first.plan_id}, with: {first.message}; the others were carried out"
        )
