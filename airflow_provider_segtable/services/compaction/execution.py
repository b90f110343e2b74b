"""Run kernel jobs: a service submits jobs and receives results as they complete.

1. ``execute(jobs)`` yields ``Done`` for every job exactly once, in any order: in this process
   (``in_process``) or in Spark tasks (``spark.driver.distribution``).
2. A compaction with several stages is a generator: it yields lists of jobs, receives their results
   in order, and returns the new segments (``Stages``).
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
    """Run jobs one after another in this process, on ``files`` or on each job's own files."""

    def execute(jobs: Sequence[Job]) -> Iterator[Done]:
        for index, job in enumerate(jobs):
            yield run_one(index, job, files)

    return execute
