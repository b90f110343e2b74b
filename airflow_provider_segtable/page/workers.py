"""Threads of the page, apart from those of the server that it is mounted in.

1. There are at most ``threads`` of them, begun when they are needed. A queue of ``most_waiting`` is
   all that may wait: more is refused at once (``Unanswered``), as it would be answered too late.
2. They are daemons: a store that hangs does not keep the server from ending.
"""

import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import suppress
from queue import Empty, Full, Queue
from typing import TypeVar

from airflow_provider_segtable.page.answer import Unanswered

T = TypeVar("T")
IDLE_S = 30.0
"""Seconds after which an idle thread ends."""


class Workers:
    """A bounded pool of daemon threads."""

    def __init__(self, name: str, *, threads: int, most_waiting: int) -> None:
        self._name = name
        self._threads = threads
        self._queue: Queue[Callable[[], None]] = Queue(most_waiting)
        self._mutex = threading.Lock()
        self._alive = 0
        self._unfinished = 0

    def submit(self, work: Callable[[], T]) -> "Future[T]":
        """Begin work when a thread is free.

        Raises:
            Unanswered: too much waits already.
        """
        future: Future[T] = Future()
        with self._mutex:
            try:
                self._queue.put_nowait(lambda: _settle(future, work))
            except Full:
                raise Unanswered(
                    f"{self._queue.maxsize} requests wait for {self._name} already: try again"
                ) from None
            self._unfinished += 1
            if self._alive < min(self._threads, self._unfinished):
                self._alive += 1
                named = f"segtable-page-{self._name}"
                threading.Thread(target=self._run, name=named, daemon=True).start()
        return future

    def _run(self) -> None:
        while (work := self._next()) is not None:
            work()
            with self._mutex:
                self._unfinished -= 1

    def _next(self) -> Callable[[], None] | None:
        """Return the next work; None if the thread is to end."""
        with suppress(Empty):
            return self._queue.get(timeout=IDLE_S)
        with self._mutex:  # nothing is put meanwhile
            with suppress(Empty):
                return self._queue.get_nowait()
            self._alive -= 1
        return None


def _settle(future: "Future[T]", work: Callable[[], T]) -> None:
    """Carry out work, and give its outcome to those that wait."""
    try:
        result = work()
    except BaseException as error:  # noqa: BLE001 - whatever it is, it belongs to those that wait
        future.set_exception(error)
    else:
        future.set_result(result)
