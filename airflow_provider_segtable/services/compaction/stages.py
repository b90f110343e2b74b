"""The stages of jobs for each kind of compaction.

=============  ==============================================  ====================================
kind           append table                                    rollup table
=============  ==============================================  ====================================
minor          rows in order, undecoded if possible            merged and rolled up, best effort
semi-major     sorted by the clustering, in target sizes       the same; rolled up within its inputs
major          the same into a new version, by chunk           the same; rollup is perfect
=============  ==============================================  ====================================

A compaction of a rollup table with sketches is one stage with one job, for Spark's driver: all
kinds sort and roll up all their input rows.

All kinds omit the rows that are deleted in the attempt's state; their outputs record its last
event as ``deletes_applied_through``.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from airflow_provider_segtable.core.plans.compaction_plan import PlanKind
from airflow_provider_segtable.core.segments.replacement import layout_after
from airflow_provider_segtable.core.segments.segment import SegmentId, Shard, replaced
from airflow_provider_segtable.core.tables.clustering import Order
from airflow_provider_segtable.core.time.interval import Interval
from airflow_provider_segtable.data.deletes.segment_filters import row_filters
from airflow_provider_segtable.data.jobs.minor_job import MinorJob
from airflow_provider_segtable.data.rollup.rollup_rows import RollupJob
from airflow_provider_segtable.data.rollup.sketch_job import SketchJob
from airflow_provider_segtable.data.sort.sorting import Outputs, SortSpec, sort_stages
from airflow_provider_segtable.planning.policy import Policy
from airflow_provider_segtable.services.compaction.attempt import Attempt
from airflow_provider_segtable.services.compaction.execution import Stages
from airflow_provider_segtable.table.context import TableContext


def stages_of(ports: TableContext, attempt: Attempt, *, parallelism: int) -> Stages:
    """Return the stages of an attempt."""
    rollup = attempt.state.table.rollup
    if rollup is not None and rollup.sketches:
        return _sketched(ports, attempt, parallelism)
    if attempt.plan.kind is not PlanKind.MINOR:
        return _sorted(ports, attempt, parallelism)
    return _merged(ports, attempt)


def _merged(ports: TableContext, attempt: Attempt) -> Stages:
    chunk = attempt.plan.chunk.interval
    common: dict[str, Any] = {
        "uri": ports.uri,
        "storage_options": ports.storage_options,
        "inputs": attempt.inputs,
        "outputs": attempt.name({chunk: attempt.plan.outputs})[chunk],
        "created": ports.clock.now(),
        "time_column": attempt.state.table.time_column,
        "attempt": attempt.token,
        "row_filters": row_filters(ports.files, attempt.state, attempt.inputs),
        "deletes_applied_through": attempt.state.n,
    }
    table = attempt.state.table
    if table.rollup is None:
        results = yield [MinorJob(**common)]
    else:
        results = yield [RollupJob(**common, schema=table.schema, rollup=table.rollup)]
    return tuple(results[0])


def _sketched(ports: TableContext, attempt: Attempt, parallelism: int) -> Stages:
    if not attempt.inputs:
        return ()
    spec = _spec(ports, attempt, parallelism)
    job = SketchJob(spec=spec, inputs=attempt.inputs, outputs=_namer(attempt))
    results = yield [job]
    return tuple(results[0])


def _sorted(ports: TableContext, attempt: Attempt, parallelism: int) -> Stages:
    if not attempt.inputs:  # the region has become empty
        return ()
    spec = _spec(ports, attempt, parallelism)
    return (yield from sort_stages(spec, attempt.inputs, _namer(attempt)))


def _spec(ports: TableContext, attempt: Attempt, parallelism: int) -> SortSpec:
    table, plan = attempt.state.table, attempt.plan
    major = plan.kind is PlanKind.MAJOR
    return SortSpec(
        uri=ports.uri,
        storage_options=ports.storage_options,
        schema=table.schema,
        time_column=table.time_column,
        order=Order.parse(plan.clustering),
        intervals=tuple(_targets(attempt)),
        target_size=Policy.read(table.properties).target_size,
        parallelism=parallelism,
        attempt=attempt.token,
        created=ports.clock.now(),
        rollup=table.rollup,
        replaces=replaced(attempt.inputs) if major else (),
        most=0 if major else len(attempt.lease.allocated),
        member=not major,
        row_filters=row_filters(ports.files, attempt.state, attempt.inputs),
        deletes_applied_through=attempt.state.n,
    )


def _namer(attempt: Attempt) -> Outputs:
    def name(
        counts: Mapping[Interval, int],
    ) -> dict[Interval, Sequence[tuple[SegmentId, Shard]]]:
        return {**attempt.name(dict(counts))}

    return name


def _targets(attempt: Attempt) -> Iterator[Interval]:
    """Yield the time chunks that may receive rows."""
    if attempt.plan.kind is not PlanKind.MAJOR:
        yield attempt.plan.chunk.interval
        return
    layout = layout_after(attempt.plan, attempt.state)
    first = min(segment.time_min for segment in attempt.inputs)
    last = max(segment.time_max for segment in attempt.inputs)
    at = first
    while at <= last:
        chunk = layout.chunk(at)
        yield chunk
        at = chunk.end
