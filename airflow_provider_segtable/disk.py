"""Access the folders of a table on a local disk: no links, durable names, turns among writers.

Folders:

1. A path is walked part by part from the root. Each folder is opened by its parent's descriptor,
   never through a symbolic link; a file is then opened, linked or unlinked by its folder's
   descriptor. So no link, whenever it is created, leads a read or a deletion out of the root. The
   root itself may be a link, because the user names it.
2. Links that stay inside the root are refused, too: a listing would show their files twice.
3. *Durable* means that the name survives a power cut: each folder's parent is synced when the
   folder is made. It is also synced once in each process if another process made the folder, which
   may have stopped before its own sync.

Errors of the operating system, translated into segtable's errors:

4. A missing name is ``NotFound`` for a reader; for a writer it is a missing folder.
5. Object stores below pyarrow answer in text and without an ``errno``; known codes in the text are
   translated like theirs.
6. A message has the place, the problem, the way out, and the system's words without credentials.

Turns among the writers of one folder on this host:

7. A writer locks the folder itself by ``flock``, an advisory lock, on a descriptor of its own, so
   that the threads of one process take turns, too. The kernel serves writers in order, and ends a
   turn with its process.
8. A turn is a hint. After ``wait_s``, or if the file system has no such locks, a writer goes on
   without its turn.
9. A wait without success ends later, in its own thread, which passes the turn on at once. Until
   then this process takes no turns: a writer that was stopped in its turn costs others one wait.

Options that may hold secrets come from the environment, since all users of a machine see a command
line:

10. A variable holds the text of the options. If it is empty, ``<variable>_FILE`` names a file with
    the text, such as a container's secret: a container's description shows its variables, and not
    its files.
"""

import contextlib
import errno
import fcntl
import os
import stat
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext, suppress
from pathlib import Path
from types import TracebackType

from airflow_provider_segtable.core.errors import (
    AlreadyExists,
    CredentialsExpired,
    InvalidInput,
    NotFound,
    ReadOnlyStorage,
    StorageError,
    StorageFull,
    UnsafePath,
)
from airflow_provider_segtable.core.paths import inside
from airflow_provider_segtable.core.secret import redacted

Sync = Callable[[int], None]
"""Makes a file or folder durable, by its descriptor: ``os.fsync``, except in tests."""

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_LINKED = {errno.ELOOP, errno.ENOTDIR, errno.EMLINK}


# Folders, opened without following links
class Folders:
    """The folders below one root."""

    def __init__(self, root: Path, sync: Sync = os.fsync) -> None:
        """Walk below ``root``, which need not exist yet."""
        self._root = root
        self._name = str(root)  # of a path it costs more than opening it
        self._sync = sync
        self._durable: set[tuple[str, ...]] = set()

    @contextmanager
    def at(self, path: str, *, make: bool = False) -> Iterator[tuple[int, str]]:
        """Open the folder of an object; yield its descriptor and the object's name in it.

        Args:
            path: the object's path, relative to the root.
            make: make missing folders, and all folders of the path durable.

        Raises:
            InvalidName: the path leads out of the root.
            UnsafePath: a part of the path is a symbolic link.
            OSError: the system's error, e.g. ``FileNotFoundError``.
        """
        *folders, name = inside(path, self._name).split("/")
        folder = self._walk(tuple(folders), make=make)
        try:
            yield folder, name
        finally:
            os.close(folder)

    @contextmanager
    def opened(self, path: str) -> Iterator[int]:
        """Open a folder (``""`` is the root) for listing or syncing; errors as ``at``."""
        folder = self._walk(tuple(inside(path, self._name).split("/")) if path else (), make=False)
        try:
            yield folder
        finally:
            os.close(folder)

    def file(self, path: str) -> int:
        """Open a file for reading; the caller closes the descriptor. Errors as ``at``."""
        with self.at(path) as (folder, name):
            try:
                return os.open(name, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW, dir_fd=folder)
            except OSError as error:
                self._refuse_link(error, folder, name, path)
                raise

    def refuse_links(self, paths: Iterable[str]) -> None:
        """Refuse symbolic links in paths of files that another program will open.

        Missing files are left for that program to report. A link that is created later is not
        detected: callers that can open a file by descriptor should use ``file``.

        Raises:
            InvalidName: a path leads out of the root.
            UnsafePath: a part of a path, or the file, is a symbolic link.
        """
        by_folder: dict[str, list[str]] = {}
        for path in paths:
            folder, _, name = inside(path, self._name).rpartition("/")
            by_folder.setdefault(folder, []).append(name)
        for folder, names in by_folder.items():
            with contextlib.suppress(FileNotFoundError), self.opened(folder) as fd:
                for name in names:
                    if is_link(fd, name):
                        raise self.link(f"{folder}/{name}".lstrip("/"))

    def flush(self, path: str) -> None:
        """Make the names in a folder durable, and its own; do nothing if it is missing."""
        parts = tuple(path.split("/"))
        with contextlib.suppress(FileNotFoundError), self.opened(path) as folder:
            self._sync(folder)
            for end in range(len(parts)):
                with self.opened("/".join(parts[:end])) as parent:
                    self._sync(parent)

    def prune(self, path: str, remains: Callable[[str], bool]) -> None:
        """Remove a folder and those below it that hold nothing, or files that are ``remains``."""
        with contextlib.suppress(FileNotFoundError):
            with self.opened(path) as folder, os.scandir(folder) as names:
                found = [(e.name, e.is_dir(follow_symlinks=False)) for e in names]
            for name, folds in found:
                if folds:
                    self.prune(f"{path}/{name}", remains)
            with self.opened(path) as folder:
                for name in (name for name, folds in found if not folds and remains(name)):
                    with contextlib.suppress(FileNotFoundError):
                        os.unlink(name, dir_fd=folder)
            with self.at(path) as (parent, name), _suppressed(errno.ENOTEMPTY, errno.EEXIST):
                os.rmdir(name, dir_fd=parent)

    def _walk(self, parts: tuple[str, ...], *, make: bool) -> int:
        """Return the descriptor of a folder, by its parts; the caller closes it."""
        fd = self._open_root(make=make)
        for end, part in enumerate(parts, 1):
            try:
                inner = self._open(fd, part, parts[:end], make=make)
            finally:
                os.close(fd)
            fd = inner
        return fd

    def _open_root(self, *, make: bool) -> int:
        if make and () not in self._durable:
            self._make_root()
        try:
            return os.open(self._name, _FOLDER)
        except FileNotFoundError:  # removed since it was made
            if not make:
                raise
            self._make_root()
            return os.open(self._name, _FOLDER)

    def _open(self, fd: int, part: str, parts: tuple[str, ...], *, make: bool) -> int:
        if make and parts not in self._durable:
            self._make(fd, part, parts)
        try:
            return os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=fd)
        except FileNotFoundError:  # removed since it was made
            if not make:
                raise
            self._make(fd, part, parts)
            return os.open(part, _FOLDER | os.O_NOFOLLOW, dir_fd=fd)
        except OSError as error:
            self._refuse_link(error, fd, part, "/".join(parts))
            raise

    def _refuse_link(self, error: OSError, fd: int, part: str, path: str) -> None:
        if error.errno in _LINKED and is_link(fd, part):
            raise self.link(path) from error

    def link(self, path: str) -> UnsafePath:
        """Return the error for a symbolic link at ``path``."""
        return UnsafePath(
            f"{self._root}/{path} is a symbolic link, which may lead out of the table: nothing was "
            "read or deleted there; put the file or folder itself in its place, or remove the link"
        )

    def _make(self, fd: int, part: str, parts: tuple[str, ...]) -> None:
        with contextlib.suppress(FileExistsError):
            os.mkdir(part, dir_fd=fd)
        self._sync(fd)
        self._durable.add(parts)

    def _make_root(self) -> None:
        """Make the root and its missing parents, and their names durable."""
        root = self._root
        missing = [folder for folder in (root, *root.parents) if not folder.exists()]
        try:
            root.mkdir(parents=True, exist_ok=True)
        except FileExistsError as error:  # a file; must not look like "the object exists"
            raise NotADirectoryError(errno.ENOTDIR, "is a file", str(root)) from error
        for each in missing or (root,):
            ours = contextlib.nullcontext() if missing else contextlib.suppress(PermissionError)
            with ours:
                fd = os.open(each.parent, _FOLDER)
                try:
                    self._sync(fd)
                finally:
                    os.close(fd)
        self._durable.add(())


def is_folder(folder: int, name: str) -> bool:
    """Return whether a name in an open folder is a folder itself."""
    try:
        return stat.S_ISDIR(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False


@contextmanager
def _suppressed(*numbers: int) -> Iterator[None]:
    """Ignore system errors of these numbers."""
    try:
        yield
    except OSError as error:
        if error.errno not in numbers:
            raise


def is_link(folder: int, name: str) -> bool:
    """Return whether a name in an open folder is a symbolic link."""
    try:
        return stat.S_ISLNK(os.stat(name, dir_fd=folder, follow_symlinks=False).st_mode)
    except OSError:
        return False


Kinds = Mapping[int, tuple[type[StorageError], str]]

_ALWAYS: Kinds = {
    errno.ENOSPC: (StorageFull, "does not fit: free space or inodes on the device"),
    errno.EDQUOT: (StorageFull, "does not fit: raise the quota or free space"),
    errno.EFBIG: (StorageFull, "does not fit: raise the file size limit (ulimit -f)"),
    errno.EMFILE: (StorageFull, "cannot be opened: raise the open files limit (ulimit -n)"),
    errno.ENFILE: (StorageFull, "cannot be opened: raise the system's limit of open files"),
    errno.ENAMETOOLONG: (StorageError, "has too long a name for this file system"),
    errno.EROFS: (ReadOnlyStorage, "is on a read-only file system: mount it writable"),
}
_READING: Kinds = {
    errno.ENOENT: (NotFound, "is not there"),
    errno.ENOTDIR: (NotFound, "is not there"),
    errno.EISDIR: (NotFound, "is a folder, not an object"),
    errno.EACCES: (StorageError, "may not be read: give this user access"),
    errno.EPERM: (StorageError, "may not be read: give this user access"),
    **_ALWAYS,
}
_WRITING: Kinds = {
    errno.EEXIST: (AlreadyExists, "exists already"),
    errno.ENOENT: (StorageError, "cannot be written: its folder is gone"),
    errno.ENOTDIR: (StorageError, "cannot be written: a part of its path is a file"),
    errno.EISDIR: (StorageError, "cannot be written: a folder has its name"),
    errno.EACCES: (ReadOnlyStorage, "may not be written: give this user write access"),
    errno.EPERM: (ReadOnlyStorage, "may not be written: give this user write access"),
    **_ALWAYS,
}
_DATA_FILE: Kinds = {
    errno.ENOENT: (NotFound, "is not there"),
    errno.ENOTDIR: (NotFound, "is not there"),
    errno.EEXIST: (AlreadyExists, "exists already; data files are never overwritten"),
    errno.EACCES: (ReadOnlyStorage, "may not be accessed: check permissions"),
    errno.EPERM: (ReadOnlyStorage, "may not be accessed: check permissions"),
    errno.EKEYEXPIRED: (
        CredentialsExpired,
        "may not be accessed: the credentials have expired; renew them where they were given",
    ),
    **_ALWAYS,
}
_OTHER = (StorageError, "failed: check the disk and mount")
_IN_A_STORE = (  # a store answers a HEAD without a reason, also where a token has ended
    StorageError,
    "failed: check the endpoint, the network, and whether the credentials have expired",
)
_CODES_IN_TEXT = {
    "NO_SUCH_BUCKET": errno.ENOENT,
    "NoSuchBucket": errno.ENOENT,
    "ExpiredToken": errno.EKEYEXPIRED,
    "not valid in the specified time frame": errno.EKEYEXPIRED,
    "token is expired": errno.EKEYEXPIRED,
    "ACCESS_DENIED": errno.EACCES,
    "AccessDenied": errno.EACCES,
    "Permission denied": errno.EACCES,
}


# Errors of the operating system
def reading(uri: str) -> AbstractContextManager[None]:
    """Translate an ``OSError`` about the metadata object being read."""
    return _Translated(uri, _READING)


def writing(uri: str) -> AbstractContextManager[None]:
    """Translate an ``OSError`` about the metadata object being written or deleted."""
    return _Translated(uri, _WRITING)


def accessing(path: str) -> AbstractContextManager[None]:
    """Translate an ``OSError`` about the data file being read, written or deleted."""
    return _Translated(path, _DATA_FILE)


class _Translated(AbstractContextManager[None]):
    """The block in which an ``OSError`` becomes an error about a place."""

    __slots__ = ("_kinds", "_place")

    def __init__(self, place: str, kinds: Kinds) -> None:
        self._place, self._kinds = place, kinds

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
        /,
    ) -> None:
        if not isinstance(error, OSError):
            return
        other = _IN_A_STORE if error.errno is None else _OTHER
        made, problem = self._kinds.get(_code(error, self._kinds), other)
        raise made(f"{self._place} {problem} ({_words(error)})") from error


def _words(error: OSError) -> str:
    """Return the system's words, without credentials; its own words have none."""
    words = error.strerror or str(error)
    own = error.errno is not None and words == os.strerror(error.errno)
    return words if own else redacted(words)


def _code(error: OSError, kinds: Kinds) -> int:
    if error.errno in kinds:
        return error.errno or 0
    text = str(error)
    return next((code for word, code in _CODES_IN_TEXT.items() if word in text), 0)


# Turns among writers
class Turns:
    """The turns that one storage takes."""

    def __init__(self) -> None:
        """Start without turns."""
        self.late: set[_Turn] = set()  # abandoned by their writers

    @contextmanager
    def turn(
        self, folder: int, wait_s: float, waiting: AbstractContextManager[None] | None = None
    ) -> Iterator[None]:
        """Wait for a turn in an open folder, and hold it (rule 8).

        Args:
            folder: its descriptor.
            wait_s: the longest wait in seconds.
            waiting: entered for the time of the wait, if there is one.
        """
        turn = _Turn(self.late)
        with suppress(OSError):
            if not self.late:
                fd = os.open(".", _FOLDER, dir_fd=folder)
                turn.take(fd, wait_s, waiting or nullcontext())
        try:
            yield
        finally:
            turn.leave()


class _Turn:
    """One turn: awaited, held or over; ``late`` has it if it is left before it comes."""

    def __init__(self, late: "set[_Turn]") -> None:
        self._late = late
        self._mutex = threading.Lock()
        self._came: threading.Event | None = None  # of a turn that is awaited
        self._fd = -1

    def take(self, fd: int, wait_s: float, waiting: AbstractContextManager[None]) -> None:
        """Wait for the turn; the descriptor is closed when the turn is over."""
        self._fd = fd
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            came = self._came = threading.Event()
            with waiting:
                waits = threading.Thread(
                    target=self._await, args=(came,), name="segtable-turn", daemon=True
                )
                waits.start()
                came.wait(wait_s)
        except OSError:  # a file system without such locks
            pass

    def leave(self) -> None:
        """End the turn; one that has not come ends when it comes."""
        if self._fd < 0:
            return
        with self._mutex:
            if self._came is None or self._came.is_set():
                self._end()
            else:
                self._late.add(self)

    def _await(self, came: threading.Event) -> None:
        with suppress(OSError):
            fcntl.flock(self._fd, fcntl.LOCK_EX)
        with self._mutex:
            came.set()
            if self in self._late:
                self._late.discard(self)
                self._end()

    def _end(self) -> None:
        with suppress(OSError):  # a forked child may have the descriptor, too: closing is no end
            fcntl.flock(self._fd, fcntl.LOCK_UN)
        os.close(self._fd)


# Options from the environment
def variable_text(variable: str) -> tuple[str, str]:
    """Return the text of a variable or of the file that it names, and its place for messages.

    Raises:
        InvalidInput: the file cannot be read.
    """
    text = os.environ.get(variable, "")
    if not text and (path := os.environ.get(f"{variable}_FILE")):
        return text_of(path, f"${variable}_FILE"), path
    return text, f"${variable}"


def text_of(path: str | Path, what: str) -> str:
    """Return the text of a file that a user names.

    Raises:
        InvalidInput: it cannot be read.
    """
    try:
        return Path(path).read_text("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = getattr(error, "strerror", None) or "it is not text"
        raise InvalidInput(f"{what} {path} cannot be read ({why}): correct the path") from None
