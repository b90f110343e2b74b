"""Data files: read by ranges, written once under a unique name.

Contract:

1. A sink's bytes become readable under its path only by ``commit``, wholly and durably (local
   files: fsync of file and directory); a sink that is closed without commit leaves no file.
   ``begin_commit`` may return while a thread of the caller's does that, with a function that waits
   for its end. No event may name the file before.
2. Paths are relative to the table's root, ``/`` separated. No file is ever overwritten: names
   carry a random token, and ``create`` of an existing path raises ``AlreadyExists``.
3. ``copy_from`` moves bytes source to sink without decoding; adapters may do it in the kernel.
4. Errors are from ``core.errors`` (NotFound, AlreadyExists, StorageFull, ReadOnlyStorage,
   StorageError), with the path in the message.

Kernels run inside Spark tasks: an adapter must be rebuildable there from the table's URI and
storage options alone, with nothing but pyarrow installed.
"""

from collections.abc import Callable
from concurrent.futures import Executor
from contextlib import AbstractContextManager
from typing import Protocol, TypeAlias, runtime_checkable

Ready: TypeAlias = Callable[[], None]
"""Waits until files are durable; raises the error of their commit."""


class Source(Protocol):
    """An open data file, for reading by ranges."""

    @property
    def path(self) -> str:
        """Return the path relative to the table's root."""
        ...

    @property
    def size(self) -> int:
        """Return the size in bytes."""
        ...

    def read_at(self, offset: int, length: int) -> bytes:
        """Return exactly ``length`` bytes from ``offset``."""
        ...


class Sink(Protocol):
    """A data file being written; nothing is visible before ``commit``."""

    @property
    def path(self) -> str:
        """Return the path relative to the table's root."""
        ...

    @property
    def position(self) -> int:
        """Return the number of bytes written so far."""
        ...

    def write(self, data: bytes) -> None:
        """Append bytes."""
        ...

    def copy_from(self, source: Source, offset: int, length: int) -> None:
        """Append ``length`` bytes of ``source`` from ``offset``, undecoded."""
        ...

    def commit(self) -> None:
        """Make the file readable under its path, durably."""
        ...

    def begin_commit(self, threads: Executor) -> Ready | None:
        """Begin to commit in a thread; return a function that waits for the end.

        None if the file is durable already. If no thread can begin (``RuntimeError``), the file may
        be committed as usual.
        """
        ...


@runtime_checkable
class RangeReader(Protocol):
    """Reads parts of objects, each by one request."""

    def read_range(self, path: str, offset: int, length: int | None) -> tuple[bytes, int]:
        """Return bytes of an object, and the object's size.

        Args:
            path: the object.
            offset: the first byte.
            length: the number of bytes, fewer if the object ends before; None for the whole object.

        Raises:
            NotFound: the object does not exist.
            StorageError: it could not be read.
        """
        ...


class DataFiles(Protocol):
    """The data files of one table."""

    def open(self, path: str) -> AbstractContextManager[Source]:
        """Open a file for reading; ``NotFound`` if it does not exist."""
        ...

    def create(self, path: str) -> AbstractContextManager[Sink]:
        """Start a new file; leaving the context without ``commit`` discards it."""
        ...

    def delete(self, path: str) -> None:
        """Delete a file; no error if it does not exist."""
        ...
