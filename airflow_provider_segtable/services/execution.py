"""Where kernels run: a service hands out jobs and takes results as they come.

``execute(jobs)`` yields ``Done`` for every job exactly once, in any order. In this process
(``in_process``), or in Spark tasks (``spark.distribution``).
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.data.minor import MinorJob, run_minor
from airflow_provider_segtable.ports.files import DataFiles


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The result of job number ``index``: its segments, or what went wrong."""

    index: int
    segments: tuple[Segment, ...] = ()
    error: str | None = None


Execute = Callable[[Sequence[MinorJob]], Iterator[Done]]


def in_process(files: DataFiles | None = None) -> Execute:
    """Run jobs one after another in this process, on ``files`` or the job's own."""

    def execute(jobs: Sequence[MinorJob]) -> Iterator[Done]:
        for index, job in enumerate(jobs):
            yield run_one(index, job, files)

    return execute


def run_one(index: int, job: MinorJob, files: DataFiles | None = None) -> Done:
    """Run one job; a fault becomes a value, so that other jobs go on."""
    try:
        return Done(index=index, segments=run_minor(job, files))
    except Exception as error:  # noqa: BLE001  # whatever a kernel raises belongs to its plan
        return Done(index=index, error=f"{type(error).__name__}: {error}")
