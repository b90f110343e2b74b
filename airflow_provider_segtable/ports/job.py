"""Jobs: pieces of work on data files, which run in-process or in Spark tasks.

Contract:

1. A job is plain data, a frozen dataclass: it is pickled into a Spark task, opens its files itself
   and returns a value that can be pickled.
2. Before a retry, the runner gives it another ``attempt`` (``dataclasses.replace``), so that two
   attempts never write under one name.
3. If it fails, it raises, and leaves no file of its own behind.
4. ``run_one`` converts an exception into a value that other processes can receive.
"""

from collections.abc import Iterable
from typing import Any, Protocol

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.ports.files import DataFiles

FILE_COST = 1 << 20
"""The cost of opening one more file, in bytes."""


def cost_of(inputs: Iterable[Segment]) -> int:
    """Return the approximate number of bytes that a job handles."""
    return sum(segment.size + FILE_COST for segment in inputs)


class Job(Protocol):
    """A piece of work on data files."""

    @property
    def attempt(self) -> str:
        """Return the 16 hex digits in the names of all files that it writes."""
        ...

    @property
    def cost(self) -> int:
        """Return the approximate number of bytes that it handles."""
        ...

    @property
    def title(self) -> str:
        """Return its name in Spark's UI."""
        ...

    def run(self, files: DataFiles | None = None) -> Any:
        """Run the job, on ``files`` or on the files that it opens itself."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The result of job number ``index``: its value, or its error."""

    index: int
    value: Any = None
    error: str | None = None


def run_one(index: int, job: Job, files: DataFiles | None = None) -> Done:
    """Run one job; an exception becomes a value, so that other jobs continue."""
    try:
        return Done(index=index, value=job.run(files))
    except Exception as error:  # noqa: BLE001  # any error of a kernel belongs to its plan
        return Done(index=index, error=f"{type(error).__name__}: {error}")
