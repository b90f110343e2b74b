"""A table whose log is replayed, while plans are carried out by estimate instead of by workers.

1. Appends, changes, alterations and checkpoints of the log store are replayed. Each is admitted
   anew (``core.log.fold``), as if its author committed to the simulated table: if a simulated
   compaction moved its chunk to another version, its segments get other ids.
2. Plans, cleanings, tags, repairs, restores, consumers and indexes of the log are not. So no plan
   of the log has an effect, and indexes cost nothing.
3. An event that the simulated table refuses is left out, and counted: its author would have
   written it again, as where a simulated plan changed the granularity or the number of buckets.
4. A plan begins as soon as it is requested. Its outputs are estimated: as many bytes and rows as
   the inputs, in as few files of the target size as these fill, divided over time chunks as the
   inputs span them. Files that are sorted by time follow each other; others span all of the time of
   the inputs. Deleted rows go with their share of the bytes (``planning.planner_context``).
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from math import ceil

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.locks import FencingToken, LockRequest
from airflow_provider_segtable.core.log.event import Conflict
from airflow_provider_segtable.core.log.events import Action, Event
from airflow_provider_segtable.core.log.families import (
    append_events,
    change_events,
    log_store_events,
    table_events,
)
from airflow_provider_segtable.core.log.families.change_events import RowsChanged
from airflow_provider_segtable.core.log.families.plan_events import (
    PlanAborted,
    PlanCompleted,
    PlanInflight,
    PlanRequested,
)
from airflow_provider_segtable.core.log.fold import admit, apply
from airflow_provider_segtable.core.log.plan import Named, Plan, PlanState, Rewrite
from airflow_provider_segtable.core.log.replacement import present
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import Place, Segment, roots_of
from airflow_provider_segtable.core.time import Instant, Interval, Layout
from airflow_provider_segtable.planning.planner_context import deleted_in

AUTHOR = "simulated"
_REPLAYED = frozenset(
    kind.type
    for family in (table_events, append_events, change_events, log_store_events)
    for kind in family.KINDS
)


def opened(state: State) -> State:
    """Return a table as it is simulated: without indexes, and without plans that are pending."""
    ended = {name: known for name, known in state.plans.items() if not known.status.pending}
    return replace(state, plans=ended, indexes={})


def replays(event: Event) -> bool:
    """Return whether an event of the log is replayed (rules 1 and 2)."""
    return type(event.action) in _REPLAYED


def replayed(state: State, event: Event) -> State | None:
    """Return the state after an event of the log; None if the simulated table refuses it."""
    action = event.action
    if isinstance(action, RowsChanged):
        action = replace(action, seen=state.n)  # its author would have read the simulated log
    try:
        admitted = admit(action, state)
    except SegtableError:
        return None
    if isinstance(admitted, Conflict):
        return None
    time = max(event.time, state.time + 1)
    return apply(state, replace(event, n=state.n + 1, time=time, action=admitted, feeds=()))


def begun(state: State, plan: Plan, at: Instant) -> State:
    """Return the state after a plan was requested and has begun."""
    state = _after(state, PlanRequested(plan=plan), at)
    table = state.table.table_id
    asked = plan.lock(
        LockRequest(table=table, group=plan.id, purpose=plan.id, holder=AUTHOR), state
    )
    spans = (range(each.at_least, each.at_least + each.count) for each in asked.allocate)
    ids = zip((each.chunk for each in asked.allocate), spans, strict=True)
    above = asked.version_above
    start = PlanInflight(
        plan_id=plan.id,
        attempt=AUTHOR,
        token=FencingToken(AUTHOR, state.n),
        outputs=tuple(chunk.segment(n) for chunk, span in ids for n in span),
        inputs=plan.inputs_under_lock(state),
        version=None if above is None else max(above + 1, state.time),
    )
    return _after(state, start, at)


def ended(state: State, plan_id: str, target_size: int, at: Instant) -> State:
    """Return the state after a plan is completed; aborted if its inputs are gone."""
    known = state.plans[plan_id]
    outputs = _outputs(state, known, target_size)
    if isinstance(outputs, Conflict):
        abort = PlanAborted(plan_id=plan_id, attempt=AUTHOR, reason=outputs.reason)
        return _after(state, abort, at)
    return _after(state, PlanCompleted(plan_id=plan_id, attempt=AUTHOR, segments=outputs), at)


def _after(state: State, action: Action, at: Instant) -> State:
    n, time = state.n + 1, max(at, state.time + 1)
    event = Event(n=n, time=time, commit=f"{AUTHOR}-{n}", author=AUTHOR, action=action)
    return apply(state, event)


# Outputs of a plan
@dataclass(frozen=True, slots=True, kw_only=True)
class _Part:
    """The rows of a plan's outputs in one place, between their first and last event."""

    place: Place
    rows: int
    size: int
    first: Instant
    last: Instant

    def files(self, step: Rewrite, target_size: int) -> int:
        """Return the number of files: none has no row, unless there is no row at all."""
        wanted = min(ceil(self.size / target_size), self.rows, step.most or self.rows)
        return max(wanted, 1)


def _outputs(state: State, known: PlanState, target_size: int) -> tuple[Segment, ...] | Conflict:
    plan = known.plan
    gone = plan.replaced(known.inputs, state)
    if gone is not None:
        return gone
    inputs = present(known.inputs, state)
    step = plan.next_step(inputs, (), state)
    if not isinstance(step, Rewrite):
        return plan.published(known, (), state)
    parts = tuple(_parts(step, plan, _live(inputs, plan.interval, state), state))
    counts = {part.place: part.files(step, target_size) for part in parts}
    names = plan.name_outputs(known, counts, state)
    like, layout = _like(inputs, known, step, state), plan.layout_after(state.layout)
    made = tuple(each for part in parts for each in _files(part, names[part.place], like, layout))
    return plan.published(known, made, state)


def _live(inputs: Sequence[Segment], interval: Interval, state: State) -> Sequence[Segment]:
    """Return inputs with as many rows and bytes as are not deleted."""
    deleted = deleted_in(state, interval).rows
    return [_without(each, round(deleted.get(each.id, 0.0))) for each in inputs]


def _without(segment: Segment, deleted: int) -> Segment:
    rows = max(segment.rows - deleted, 0)
    if not deleted or not rows:
        return segment
    return replace(segment, rows=rows, size=segment.size * rows // segment.rows, lineage=())


def _parts(step: Rewrite, plan: Plan, inputs: Sequence[Segment], state: State) -> Iterator[_Part]:
    """Yield the outputs by place, as the inputs span these."""
    if step.one_group:
        yield _part(plan.chunk.place, inputs, plan.interval, 1)
        return
    layout = plan.layout_after(state.layout)
    step = step.with_chunks(layout.chunk(each.time_min) for each in step.sparse)
    buckets = step.buckets or [0] * len(step.intervals)
    for interval, count in zip(step.intervals, buckets, strict=True):
        places = [Place(interval, n) for n in range(count)] or [Place(interval)]
        found = (_part(place, inputs, interval, len(places)) for place in places)
        yield from (part for part in found if part.rows)


def _part(place: Place, inputs: Sequence[Segment], interval: Interval, of: int) -> _Part:
    """Return one of some equal parts of the rows in an interval."""
    held = [(each, _share(each, interval)) for each in inputs if each.rows]
    inside = [each for each, share in held if share]
    return _Part(
        place=place,
        rows=round(sum(each.rows * share for each, share in held) / of),
        size=round(sum(each.size * share for each, share in held) / of),
        first=max(min((each.time_min for each in inside), default=0), interval.start),
        last=min(max((each.time_max for each in inside), default=0), interval.end - 1),
    )


def _share(segment: Segment, interval: Interval) -> float:
    """Return the share of a segment's time that lies in an interval."""
    start, end = segment.time_min, segment.time_max + 1
    return max(min(end, interval.end) - max(start, interval.start), 0) / (end - start)


def _like(inputs: Sequence[Segment], known: PlanState, step: Rewrite, state: State) -> Segment:
    """Return an input with all that the outputs have in common."""
    orders = {each.clustering for each in inputs}
    kept = orders.pop() if len(orders) == 1 else ""
    return replace(
        inputs[0],
        created=known.started_at,
        lineage=(),
        roots=roots_of(inputs),
        clustering=kept if step.clustering is None else step.clustering,
        origin=None,
        replaces=(),
        deletes_applied_through=state.n,
        schema=max(each.schema for each in inputs),
        footer=None,
    )


def _files(part: _Part, named: Named, like: Segment, layout: Layout) -> Iterator[Segment]:
    """Yield the files of a part; in the order of time each begins where the one before ends."""
    count = len(named)
    edges = [part.first + (part.last + 1 - part.first) * at // count for at in range(count + 1)]
    follow = not like.clustering and part.last + 1 - part.first >= count
    for at, (segment_id, shard) in enumerate(named):
        rows = part.rows * (at + 1) // count - part.rows * at // count
        yield replace(
            like,
            id=segment_id,
            shard=shard,
            path=f"data/{AUTHOR}/{segment_id}" if rows else "",
            rows=rows,
            events=rows,
            size=part.size // count if rows else 0,
            time_min=edges[at] if follow else part.first,
            time_max=edges[at + 1] - 1 if follow else part.last,
            buckets=layout.own_buckets(part.place.interval.start),
        )
