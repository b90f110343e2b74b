"""Run kernels in Spark tasks: ``spark_execute`` is an ``Execute`` for the services.

1. Files move, not rows: a task opens its inputs itself and returns descriptors.
2. Jobs are packed into few groups, the largest jobs first. Each group is one task of its own Spark
   job, so its results can be committed while other groups still run.
3. If Spark cannot run a group, its jobs run again one by one, so that a bad job fails alone.
4. Each try of a task writes under fresh names, so retries and speculation never collide.
5. When the consumer stops, running groups are cancelled.
6. A job that merges sketches is its own group. It runs on the driver, beside the Spark jobs of
   other groups, and starts its own Spark jobs.
"""

import heapq
import secrets
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from threading import Event

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from airflow_provider_segtable.core.errors import ExecutionFailed
from airflow_provider_segtable.core.segment import Place, SegmentId, Shard
from airflow_provider_segtable.data.files.open_files import open_files
from airflow_provider_segtable.data.sort.sorting import discard
from airflow_provider_segtable.data.table_kinds import SketchJob
from airflow_provider_segtable.services.compaction.execution import Done, Execute, Job
from airflow_provider_segtable.spark.driver.spark_errors import translate
from airflow_provider_segtable.spark.tasks.groups import Group, run_group
from airflow_provider_segtable.spark.writes.sketch_compaction import spark_rollup

GROUP_BYTES = 512 * 1024 * 1024
MOST_THREADS = 64


def spark_execute(spark: SparkSession) -> Execute:
    """Return an ``Execute`` that runs kernel jobs in tasks of ``spark``."""

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
