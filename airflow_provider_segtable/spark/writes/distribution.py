"""Run compactions and other kernels in Spark tasks: ``spark_execute`` is an ``Execute``.

Kernels in tasks:

1. Files move, not rows: a task opens its inputs itself and returns descriptors.
2. Jobs are packed into few groups, the largest jobs first. Each group is one task of its own Spark
   job, so its results can be committed while other groups still run.
3. If Spark cannot run a group, its jobs run again one by one, so that a bad job fails alone.
4. Each try of a task writes under fresh names, so retries and speculation never collide.
5. When the consumer stops, running groups are cancelled.
6. A job that merges sketches is its own group. It runs on the driver, beside the Spark jobs of
   other groups, and starts its own Spark jobs.

Compactions of rollup tables with sketches, which only Spark can merge:

7. Before Spark reads the inputs, their footers must name the segments and all their bytes pass
   their checksums. All input rows except deleted ones are rolled up at once, so each group becomes
   one row, whatever the kind of compaction.
8. The result is kept (``persist``) and split into *ranges* of (time chunk, order), several for
   each new segment. Ranges are counted and weighed, and some are encoded as in a file.
9. Within a time chunk, neighbouring ranges become *slots* of about equal bytes; their number is
   the chunk's bytes divided by the target size, rounded. Then each slot gets an id.
10. The tasks of an ingest sort and write the slots, one file each.
11. Balance check: every original row that the inputs represent is in an output or counted as
    deleted, or no output remains.
"""

import heapq
import math
import secrets
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import field, replace
from functools import reduce
from itertools import accumulate, groupby
from operator import attrgetter
from threading import Event

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import Accumulator
from pyspark.accumulators import AddingAccumulatorParam
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as Spark's own guide writes it

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import (
    ExecutionFailed,
    InvalidInput,
    RowsOutOfBalance,
    SegtableError,
)
from airflow_provider_segtable.core.predicate import AnyOf, Predicate
from airflow_provider_segtable.core.segment import (
    Place,
    Roots,
    Segment,
    SegmentId,
    Shard,
    inherited,
)
from airflow_provider_segtable.core.tables.rollup_kind import EVENTS, Rollup
from airflow_provider_segtable.data.arrow_schema import physical_schema, to_arrow
from airflow_provider_segtable.data.jobs.segment_writer import SegmentPlacement
from airflow_provider_segtable.data.open_files import open_files
from airflow_provider_segtable.data.parquet.descriptor import read_definition
from airflow_provider_segtable.data.row_filter import row_filter_of
from airflow_provider_segtable.data.sort.sorting import Outputs, SortSpec, discard, without_rows
from airflow_provider_segtable.data.table_kinds import SketchJob
from airflow_provider_segtable.services.attempt import Done, Execute, Job
from airflow_provider_segtable.spark.driver.file_locations import parquet_options, spark_paths
from airflow_provider_segtable.spark.driver.spark_connect import check_in_driver
from airflow_provider_segtable.spark.driver.spark_errors import (
    raise_reported,
    translate,
    translated,
)
from airflow_provider_segtable.spark.spark_columns import (
    column,
    instant,
    matching,
    readable,
    spark_schema,
)
from airflow_provider_segtable.spark.table_kinds import rolled_up_rows
from airflow_provider_segtable.spark.tasks.writing import (
    RESULT,
    SLOT,
    CheckTask,
    Group,
    NotedWrite,
    SampleTask,
    WriteTask,
    decode_result,
    run_group,
)
from airflow_provider_segtable.spark.writes.dataframe_ingest import dealt
from airflow_provider_segtable.storage.table_paths import absolute

RANGES = 8
"""Ranges for each new segment: enough to balance segments."""
MOST_RANGES = 4096
SAMPLED_RANGES = 4
MOST_STEPS = 100_000
"""Most steps that time is split into, to find a row's chunk."""

_CHUNK, _RANGE, _STEP = "__segtable_chunk", "__segtable_range", "__segtable_step"
_SCALE = "size double, weight double"
_PLACE = f"{_CHUNK} int, {_STEP} bigint, start bigint, end bigint"


# Compactions of rollup tables with sketches
@dataclass(frozen=True, slots=True)
class Piece:
    """The rows of one range in one time chunk (by number), and their approximate bytes."""

    chunk: int
    number: int
    weight: float


def spark_rollup(
    spark: SparkSession,
    spec: SortSpec,
    rollup: Rollup,
    inputs: Sequence[Segment],
    outputs: Outputs,
) -> tuple[Segment, ...]:
    """Roll up segments into new ones.

    Args:
        spark: the session.
        spec: the table and the sort order.
        rollup: the table's rollup.
        inputs: the segments; empty ones are skipped.
        outputs: allocates ids and shards, given the number of segments per target time chunk.

    Returns:
        The new segments, by target time chunk and order.

    Raises:
        InvalidInput: Spark cannot sort by the order.
        NotFound, CorruptTable: an input differs from the log; the message names the file.
        RowsOutOfBalance: outputs and inputs represent different row counts; no output remains.
        ExecutionFailed: Spark failed; no output remains.
    """
    given = [segment for segment in inputs if segment.rows]
    if not given:
        return without_rows(spec, outputs)
    if spec.order.curve != "lexicographic":
        raise InvalidInput(
            f"order {str(spec.order)!r} of a rollup with sketches: Spark sorts by columns only, "
            "name them one after another"
        )
    work = _Work(spark=spark, spec=spec, rollup=rollup, inputs=tuple(given))
    with translated(f"rolling up {len(given)} segments of {spec.uri}"):
        work.check_inputs()
        ranged = work.ranged().persist()
        try:
            slots = grouped(work.weighed(ranged), spec.target_size, spec.most)
            if not slots:
                work.check_balance(())
                return without_rows(spec, outputs)
            return work.write(ranged, slots, outputs)
        finally:
            ranged.unpersist()


def grouped(pieces: Sequence[Piece], target: float, most: int = 0) -> list[tuple[Piece, ...]]:
    """Group pieces in order into slots of about ``target`` bytes, each of one chunk.

    Args:
        pieces: sorted by chunk and number.
        target: bytes of a slot.
        most: limit of slots, but each chunk gets at least one (0: no limit).
    """
    chunks = [tuple(group) for _, group in groupby(pieces, key=attrgetter("chunk"))]
    counts = [
        min(len(chunk), max(1, math.floor(sum(p.weight for p in chunk) / target + 0.5)))
        for chunk in chunks
    ]
    total = sum(counts)
    if most and total > most:
        counts = [max(1, count * most // total) for count in counts]
    return [
        slot for chunk, count in zip(chunks, counts, strict=True) for slot in _cut(chunk, count)
    ]


def _cut(pieces: tuple[Piece, ...], count: int) -> Iterator[tuple[Piece, ...]]:
    """Yield ``count`` non-empty groups of about equal weight."""
    before = [0.0, *accumulate(piece.weight for piece in pieces)]
    start = 0
    for left in range(count, 0, -1):
        wanted = before[start] + (before[-1] - before[start]) / left
        options = range(start + 1, len(pieces) - left + 2)
        end = min(options, key=lambda at: abs(before[at] - wanted))
        yield pieces[start:end]
        start = end


@dataclass(frozen=True, slots=True, kw_only=True)
class _Work:
    spark: SparkSession
    spec: SortSpec
    rollup: Rollup
    inputs: tuple[Segment, ...]

    @property
    def names(self) -> list[str]:
        """Return the physical columns."""
        names: list[str] = physical_schema(to_arrow(self.spec.schema), self.rollup).names
        return names

    @property
    def time(self) -> str:
        """Return the event time."""
        return self.spec.time_column

    def check_inputs(self) -> None:
        """Refuse files that do not match their input segments."""
        check = CheckTask(uri=absolute(self.spec.uri), storage_options=self.spec.storage_options)
        tasks = min(len(self.inputs), self.spark.sparkContext.defaultParallelism)
        given = self.spark.sparkContext.parallelize(self.inputs, tasks)
        for kind, message in given.mapPartitions(check.run).collect():
            raise_reported(kind, message)

    def ranged(self) -> DataFrame:
        """Return the rolled-up rows with numbered columns, chunk and range."""
        rolled = rolled_up_rows(self._read(), self.rollup, time_column=self.time)
        at, step = instant(rolled, self.time), self._step()
        chunks = self.spark.createDataFrame([*self._places(step)], _PLACE)
        stepped = F.call_function("div", at - F.pmod(at, F.lit(step)), F.lit(step))
        inside = (stepped == chunks[_STEP]) & (at >= chunks["start"]) & (at < chunks["end"])
        placed = rolled.join(F.broadcast(chunks), inside).select(
            _CHUNK, *(column(rolled, name).alias(str(n)) for n, name in enumerate(self.names))
        )
        size = sum(segment.size for segment in self.inputs)
        parts = min(RANGES * math.ceil(size / self.spec.target_size), MOST_RANGES)
        ranges = placed.repartitionByRange(max(parts, 1), _CHUNK, *self._order())
        return ranges.withColumn(_RANGE, F.spark_partition_id())

    def _step(self) -> int:
        """Return the width of time steps, chosen so that few chunks share a step."""
        spans = self.spec.intervals
        shortest = min(span.end - span.start for span in spans)
        return max(shortest, (spans[-1].end - spans[0].start) // MOST_STEPS)

    def _places(self, step: int) -> Iterator[tuple[int, int, int, int]]:
        for number, span in enumerate(self.spec.intervals):
            for at in range(span.start // step, (span.end - 1) // step + 1):
                yield number, at, span.start, span.end

    def weighed(self, ranged: DataFrame) -> list[Piece]:
        """Return the pieces (the part of a range in a chunk), in the order of time."""
        widths = [F.lit(8 * len(self.names)).cast("bigint")]
        names = [*self.names]
        for metric in self.rollup.sketches:
            sketch = F.col(f"`{names.index(metric.name)}`")
            widths.append(F.coalesce(F.octet_length(sketch), F.lit(0)))
        weight = F.sum(sum(widths[1:], widths[0])).alias("weight")
        found = ranged.groupBy(_CHUNK, _RANGE).agg(weight).orderBy(_CHUNK, _RANGE).collect()
        if not found:
            return []
        pieces = [Piece(row[_CHUNK], row[_RANGE], row["weight"]) for row in found]
        scale = self._scale(ranged, pieces)
        return [replace(piece, weight=piece.weight * scale) for piece in pieces]

    def _scale(self, ranged: DataFrame, pieces: Sequence[Piece]) -> float:
        """Return file bytes per byte of weight, measured on some encoded ranges."""
        step = max(1, len(pieces) // SAMPLED_RANGES)
        some = sorted({piece.number for piece in pieces[step // 2 :: step]})
        names, schema = self.names, _SCALE
        sketches = tuple(names.index(metric.name) for metric in self.rollup.sketches)
        task = SampleTask(sketches=sketches)
        columns = [f"`{number}`" for number in range(len(names))]
        sample = ranged.where(F.col(_RANGE).isin(some)).sortWithinPartitions(_CHUNK, *self._order())
        results = sample.select(*columns).mapInArrow(task.run, schema).collect()
        weight = float(sum(result["weight"] for result in results))
        return float(sum(result["size"] for result in results)) / max(weight, 1.0)

    def _order(self) -> list[Column]:
        first = self.spec.order.columns or (self.time,)
        names = dict.fromkeys((*first, *self.rollup.dimensions, self.time))
        places = {name: at for at, name in enumerate(self.names)}
        return [F.col(f"`{places[name]}`") for name in names]

    def _read(self) -> DataFrame:
        schema = physical_schema(to_arrow(self.spec.schema), self.rollup)
        if readable(schema) != schema:
            raise InvalidInput(
                f"Spark cannot hold the columns of {self.spec.uri} exactly ({schema}): a table "
                "with sketches needs microseconds and no half floats"
            )
        read = (
            frame.where(~_gone(frame, predicates)) if predicates else frame
            for predicates, frame in self._frames(schema)
        )
        return reduce(DataFrame.union, read)

    def _frames(self, schema: pa.Schema) -> Iterator[tuple[tuple[Predicate, ...], DataFrame]]:
        """Yield the inputs' rows, grouped by the predicates that delete from them."""
        uri, options = self.spec.uri, self.spec.storage_options
        reader = self.spark.read.schema(spark_schema(schema))
        reader = reader.options(**parquet_options(checked=True))
        alike: dict[tuple[Predicate, ...], list[Segment]] = {}
        for segment in self.inputs:
            predicates = row_filter_of(self.spec.row_filters, segment).predicates
            alike.setdefault(predicates, []).append(segment)
        for predicates, some in alike.items():
            yield predicates, reader.parquet(*spark_paths(uri, options, some))

    def _dropped(self) -> int:
        """Return how many original rows the deleted rows represent."""
        schema = physical_schema(to_arrow(self.spec.schema), self.rollup)
        deleted = (
            frame.where(_gone(frame, predicates)).agg(F.sum(EVENTS)).collect()[0][0] or 0
            for predicates, frame in self._frames(schema)
            if predicates
        )
        return sum(deleted)

    def write(
        self, ranged: DataFrame, slots: Sequence[tuple[Piece, ...]], outputs: Outputs
    ) -> tuple[Segment, ...]:
        """Write every slot as a segment."""
        task = self._task(slots, outputs)
        context = self.spark.sparkContext
        left: Accumulator[list[str]] = context.accumulator([], AddingAccumulatorParam([]))
        noted = NotedWrite(task=task, left=left)
        try:
            results = self._slotted(ranged, slots).mapInArrow(noted.run, RESULT).collect()
            for result in results:
                if result.error is not None:
                    raise_reported(result.error, result.message)
            segments = [decode_result(result.segment) for result in results]
            self.check_balance(segments)
        except BaseException:
            files = open_files(task.uri, task.storage_options)
            for path in left.value:
                with suppress(SegtableError):  # report the first failure
                    files.delete(path)
            raise
        return tuple(sorted(segments, key=lambda segment: task.ids.index(segment.id)))

    def _task(self, slots: Sequence[tuple[Piece, ...]], outputs: Outputs) -> WriteTask:
        counts = Counter(Place(self.spec.intervals[slot[0].chunk]) for slot in slots)
        named = outputs(counts)
        ids = [one for place in counts for one in named[place]]
        firsts = {named[place][0][0] for place in counts}
        return WriteTask(
            uri=absolute(self.spec.uri),
            storage_options=self.spec.storage_options,
            ids=tuple(segment_id for segment_id, _ in ids),
            schema=physical_schema(to_arrow(self.spec.schema), self.rollup),
            time_column=self.time,
            created=self.spec.created,
            definition=self._definition(),
            placements=tuple(
                SegmentPlacement(
                    shard=shard,
                    clustering=str(self.spec.order),
                    replaces=self._replaces(segment_id) if segment_id in firsts else (),
                    deletes_applied_through=self.spec.deletes_applied_through,
                )
                for segment_id, shard in ids
            ),
        )

    def _definition(self) -> bytes:
        files = open_files(self.spec.uri, self.spec.storage_options)
        return read_definition(files, self.inputs[0].path)

    def _replaces(self, segment_id: SegmentId) -> tuple[Roots, ...]:
        chunk = segment_id.interval
        replaced = self.spec.replaces or inherited(self.inputs)
        return tuple(one for one in replaced if one.chunk.interval.overlaps(chunk))

    def _slotted(self, ranged: DataFrame, slots: Sequence[tuple[Piece, ...]]) -> DataFrame:
        deal = [(p.chunk, p.number, number) for number, slot in enumerate(slots) for p in slot]
        numbers = self.spark.createDataFrame(deal, f"{_CHUNK} int, {_RANGE} int, {SLOT} int")
        joined = ranged.join(F.broadcast(numbers), [_CHUNK, _RANGE])
        columns = [SLOT, *(f"`{number}`" for number in range(len(self.names)))]
        cores = self.spark.sparkContext.defaultParallelism
        size = sum(piece.weight for slot in slots for piece in slot)
        tasks = min(len(slots), max(cores, math.ceil(size / self.spec.target_size)))
        return dealt(joined.select(*columns), tasks).sortWithinPartitions(SLOT, *self._order())

    def check_balance(self, segments: Sequence[Segment]) -> None:
        """Refuse outputs that do not balance the inputs."""
        given = sum(segment.events for segment in self.inputs)
        kept, dropped = sum(segment.events for segment in segments), self._dropped()
        if given - dropped != kept:
            raise RowsOutOfBalance(
                f"{kept} events out, {given} events in, {dropped} of these deleted, from "
                f"{self.inputs[0].id} on; nothing was published"
            )


def _gone(frame: DataFrame, predicates: Sequence[Predicate]) -> Column:
    """Return the condition for deleted rows."""
    return F.coalesce(matching(AnyOf(tuple(predicates)), frame), F.lit(False))


GROUP_BYTES = 512 * 1024 * 1024
MOST_THREADS = 64


# Kernels in tasks
def spark_execute(spark: SparkSession) -> Execute:
    """Return an ``Execute`` that runs kernel jobs in tasks of ``spark``.

    Raises:
        InvalidInput: the session is one of Spark Connect.
    """
    check_in_driver(spark, "a compaction in tasks")

    def execute(jobs: Sequence[Job]) -> Iterator[Done]:
        slots = min(spark.sparkContext.defaultParallelism, MOST_THREADS)
        name = f"segtable-{secrets.token_hex(4)}"
        return SparkRun(spark, name).results(packed(jobs, slots), slots)

    return execute


def packed(jobs: Sequence[Job], slots: int) -> list[Group]:
    """Pack jobs into groups of similar cost, largest jobs first.

    There are as many groups as slots, but at most as many as jobs, and more if groups would exceed
    ``GROUP_BYTES``. Jobs with sketches come first, each in its own group.
    """
    alone = [(at, job) for at, job in enumerate(jobs) if isinstance(job, SketchJob)]
    costs = {at: job.cost for at, job in enumerate(jobs) if not isinstance(job, SketchJob)}
    wanted = max(slots, -(-sum(costs.values()) // GROUP_BYTES))
    groups: list[list[int]] = [[] for _ in range(min(len(costs), wanted))]
    load = [(0, at) for at in range(len(groups))]
    for index in sorted(costs, key=lambda index: -costs[index]):
        cost, at = load[0]
        groups[at].append(index)
        heapq.heapreplace(load, (cost + costs[index], at))
    dealt = [tuple((index, jobs[index]) for index in group) for group in groups]
    return [*((one,) for one in alone), *dealt]


@dataclass(frozen=True, slots=True)
class SparkRun:
    """One call of ``execute``: a Spark job per group, as many at once as there are slots."""

    spark: SparkSession
    name: str
    run: Callable[[Group], list[Done]] = run_group
    stopping: Event = field(default_factory=Event)

    def results(self, groups: Sequence[Group], slots: int) -> Iterator[Done]:
        """Yield each job's result as its group ends."""
        if not groups:
            return
        pool = ThreadPoolExecutor(slots, thread_name_prefix=self.name)
        try:
            running = {pool.submit(self._spark_job, group): group for group in groups}
            while running:
                ended, _ = wait(running, return_when=FIRST_COMPLETED)
                for future in ended:
                    group = running.pop(future)
                    again, results = _outcome(future, group)
                    running |= {pool.submit(self._spark_job, single): single for single in again}
                    yield from results
        finally:
            self.stopping.set()
            pool.shutdown(wait=False, cancel_futures=True)
            self._cancel()

    def _spark_job(self, group: Group) -> list[Done]:
        context = self.spark.sparkContext
        names = ", ".join(sorted({job.title for _, job in group}))
        context.setJobGroup(self.name, f"segtable {names}", interruptOnCancel=True)
        index, job = group[0]
        if isinstance(job, SketchJob):
            return [self._on_driver(index, job)]
        done: list[Done] = context.parallelize([group], 1).flatMap(self.run).collect()
        return done

    def _on_driver(self, index: int, job: SketchJob) -> Done:
        """Run a job that merges sketches; a fault becomes a value, as in a task."""

        def outputs(
            counts: Mapping[Place, int],
        ) -> Mapping[Place, Sequence[tuple[SegmentId, Shard]]]:
            self._check()
            return job.outputs(counts)

        try:
            segments = spark_rollup(self.spark, job.spec, job.rollup, job.inputs, outputs)
            if self.stopping.is_set():  # the consumer has stopped
                discard(open_files(job.spec.uri, job.spec.storage_options), [segments])
            self._check()
            return Done(index=index, value=segments)
        except Exception as error:  # noqa: BLE001  # any error belongs to its plan
            return Done(index=index, error=f"{type(error).__name__}: {error}")

    def _check(self) -> None:
        if self.stopping.is_set():
            raise ExecutionFailed("the application was stopped: run it again")

    def _cancel(self) -> None:
        try:
            self.spark.sparkContext.cancelJobGroup(self.name)
        except (Py4JError, PySparkException, OSError):
            return  # the session has ended, and its jobs with it


def _outcome(future: "Future[list[Done]]", group: Group) -> tuple[list[Group], list[Done]]:
    """Return the groups to run again, and the results."""
    try:
        return [], future.result()
    except (Py4JError, PySparkException, OSError) as error:
        if len(group) > 1:
            return [(single,) for single in group], []
        what = translate(error, f"a task ({group[0][1].title}) was lost")
        return [], [Done(index=group[0][0], error=f"{type(what).__name__}: {what}")]
