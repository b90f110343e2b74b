"""Run kernel jobs: a service submits jobs and receives results as they complete.

1. ``execute(jobs)`` yields ``Done`` for every job exactly once, in any order: in this process
   (``in_process``) or in Spark tasks (``spark.driver.distribution``).
2. An attempt with several stages is a generator: it yields lists of jobs, never an empty one,
   receives their results in order, and returns its end (``Stages``).
"""

from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from airflow_provider_segtable.core.log.event import Conflict
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.ports.files import DataFiles
from airflow_provider_segtable.ports.job import Done, Job, run_one
from airflow_provider_segtable.table.log.committer import Unknown

__all__ = ["Done", "End", "Execute", "Job", "Paused", "Stages", "in_process", "run_one"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Paused:
    """The attempt stops, and leaves the rest of its plan to the next one."""

    reason: str


Stop: TypeAlias = Paused | Conflict | Unknown
"""Why an attempt ends before its plan does."""


@dataclass(frozen=True, slots=True, kw_only=True)
class End:
    """The end of an attempt's stages.

    Attributes:
        files: the number of files that it read.
        segments: the new segments, to be published.
        stop: why the plan is not completed; None if it is to be.
    """

    files: int
    segments: tuple[Segment, ...] = ()
    stop: Stop | None = None


Execute: TypeAlias = Callable[[Sequence[Job]], Iterator[Done]]
Stages: TypeAlias = Generator[Sequence[Job], Sequence[Any], End]


def in_process(files: DataFiles | None = None) -> Execute:
    """Run jobs one after another in this process, on ``files`` or on each job's own files."""

    def execute(jobs: Sequence[Job]) -> Iterator[Done]:
        for index, job in enumerate(jobs):
            yield run_one(index, job, files)

    return execute
