"""Objects as files of a local (or mounted) folder, durable when ``create`` returns.

1. ``create``: write a temporary file beside the target, sync it, link it to its name (which fails
   if the name is taken), sync the folder; new folders are synced into their parents. Object-store
   libraries skip the syncs, so this is our own.
2. After a failed sync nothing is retried on that file: the kernel may have dropped the pages.
3. A crash may leave a temporary file; its name is ignored by ``list`` and never read.
"""

import contextlib
import errno
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from airflow_provider_segtable.core.errors import (
    AlreadyExists,
    NotFound,
    ReadOnlyStorage,
    StorageError,
    StorageFull,
)
from airflow_provider_segtable.ports.storage import Entry

TEMPORARY = ".tmp-"


class LocalStorage:
    """``ports.storage.Storage`` over a folder, which need not exist yet."""

    def __init__(self, root: Path) -> None:
        """Speak to the folder ``root``."""
        self._root = root

    @property
    def uri(self) -> str:
        """Return the folder."""
        return str(self._root)

    def read(self, path: str) -> bytes:
        """Return a file's bytes."""
        with self._translated(path):
            return (self._root / path).read_bytes()

    def create(self, path: str, data: bytes) -> None:
        """Create a file that must not exist yet, durably."""
        with self._translated(path):
            target = self._root / path
            make_folder(target.parent)
            with _temporary(target, data) as written:
                os.link(written, target)
            sync_folder(target.parent)

    def replace(self, path: str, data: bytes) -> None:
        """Create or overwrite a hint."""
        with self._translated(path):
            target = self._root / path
            make_folder(target.parent)
            with _temporary(target, data) as written:
                written.replace(target)

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[Entry]:
        """Yield files below a folder, ascending."""
        found: list[Entry] = []
        with self._translated(prefix):
            for file in (self._root / prefix).rglob("*"):
                path = file.relative_to(self._root).as_posix()
                if file.name.startswith(TEMPORARY) or (after and path <= after):
                    continue
                with contextlib.suppress(FileNotFoundError):  # deleted meanwhile
                    facts = file.stat()
                    if file.is_file():
                        modified = facts.st_mtime_ns // 1_000
                        found.append(Entry(path=path, size=facts.st_size, modified=modified))
        yield from sorted(found, key=lambda entry: entry.path)

    def delete(self, path: str) -> None:
        """Delete a file; no error if it is not there."""
        with contextlib.suppress(NotFound), self._translated(path):
            (self._root / path).unlink()

    @contextlib.contextmanager
    def _translated(self, path: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise translated(f"{self._root}/{path}", error) from error


def translated(where: str, error: OSError) -> StorageError:
    """Return the typed error for what the operating system said of ``where``."""
    said = os.strerror(error.errno) if error.errno else str(error)
    match error.errno:
        case errno.EEXIST:
            return AlreadyExists(f"{where} exists already")
        case errno.ENOENT:
            return NotFound(f"{where} is not there")
        case errno.ENOSPC | errno.EDQUOT | errno.EFBIG | errno.EMFILE | errno.ENFILE:
            return StorageFull(f"{where}: {said}; free space (or file handles) and run again")
        case errno.EROFS | errno.EACCES | errno.EPERM:
            return ReadOnlyStorage(f"{where}: {said}; check permissions and mount options")
        case _:
            return StorageError(f"{where}: {said}")


def make_folder(folder: Path) -> None:
    """Make a folder and its parents; each new name is synced into its parent."""
    missing = [f for f in (folder, *folder.parents) if not f.exists()]
    for new in reversed(missing):
        new.mkdir(exist_ok=True)
        sync_folder(new.parent)


def sync_folder(folder: Path) -> None:
    """Make the names in a folder durable."""
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextlib.contextmanager
def _temporary(target: Path, data: bytes) -> Iterator[Path]:
    temporary = target.with_name(f"{TEMPORARY}{secrets.token_hex(8)}")
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        yield temporary
    finally:
        temporary.unlink(missing_ok=True)
