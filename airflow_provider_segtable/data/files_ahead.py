"""Read files ahead of their use, so that round trips overlap, and processors share the decoding.

``read_ahead`` is for a reader of many files of an object store:

1. The rows of the next files are read while those of one are used. Only small files are read so,
   and each is then in memory as a whole; a larger one is read when its turn comes. It loads its own
   ranges in parallel (``data.open_files``).

``FilesAhead`` is for a job that needs all bytes of its inputs, in order, or of small ones of them:

2. The next bytes are loaded while others are used: small files whole, larger ones in pieces,
   within a bound of memory. Bytes are kept until others need the memory.
3. Jobs look at all footers first, then at the rows. If all inputs fit into the memory, both come
   from one load of each. Otherwise the ends of the files, which are short, are loaded first.

On a local disk the kernel reads ahead, so neither does anything. ``read_beside`` decodes there:

4. The next files are read in threads while the rows of one are used, as many as there are
   processors. Each thread holds few rows ahead of their use, and then waits: so memory does not
   grow with the files. Rows keep their order.
5. A small file is read when its turn comes: a thread would cost as much.
6. ``made_beside`` is for a job that makes rows of its inputs and writes them: a thread makes the
   next rows while others are written.
"""

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import AbstractContextManager, closing, contextmanager, nullcontext
from itertools import islice
from threading import Condition, Lock
from typing import Generic, TypeVar

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.segment import Segment
from airflow_provider_segtable.data.local_files import PIECE, truncated
from airflow_provider_segtable.data.open_files import is_remote, open_known, wrong_size
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
AHEAD = MEMORY // 2
"""The most bytes that a job loads ahead; the rest is for bytes that several threads share."""


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


def in_turn(
    files: DataFiles,
    items: Iterable[T],
    read: Callable[[T], Iterator[R]],
    size: Callable[[T], int],
) -> Iterator[R]:
    """Yield what is read of items; where a request is a round trip, by ``read_ahead``."""
    if not is_remote(files):
        for item in items:
            yield from read(item)
        return
    with closing(read_ahead(items, read, size)) as ahead:
        for _, found in ahead:
            yield from found


def _whole(read: Callable[[T], Iterator[R]], item: T) -> list[R]:
    return list(read(item))


PROCESSORS = min(4, len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 1)
"""The most files of a local disk that are read at once."""
LEAST_FILE = 256 << 10
"""Least number of bytes of a file that a thread reads."""
HELD = 16 << 20
"""The bytes of rows that a thread holds before they are used, but for the last batch."""


class _Stream(Generic[R]):
    """What a thread reads, for the reader that uses it in its turn."""

    def __init__(self, rows: Iterator[R], size: Callable[[R], int]) -> None:
        self._rows = rows
        self._size = size
        self._held: deque[R] = deque()
        self._bytes = 0
        self._ended = self._stopped = False
        self._error: BaseException | None = None
        self._changed = Condition()

    def run(self) -> None:
        """Read to the end, or until it is stopped; an error is the user's."""
        try:
            for rows in self._rows:
                with self._changed:
                    self._changed.wait_for(lambda: self._stopped or self._bytes < HELD)
                    if self._stopped:
                        return
                    self._held.append(rows)
                    self._bytes += self._size(rows)
                    self._changed.notify_all()
        except BaseException as error:  # noqa: BLE001 - raised where the rows are used
            self._error = error
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def used(self) -> Iterator[R]:
        """Yield what was read, in order."""
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._ended or bool(self._held))
                if not self._held:
                    break
                rows = self._held.popleft()
                self._bytes -= self._size(rows)
                self._changed.notify_all()
            yield rows
        if self._error is not None:
            raise self._error

    def stop(self) -> None:
        """End the reading: nothing more is used."""
        with self._changed:
            self._stopped = True
            self._changed.notify_all()


def read_beside(
    items: Iterable[T],
    read: Callable[[T], Iterator[R]],
    size: Callable[[T], int],
    row_bytes: Callable[[R], int],
) -> Generator[tuple[T, Iterator[R]], None, None]:
    """Yield items, each with what is read of it; threads begin before its turn.

    Args:
        items: what is read, in order; each is used up before the next.
        read: reads an item.
        size: the bytes of an item.
        row_bytes: the bytes of what is read at once.
    """
    left, waiting = iter(items), deque[tuple[T, _Stream[R] | None]]()
    begun: list[_Stream[R]] = []
    pool = ThreadPoolExecutor(PROCESSORS, "segtable-rows")
    try:
        while True:
            for item in islice(left, PROCESSORS - len(waiting)):
                stream = _Stream(read(item), row_bytes) if size(item) >= LEAST_FILE else None
                waiting.append((item, stream))
                if stream is not None:
                    begun.append(stream)
                    pool.submit(stream.run)
            if not waiting:
                return
            item, ahead = waiting.popleft()
            yield item, read(item) if ahead is None else ahead.used()
            if ahead is not None:
                ahead.stop()
                begun.remove(ahead)
    finally:
        for each in begun:
            each.stop()
        pool.shutdown(wait=True, cancel_futures=True)


@contextmanager
def made_beside(rows: Iterator[R], row_bytes: Callable[[R], int]) -> Iterator[Iterator[R]]:
    """Return what an iterator yields, in order; a thread makes the next while some are used.

    Args:
        rows: what is made; only the thread uses it. An error is raised where rows are used.
        row_bytes: the bytes of what is yielded at once.
    """
    stream = _Stream(rows, row_bytes)
    with ThreadPoolExecutor(1, "segtable-made") as pool:
        pool.submit(stream.run)
        try:
            yield stream.used()
        finally:
            stream.stop()


@dataclass(frozen=True, slots=True)
class _Piece:
    """Some bytes of a file: all of a small one."""

    path: str
    start: int
    end: int


class FilesAhead:
    """``DataFiles`` whose given files are loaded before they are read."""

    def __init__(
        self, files: DataFiles, segments: Sequence[Segment], pool: ThreadPoolExecutor
    ) -> None:
        """Load files of ``segments``, in this order."""
        self.remote = is_remote(files)
        self._files = files
        self._order = [one for one in segments if one.path]
        self._places = {one.path: place for place, one in enumerate(self._order)}
        self._pieces: list[_Piece] = []
        self._firsts: list[int] = []
        for one in self._order:
            self._firsts.append(len(self._pieces))
            step = one.size if one.size <= SMALL_FILE else PIECE
            starts = range(0, one.size, max(step, 1))
            self._pieces += [_Piece(one.path, at, min(at + step, one.size)) for at in starts]
        self._all_fit = sum(one.size for one in self._order) <= MEMORY
        self._tails: dict[str, Future[bytes]] = {}
        self._loads: dict[int, Future[bytes]] = {}
        self._lock = Lock()
        self._pool = pool

    def open(self, path: str) -> AbstractContextManager[Source]:
        """Open a file for reading; errors as of the files."""
        place = self._places.get(path)
        return self._files.open(path) if place is None else nullcontext(_Ahead(self, place))

    def open_known(self, path: str, size: int) -> AbstractContextManager[Source]:
        """Open a file of a known size for reading."""
        return self.open(path) if path in self._places else open_known(self._files, path, size)

    @contextmanager
    def create(self, path: str) -> Iterator[Sink]:
        """Start a new file."""
        with self._files.create(path) as sink:
            yield sink

    def delete(self, path: str) -> None:
        """Delete a file; no error if it is missing."""
        self._files.delete(path)

    def segment(self, place: int) -> Segment:
        """Return a segment by its place in the order."""
        return self._order[place]

    def read(self, place: int, offset: int, length: int) -> bytes:
        """Return bytes of a file, and load those after them."""
        start = self._tail_start(place)
        if not self._all_fit and offset >= start:
            return self._tail(place).result()[offset - start :][:length]
        numbers = self._covering(place, offset, offset + length)
        with self._lock:
            self._ask(numbers)
            loads = [self._loads[number] for number in numbers]
        parts = [load.result() for load in loads]
        begin = offset - self._pieces[numbers.start].start
        whole = parts[0] if len(parts) == 1 else b"".join(parts)
        return whole[begin : begin + length]

    def _tail_start(self, place: int) -> int:
        """Return where the part of a file begins that jobs read first; the size if unknown."""
        one = self._order[place]
        return one.size if one.footer is None else one.footer.start

    def _tail(self, place: int) -> Future[bytes]:
        """Load the tail of a file and of those after it; they stay, for they are short."""
        with self._lock:
            for at in range(place, min(place + AT_ONCE, len(self._order))):
                one, start = self._order[at], self._tail_start(at)
                if one.path not in self._tails and start < one.size:
                    tail = _Piece(one.path, start, one.size)
                    self._tails[one.path] = self._pool.submit(self._load, tail)
            return self._tails[self._order[place].path]

    def _covering(self, place: int, offset: int, end: int) -> range:
        """Return the numbers of the pieces that have some bytes of a file."""
        first = self._firsts[place]
        step = self._pieces[first].end
        return range(first + offset // step, first + -(-end // step))

    def _ask(self, numbers: range) -> None:
        """Load pieces and those after them, as far as memory allows; forget others if it must."""
        wanted, size = [], 0
        for number in range(numbers.start, min(numbers.start + AT_ONCE, len(self._pieces))):
            size += self._size(number)
            if number >= numbers.stop and size > AHEAD:
                break
            wanted.append(number)
        wanted += range(numbers.start + AT_ONCE, numbers.stop)
        new = [number for number in wanted if number not in self._loads]
        self._forget({*wanted}, sum(map(self._size, new)))
        for number in new:
            self._loads[number] = self._pool.submit(self._load, self._pieces[number])

    def _forget(self, needed: set[int], more: int) -> None:
        held = sum(map(self._size, self._loads)) + more
        for number in [*self._loads]:
            if held <= MEMORY:
                return
            if number not in needed:
                self._loads.pop(number).cancel()
                held -= self._size(number)

    def _size(self, number: int) -> int:
        piece = self._pieces[number]
        return piece.end - piece.start

    def _load(self, piece: _Piece) -> bytes:
        size = self._order[self._places[piece.path]].size
        with open_known(self._files, piece.path, size) as source:
            if source.size != size:
                raise wrong_size(piece.path, source.size, size)
            return source.read_at(piece.start, piece.end - piece.start)


class _Ahead:
    """An open file of ``FilesAhead``."""

    def __init__(self, files: FilesAhead, place: int) -> None:
        self.path = files.segment(place).path
        self.size = files.segment(place).size
        self._files = files
        self._place = place

    def read_at(self, offset: int, length: int) -> bytes:
        """Return exactly ``length`` bytes from ``offset``."""
        if offset < 0 or offset + length > self.size:
            raise truncated(self.path, self.size, offset + length - self.size)
        return self._files.read(self._place, offset, length) if length else b""


@contextmanager
def loaded_ahead(files: DataFiles, segments: Sequence[Segment]) -> Iterator[DataFiles]:
    """Yield files that load some before they are read, where a request is a round trip.

    Files that are loaded ahead already are not loaded twice.
    """
    if not is_remote(files) or isinstance(files, FilesAhead):
        yield files
        return
    with ThreadPoolExecutor(AT_ONCE, "segtable-inputs") as pool:
        try:
            yield FilesAhead(files, segments, pool)
        finally:
            pool.shutdown(cancel_futures=True)
