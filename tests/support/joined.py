"""Commits that are put together, without threads."""

from collections.abc import Sequence

from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.table.committer import Change, Outcome, _Loop, attempt_together
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.table import Table


def put_together(
    ports: TableContext, changes: Sequence[Change], state: State | None = None
) -> list[Outcome | None]:
    """Attempt several changes with one put, as threads of a process do; return the outcomes."""
    loops = [_Loop(ports, change, state or ports.log.load()) for change in changes]
    attempt_together(loops)
    errors = [loop.error for loop in loops if loop.error is not None]
    if errors:
        raise errors[0]
    return [loop.outcome for loop in loops]


class Together:
    """A commit queue that lets changes wait until there are enough of them, each in its greenlet.

    The table's own code runs as far as its commit; then all commits are attempted with one put.
    """

    def __init__(self, number: int) -> None:
        """Wait for a number of changes."""
        self.number = number
        self.waiting: list[object] = []

    def attempt(self, member: object, put: object, clock: object) -> None:
        """Wait for the others, or put for all."""
        import greenlet

        del clock
        self.waiting.append(member)
        if len(self.waiting) < self.number:
            greenlet.getcurrent().parent.switch()
        else:
            some, self.waiting = self.waiting, []
            self.number = 1
            put(some)  # type: ignore[operator]

    def leave(self, member: object) -> None:
        """Do nothing."""


def together(table: Table, *calls: object) -> list[object]:
    """Call functions that commit to a table once each, with one put; return their results."""
    import greenlet

    results: dict[int, object] = {}

    def run(number: int, call: object) -> None:
        results[number] = call()  # type: ignore[operator]

    queue = table.ports.commits
    object.__setattr__(table.ports, "commits", Together(len(calls)))
    try:
        running = [greenlet.greenlet(run) for _ in calls]
        for number, (each, call) in enumerate(zip(running, calls, strict=True)):
            each.switch(number, call)
        for each in running:
            while not each.dead:
                each.switch()
    finally:
        object.__setattr__(table.ports, "commits", queue)
    return [results[number] for number in range(len(calls))]
