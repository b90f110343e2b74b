"""Translation of operating system errors into segtable's errors, for metadata objects."""

import errno
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager

from airflow_provider_segtable.core.errors import (
    AlreadyExists,
    NotFound,
    ReadOnlyStorage,
    StorageError,
    StorageFull,
)

Kinds = Mapping[int, tuple[type[StorageError], str]]

_ALWAYS: Kinds = {
    errno.ENOSPC: (StorageFull, "does not fit: free space or inodes on the device"),
    errno.EDQUOT: (StorageFull, "does not fit: raise the quota or free space"),
    errno.EFBIG: (StorageFull, "does not fit: raise the file size limit (ulimit -f)"),
    errno.EMFILE: (StorageFull, "cannot be opened: raise the open files limit (ulimit -n)"),
    errno.ENFILE: (StorageFull, "cannot be opened: raise the system's limit of open files"),
    errno.ENAMETOOLONG: (StorageError, "has too long a name for this file system"),
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
    errno.EROFS: (ReadOnlyStorage, "is on a read-only file system: mount it writable"),
    errno.EACCES: (ReadOnlyStorage, "may not be written: give this user write access"),
    errno.EPERM: (ReadOnlyStorage, "may not be written: give this user write access"),
    **_ALWAYS,
}


@contextmanager
def reading(uri: str) -> Iterator[None]:
    """Translate an ``OSError`` about the object being read."""
    try:
        yield
    except OSError as error:
        raise _translated(error, uri, _READING) from error


@contextmanager
def writing(uri: str) -> Iterator[None]:
    """Translate an ``OSError`` about the object being written or deleted."""
    try:
        yield
    except OSError as error:
        raise _translated(error, uri, _WRITING) from error


def _translated(error: OSError, uri: str, kinds: Kinds) -> StorageError:
    kind, what = kinds.get(error.errno or 0, (StorageError, "failed: check the disk and mount"))
    said = os.strerror(error.errno) if error.errno else str(error)
    return kind(f"{uri} {what} ({said})")
