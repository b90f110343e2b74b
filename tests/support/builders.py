"""Small well-formed values for tests: chunks, segments, tables, whole histories."""

from collections.abc import Iterable
from dataclasses import replace

from airflow_provider_segtable.core.log.events import Action, Event
from airflow_provider_segtable.core.log.fold import apply
from airflow_provider_segtable.core.log.group_plans import MinorPlan
from airflow_provider_segtable.core.log.major_plan import MajorPlan
from airflow_provider_segtable.core.log.plan import plan_id
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.schema import Column, Schema
from airflow_provider_segtable.core.segment import (
    ChunkKey,
    Segment,
    SegmentId,
    Shard,
    concatenated,
    root_span,
    roots_of,
)
from airflow_provider_segtable.core.tables.definition import TableDefinition
from airflow_provider_segtable.core.time import Granularity, Instant, Interval, parse_instant

BASE: Instant = parse_instant("2026-01-01")
JANUARY = Interval.parse("2013-01-01/2013-02-01")
CHUNK = ChunkKey(JANUARY, BASE)

DEFINITION = TableDefinition(
    table_id="11111111-2222-3333-4444-555555555555",
    name="flights",
    schema=Schema(
        (
            Column(name="time_hour", type="timestamp[us, tz=UTC]", nullable=False),
            Column(name="carrier", type="string"),
        )
    ),
    time_column="time_hour",
    granularity=Granularity.MONTH,
    properties={"compaction.min_segments": "2"},
)


def first(
    partition: int,
    *,
    rows: int = 10,
    size: int = 1000,
    chunk: ChunkKey = CHUNK,
    created: Instant = BASE,
) -> Segment:
    """Return an appended segment."""
    return Segment(
        id=chunk.segment(partition),
        shard=Shard.first_generation(partition),
        path=f"data/{chunk.interval.name}/{partition:05d}-{partition:016x}.parquet",
        rows=rows,
        size=size,
        row_groups=1,
        time_min=chunk.interval.start,
        time_max=chunk.interval.end - 1,
        created=created,
    )


def merged(
    partition: int, inputs: Iterable[Segment], *, minor_version: int | None = None
) -> Segment:
    """Return the segment that a compaction of ``inputs`` made."""
    parts = sorted(inputs, key=lambda s: (s.shard.root_start, s.shard.partition))
    start, end = root_span(parts)
    chunk = parts[0].id.chunk
    above = 1 + max(part.shard.minor_version for part in parts)
    return Segment(
        id=chunk.segment(partition),
        shard=Shard(
            partition=partition,
            root_start=start,
            root_end=end,
            minor_version=minor_version or above,
            group_size=1,
        ),
        path=f"data/{chunk.interval.name}/{partition:05d}-{partition:016x}.parquet",
        rows=sum(part.rows for part in parts),
        size=sum(part.size for part in parts),
        row_groups=sum(part.row_groups for part in parts),
        time_min=min(part.time_min for part in parts),
        time_max=max(part.time_max for part in parts),
        created=max(part.created for part in parts),
        lineage=concatenated(parts),
    )


def rewritten(inputs: Iterable[Segment], rows: int, through: int) -> Segment:
    """Return the only output of a compaction that applied deletes: it has hidden columns."""
    parts = tuple(inputs)
    return replace(
        merged(32768, parts),
        rows=rows,
        events=rows,
        lineage=(),
        roots=roots_of(parts),
        deletes_applied_through=through,
    )


def minor_plan(inputs: Iterable[Segment]) -> MinorPlan:
    """Return a minor plan over segments of one chunk, in root order."""
    parts = sorted(inputs, key=lambda s: (s.shard.root_start, s.shard.partition))
    start, end = root_span(parts)
    ids: tuple[SegmentId, ...] = tuple(part.id for part in parts)
    return MinorPlan(
        id=plan_id(DEFINITION.table_id, MinorPlan.kind, ids),
        chunk=parts[0].id.chunk,
        inputs=ids,
        root_start=start,
        root_end=end,
        outputs=1,
        rows=sum(part.rows for part in parts),
        size=sum(part.size for part in parts),
        reason=f"{len(parts)} small segments",
    )


def major_plan(
    inputs: Iterable[Segment],
    *,
    granularity: Granularity | None = None,
    clustering: str = "",
) -> MajorPlan:
    """Return a major plan over segments of one chunk, whose interval is its region."""
    parts = minor_plan(inputs)
    return MajorPlan(
        id=plan_id(DEFINITION.table_id, MajorPlan.kind, parts.inputs, clustering),
        chunk=parts.chunk,
        inputs=parts.inputs,
        outputs=1,
        rows=parts.rows,
        size=parts.size,
        reason=f"{len(parts.inputs)} segments",
        region=parts.interval,
        granularity=granularity,
        clustering=clustering,
    )


def created(definition: TableDefinition = DEFINITION) -> State:
    """Return the state of a table created at ``BASE``."""
    return apply(None, Event(n=0, time=BASE, commit="c0", author="test", action=definition))


def after(state: State, *actions: Action) -> State:
    """Return the state after the actions, one event each, a second apart."""
    for action in actions:
        n = state.n + 1
        state = apply(
            state,
            Event(n=n, time=state.time + 1_000_000, commit=f"c{n}", author="test", action=action),
        )
    return state
