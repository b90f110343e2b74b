"""Turn the log's contents into facts: plain JSON values under stable keys; pure functions.

Times and intervals are ISO 8601, sizes are bytes under ``bytes``. Scripts may rely on the keys: new
ones are added, none is renamed. ``drawing`` draws the same facts.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict
from typing import assert_never

from airflow_provider_segtable.cli.display.output import Facts
from airflow_provider_segtable.core.log.events import (
    Action,
    Appended,
    Cleaned,
    Event,
    PlanAborted,
    PlanCompleted,
    PlanInflight,
    PlanRequested,
    PlanYielded,
    RowsChanged,
    Swept,
    TableAltered,
    TableCreated,
    TableDropped,
    TableRepaired,
    Tagged,
    Untagged,
    VersionRestored,
    Voided,
)
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.plans.plan_state import PlanState
from airflow_provider_segtable.core.segments.segment import Segment, SegmentId
from airflow_provider_segtable.core.time.interval import Interval, iso
from airflow_provider_segtable.planning.deleted_rows import deleted_in
from airflow_provider_segtable.planning.policy import Policy
from airflow_provider_segtable.planning.reasons import Skipped, describe_size
from airflow_provider_segtable.planning.settings import settings


def definition_facts(uri: str, state: State) -> Facts:
    """Return a table's definition."""
    table = state.table
    return {
        "table": uri,
        "name": table.name,
        "id": table.table_id,
        "version": state.n,
        "created": iso(state.base_version),
        "changed": iso(state.time),
        "schema": [
            {"name": c.name, "type": c.type, "nullable": c.nullable, "id": c.id}
            for c in table.schema.numbered
        ],
        "time_column": table.time_column,
        "granularity": table.granularity.value,
        "kind": table.kind.name,
        "kind_settings": dict(table.kind.facts()),
        "properties": dict(table.properties),
        "settings": [asdict(setting) for setting in settings(table)],
    }


def describe_facts(uri: str, state: State) -> Facts:
    """Return a table's definition, contents and health."""
    policy, deleted = Policy.read(state.table.properties), deleted_in(state)
    shown = state.timeline.visible_segments()
    visible = [segment for segment in shown if not segment.tombstone]
    return {
        **definition_facts(uri, state),
        "zones": [
            {"interval": str(override.interval), "granularity": override.granularity.value}
            for override in state.overrides
        ],
        "policy": asdict(policy),
        "counts": {
            "chunks": len({segment.id.chunk for segment in visible}),
            "segments": len(visible),
            "rows": sum(segment.rows for segment in visible),
            "deleted_rows": round(deleted.rows_of(visible)),
            "deleted_predicates": deleted.waiting(visible),
            "events": sum(segment.events for segment in visible),
            "bytes": sum(segment.size for segment in visible),
            "hidden_segments": sum(1 for _ in state.timeline.segments()) - len(shown),
            "tombstones": len(shown) - len(visible),
        },
        "health": {
            **health_facts(visible, policy),
            "deleted_share": round(deleted.share(visible), 4),
        },
        "pending_plans": [plan_facts(known) for known in state.pending_plans()],
    }


def health_facts(visible: Iterable[Segment], policy: Policy) -> Facts:
    """Return the number of small segments, and the chunk with most of them."""
    small = [segment for segment in visible if segment.size < policy.small_size]
    chunks = Counter(segment.id.interval for segment in small)
    worst = max(chunks, key=lambda chunk: (chunks[chunk], chunk), default=None)
    return {
        "small_segments": len(small),
        "small_below_bytes": int(policy.small_size),
        "target_bytes": policy.target_size,
        "worst_interval": str(worst) if worst else None,
        "worst_small_segments": chunks[worst] if worst else 0,
    }


def plan_facts(known: PlanState) -> Facts:
    """Return one plan and its progress."""
    plan = known.plan
    return {
        "plan": plan.id,
        "kind": plan.kind,
        "status": known.status.value,
        "interval": str(plan.interval),
        **plan.facts(),
        "segments": len(known.inputs),
        "rows": plan.rows,
        "bytes": plan.size,
        "reason": plan.reason,
        "requested": iso(known.requested_at),
        "attempts": known.attempts,
        "yields": known.yields,
        "author": known.author,
    }


def segments_facts(uri: str, state: State, interval: Interval | None, *, hidden: bool) -> Facts:
    """Return the visible segments in order, or with ``hidden`` all segments, with their status.

    Tombstones have no rows, so they count as hidden.
    """
    timeline = state.timeline
    wanted = [s for s in timeline.visible_segments(interval) if not s.tombstone]
    if hidden:
        wanted = sorted(
            timeline.segments(interval),
            key=lambda s: (s.id.interval, s.id.version, s.shard.root_start, s.shard.minor_version),
        )
    groups = dict.fromkeys((segment.id.chunk, segment.shard.group) for segment in wanted)
    states = {group: timeline.state(*group).value for group in groups}
    return {
        "table": uri,
        "version": state.n,
        "base_version": state.base_version,
        "segments": [segment_facts(s, states[s.id.chunk, s.shard.group]) for s in wanted],
    }


def segment_facts(segment: Segment, state: str) -> Facts:
    """Return one segment; ``root`` is the half-open range of its appended partitions."""
    shard = segment.shard
    return {
        "id": str(segment.id),
        "state": state,
        "interval": str(segment.id.interval),
        "version": segment.id.version,
        "partition": shard.partition,
        "root": [shard.root_start, shard.root_end],
        "minor_version": shard.minor_version,
        "group_size": shard.group_size,
        "core": shard.core,
        "tombstone": segment.tombstone,
        "rows": segment.rows,
        "events": segment.events,
        "bytes": segment.size,
        "row_groups": segment.row_groups,
        "time_min": iso(segment.time_min),
        "time_max": iso(segment.time_max),
        "created": iso(segment.created),
        "clustering": segment.clustering,
        "origin": str(segment.origin) if segment.origin else None,
        "path": segment.path,
    }


def event_facts(event: Event) -> Facts:
    """Return one event of the log."""
    return {
        "n": event.n,
        "time": iso(event.time),
        "author": event.author,
        "commit": event.commit,
        "kind": event.kind,
        "summary": summary(event.action),
    }


def summary(action: Action) -> str:  # noqa: C901, PLR0912 - one case per kind
    """Return a short description of an action."""
    match action:
        case TableCreated(name=name, granularity=granularity, schema=schema):
            return f"{name}: {len(schema.columns)} columns, chunks of a {granularity.value}"
        case TableAltered():
            return _alteration(action)
        case TableDropped(name=name):
            return f"{name} was dropped"
        case Appended(segments=segments):
            return f"+{_amount(segments)} in {_chunks(segments)}"
        case Voided(ids=ids, reason=reason):
            return f"{_many(len(ids), 'id')} voided: {reason}"
        case PlanRequested(plan=plan):
            return plan.line
        case RowsChanged():
            return _change(action)
        case PlanInflight(plan_id=plan_id, version=int(version)):
            return f"{plan_id} -> version {iso(version)}"
        case PlanInflight(plan_id=plan_id, outputs=outputs):
            return f"{plan_id} -> {_ids(outputs)}" if outputs else f"{plan_id} started"
        case PlanCompleted(plan_id=plan_id, segments=segments):
            return f"{plan_id} = {_made(segments)}"
        case PlanYielded(plan_id=plan_id, reason=reason):
            return f"{plan_id} yielded: {reason}"
        case PlanAborted(plan_id=plan_id, reason=reason):
            return f"{plan_id}: {reason}"
        case Cleaned(ids=ids, retained_from=n):
            return f"{_many(len(ids), 'segment')} removed; versions are kept from {n} on"
        case Swept(paths=paths):
            return f"{_many(len(paths), 'file')} deleted"
        case Tagged(name=name, n=n):
            return f"version {n} is {name}"
        case Untagged(name=name):
            return f"tag {name} deleted"
        case TableRepaired(segments=segments, lost=lost, reason=reason):
            return f"{reason}: {_amount(segments)} adopted, {_many(len(lost), 'segment')} left out"
        case VersionRestored(version=n, segments=segments):
            return f"version {n} again: {_made(segments)}"
        case _:
            assert_never(action)


def _alteration(action: TableAltered) -> str:
    news = (f"{key}={value}" for key, value in action.set.items())
    columns = action.schema.names if action.schema else ()
    parts = {
        "columns now": ", ".join(columns),
        "set": ", ".join(news),
        "unset": ", ".join(action.unset),
    }
    return "; ".join(f"{verb} {what}" for verb, what in parts.items() if what)


def _change(action: RowsChanged) -> str:
    gone = _many(action.matched if action.predicate else action.deleted, "row")
    came = f", +{_amount(action.segments)}" if action.segments else ""
    why = f": {action.reason}" if action.reason else ""
    return f"{action.kind}: {gone} deleted{came}{why}"


def skipped_facts(skipped: Skipped) -> Facts:
    """Return a skipped part of the table and the reason."""
    return {
        "kind": skipped.kind,
        "interval": str(skipped.chunk.interval),
        "partitions": list(skipped.partitions),
        "reason": skipped.reason,
    }


def _ids(outputs: tuple[SegmentId, ...]) -> str:
    first, last = outputs[0].partition, outputs[-1].partition
    return str(first) if first == last else f"{first}-{last}"


def _made(segments: tuple[Segment, ...]) -> str:
    """Describe a compaction's new segments, carried-over segments and tombstones."""
    dead = sum(segment.tombstone for segment in segments)
    carried = tuple(segment for segment in segments if segment.origin)
    made = tuple(s for s in segments if not s.tombstone and s.origin is None)
    parts = [_amount(made)]
    parts += [f"carried over {_amount(carried)}"] if carried else []
    parts += [_many(dead, "tombstone")] if dead else []
    return "; ".join(parts)


def _amount(segments: tuple[Segment, ...]) -> str:
    rows = sum(segment.rows for segment in segments)
    size = describe_size(sum(segment.size for segment in segments))
    return f"{_many(len(segments), 'segment')}, {rows:,} rows, {size}"


def _chunks(segments: tuple[Segment, ...]) -> str:
    return _many(len({segment.id.interval for segment in segments}), "chunk")


def _many(count: int, noun: str) -> str:
    return f"{count:,} {noun}{'' if count == 1 else 's'}"
