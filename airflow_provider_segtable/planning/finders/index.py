"""Plan index builds: the lacking time of each index of a table becomes one plan.

1. A plan is over a whole index, not over chunks, so it is found after all other plans of the run.
   The inputs of these and of pending plans are left for later: the compaction's own commit
   feeds the index, or a later plan builds it.
2. There is one pending plan for each index. After an abort the index rests for a while.
3. The budget of a run does not count: a build is bounded by its own time-out
   (``index.timeout_minutes``), and pauses.
4. Indexes of the policy (``index.NAME``) that the table does not have yet are requested first
   (``wanted_indexes``), once the table is large enough.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import ClassVar

from airflow_provider_segtable.core.chunk import ChunkSummary
from airflow_provider_segtable.core.counted import counted, describe_size
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput, SegmentsRefused
from airflow_provider_segtable.core.indexes.index_kind import IndexKind
from airflow_provider_segtable.core.indexes.index_state import IndexState
from airflow_provider_segtable.core.log.index_plan import (
    IndexPlan,
    index_plan_id,
    pending_plan,
    without,
)
from airflow_provider_segtable.core.log.plan import Plan, PlanStatus
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import ChunkKey
from airflow_provider_segtable.core.time import MAX_INSTANT, MIN_INSTANT, MINUTE_US, Interval
from airflow_provider_segtable.planning.finders.finder import Chosen, Finder
from airflow_provider_segtable.planning.planner_context import PlannerContext
from airflow_provider_segtable.planning.properties import (
    OFF,
    IndexSettings,
    Policy,
    WishedIndex,
    wished_indexes,
)
from airflow_provider_segtable.planning.selection import Code, Reason, Skipped


@dataclass(frozen=True, slots=True, kw_only=True)
class WantedIndex:
    """An index of the policy that the table is to get now."""

    name: str
    kind: IndexKind
    reason: str


def wanted_indexes(
    state: State, policy: Policy, properties: Mapping[str, str], skipped: list[Skipped]
) -> tuple[WantedIndex, ...]:
    """Return the indexes of the policy to request now; add a reason for all others.

    Args:
        state: the table.
        policy: may switch indexes off.
        properties: with the index policy.
        skipped: gets the reasons.

    Raises:
        InvalidInput: a property is malformed.
    """
    if policy.indexes == OFF:
        return ()
    found: list[WantedIndex] = []
    settings = IndexSettings.read(properties)
    for wish in wished_indexes(properties):
        made = _wanted(wish, state, settings)
        if isinstance(made, WantedIndex):
            found.append(made)
        elif made:
            skipped.append(_skipped(_everything(state), f"index {wish.name}: {made}"))
    return tuple(found)


def _wanted(wish: WishedIndex, state: State, settings: IndexSettings) -> WantedIndex | str:
    """Return the index to request, or why not; empty if it is there."""
    try:
        kind = wish.bound(state.table)
    except InvalidInput as error:
        return str(error)
    known = state.indexes.get(wish.name)
    if known is not None:
        same = known.definition.kind == kind
        way_out = f"it keeps something else than {wish.text}: drop it, or correct {wish.key}"
        return "" if same else way_out
    files, size = _extent(state, None)
    has = f"{counted(files, 'file')} of {describe_size(size)}"
    if files < settings.min_files or size < settings.min_bytes:
        least = f"{counted(settings.min_files, 'file')} of {describe_size(settings.min_bytes)}"
        return f"the table is too small for it: {has}, of {least}"
    return WantedIndex(name=wish.name, kind=kind, reason=f"{wish.key} = {wish.text}; {has}")


def index_plan(
    state: State, index: IndexState, why: str, apart: Sequence[Interval] = ()
) -> IndexPlan | None:
    """Return the plan that builds the time an index lacks; None if it lacks nothing.

    Args:
        state: the table.
        index: one of its indexes.
        why: the reason to give.
        apart: the time to leave for later.
    """
    left = without(index, apart)
    if not left.lacks:
        return None
    times = [lack.interval for lack in left.lacks]
    whole = Interval(times[0].start, max(each.end for each in times))
    files, size = _extent(state, times)
    name, kind = index.definition.name, index.definition.kind
    return IndexPlan(
        id=index_plan_id(state.table.table_id, left),
        chunk=ChunkKey(whole, state.base_version),
        inputs=(),
        outputs=0,
        rows=_rows(state, times),
        size=size if kind.reads_rows else 0,
        reason=f"index {name} ({kind.name}) may lack {counted(files, 'file')} of "
        f"{describe_size(size)}: {why}",
        index=index.definition.id,
        name=name,
        through=max(lack.n for lack in left.lacks),
        apart=tuple(apart),
    )


class IndexFinder(Finder):
    """Finds index builds."""

    plan: ClassVar[type[Plan]] = IndexPlan
    switch: ClassVar[str] = "indexes"

    def may_be_due(
        self, found: PlannerContext, interval: Interval, summaries: Sequence[ChunkSummary]
    ) -> bool:
        """Return False: index builds are found in the whole table."""
        del found, interval, summaries
        return False

    def may_tidy(
        self, found: PlannerContext, chunks: Sequence[tuple[ChunkKey, ChunkSummary]]
    ) -> bool:
        """Return that no area gains by one."""
        del found, chunks
        return False

    def in_table(
        self, found: PlannerContext, others: Sequence[Plan], skipped: list[Skipped]
    ) -> tuple[Plan, ...]:
        """Return a plan for each index that lacks something."""
        if found.policy.indexes == OFF:
            return ()
        return tuple(_due(found, others, skipped))

    def asked(
        self, found: PlannerContext, chunks: Sequence[ChunkKey], why: str, skipped: list[Skipped]
    ) -> list[Plan]:
        """Return a plan for each index that lacks something; it builds all of it."""
        del chunks
        state = found.state
        if not state.indexes:
            skipped.append(_skipped(_everything(state), "the table has no index"))
        made = (_asked(found, index, why) for index in state.indexes.values())
        return [plan for plan in made if plan]

    def chosen(
        self, found: PlannerContext, ids: Chosen, why: str, skipped: list[Skipped]
    ) -> list[Plan]:
        """Refuse chosen segments: an index is built by time."""
        del found, why, skipped
        raise SegmentsRefused(
            f"an index is not built of chosen segments ({counted(len(ids), 'segment')} were "
            "given): leave them out, and all that it lacks is built"
        )


def _asked(found: PlannerContext, index: IndexState, why: str) -> IndexPlan | None:
    known = pending_plan(index.definition.id, found.pending)
    return None if known else index_plan(found.state, index, why)


def _due(
    found: PlannerContext, others: Sequence[Plan], skipped: list[Skipped]
) -> Iterator[IndexPlan]:
    """Yield the plans that are due; add a reason for the others."""
    rewriting = [known.plan for known in found.pending] + [*others]
    apart = {plan.interval: plan.id for plan in rewriting if plan.claim.segments != frozenset()}
    for index in found.state.indexes.values():
        if index.current or pending_plan(index.definition.id, found.pending):
            continue
        rests = _rests(found, index)
        left = {time: by for time, by in apart.items() if without(index, [time]) != index}
        plan = None if rests else index_plan(found.state, index, _why(index), tuple(sorted(left)))
        if rests:
            skipped.append(_skipped(_everything(found.state), rests))
        for time, by in left.items() if not rests else ():
            why = f"index {index.definition.name}: left until plan {by} has rewritten it"
            skipped.append(_skipped(time, why))
        if plan:
            yield plan


def _why(index: IndexState) -> str:
    if index.available_n is None:
        return "it is not available yet"
    return f"{counted(index.lagging_commits, 'commit')} did not feed it"


def _rests(found: PlannerContext, index: IndexState) -> str | None:
    """Return why an index rests after an abort; None if it does not."""
    minutes, own = found.policy.retry_aborted_minutes, index.definition
    for known in found.state.plans.values():
        plan = known.plan
        if known.status is not PlanStatus.ABORTED or not isinstance(plan, IndexPlan):
            continue
        if plan.index == own.id and found.now - known.changed_at < minutes * MINUTE_US:
            why = f"index {own.name}: plan {plan.id} was aborted ({known.note})"
            return f"{why}; rests {minutes:g} min"
    return None


def _extent(state: State, times: Sequence[Interval] | None) -> tuple[int, int]:
    """Return the number and the size of the files of some times, or of the table."""
    summaries = _summaries(state, times).values()
    return sum(s.files for s in summaries), sum(s.size for s in summaries)


def _rows(state: State, times: Sequence[Interval]) -> int:
    return sum(summary.rows for summary in _summaries(state, times).values())


def _summaries(state: State, times: Sequence[Interval] | None) -> dict[ChunkKey, ChunkSummary]:
    every = (state.timeline.visible_summaries(time) for time in times or (None,))
    return {key: summary for some in every for key, summary in some.items()}


def _everything(state: State) -> Interval:
    """Return the time of all chunks; all time if there is none."""
    chunks = [chunk.interval for chunk in state.timeline.visible_chunks()]
    if not chunks:
        return Interval(MIN_INSTANT, MAX_INSTANT)
    return Interval(min(c.start for c in chunks), max(c.end for c in chunks))


def _skipped(time: Interval, text: str) -> Skipped:
    reason = Reason(text, Code.INDEX)
    return Skipped(chunk=ChunkKey(time, 0), partitions=(), reason=reason, kind=IndexPlan.kind)


FINDER = IndexFinder()
