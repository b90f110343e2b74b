"""Jobs: pieces of work on data files, for whoever runs them.

Contract:

1. A job is plain data, a frozen dataclass: it is pickled into a Spark task, opens its files itself
   and answers with a value that can be pickled.
2. Whoever runs it again gives it another ``attempt`` first (``dataclasses.replace``), so that two
   tries never write under one name.
3. What it cannot do it raises, and leaves no file of its own behind.
"""

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
