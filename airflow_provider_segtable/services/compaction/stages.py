"""The stages of jobs of an attempt, step by step.

The plan decides the steps (``core.plans.plan_steps``). The table's kind decides their jobs
(``data.table_kinds``):

===================  ==========================================  ==================================
rewrite              append table                                rollup table
===================  ==========================================  ==================================
in the inputs'       rows in order, undecoded if possible        merged and rolled up, best effort
order
sorted               sorted by the clustering, in target sizes   the same; rolled up within its
                                                                 inputs
===================  ==========================================  ==================================

In a primary-key table whole files are merged by key (``data.keyed``); if time chunks or buckets
change, each file is divided (``data.keyed.division``).

If inputs have few rows over a long time, the event times of these are read in a stage before, to
find the time chunks of the outputs (``data.jobs.chunks_job``).

A rewrite of a rollup table with sketches is one stage with one job, for Spark's driver: it always
sorts and rolls up all its input rows.

A build of an index commits its pieces itself (``services.indexing.build``), and publishes nothing.

Every rewrite omits the rows that are deleted in the attempt's state; its outputs record the last
event of that state as ``deletes_applied_through``.
"""

from collections.abc import Mapping, Sequence
from typing import assert_never

from airflow_provider_segtable.core.log.events import TableCreated
from airflow_provider_segtable.core.log.plan import BuildIndex, Publish, Rewrite
from airflow_provider_segtable.core.schema import Order
from airflow_provider_segtable.core.segment import (
    ChunkKey,
    Place,
    Segment,
    SegmentId,
    Shard,
    replaced,
)
from airflow_provider_segtable.core.time import HOUR_US, Instant
from airflow_provider_segtable.data.jobs.minor_job import ChunksJob, MinorJob
from airflow_provider_segtable.data.keyed.merging import NEVER
from airflow_provider_segtable.data.parquet.descriptor import encode_definition
from airflow_provider_segtable.data.sort.sorting import Outputs, SortSpec, SortStages
from airflow_provider_segtable.data.table_kinds import ArrowKind, arrow_kind_of
from airflow_provider_segtable.data.vector_file import row_filters
from airflow_provider_segtable.planning.properties.index_settings import IndexSettings
from airflow_provider_segtable.planning.properties.policy import Policy
from airflow_provider_segtable.planning.properties.retention import Retention
from airflow_provider_segtable.services.compaction.attempt import Attempt
from airflow_provider_segtable.services.compaction.execution import End, Stages
from airflow_provider_segtable.services.indexing.build import build
from airflow_provider_segtable.table.context import TableContext


def stages_of(
    ports: TableContext, attempt: Attempt, *, parallelism: int, timeout_s: float | None = None
) -> Stages:
    """Return the stages of an attempt.

    Args:
        ports: the table's ports.
        attempt: the attempt.
        parallelism: approximate number of concurrent jobs.
        timeout_s: after this time a build of an index pauses; the table's setting if None.
    """
    done: list[tuple[Segment, ...]] = []
    files = len(attempt.inputs)
    while True:
        step = attempt.plan.next_step(attempt.inputs, done, attempt.state)
        match step:
            case Publish(segments=segments):
                return End(files=files, segments=segments)
            case Rewrite():
                done.append((yield from rewritten(ports, attempt, step, parallelism)))
            case BuildIndex():
                most_s = _timeout_s(attempt) if timeout_s is None else timeout_s
                built = yield from build(
                    ports, attempt, step, timeout_s=most_s, parallelism=parallelism
                )
                if built.stop is not None:
                    return End(files=built.files, stop=built.stop)
                files, done = built.files, [()]
            case _:
                assert_never(step)


def _timeout_s(attempt: Attempt) -> float:
    return 60 * IndexSettings.read(attempt.state.table.properties).timeout_minutes


def rewritten(ports: TableContext, attempt: Attempt, step: Rewrite, parallelism: int) -> SortStages:
    """Return the stages of one rewrite."""
    kind = arrow_kind_of(attempt.state.table.kind)
    if step.sparse:
        found = yield [_chunks_job(ports, attempt, segment, step) for segment in step.sparse]
        step = step.with_chunks(chunk for chunks in found for chunk in chunks)
    if step.clustering is None and kind.joins:
        results = yield [kind.join_job(_minor(ports, attempt, step), attempt.state.table.schema)]
        return tuple(results[0])
    spec = _spec(ports, attempt, step, kind, parallelism)
    if step.late:
        return (yield from kind.sort_stages(spec, step.late, _provisional(ports, attempt)))
    return (yield from kind.sort_stages(spec, attempt.inputs, attempt.name))


def _chunks_job(
    ports: TableContext, attempt: Attempt, segment: Segment, step: Rewrite
) -> ChunksJob:
    table = attempt.state.table
    return ChunksJob(
        uri=ports.uri,
        storage_options=ports.storage_options,
        segment=segment,
        layout=step.layout or attempt.state.layout,
        definition=encode_definition(table, attempt.state.base_version),
        attempt=attempt.token,
    )


def _minor(ports: TableContext, attempt: Attempt, step: Rewrite) -> MinorJob:
    (chunk,) = map(Place, step.intervals)
    return MinorJob(
        uri=ports.uri,
        storage_options=ports.storage_options,
        inputs=attempt.inputs,
        outputs=tuple(attempt.name({chunk: step.most})[chunk]),
        created=ports.clock.now(),
        time_column=attempt.state.table.time_column,
        attempt=attempt.token,
        row_filters=row_filters(ports.files, attempt.state, attempt.inputs),
        deletes_applied_through=attempt.state.n,
    )


def _spec(
    ports: TableContext, attempt: Attempt, step: Rewrite, kind: ArrowKind, parallelism: int
) -> SortSpec:
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
        row_kind=kind,
        replaces=() if step.one_group else replaced(attempt.inputs),
        buckets=step.buckets,
        most=step.most,
        member=step.one_group,
        row_filters=row_filters(ports.files, attempt.state, attempt.inputs),
        deletes_applied_through=attempt.state.n,
        definition=encode_definition(table, attempt.state.base_version),
        drop_before=NEVER if step.late else _drop_before(ports, table),
    )


def _drop_before(ports: TableContext, table: TableCreated) -> Instant:
    hours = Retention.read(table.properties).tombstone_hours
    return ports.clock.now() - round(hours * HOUR_US)


def _provisional(ports: TableContext, attempt: Attempt) -> Outputs:
    """Return the names of log files in the attempt's version; the commit gives them their ids."""
    version = attempt.state.plans[attempt.plan.id].version or 0

    def named(place: Place) -> tuple[SegmentId, Shard]:
        chunk = ChunkKey(place.interval, version, place.bucket)
        segment_id = chunk.provisional(ports.randomness.token())
        return segment_id, Shard.first_generation(segment_id.partition)

    def name(counts: Mapping[Place, int]) -> dict[Place, Sequence[tuple[SegmentId, Shard]]]:
        return {place: [named(place) for _ in range(size)] for place, size in counts.items()}

    return name
