"""Compacting rollup tables that have sketches, which only Spark can merge.

1. All input rows are rolled up at once, so rollup is perfect, whatever the kind of compaction.
2. The result is kept (``persist``), cut into ranges of (time chunk, order) and counted: a range
   within a chunk is a *slot*. Only now ids are asked for, one for each slot.
3. Slots are sorted and written by the same tasks as an ingest's, one file each.
4. The books: every given row that the inputs stand for is in an output, or nothing is left.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from pyspark import Accumulator
from pyspark.accumulators import AddingAccumulatorParam
from pyspark.sql import Column, DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812  # as Spark's own guide writes it

from airflow_provider_segtable.core.errors import BooksDoNotBalance, InvalidInput, SegtableError
from airflow_provider_segtable.core.interval import Interval
from airflow_provider_segtable.core.rollup import EVENTS, Rollup
from airflow_provider_segtable.core.segment import Segment, SegmentId, Shard
from airflow_provider_segtable.data.files import open_files
from airflow_provider_segtable.data.ingest import Standing
from airflow_provider_segtable.data.rollup import physical_schema
from airflow_provider_segtable.data.schema import to_arrow
from airflow_provider_segtable.data.sorting import SortSpec
from airflow_provider_segtable.spark.failures import raise_told, translated
from airflow_provider_segtable.spark.places import absolute, spark_root
from airflow_provider_segtable.spark.rollup import rolled_up
from airflow_provider_segtable.spark.schemas import readable, spark_schema
from airflow_provider_segtable.spark.times import column, instant
from airflow_provider_segtable.spark.write_task import RESULT, SLOT, WriteTask, decode_result

Outputs = Callable[[Mapping[Interval, int]], Mapping[Interval, Sequence[tuple[SegmentId, Shard]]]]

_CHUNK, _RANGE = "__segtable_chunk", "__segtable_range"


def spark_rollup(
    spark: SparkSession, spec: SortSpec, inputs: Sequence[Segment], outputs: Outputs
) -> tuple[Segment, ...]:
    """Roll up segments into new ones.

    Args:
        spark: the session.
        spec: of which table, and into what; ``spec.rollup`` is set.
        inputs: the segments; those without rows are skipped.
        outputs: gives ids and shards for so many segments in each target time chunk.

    Returns:
        The new segments, by target time chunk and order.

    Raises:
        InvalidInput: the order is none that Spark can sort by.
        BooksDoNotBalance: the outputs stand for other numbers of given rows; none is left.
        ExecutionFailed: Spark failed; nothing is left.
    """
    given = [segment for segment in inputs if segment.rows]
    if not given:
        return ()
    if spec.rollup is None or spec.order.curve != "lexicographic":
        raise InvalidInput(
            f"order {str(spec.order)!r} of a rollup with sketches: Spark sorts by columns only, "
            "name them one after another"
        )
    work = _Work(spark=spark, spec=spec, rollup=spec.rollup, inputs=tuple(given))
    ranged = work.ranged().persist()
    try:
        with translated(f"rolling up {len(given)} segments of {spec.uri}"):
            slots = ranged.groupBy(_CHUNK, _RANGE).count().orderBy(_CHUNK, _RANGE).collect()
            return work.write(ranged, slots, outputs)
    finally:
        ranged.unpersist()


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

    def ranged(self) -> DataFrame:
        """Return the rows rolled up, their columns numbered, with chunk and range."""
        rolled = rolled_up(self._read(), self.rollup, time_column=self.time)
        at = instant(rolled, self.time)
        bounds = [(n, i.start, i.end) for n, i in enumerate(self.spec.intervals)]
        chunks = self.spark.createDataFrame(bounds, f"{_CHUNK} int, start bigint, end bigint")
        inside = (at >= chunks["start"]) & (at < chunks["end"])
        placed = rolled.join(F.broadcast(chunks), inside).select(
            _CHUNK, *(column(rolled, name).alias(str(n)) for n, name in enumerate(self.names))
        )
        parts = math.ceil(sum(segment.size for segment in self.inputs) / self.spec.target_size)
        parts = min(parts, self.spec.most) if self.spec.most else parts
        ranges = placed.repartitionByRange(max(parts, 1), _CHUNK, *self._order())
        return ranges.withColumn(_RANGE, F.spark_partition_id())

    def _order(self) -> list[Column]:
        first = self.spec.order.columns or (self.time,)
        names = dict.fromkeys((*first, *self.rollup.dimensions, self.time))
        return [F.col(f"`{self.names.index(name)}`") for name in names]

    def _read(self) -> DataFrame:
        schema = physical_schema(to_arrow(self.spec.schema), self.rollup)
        if readable(schema) != schema:
            raise InvalidInput(
                f"Spark cannot hold the columns of {self.spec.uri} exactly ({schema}): a table "
                "with sketches needs microseconds and no half floats"
            )
        root = spark_root(self.spec.uri, self.spec.storage_options)
        reader = self.spark.read.schema(spark_schema(schema))
        reader = reader.option("datetimeRebaseMode", "CORRECTED")
        return reader.parquet(*(f"{root}/{segment.path}" for segment in self.inputs))

    def write(
        self, ranged: DataFrame, slots: Sequence[Row], outputs: Outputs
    ) -> tuple[Segment, ...]:
        """Write every slot as a segment."""
        task = self._task(slots, outputs)
        context = self.spark.sparkContext
        left: Accumulator[list[str]] = context.accumulator([], AddingAccumulatorParam([]))

        def written(batches):  # type: ignore[no-untyped-def]  # noqa: ANN001, ANN202  # Spark's
            return task.run(batches, lambda path: left.add([path]))

        try:
            results = self._slotted(ranged, slots).mapInArrow(written, RESULT).collect()
            for result in results:
                if result.error is not None:
                    raise_told(result.error, result.message)
            segments = [decode_result(result.segment) for result in results]
            self._check_books(segments)
        except BaseException:
            files = open_files(task.uri, task.storage_options)
            for path in left.value:
                with suppress(SegtableError):  # what counts is why it failed
                    files.delete(path)
            raise
        return tuple(sorted(segments, key=lambda segment: task.ids.index(segment.id)))

    def _task(self, slots: Sequence[Row], outputs: Outputs) -> WriteTask:
        intervals = [self.spec.intervals[slot[_CHUNK]] for slot in slots]
        counts = {interval: intervals.count(interval) for interval in dict.fromkeys(intervals)}
        named = outputs(counts)
        ids = [one for interval in counts for one in named[interval]]
        firsts = {named[interval][0][0] for interval in counts}
        return WriteTask(
            uri=absolute(self.spec.uri),
            storage_options=dict(self.spec.storage_options),
            ids=tuple(segment_id for segment_id, _ in ids),
            schema=physical_schema(to_arrow(self.spec.schema), self.rollup),
            time_column=self.time,
            created=self.spec.created,
            standings=tuple(
                Standing(
                    shard=shard,
                    clustering=str(self.spec.order),
                    replaces=self.spec.replaces if segment_id in firsts else (),
                )
                for segment_id, shard in ids
            ),
        )

    def _slotted(self, ranged: DataFrame, slots: Sequence[Row]) -> DataFrame:
        deal = [(slot[_CHUNK], slot[_RANGE], number) for number, slot in enumerate(slots)]
        numbers = self.spark.createDataFrame(deal, f"{_CHUNK} int, {_RANGE} int, {SLOT} int")
        dealt = ranged.join(F.broadcast(numbers), [_CHUNK, _RANGE])
        columns = [SLOT, *(f"`{number}`" for number in range(len(self.names)))]
        return dealt.select(*columns).sortWithinPartitions(SLOT, *self._order())

    def _check_books(self, segments: Sequence[Segment]) -> None:
        given = sum(segment.events for segment in self.inputs)
        kept = sum(segment.events for segment in segments)
        if given != kept:
            raise BooksDoNotBalance(
                f"{kept} events out, {given} events in ({EVENTS}) for {self.spec.uri}; "
                "nothing was published"
            )
