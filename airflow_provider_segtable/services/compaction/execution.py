"""Where kernels run: a service hands out jobs and takes results as they come.

1. ``execute(jobs)`` yields ``Done`` for every job exactly once, in any order. In this process
   (``in_process``), or in Spark tasks (``spark.driver.distribution``).
2. A compaction in several steps is a generator: it yields lists of jobs, is sent their results in
   order, and returns the new segments (``Stages``).
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from typing import Any, TypeAlias

from airflow_provider_segtable.core.segments.segment import Segment
from airflow_provider_segtable.ports.files import DataFiles
from airflow_provider_segtable.ports.job import Done, Job, run_one

__all__ = ["Done", "Execute", "Job", "Stages", "in_process", "run_one"]


Execute: TypeAlias = Callable[[Sequence[Job]], Iterator[Done]]
Stages: TypeAlias = Generator[Sequence[Job], Sequence[Any], tuple[Segment, ...]]


def in_process(files: DataFiles | None = None) -> Execute:
    """Run jobs one after another in this process, on ``files`` or the job's own."""

    def execute(jobs: Sequence[Job]) -> Iterator[Done]:
        for index, job in enumerate(jobs):
            yield run_one(index, job, files)

    return execute
