"""Data files in a local directory.

1. A sink writes a hidden temporary file beside its target. Commit is: fsync the file, link it
   under its name (which fails if the name is taken), unlink the temporary, fsync the directory.
2. Directories are durable too: a directory's parent is synced before the first file is created in
   it. No symbolic link below the root is followed, to read or to delete (``disk``).
3. Writeback starts while the file is still being written, in pieces of 16 MiB, so that the sync at
   the end is short.
4. ``begin_commit`` commits in another thread, with descriptors of its own, so that the next file is
   written meanwhile, or the event that names this one. Several at once cost a disk about as much as
   one: a flush of its journal covers all that came before it.
5. ``copy_from`` between two local files lets the kernel copy the bytes (``copy_file_range``), and
   falls back to reading and writing if the file system does not support that.
"""

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import CorruptTable
from airflow_provider_segtable.disk import Folders, Sync, accessing
from airflow_provider_segtable.ports.files import Ready, Sink, Source

PIECE = 8 << 20
_WRITEBACK = 16 << 20
_LINUX = hasattr(os, "copy_file_range")
_KERNEL_CANNOT = {errno.EXDEV, errno.ENOSYS, errno.EOPNOTSUPP, errno.EINVAL, errno.EPERM}


class LocalSource:
    """An open local data file."""

    def __init__(self, path: str, fd: int) -> None:
        """Read from ``fd``, which the caller closes."""
        self.path = path
        self.fd = fd
        self.size = os.fstat(fd).st_size

    def read_at(self, offset: int, length: int) -> bytes:
        """Return exactly ``length`` bytes from ``offset``."""
        parts: list[bytes] = []
        with accessing(self.path):
            while length:
                part = os.pread(self.fd, length, offset)
                if not part:
                    raise truncated(self.path, offset, length)
                parts.append(part)
                offset, length = offset + len(part), length - len(part)
        return parts[0] if len(parts) == 1 else b"".join(parts)


def make_durable(source: Source) -> None:
    """Make a file that another program wrote durable; objects of stores are."""
    if isinstance(source, LocalSource):
        with accessing(source.path):
            os.fsync(source.fd)


class LocalSink:
    """A local data file being written."""

    def __init__(self, path: str, fd: int, place: "_Place") -> None:
        """Write to ``fd``, the temporary file of ``place``."""
        self.path = path
        self.position = 0
        self._fd = fd
        self._place = place
        self._started = 0
        self.begun = False

    def write(self, data: bytes) -> None:
        """Append bytes."""
        left = memoryview(data)
        with accessing(self.path):
            while left:
                done = os.write(self._fd, left)
                self.position += done
                left = left[done:]
        self._start_writeback()

    def copy_from(self, source: Source, offset: int, length: int) -> None:
        """Append a range of another file, in the kernel where possible."""
        if isinstance(source, LocalSource) and _LINUX:
            done = self._copy_in_kernel(source, offset, length)
            offset, length = offset + done, length - done
            self._start_writeback()
        copy_in_pieces(source, self, offset, length)

    def _copy_in_kernel(self, source: LocalSource, offset: int, length: int) -> int:
        done = 0
        with accessing(self.path):
            while done < length:
                try:
                    moved = os.copy_file_range(source.fd, self._fd, length - done, offset + done)
                except OSError as error:
                    if error.errno not in _KERNEL_CANNOT:
                        raise
                    return done
                if not moved:
                    return done  # the end of the file, or a file system that reports it wrongly
                done += moved
                self.position += moved
        return done

    def _start_writeback(self) -> None:
        """Start writing dirty pages to disk, so that the sync at the end is short."""
        size = self.position - self._started
        if size >= _WRITEBACK and _LINUX:
            # This starts the writeback without waiting; the pages stay cached.
            os.posix_fadvise(self._fd, self._started, size, os.POSIX_FADV_DONTNEED)
            self._started = self.position

    def commit(self) -> None:
        """Make the file durable, then visible, then its name durable."""
        with accessing(self.path):
            self._place.commit(self._fd)

    def begin_commit(self, threads: Executor) -> Ready:
        """Begin to commit in another thread; return a function that waits for its end."""
        with accessing(self.path):
            fd, parent = os.dup(self._fd), os.dup(self._place.parent)
        place = replace(self._place, parent=parent)

        def commit() -> None:
            try:
                place.commit(fd)
            except BaseException:
                place.discard()
                raise
            finally:
                os.close(fd)
                os.close(parent)

        done = threads.submit(commit)
        self.begun = True

        def ready() -> None:
            with accessing(self.path):
                done.result()

        return ready


@dataclass(frozen=True, slots=True)
class _Place:
    """An open folder, a file's final name in it, and its temporary name."""

    parent: int
    name: str
    temporary: str
    sync: Sync

    def commit(self, fd: int) -> None:
        """Make the file durable, then visible, then its name durable."""
        self.sync(fd)
        os.link(self.temporary, self.name, src_dir_fd=self.parent, dst_dir_fd=self.parent)
        os.unlink(self.temporary, dir_fd=self.parent)
        self.sync(self.parent)

    def discard(self) -> None:
        """Remove the temporary file, if it is still there."""
        with contextlib.suppress(OSError):
            os.unlink(self.temporary, dir_fd=self.parent)


class LocalFiles:
    """``ports.files.DataFiles`` in a local directory."""

    def __init__(self, root: str | os.PathLike[str], *, sync: Sync = os.fsync) -> None:
        """Keep data files below ``root``, which need not exist yet.

        Args:
            root: the table's directory.
            sync: makes a file or directory durable; a seam for tests.
        """
        self._sync = sync
        self._folders = Folders(Path(root), sync)

    @contextmanager
    def open(self, path: str) -> Iterator[Source]:
        """Open a file for reading."""
        with accessing(path):
            fd = self._folders.file(path)
        try:
            yield LocalSource(path, fd)
        finally:
            os.close(fd)

    @contextmanager
    def create(self, path: str) -> Iterator[Sink]:
        """Start a new file."""
        with contextlib.ExitStack() as stack:
            with accessing(path):
                parent, name = stack.enter_context(self._folders.at(path, make=True))
                place = _Place(parent, name, f".{name}.{secrets.token_hex(4)}.tmp", self._sync)
                fd = _start(place)
            sink = LocalSink(path, fd, place)
            try:
                yield sink
            finally:
                os.close(fd)
                if not sink.begun:
                    place.discard()

    def delete(self, path: str) -> None:
        """Delete a file; no error if it is missing."""
        with (
            accessing(path),
            contextlib.suppress(FileNotFoundError),
            self._folders.at(path) as (parent, name),
        ):
            os.unlink(name, dir_fd=parent)


def _start(place: _Place) -> int:
    with contextlib.suppress(FileNotFoundError):
        os.stat(place.name, dir_fd=place.parent, follow_symlinks=False)
        raise FileExistsError(errno.EEXIST, "exists", place.name)
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
    return os.open(place.temporary, flags, 0o644, dir_fd=place.parent)


def truncated(path: str, offset: int, length: int) -> CorruptTable:
    """Return the error for a file that ends too early."""
    return CorruptTable(
        f"{path} is truncated: {length} bytes are missing from offset {offset} on; restore the file"
    )


def copy_in_pieces(source: Source, sink: Sink, offset: int, length: int) -> None:
    """Copy a range through memory, in bounded pieces."""
    for start in range(offset, offset + length, PIECE):
        sink.write(source.read_at(start, min(PIECE, offset + length - start)))
