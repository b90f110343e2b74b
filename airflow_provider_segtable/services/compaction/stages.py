"""The stages of jobs of an attempt, step by step.

The plan decides the steps (``core.plans.plan_steps``). What the table keeps decides their jobs:

===================  ==========================================  ==================================
rewrite              append table                                rollup table
===================  ==========================================  ==================================
in the inputs'       rows in order, undecoded if possible        merged and rolled up, best effort
order
sorted               sorted by the clustering, in target sizes   the same; rolled up within its
                                                                 inputs
===================  ==========================================  ==================================

A rewrite of a rollup table with sketches is one stage with one job, for Spark's driver: it always
sorts and rolls up all its input rows.

Every rewrite omits the rows that are deleted in the attempt's state; its outputs record the last
event of that state as ``deletes_applied_through``.
"""

from collections.abc import Mapping, Sequence
from typing import Any, assert_never

from airflow_provider_segtable.core.plans.plan_steps import Publish, Rewrite
from airflow_provider_segtable.core.segments.segment import Segment, SegmentId, Shard, replaced
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
    done: list[tuple[Segment, ...]] = []
    while True:
        step = attempt.plan.next_step(attempt.inputs, done, attempt.state)
        match step:
            case Publish(segments=segments):
                return segments
            case Rewrite():
                done.append((yield from _rewritten(ports, attempt, step, parallelism)))
            case _:
                assert_never(step)


def _rewritten(ports: TableContext, attempt: Attempt, step: Rewrite, parallelism: int) -> Stages:
    rollup = attempt.state.table.rollup
    if rollup is not None and rollup.sketches:
        return (yield from _sketched(ports, attempt, step, parallelism))
    if step.clustering is not None:
        return (yield from _sorted(ports, attempt, step, parallelism))
    return (yield from _merged(ports, attempt, step))


def _merged(ports: TableContext, attempt: Attempt, step: Rewrite) -> Stages:
    (chunk,) = step.intervals
    common: dict[str, Any] = {
        "uri": ports.uri,
        "storage_options": ports.storage_options,
        "inputs": attempt.inputs,
        "outputs": attempt.name({chunk: step.most})[chunk],
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


def _sketched(ports: TableContext, attempt: Attempt, step: Rewrite, parallelism: int) -> Stages:
    spec = _spec(ports, attempt, step, parallelism)
    job = SketchJob(spec=spec, inputs=attempt.inputs, outputs=_namer(attempt))
    results = yield [job]
    return tuple(results[0])


def _sorted(ports: TableContext, attempt: Attempt, step: Rewrite, parallelism: int) -> Stages:
    spec = _spec(ports, attempt, step, parallelism)
    return (yield from sort_stages(spec, attempt.inputs, _namer(attempt)))


def _spec(ports: TableContext, attempt: Attempt, step: Rewrite, parallelism: int) -> SortSpec:
    table = attempt.state.table
    return SortSpec(
        uri=ports.uri,
        storage_options=ports.storage_options,
        schema=table.schema,
        time_column=table.time_column,
        order=Order.parse(step.clustering or ""),
        intervals=step.intervals,
        target_size=Policy.read(table.properties).target_size,
        parallelism=parallelism,
        attempt=attempt.token,
        created=ports.clock.now(),
        rollup=table.rollup,
        replaces=() if step.one_group else replaced(attempt.inputs),
        most=step.most,
        member=step.one_group,
        row_filters=row_filters(ports.files, attempt.state, attempt.inputs),
        deletes_applied_through=attempt.state.n,
    )


def _namer(attempt: Attempt) -> Outputs:
    def name(
        counts: Mapping[Interval, int],
    ) -> dict[Interval, Sequence[tuple[SegmentId, Shard]]]:
        return {**attempt.name(dict(counts))}

    return name
