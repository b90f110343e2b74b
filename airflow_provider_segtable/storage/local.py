"""Durable storage in a local directory, and this machine's own clock and randomness.

1. ``create``: write a hidden temporary beside the target, fsync it (while the files that the object
   names may be synced in another thread), link it under its name (which fails if the name is
   taken), unlink the temporary, fsync the directory. Before a directory is
   first used here, it and its parents up to the table's root are made and synced.
2. ``replace`` renames the temporary instead, and also syncs the directory.
3. A crash leaves the whole object or none, and perhaps a temporary, which no listing shows. An
   object's bytes are synced before it gets its name; ``flush`` also makes the names durable, of
   objects whose writer may have stopped before its directory sync.
4. A failed fsync is final: the file is deleted, never synced again, because the kernel may have
   dropped the pages. If the directory's fsync fails, the name exists but may not survive a power
   cut: ``OutcomeUnknown``.
5. A symbolic link below the root is not followed (``disk``), nor left out of a listing: it
   is refused by name, since a file behind it must neither be deleted nor be taken for lost.
6. ``turn`` locks the folder (``disk``): writers of one host take turns. One that waits makes an
   offer (``storage.offers``).
7. Errors need ``errno``, which obstore turns into text; and opening a table must not make its
   directory, which obstore does. So this adapter is plain ``os`` (obstore serves object stores).
"""

import contextlib
import errno
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from airflow_provider_segtable.core.errors import (
    NotFound,
    OutcomeUnknown,
    SegtableError,
    StorageError,
    UnsafePath,
    UnsafeStorage,
)
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.disk import Folders, Sync, Turns, is_folder, reading, writing
from airflow_provider_segtable.ports.storage import Entry, Turn
from airflow_provider_segtable.storage.offers import LocalTurn
from airflow_provider_segtable.storage.table_paths import checked, folder, named_folders

TEMPORARY = ".tmp"
_REMAINS = re.compile(rf"\..+\.[0-9a-f]{{8,16}}\{TEMPORARY}")
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
_UNDECIDED = {errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EINTR}


class LocalStorage:
    """``ports.storage.Storage`` in a local directory."""

    def __init__(self, root: str | os.PathLike[str], *, sync: Sync = os.fsync) -> None:
        """Keep objects below ``root``, which need not exist yet.

        Args:
            root: the table's directory.
            sync: makes a file or directory durable; a seam for tests and measurements.
        """
        self._root = Path(root).absolute()
        self._prefix = f"{self._root}/"  # joining paths costs more than looking at a file
        self._uri = f"file://{self._root}"
        self._sync = sync
        self._folders = Folders(self._root, sync)
        self._turns = Turns()

    @property
    def uri(self) -> str:
        """Return the directory as a ``file://`` URI."""
        return self._uri

    @property
    def remote(self) -> bool:
        """Return False: a look at a file is cheap."""
        return False

    def read(self, path: str) -> bytes:
        """Return an object's bytes."""
        checked(path, self.uri)
        with reading(self._full(path)):
            fd = self._folders.file(path)
            try:
                with os.fdopen(fd, "rb", closefd=False) as file:
                    return file.read()
            finally:
                os.close(fd)

    def exists(self, path: str) -> bool:
        """Return whether there is such an object."""
        checked(path, self.uri)
        try:
            with reading(self._full(path)), self._folders.at(path) as (parent, name):
                mode = os.stat(name, dir_fd=parent, follow_symlinks=False).st_mode
        except NotFound:
            return False
        if stat.S_ISLNK(mode):
            raise self._folders.link(path)
        return stat.S_ISREG(mode)

    def create(self, path: str, data: bytes, *, ready: Callable[[], None] | None = None) -> None:
        """Create an object that must not exist yet, durably."""
        checked(path, self.uri)
        with self._folder_of(path) as (parent, name):
            with writing(self._full(path)), self._temporary(parent, name, data) as temporary:
                if ready is not None:
                    ready()
                self._link(parent, temporary, name, path)
            try:
                self._sync(parent)
            except OSError as error:
                raise OutcomeUnknown(
                    f"{self._full(path)} was written, but its directory could not be synced and a "
                    f"power cut may undo it ({error}): check the disk, then run the command again"
                ) from error

    def replace(self, path: str, data: bytes) -> None:
        """Create or overwrite a hint, durably."""
        checked(path, self.uri)
        with (
            self._folder_of(path) as (parent, name),
            writing(self._full(path)),
            self._temporary(parent, name, data) as temporary,
        ):
            os.replace(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
            self._sync(parent)

    def flush(self, prefix: str) -> None:
        """Make the names in a folder durable."""
        below = folder(prefix, self.uri)
        with writing(self._full(below)):
            self._folders.flush(below)

    @contextmanager
    def turn(
        self, prefix: str, *, wait_s: float, offer: Callable[[], bytes | None] | None = None
    ) -> Iterator[Turn]:
        """Wait for this writer's turn among the writers of this host, and hold it; never raises."""
        turn = LocalTurn(self._folders, prefix, offer)
        with contextlib.ExitStack() as stack:
            with contextlib.suppress(OSError, SegtableError):  # e.g. there is no folder yet
                parent = stack.enter_context(self._folders.opened(prefix))
                stack.enter_context(self._turns.turn(parent, wait_s, turn.waiting()))
            yield turn

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[Entry]:
        """Yield objects below a folder, ascending."""
        below = folder(prefix, self.uri)
        return self._walk(below, after or "")

    def folders(self, prefix: str) -> tuple[str, ...]:
        """Return the names of the folders directly below a folder."""
        below = folder(prefix, self.uri)
        try:
            with (
                reading(self._full(below)),
                self._folders.opened(below) as parent,
                os.scandir(parent) as entries,
            ):
                return named_folders(e.name for e in entries if e.is_dir(follow_symlinks=False))
        except NotFound:
            return ()

    def delete(self, path: str) -> None:
        """Delete an object; no error if it is missing."""
        checked(path, self.uri)
        with (
            writing(self._full(path)),
            contextlib.suppress(FileNotFoundError, NotADirectoryError),
            self._folders.at(path) as (parent, name),
        ):
            os.unlink(name, dir_fd=parent)

    def prune(self, prefix: str) -> None:
        """Remove empty folders, and temporaries of writers that were killed."""
        below = folder(prefix, self.uri)
        with writing(self._full(below)):
            self._folders.prune(below, lambda name: bool(_REMAINS.fullmatch(name)))

    def _full(self, path: str) -> str:
        return f"{self._uri}/{path}"

    @contextmanager
    def _folder_of(self, path: str) -> Iterator[tuple[int, str]]:
        """Open an object's folder, made if missing; only errors of opening are translated here."""
        with contextlib.ExitStack() as stack:
            with writing(self._full(path)):
                opened = stack.enter_context(self._folders.at(path, make=True))
            yield opened

    @contextmanager
    def _temporary(self, parent: int, name: str, data: bytes) -> Iterator[str]:
        """Write a synced file under a hidden name, which is removed afterwards."""
        temporary = f".{name}.{secrets.token_hex(8)}{TEMPORARY}"
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        fd = os.open(temporary, flags, 0o644, dir_fd=parent)
        try:
            try:
                left = memoryview(data)
                while left:
                    left = left[os.write(fd, left) :]
                self._sync(fd)
            finally:
                os.close(fd)
            yield temporary
        finally:
            with contextlib.suppress(OSError):  # renamed, or garbage that no listing shows
                os.unlink(temporary, dir_fd=parent)

    def _link(self, parent: int, temporary: str, name: str, path: str) -> None:
        try:
            os.link(temporary, name, src_dir_fd=parent, dst_dir_fd=parent)
        except OSError as error:
            full = self._full(path)
            if is_folder(parent, name):  # EEXIST, too, but the object does not exist
                raise IsADirectoryError(errno.EISDIR, "is a folder", full) from error
            if error.errno in _NO_LINKS:
                raise UnsafeStorage(
                    f"{full} cannot be created safely: this file system makes no hard links, so "
                    f"two writers could own one name ({error}). Use a local disk or object store"
                ) from error
            if error.errno in _UNDECIDED:
                raise OutcomeUnknown(
                    f"{full}: it is unknown whether it was created ({error}); run the command again"
                ) from error
            raise

    def _walk(self, below: str, after: str) -> Iterator[Entry]:
        for name, is_directory in self._names(below):
            path = f"{below}/{name}" if below else name
            if not is_directory:
                entry = self._entry(path) if path > after else None
                if entry is not None:
                    yield entry
            elif f"{path}/" > after or after.startswith(f"{path}/"):
                yield from self._walk(path, after)

    def _names(self, below: str) -> "Sequence[tuple[str, bool]]":
        """Return a directory's names, sorted so that a walk yields whole paths in order."""
        try:
            with (
                reading(self._full(below)),
                self._folders.opened(below) as parent,
                os.scandir(parent) as found,
            ):
                names = [(each, each.is_dir(follow_symlinks=False)) for each in found]
                links = [each.name for each, _ in names if each.is_symlink()]
        except UnsafePath:
            raise
        except StorageError as error:
            if isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
                return []
            raise
        if links:
            raise self._folders.link(f"{below}/{min(links)}".lstrip("/"))
        shown = [(one.name, folds) for one, folds in names if not one.name.endswith(TEMPORARY)]
        return sorted(shown, key=lambda name: name[0] + "/" * name[1])

    def _entry(self, path: str) -> Entry | None:
        try:
            found = os.lstat(self._prefix + path)
        except (FileNotFoundError, NotADirectoryError):  # deleted since
            return None
        return Entry(path=path, size=found.st_size, modified=found.st_mtime_ns // 1000)


# The clock and the randomness of this machine
_RANDOM = secrets.SystemRandom()
TOKEN_BYTES = 8


class SystemClock:
    """``ports.clock.Clock`` of this machine."""

    def now(self) -> Instant:
        """Return the wall clock in microseconds since the epoch, UTC."""
        return time.time_ns() // 1000

    def monotonic(self) -> float:
        """Return seconds from an arbitrary origin; never goes back."""
        return time.monotonic()

    def sleep(self, seconds: float) -> None:
        """Wait for a number of seconds."""
        time.sleep(seconds)


class SystemRandomness:
    """``ports.clock.Randomness`` from the operating system."""

    def token(self) -> str:
        """Return 16 fresh hexadecimal digits."""
        return secrets.token_hex(TOKEN_BYTES)

    def uniform(self) -> float:
        """Return a number in [0, 1)."""
        return _RANDOM.random()
