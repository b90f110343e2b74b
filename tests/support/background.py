"""A background whose work is done when a test says so."""

from collections.abc import Callable

from airflow_provider_segtable.ports.background import Queue


class ByHand:
    """``ports.background.Background`` without threads: work waits until ``run`` or ``flush``."""

    def __init__(self) -> None:
        """Start without queues."""
        self.queues: dict[Queue, Callable[[], None]] = {}
        self.ended = False

    def attend(self, queue: Queue, act: Callable[[], None]) -> bool:
        """Keep the action for the next ``run``; False after the end."""
        if not self.ended:
            self.queues.setdefault(queue, act)
        return not self.ended

    def run(self) -> int:
        """Do the work that is due; return how many actions were called."""
        waits = {queue: queue.due_s() for queue in self.queues}
        due = [queue for queue, due_s in waits.items() if due_s is not None and due_s <= 0]
        for queue in due:
            self.queues.pop(queue)()
        return len(due)

    def flush(self) -> None:
        """Do all work."""
        while self.queues:
            queue, act = self.queues.popitem()
            if queue.due_s() is not None:
                act()
