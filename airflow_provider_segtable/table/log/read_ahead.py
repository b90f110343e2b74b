"""Read numbered objects in order, several at a time where a request is a round trip.

1. An object has the items of one or more consecutive numbers, and the first of them as its name.
   The next object is named by the number after them.
2. The run ends before the first absent object. Objects after it are requested in vain, and are
   discarded: in a log without gaps there are none.
3. On a remote storage, requests go out in windows of numbers. The first window is the caller's
   guess at the length of the run; each later one is twice as long, up to ``MOST``. The requests of
   the first window go out at once, so that the caller can do other work meanwhile. A window is
   shortened by an object of several numbers: only one request in as many would find another one.
4. On a local storage each object is read when it is asked for.
5. An object's error is raised in its place. What lies beyond the end of the run raises nothing.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from types import TracebackType
from typing import Generic, Self, TypeVar

T = TypeVar("T")

MOST = 32
"""The most requests at once."""


class ReadAhead(Generic[T]):
    """A run of numbered objects; a context manager, because requests may be under way."""

    def __init__(
        self,
        read: Callable[[int], Sequence[T] | None],
        start: int,
        *,
        remote: bool,
        window: int = 1,
    ) -> None:
        """Begin at number ``start``.

        Args:
            read: reads the items of the object of a number; None if it is absent.
            start: the first number.
            remote: whether a request is a round trip.
            window: the guessed length of the run.
        """
        self._read = read
        self._next = start
        self._window = min(window, MOST) if remote else 1
        self._remote = remote
        self._pool: ThreadPoolExecutor | None = None
        self._asked: dict[int, Future[Sequence[T] | None]] = {}
        if self._window > 1:
            self._ask()

    def __enter__(self) -> Self:
        """Return itself."""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        """Forget the requests that are under way."""
        if self._pool is not None:
            self._pool.shutdown(wait=False, cancel_futures=True)

    def __iter__(self) -> Iterator[T]:
        """Yield the items up to the first absent object."""
        while (found := self._one()) is not None:
            self._next += len(found)
            self._window = max(self._window // len(found), 1)
            yield from found

    def _one(self) -> Sequence[T] | None:
        """Return the items of the next object."""
        asked = self._asked.pop(self._next, None)
        if asked is not None:
            return asked.result()
        if self._remote and self._window > 1:
            self._ask()
            return self._asked.pop(self._next).result()
        self._window = min(2, MOST)
        return self._read(self._next)

    def _ask(self) -> None:
        """Request the objects of a window."""
        if self._pool is None:
            self._pool = ThreadPoolExecutor(MOST, "segtable-read-ahead")
        numbers = range(self._next, self._next + self._window)
        self._asked = {number: self._pool.submit(self._read, number) for number in numbers}
        self._window = min(2 * self._window, MOST)
