"""Who carries the plans out: a real Airflow, or (without one) this very process.

Both start in the background when entered, and are told to begin when the table is ready.
"""

import threading
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Protocol, Self

from airflow_provider_segtable.core.errors import ExecutionFailed, SegtableError
from airflow_provider_segtable.services.attempt import in_process
from airflow_provider_segtable.services.compaction import Ended, PlanResult, compact
from airflow_provider_segtable.services.planner import plan_table
from airflow_provider_segtable.table.context import open_context


class MinorRuns(Protocol):
    """What the story needs of them."""

    @property
    def title(self) -> str:
        """Return the title of the step."""
        ...

    @property
    def starting(self) -> str:
        """Return what to say while it starts."""
        ...

    def ready(self) -> Iterator[str]:
        """Wait until it is ready; yield what to say about it."""
        ...

    def begin(self) -> None:
        """Start planning and compacting."""
        ...

    def finished(self) -> bool:
        """Tell whether everything has ended."""
        ...

    def outcome(self) -> Iterator[str]:
        """Yield what came of it; raise if anything failed."""
        ...

    def places(self, *, kept: bool) -> Iterator[str]:
        """Yield where to look at it, now or (``kept``) while it goes on running."""
        ...


class Here:
    """Plans and compacts in a thread of this process."""

    title = "Minor compaction in this process, while further files are appended"
    starting = "no Airflow: plans will be carried out by this process"

    def __init__(self, _folder: Path, uri: str, zookeeper: str) -> None:
        """Store where the table is; nothing starts yet."""
        self._uri, self._zookeeper = uri, zookeeper
        self._thread = threading.Thread(target=self._run, name="compactor", daemon=True)
        self._results: tuple[PlanResult, ...] = ()
        self._error: SegtableError | None = None

    def __enter__(self) -> Self:
        """Do nothing yet."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Leave the thread to the end of the process."""

    def ready(self) -> Iterator[str]:
        """Be ready at once."""
        yield from ()

    def begin(self) -> None:
        """Start the thread."""
        self._thread.start()

    def finished(self) -> bool:
        """Tell whether the thread has ended."""
        return not self._thread.is_alive()

    def outcome(self) -> Iterator[str]:
        """Yield how many plans were carried out."""
        if self._error:
            raise self._error
        for result in self._results:
            if result.ended is not Ended.COMPLETED:
                raise ExecutionFailed(f"{result.plan_id}: {result.ended}: {result.message}")
        yield f"{len(self._results)} plans carried out"

    def places(self, *, kept: bool) -> Iterator[str]:  # noqa: ARG002 - nothing to look at
        """Yield nothing: there is nothing but the table."""
        yield from ()

    def _run(self) -> None:
        ports = open_context(self._uri, zookeeper=self._zookeeper, author="compactor")
        try:
            plans = [launch.plan_id for launch in plan_table(ports).launches]
            self._results = tuple(
                result for plan in plans for result in compact(ports, [plan], in_process())
            )
        except SegtableError as error:
            self._error = error
        finally:
            ports.coordinator.close()
