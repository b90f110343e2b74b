"""The background of this process: a thread for each queue, while something waits in it.

1. The thread ends with the queue's last work, so a process at rest has none.
2. At the end of the process the threads are asked to hurry, and waited for, ``EXIT_S`` at most.
   That happens before the interpreter stops making threads, which the work may need; and in
   ``atexit``, which is all that some forked processes run, such as tasks of Airflow.
3. A process that is killed loses nothing but the work that waited.
4. A forked process begins without queues: its parent has them.
5. ``Threads`` are those of the interpreter; a simulation gives others, in virtual time.
"""

import atexit
import os
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any, Protocol

from airflow_provider_segtable.ports.background import Queue

EXIT_S = 60.0
"""Longest wait for the work of a process that ends."""


class Changed(AbstractContextManager[Any], Protocol):
    """Wakes threads that wait for a change; ``threading.Condition`` is one."""

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until a change, or for a time."""
        ...

    def wait_for(self, predicate: Callable[[], bool], timeout: float | None = None) -> bool:
        """Wait until a predicate holds, or for a time."""
        ...

    def notify_all(self) -> None:
        """Wake all threads that wait."""
        ...


class Threads(Protocol):
    """The threads of a process, and its end."""

    def condition(self) -> Changed:
        """Return a lock whose holders wait for changes."""
        ...

    def start(self, run: Callable[[], None]) -> None:
        """Run something in a thread of its own.

        Raises:
            RuntimeError: the process may have no more threads.
        """
        ...

    def at_exit(self, end: Callable[[], None]) -> None:
        """Have something called before the process ends."""
        ...


class InterpreterThreads:
    """Threads of the interpreter, which are left behind when it ends."""

    def condition(self) -> Changed:
        """Return a new condition."""
        return threading.Condition()

    def start(self, run: Callable[[], None]) -> None:
        """Start a thread that does not keep the process."""
        threading.Thread(target=run, name="segtable-background", daemon=True).start()

    def at_exit(self, end: Callable[[], None]) -> None:
        """Have something called at the end, early and late (rule 2)."""
        early: Callable[[Callable[[], None]], Any] | None
        early = getattr(threading, "_register_atexit", None)  # as concurrent.futures does
        if early is not None:
            early(end)
        atexit.register(end)


class ThreadBackground:
    """``ports.background.Background`` by threads; safe among threads."""

    def __init__(self, exit_s: float = EXIT_S, threads: Threads | None = None) -> None:
        """Start without queues."""
        self._exit_s = exit_s
        self._threads = threads or InterpreterThreads()
        self.reset()

    def reset(self) -> None:
        """Forget all queues, in a forked process."""
        self._changed = self._threads.condition()
        self._queues: set[Queue] = set()
        self._hurried = 0
        self._ended = False
        self._registered = False

    def attend(self, queue: Queue, act: Callable[[], None]) -> bool:
        """Call ``act`` whenever the queue is due, until nothing waits; False if it is too late."""
        with self._changed:
            if self._ended:
                return False
            if queue in self._queues:
                return True
            try:
                self._register()
                self._threads.start(partial(self._run, queue, act))
            except RuntimeError:  # the interpreter ends, or the process may have no more threads
                return False
            self._queues.add(queue)
            return True

    def flush(self) -> None:
        """Wait until nothing is left to do in any queue, for a bounded time."""
        with self._changed:
            self._wait_for_all()

    def end(self) -> None:
        """Flush, and leave nothing to later from now on."""
        with self._changed:
            self._ended = True
            self._wait_for_all()

    def _wait_for_all(self) -> None:
        self._hurried += 1
        self._changed.notify_all()
        try:
            self._changed.wait_for(lambda: not self._queues, self._exit_s)
        finally:
            self._hurried -= 1

    def _register(self) -> None:
        """Have the end of this process flush (rule 2)."""
        if not self._registered:
            self._registered = True
            self._threads.at_exit(self.end)

    def _run(self, queue: Queue, act: Callable[[], None]) -> None:
        while self._awaited(queue):
            try:
                act()
            except BaseException:
                with self._changed:
                    self._left(queue)
                raise

    def _awaited(self, queue: Queue) -> bool:
        """Wait until the queue is due; False if nothing waits in it."""
        with self._changed:
            while (due_s := queue.due_s()) is not None:
                if due_s <= 0 or self._hurried:
                    return True
                self._changed.wait(due_s)
            self._left(queue)  # under the lock: what is added from now on gets a thread of its own
            return False

    def _left(self, queue: Queue) -> None:
        self._queues.discard(queue)
        self._changed.notify_all()


OF_THIS_PROCESS = ThreadBackground()
os.register_at_fork(after_in_child=OF_THIS_PROCESS.reset)
