"""Plans: a plan is requested, started, and completed, yielded or aborted.

1. A plan is ``PlanRequested -> PlanInflight -> PlanCompleted``, or it ends in
   ``PlanAborted``. ``PlanYielded`` returns it to the requested ones (``core.log.plan``).
   The event that drops or replaces an index aborts the index's plans, too: they can never complete.
2. The ids that an attempt names are settled, even if it fails. A completion publishes its outputs,
   and may repartition time.
3. State keeps all pending plans, and the last ``FINISHED_PLANS_KEPT`` finished ones.
4. *Admission of a request*: refused if a pending plan excludes it, or if the plan is pending or
   completed already (an aborted one may come back), or if it sorts by a column that an alteration
   renamed or dropped meanwhile.
5. *Admission of an attempt*: refused if the plan is finished, its lock is older than that of the
   latest attempt, or an id or version is used already.
6. *Admission of a completion*: it commutes with appends, changes and plans over other segments.
   Refused if the plan is finished, or another attempt superseded mine.
   In 4 to 6 the kind of plan adds its own conditions (``core.log.plan``): inputs are visible, and
   at commit rows are in balance (``core.log.replacement``).
7. *Admission of a yield or an abort*: refused if an attempt began that its author had not read.
"""

from dataclasses import replace
from typing import TypeAlias, TypeVar

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import CorruptTable
from airflow_provider_segtable.core.locks import (
    FencingToken,
    Generation,
    decode_token,
    encode_token,
)
from airflow_provider_segtable.core.log.event import Conflict, Stamp, made
from airflow_provider_segtable.core.log.event_kind import (
    EventKind,
    intervals_of_segments,
    no_interval,
    nothing,
    own_segments,
)
from airflow_provider_segtable.core.log.families.table_events import lost_columns
from airflow_provider_segtable.core.log.plan import Plan, PlanState, PlanStatus
from airflow_provider_segtable.core.log.plan_kinds import decode_plan
from airflow_provider_segtable.core.log.replacement import present
from airflow_provider_segtable.core.log.state import State, publish, settle
from airflow_provider_segtable.core.log.work import work_of
from airflow_provider_segtable.core.segment import Segment, SegmentId
from airflow_provider_segtable.core.segment_codec import (
    Json,
    decode_ids,
    decode_segments,
    encode_ids,
    encode_segments,
)
from airflow_provider_segtable.core.time import Instant, iso

FINISHED_PLANS_KEPT = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanRequested:
    """A plan is requested."""

    plan: Plan


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanInflight:
    """An attempt has its locks and starts to write; it supersedes every earlier attempt.

    ``outputs`` are the ids it may use. A plan that starts a new ``version`` numbers segments in it
    itself. A plan over an interval names the ``inputs`` found under its lock.
    """

    plan_id: str
    attempt: str
    token: FencingToken
    outputs: tuple[SegmentId, ...]
    inputs: tuple[SegmentId, ...] = ()
    version: Instant | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanCompleted:
    """The outputs replace the inputs, atomically.

    If they are a new version, they include segments appended meanwhile, carried over to it, and
    tombstones where the region has no rows. ``late`` are log files that the attempt divided as
    well, besides its inputs.
    """

    plan_id: str
    attempt: str
    segments: tuple[Segment, ...]
    late: tuple[SegmentId, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanYielded:
    """An attempt lost its locks to a request of higher priority; the plan waits for a new one."""

    plan_id: str
    attempt: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanAborted:
    """The plan is given up; its inputs stay. ``attempt`` is the newest that its author had read."""

    plan_id: str
    attempt: str | None
    reason: str


LaterEvent: TypeAlias = PlanInflight | PlanCompleted | PlanYielded | PlanAborted
End = TypeVar("End", PlanYielded, PlanAborted)


def _line_of_start(action: PlanInflight) -> str:
    if action.version is not None:
        return f"{action.plan_id} -> version {iso(action.version)}"
    if not action.outputs:
        return f"{action.plan_id} started"
    first, last = action.outputs[0].partition, action.outputs[-1].partition
    return f"{action.plan_id} -> {first if first == last else f'{first}-{last}'}"


def _encode_end(action: PlanYielded | PlanAborted) -> Json:
    return {"plan_id": action.plan_id, "attempt": action.attempt, "reason": action.reason}


def _requested(state: State, action: PlanRequested, at: Stamp) -> State:
    return _with_plan(state, PlanState.requested(action.plan, at))


def _started(state: State, action: PlanInflight, at: Stamp) -> State:
    started = _known(state, action, at).started(
        at,
        attempt=action.attempt,
        token=action.token,
        outputs=action.outputs,
        version=action.version,
        found=action.inputs,
    )
    return settle(_with_plan(state, started), action.outputs)


def _completed(state: State, action: PlanCompleted, at: Stamp) -> State:
    known = _known(state, action, at).with_inputs(action.late)
    work = work_of(known.inputs, _known_inputs(known, state), action.segments, known.plan.size)
    done = replace(known.finished(PlanStatus.COMPLETED, "", at), work=work)
    outputs = done.plan.with_base(known, action.segments, state)
    return publish(_repartitioned(_with_plan(state, done), done.plan), outputs)


def _known_inputs(known: PlanState, state: State) -> tuple[Segment, ...]:
    """Return the inputs of a plan over one chunk; those over more are not decoded for measures."""
    return present(known.inputs, state) if known.plan.claim.segments else ()


def _yielded(state: State, action: PlanYielded, at: Stamp) -> State:
    return _with_plan(state, _known(state, action, at).yielded(action.reason, at))


def _aborted(state: State, action: PlanAborted, at: Stamp) -> State:
    aborted = _known(state, action, at).finished(PlanStatus.ABORTED, action.reason, at)
    return _with_plan(state, aborted)


def without_hopeless(before: State, after: State, at: Stamp) -> State:
    """Return the state after an event with the plans aborted that the event leaves without hope."""
    for known in before.pending_plans():
        gone = known.plan.hopeless(after)
        if gone and known.plan.hopeless(before) is None:
            after = _with_plan(after, known.finished(PlanStatus.ABORTED, gone.reason, at))
    return after


def _known(state: State, action: LaterEvent, at: Stamp) -> PlanState:
    if action.plan_id not in state.plans:
        kind = type(action).__name__
        raise CorruptTable(f"event {at.n} ({kind}) names unknown plan {action.plan_id}")
    return state.plans[action.plan_id]


def _with_plan(state: State, plan: PlanState) -> State:
    plans = {**state.plans, plan.plan.id: plan}
    if plan.status.pending or len(plans) <= FINISHED_PLANS_KEPT:
        return replace(state, plans=plans)
    finished = [p for p in plans.values() if not p.status.pending]
    if len(finished) > FINISHED_PLANS_KEPT:
        oldest = min(finished, key=lambda p: p.last_n)
        del plans[oldest.plan.id]
    return replace(state, plans=plans)


def _repartitioned(state: State, plan: Plan) -> State:
    layout = plan.layout_after(state.layout)
    return state if layout == state.layout else replace(state, overrides=layout.overrides)


def _admit_request(action: PlanRequested, state: State) -> PlanRequested | Conflict:
    plan = action.plan
    known = state.plans.get(plan.id)
    if known and known.status is not PlanStatus.ABORTED:
        return Conflict(reason=f"plan {plan.id} is {known.status} already", winner=known.last_n)
    for other in state.pending_plans():
        if plan.excluded_by(other.plan):
            reason = f"inputs of {plan.id} are claimed by pending plan {other.plan.id}"
            return Conflict(reason=reason, winner=other.last_n)
    missing = lost_columns(plan, state.table.schema, state.table.schema)
    if missing:
        reason = f"plan {plan.id} sorts by {', '.join(missing)}, which the table has no more"
        return Conflict(reason=reason, winner=state.table.altered)
    return plan.admit_request(state) or action


def _admit_start(action: PlanInflight, state: State) -> PlanInflight | Conflict:
    found = _pending(action.plan_id, state)
    if isinstance(found, Conflict):
        return found
    if found.token and action.token.older_than(found.token):
        return _superseded(found)
    for output in action.outputs:
        if not state.id_space(output.chunk, Generation.of(output)).free(output.partition):
            return Conflict(reason=f"segment id {output} was used already; ask for new ones")
    least = state.version_above(found.plan.interval)
    if action.version is not None and action.version <= least:
        reason = f"version {action.version} is not above {least}; ask for a higher one"
        return Conflict(reason=reason)
    return found.plan.admit_start(action.inputs, state) or action


def _admit_completion(action: PlanCompleted, state: State) -> PlanCompleted | Conflict:
    """Return the completion to commit, or the conflict.

    Raises:
        RowsOutOfBalance: if the outputs do not account for the rows of the inputs.
    """
    found = _pending(action.plan_id, state)
    if isinstance(found, Conflict):
        return found
    if not _newest(found, action.attempt):
        return _superseded(found)
    whole = found.with_inputs(action.late)
    admitted = found.plan.admit_completion(whole, action.segments, state)
    return admitted if isinstance(admitted, Conflict) else replace(action, segments=admitted)


def _admit_end(action: End, state: State) -> End | Conflict:
    found = _pending(action.plan_id, state)
    if isinstance(found, Conflict):
        return found
    return action if _newest(found, action.attempt) else _superseded(found)


def _pending(plan_id: str, state: State) -> PlanState | Conflict:
    found = state.plans.get(plan_id)
    if found is None:
        return Conflict(reason=f"plan {plan_id} is not in the log")
    if not found.status.pending:
        done = "completed" if found.status is PlanStatus.COMPLETED else "aborted"
        reason = f"plan {plan_id} was {done} by {found.author}"
        return Conflict(reason=reason, winner=found.last_n)
    return found


def _newest(found: PlanState, attempt: str | None) -> bool:
    """Return whether the attempt is the newest in the log: only that one may end its plan."""
    return found.attempt == attempt


def _superseded(found: PlanState) -> Conflict:
    reason = f"plan {found.plan.id} was taken over by {found.author} (attempt {found.attempt})"
    return Conflict(reason=reason, winner=found.last_n)


KINDS = (
    EventKind(
        type=PlanRequested,
        name="PlanRequested",
        apply=_requested,
        admit=_admit_request,
        plans=lambda action: (action.plan.id,),
        segments=nothing,
        effects=nothing,
        touches=no_interval,
        encode=lambda action: {"plan": action.plan.encode()},
        decode=lambda body: PlanRequested(plan=decode_plan(body["plan"])),
        line=lambda action: action.plan.line,
    ),
    EventKind(
        type=PlanInflight,
        name="PlanInflight",
        apply=_started,
        admit=_admit_start,
        plans=lambda action: (action.plan_id,),
        segments=nothing,
        effects=nothing,
        touches=no_interval,
        encode=lambda action: {
            "plan_id": action.plan_id,
            "attempt": action.attempt,
            "token": encode_token(action.token),
            "outputs": encode_ids(action.outputs),
            **(
                {"inputs": encode_ids(action.inputs), "version": action.version}
                if action.version
                else {}
            ),
        },
        decode=lambda body: PlanInflight(
            plan_id=body["plan_id"],
            attempt=body["attempt"],
            token=decode_token(body["token"]),
            outputs=decode_ids(body["outputs"]),
            inputs=decode_ids(body.get("inputs", [])),
            version=body.get("version"),
        ),
        line=_line_of_start,
    ),
    EventKind(
        type=PlanCompleted,
        name="PlanCompleted",
        apply=_completed,
        admit=_admit_completion,
        plans=lambda action: (action.plan_id,),
        segments=own_segments,
        effects=nothing,
        moved=True,
        touches=intervals_of_segments,
        encode=lambda action: {
            "plan_id": action.plan_id,
            "attempt": action.attempt,
            "segments": encode_segments(action.segments),
            **({"late": encode_ids(action.late)} if action.late else {}),
        },
        decode=lambda body: PlanCompleted(
            plan_id=body["plan_id"],
            attempt=body["attempt"],
            segments=decode_segments(body["segments"]),
            late=decode_ids(body.get("late", [])),
        ),
        line=lambda action: f"{action.plan_id} = {made(action.segments)}",
    ),
    EventKind(
        type=PlanYielded,
        name="PlanYielded",
        apply=_yielded,
        admit=_admit_end,
        plans=lambda action: (action.plan_id,),
        segments=nothing,
        effects=nothing,
        touches=no_interval,
        encode=_encode_end,
        decode=lambda body: PlanYielded(
            plan_id=body["plan_id"], attempt=body["attempt"], reason=body["reason"]
        ),
        line=lambda action: f"{action.plan_id} yielded: {action.reason}",
    ),
    EventKind(
        type=PlanAborted,
        name="PlanAborted",
        apply=_aborted,
        admit=_admit_end,
        plans=lambda action: (action.plan_id,),
        segments=nothing,
        effects=nothing,
        touches=no_interval,
        encode=_encode_end,
        decode=lambda body: PlanAborted(
            plan_id=body["plan_id"], attempt=body["attempt"], reason=body["reason"]
        ),
        line=lambda action: f"{action.plan_id}: {action.reason}",
    ),
)
