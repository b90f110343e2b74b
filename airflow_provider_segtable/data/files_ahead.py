"""Read files of an object store ahead of their use, so that round trips overlap.

``read_ahead`` is for a reader of many files:

1. The rows of the next files are read while those of one are used. Only small files are read so,
   and each is then in memory as a whole; a larger one is read when its turn comes. It loads its own
   ranges in parallel (``data.open_files``).

``FilesAhead`` is for a job that needs all bytes of its inputs, in order:

2. The next files are loaded whole, by one request for the size and one for the bytes, within a
   bound of memory. A file is kept until another one needs the memory, so that a job that opens
   small inputs twice loads them once. Larger files are opened as they are.
3. On a local disk neither does anything: the kernel reads ahead.
"""

from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from typing import TypeVar

from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.data.open_files import MemorySource, is_remote
from airflow_provider_segtable.ports.files import DataFiles, Sink, Source

T = TypeVar("T")
R = TypeVar("R")

AT_ONCE = 16
"""The most files that are read at once."""
SMALL_FILE = 8 << 20
"""The most bytes of a file that is read ahead as a whole."""
READ_AHEAD = 32 << 20
"""The most bytes of small files that a reader reads ahead, but for the last: rows take more."""
MEMORY = 96 << 20
"""The most bytes of files that a job holds."""


def read_ahead(
    items: Iterable[T], read: Callable[[T], Iterator[R]], size: Callable[[T], int]
) -> Generator[tuple[T, Iterator[R]], None, None]:
    """Yield items, each with what is read of it; small ones are read before their turn.

    Args:
        items: what is read, in order.
        read: reads an item.
        size: the bytes of an item.
    """
    left = iter(items)
    waiting: deque[tuple[T, Future[list[R]] | None]] = deque()
    pool = ThreadPoolExecutor(AT_ONCE, "segtable-files")
    try:
        while True:
            held = sum(size(item) for item, rows in waiting if rows is not None)
            for item in islice(left, AT_ONCE - len(waiting)):
                small = size(item) <= SMALL_FILE
                rows = pool.submit(_whole, read, item) if small else None
                waiting.append((item, rows))
                held += size(item) if small else 0
                if held >= READ_AHEAD:
                    break
            if not waiting:
                return
            item, done = waiting.popleft()
            yield item, read(item) if done is None else iter(done.result())
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _whole(read: Callable[[T], Iterator[R]], item: T) -> list[R]:
    return list(read(item))


class FilesAhead:
    """``DataFiles`` whose given files are loaded before they are opened."""

    def __init__(
        self, files: DataFiles, segments: Sequence[Segment], pool: ThreadPoolExecutor
    ) -> None:
        """Load files of ``segments``, in this order."""
        self.remote = is_remote(files)
        self._files = files
        self._order = [one for one in segments if one.path and one.size <= SMALL_FILE]
        self._places = {one.path: place for place, one in enumerate(self._order)}
        self._loads: dict[str, Future[bytes]] = {}
        self._pool = pool

    @contextmanager
    def open(self, path: str) -> Iterator[Source]:
        """Open a file for reading; errors as of the files."""
        place = self._places.get(path)
        if place is None:
            with self._files.open(path) as source:
                yield source
            return
        self._ask_from(place)
        yield MemorySource(path, self._loads[path].result())

    @contextmanager
    def create(self, path: str) -> Iterator[Sink]:
        """Start a new file."""
        with self._files.create(path) as sink:
            yield sink

    def delete(self, path: str) -> None:
        """Delete a file; no error if it is missing."""
        self._files.delete(path)

    def _ask_from(self, place: int) -> None:
        """Load a file and those after it, as far as memory allows; forget others if it must be."""
        wanted: list[Segment] = []
        size = 0
        for one in self._order[place : place + AT_ONCE]:
            size += one.size
            if wanted and size > MEMORY:
                break
            wanted.append(one)
        new = [one for one in wanted if one.path not in self._loads]
        self._forget({one.path for one in wanted}, sum(one.size for one in new))
        for one in new:
            self._loads[one.path] = self._pool.submit(self._load, one.path)

    def _forget(self, needed: set[str], more: int) -> None:
        held = {path: self._order[self._places[path]].size for path in self._loads}
        for path in [*self._loads]:
            if sum(held.values()) + more <= MEMORY:
                return
            if path not in needed:
                self._loads.pop(path).cancel()
                del held[path]

    def _load(self, path: str) -> bytes:
        with self._files.open(path) as source:
            return source.read_at(0, source.size)


@contextmanager
def loaded_ahead(files: DataFiles, segments: Sequence[Segment]) -> Iterator[DataFiles]:
    """Yield the files of a job, which load its inputs ahead where a request is a round trip."""
    if not is_remote(files):
        yield files
        return
    with ThreadPoolExecutor(AT_ONCE, "segtable-inputs") as pool:
        try:
            yield FilesAhead(files, segments, pool)
        finally:
            pool.shutdown(cancel_futures=True)
