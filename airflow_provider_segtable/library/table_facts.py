"""The facts of a table (``core.facts``), as pure functions of its state.

The command line draws them, and the page shows them.
"""

from collections.abc import Sequence
from dataclasses import asdict

from airflow_provider_segtable.core.catch_up import catch_up
from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.facts import Facts
from airflow_provider_segtable.core.indexes.index_kind import IndexKind
from airflow_provider_segtable.core.indexes.index_state import IndexState
from airflow_provider_segtable.core.log.events import Event, line
from airflow_provider_segtable.core.log.index_plan import pending_plan
from airflow_provider_segtable.core.log.plan import PlanState
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import NO_BUCKET, Segment
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.time import SECOND_US, Instant, Interval, iso
from airflow_provider_segtable.core.timeline import Timeline, slices
from airflow_provider_segtable.planning.gauges import small_segments
from airflow_provider_segtable.planning.planner_context import deleted_in
from airflow_provider_segtable.planning.properties import Policy, settings


# Indexes: columns that each keeps, progress, and size of its own table
def index_facts(index: IndexState, state: State, now: Instant) -> Facts:
    """Return an index as the log knows it: its kind, columns and progress."""
    definition, kind = index.definition, index.definition.kind
    verdict, since = catch_up(state, definition.name, now=now), index.lacking_since
    plan = pending_plan(index.definition.id, state.pending_plans())
    return {
        "name": definition.name,
        "id": definition.id,
        "kind": kind.name,
        "columns": column_names(kind, state.table),
        "settings": {key: value for key, value in kind.encoded().items() if key != "columns"},
        "status": index.status.value,
        "current": index.current,
        "requested": index.requested_n,
        "requested_at": iso(index.requested_at),
        "available": index.available_n,
        "lag_commits": verdict.lag_commits,
        "lag_s": verdict.lag_s,
        "lacking_since": None if since is None else iso(since),
        "lacking": [str(each) for each in dict.fromkeys(lack.interval for lack in index.lacks)],
        "message": verdict.message,
        "waiting_feeds": len(index.feeds),
        "plan": None if plan is None else plan.plan.id,
        "plan_status": None if plan is None else plan.status.value,
        "plan_requested": None if plan is None else iso(plan.requested_at),
        "plan_age_s": None if plan is None else max(0, now - plan.requested_at) / SECOND_US,
    }


def column_names(kind: IndexKind, table: TableDefinition) -> list[str]:
    """Return the present names of the indexed columns."""
    known = {column.id: column.name for column in table.schema.numbered}
    return [known.get(number, f"dropped column {number}") for number in kind.columns]


def index_line(facts: Facts) -> str:
    """Return an index in a line: its kind, columns and progress."""
    behind = f", {counted(facts['lag_commits'], 'commit')} behind" if facts["lag_commits"] else ""
    return f"{keeps(facts)}; {facts['status']}{behind}"


def keeps(facts: Facts) -> str:
    """Return the kind of an index with its columns and settings."""
    settings = (f"{key} {value:g}" for key, value in facts["settings"].items())
    on = f" on {', '.join(facts['columns'])}" if facts["columns"] else ""
    return ", ".join([f"{facts['kind']}{on}", *settings])


# The log store, as the table's log knows it
def log_store_facts(state: State) -> list[Facts]:
    """Return the buckets of the log store: epoch, owner, and number of committed records."""
    return [
        {
            "bucket": bucket,
            "epoch": known.epoch,
            "owner": known.owner or None,
            "committed": known.end,
        }
        for bucket, known in sorted(state.log_store.items())
    ]


def log_store_line(buckets: Sequence[Facts]) -> str:
    """Return the buckets in a line."""
    records = sum(each["committed"] for each in buckets)
    newest = max(buckets, key=lambda each: each["epoch"])
    owner = f" of {newest['owner']}" if newest["owner"] else ", begun by a restore"
    return (
        f"{counted(len(buckets), 'bucket')}, {counted(records, 'committed record')}; "
        f"newest epoch {newest['epoch']}{owner}"
    )


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


# The table, its plans, segments and events
def describe_facts(uri: str, state: State, published: Sequence[Facts] = ()) -> Facts:
    """Return a table's definition, contents and health, and the status of its publications.

    The numbers come from the summaries of chunks. A chunk is decoded only for numbers that its
    summary does not have: deleted rows, ingested rows that were rolled up, sizes near the limit of
    small ones.
    """
    policy, deleted = Policy.read(state.table.properties), deleted_in(state)
    shown = state.timeline.visible_summaries()
    rows = sum(summary.rows for summary in shown.values())
    segments = sum(summary.files for summary in shown.values())
    visible = sum(summary.visible for summary in shown.values())
    deleted_rows = sum(deleted.rows.values())
    return {
        **definition_facts(uri, state),
        "zones": [
            {
                "interval": str(override.interval),
                "granularity": override.granularity.value,
                **({"buckets": override.buckets} if override.buckets else {}),
            }
            for override in state.overrides
        ],
        "policy": asdict(policy),
        "counts": {
            "chunks": len({chunk.interval for chunk, summary in shown.items() if summary.rows}),
            "segments": segments,
            "rows": rows,
            "deleted_rows": round(deleted_rows),
            "deleted_predicates": deleted.most_waiting,
            "events": _ingested(state) if state.table.kind.merges else rows,
            "bytes": sum(summary.size for summary in shown.values()),
            "hidden_segments": len(state.timeline) - visible,
            "tombstones": visible - segments,
        },
        "health": {
            **health_facts(state.timeline, policy),
            "deleted_share": round(deleted_rows / max(1, rows), 4),
        },
        "file_groups": file_group_facts(state) if state.table.kind.buckets else None,
        "pending_plans": [plan_facts(known) for known in state.pending_plans()],
        "indexes": [index_facts(each, state, state.time) for each in state.indexes.values()],
        "log_store": log_store_facts(state),
        "published": [*published],
    }


def file_group_facts(state: State) -> Facts:
    """Return the share of a primary-key table in log files, and the runs that a read merges.

    ``read_amplification`` is the mean number of sorted runs that a read of a bucket merges.
    """
    known = list(slices(state.timeline))
    size, logs = sum(each.size for each in known), sum(each.log_bytes for each in known)
    worst = max(known, key=lambda each: (each.runs, each.log_bytes), default=None)
    return {
        "buckets": len(known),
        "base_files": sum(each.base_files for each in known),
        "log_files": sum(each.log_files for each in known),
        "log_bytes": logs,
        "log_share": round(logs / max(1, size), 4),
        "read_amplification": round(sum(each.runs for each in known) / max(1, len(known)), 2),
        "worst_interval": str(worst.chunk.interval) if worst else None,
        "worst_bucket": worst.chunk.bucket if worst else None,
        "worst_log_files": worst.log_files if worst else 0,
    }


def _ingested(state: State) -> int:
    """Return the number of ingested rows that the visible segments stand for."""
    return sum(segment.events for segment in state.timeline.each_visible())


def health_facts(timeline: Timeline, policy: Policy) -> Facts:
    """Return the number of small segments, and the chunk with most of them."""
    chunks = small_segments(timeline, policy)
    worst = max(+chunks, key=lambda chunk: (chunks[chunk], chunk), default=None)
    return {
        "small_segments": chunks.total(),
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
    inside = {s.id for s in wanted if s.shard.base}  # hidden ones were in a base
    for chunk in {segment_id.chunk for segment_id in inside}:
        inside -= {s.id for s in timeline.beside_base(chunk)}
    return {
        "table": uri,
        "version": state.n,
        "base_version": state.base_version,
        "segments": [
            segment_facts(s, states[s.id.chunk, s.shard.group], base=s.id in inside) for s in wanted
        ],
    }


def segment_facts(segment: Segment, state: str, *, base: bool) -> Facts:
    """Return one segment; ``root`` is the half-open range of its appended partitions."""
    shard = segment.shard
    return {
        "id": str(segment.id),
        "state": state,
        "interval": str(segment.id.interval),
        "version": segment.id.version,
        "bucket": None if segment.id.bucket == NO_BUCKET else segment.id.bucket,
        "file": None if segment.id.bucket == NO_BUCKET else "base" if base else "log",
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
        "summary": line(event.action),
        "feeds": [feed.index for feed in event.feeds if not feed.empty],
    }
