"""Storage in a local directory, durable.

1. ``create``: write a hidden temporary beside the target, fsync it, link it under its name (which
   fails if the name is taken), unlink the temporary, fsync the directory. Before a directory is
   first used here, it and its parents up to the table's root are made and synced.
2. A crash leaves the whole object or none, and perhaps a temporary, which no listing shows.
3. A failed fsync is final: its file is thrown away, never synced again, for the kernel may have
   dropped the pages. If the directory's fsync fails, the name is there but may not survive a
   power cut: ``OutcomeUnknown``.
4. Errors come from ``errno``, which obstore turns into text; and opening a table must not make
   its directory, which obstore does. So this adapter is plain ``os`` (obstore serves the rest).
"""

import contextlib
import errno
import os
import secrets
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from airflow_provider_segtable.core.errors import OutcomeUnknown, StorageError, UnsafeStorage
from airflow_provider_segtable.ports.storage import Entry
from airflow_provider_segtable.storage.failures import reading, writing
from airflow_provider_segtable.storage.paths import checked, folder

TEMPORARY = ".tmp"
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK}
_UNDECIDED = {errno.EIO, errno.ESTALE, errno.ETIMEDOUT, errno.EINTR}

Sync = Callable[[int], None]


class LocalStorage:
    """``ports.storage.Storage`` in a local directory."""

    def __init__(self, root: str | os.PathLike[str], *, sync: Sync = os.fsync) -> None:
        """Keep objects below ``root``, which need not exist yet.

        Args:
            root: the table's directory.
            sync: makes a file or directory durable; a seam for tests and measurements.
        """
        self._root = Path(root).absolute()
        self._sync = sync
        self._ready: set[Path] = set()

    @property
    def uri(self) -> str:
        """Return the directory as ``file://`` URI."""
        return f"file://{self._root}"

    def read(self, path: str) -> bytes:
        """Return an object's bytes."""
        with reading(self._full(path)):
            return self._at(path).read_bytes()

    def create(self, path: str, data: bytes) -> None:
        """Create an object that must not exist yet, durably."""
        target = self._at(path)
        with writing(self._full(path)):
            temporary = self._write_temporary(target, data)
            try:
                self._link(temporary, target)
            finally:
                _discard(temporary)
        try:
            self._sync_directory(target.parent)
        except OSError as error:
            raise OutcomeUnknown(
                f"{self._full(path)} was written, but its directory could not be synced and a "
                f"power cut may undo it ({error}): check the disk, then run the same again"
            ) from error

    def replace(self, path: str, data: bytes) -> None:
        """Create or overwrite a hint."""
        target = self._at(path)
        with writing(self._full(path)):
            temporary = self._write_temporary(target, data)
            try:
                temporary.replace(target)
            except OSError:
                _discard(temporary)
                raise

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[Entry]:
        """Yield objects below a folder, ascending."""
        below = folder(prefix, self.uri)
        return self._walk(below, after or "")

    def delete(self, path: str) -> None:
        """Delete an object; no error if it is not there."""
        target = self._at(path)
        with writing(self._full(path)), contextlib.suppress(FileNotFoundError, NotADirectoryError):
            target.unlink()

    def _at(self, path: str) -> Path:
        return self._root / checked(path, self.uri)

    def _full(self, path: str) -> str:
        return f"{self.uri}/{path}"

    def _write_temporary(self, target: Path, data: bytes) -> Path:
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(8)}{TEMPORARY}")
        fd = self._open_temporary(temporary)
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(fd, left) :]
            self._sync(fd)
        except BaseException:
            _discard(temporary)
            raise
        finally:
            os.close(fd)
        return temporary

    def _open_temporary(self, temporary: Path) -> int:
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC
        self._make_ready(temporary.parent)
        try:
            return os.open(temporary, flags, 0o644)
        except FileNotFoundError:  # somebody removed the directory since it was made ready
            self._ready.clear()
            self._make_ready(temporary.parent)
            return os.open(temporary, flags, 0o644)

    def _link(self, temporary: Path, target: Path) -> None:
        try:
            os.link(temporary, target)
        except OSError as error:
            full = f"file://{target}"
            if target.is_dir():  # EEXIST, too, but nobody created this object
                raise IsADirectoryError(errno.EISDIR, "is a folder", str(target)) from error
            if error.errno in _NO_LINKS:
                raise UnsafeStorage(
                    f"{full} cannot be created safely: this file system makes no hard links, so "
                    f"two writers could own one name ({error}). Use a local disk or object store"
                ) from error
            if error.errno in _UNDECIDED:
                raise OutcomeUnknown(f"{full} may or may not be created ({error})") from error
            raise

    def _make_ready(self, directory: Path) -> None:
        """Make a directory, and it and all parents up to the root durable, once."""
        if directory in self._ready:
            return
        made = [d for d in (directory, *directory.parents) if not d.exists()]
        try:
            directory.mkdir(parents=True, exist_ok=True)
        except FileExistsError as error:  # a file; must not read as "the object exists"
            raise NotADirectoryError(errno.ENOTDIR, "is a file", str(directory)) from error
        for each in (directory, *directory.parents):
            ours = each.is_relative_to(self._root)
            if not ours and each not in made:
                break
            with contextlib.nullcontext() if ours else contextlib.suppress(PermissionError):
                self._sync_directory(each.parent)
        self._ready.add(directory)

    def _sync_directory(self, directory: Path) -> None:
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            self._sync(fd)
        finally:
            os.close(fd)

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
        """Return a directory's names so that walking it yields whole paths in order."""
        try:
            with reading(self._full(below)), os.scandir(self._root / below) as found:
                names = [(each.name, each.is_dir()) for each in found]
        except StorageError as error:
            if isinstance(error.__cause__, FileNotFoundError | NotADirectoryError):
                return []
            raise
        shown = [(name, folds) for name, folds in names if not name.endswith(TEMPORARY)]
        return sorted(shown, key=lambda name: name[0] + "/" * name[1])

    def _entry(self, path: str) -> Entry | None:
        try:
            stat = (self._root / path).stat()
        except FileNotFoundError:  # deleted since
            return None
        return Entry(path=path, size=stat.st_size, modified=stat.st_mtime_ns // 1000)


def _discard(temporary: Path) -> None:
    with contextlib.suppress(OSError):
        temporary.unlink()
