"""Jobs: pieces of work on data files, for whoever runs them.

Contract:

1. A job is plain data, a frozen dataclass: it is pickled into a Spark task, opens its files itself
   and answers with a value that can be pickled.
2. Whoever runs it again gives it another ``attempt`` first (``dataclasses.replace``), so that two
   tries never write under one name.
3. What it cannot do it raises, and leaves no file of its own behind.
4. ``run_one`` turns what is raised into a value, for other processes too.
"""

from dataclasses import dataclass
from typing import Any, Protocol

from airflow_provider_segtable.ports.files import DataFiles


class Job(Protocol):
    """One piece of work on data files."""

    @property
    def attempt(self) -> str:
        """Return the 16 hex digits that every file it writes carries in its name."""
        ...

    @property
    def cost(self) -> int:
        """Return about how many bytes it handles."""
        ...

    @property
    def title(self) -> str:
        """Return what Spark's pages are to call it."""
        ...

    def run(self, files: DataFiles | None = None) -> Any:
        """Do it, on ``files`` or the job's own."""
        ...


@dataclass(frozen=True, slots=True, kw_only=True)
class Done:
    """The result of job number ``index``: its value, or what went wrong."""

    index: int
    value: Any = None
    error: str | None = None


def run_one(index: int, job: Job, files: DataFiles | None = None) -> Done:
    """Run one job; a fault becomes a value, so that other jobs go on."""
    try:
        return Done(index=index, value=job.run(files))
    except Exception as error:  # noqa: BLE001  # whatever a kernel raises belongs to its plan
        return Done(index=index, error=f"{type(error).__name__}: {error}")
