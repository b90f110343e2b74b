"""Translation of operating system errors into segtable's errors.

1. A missing name is ``NotFound`` for a reader; for a writer it is a missing folder.
2. Object stores below pyarrow answer in text and without an ``errno``; known codes in the text are
   translated like theirs.
3. A message has the place, the problem, the way out, and the system's words without credentials.
"""

import errno
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager

from airflow_provider_segtable.core.errors import (
    AlreadyExists,
    NotFound,
    ReadOnlyStorage,
    StorageError,
    StorageFull,
)
from airflow_provider_segtable.core.secret import redacted

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
    **_ALWAYS,
}
_OTHER = (StorageError, "failed: check the disk and mount")
_CODES_IN_TEXT = {
    "NO_SUCH_BUCKET": errno.ENOENT,
    "NoSuchBucket": errno.ENOENT,
    "ACCESS_DENIED": errno.EACCES,
    "AccessDenied": errno.EACCES,
    "Permission denied": errno.EACCES,
}


def reading(uri: str) -> AbstractContextManager[None]:
    """Translate an ``OSError`` about the metadata object being read."""
    return _translated(uri, _READING)


def writing(uri: str) -> AbstractContextManager[None]:
    """Translate an ``OSError`` about the metadata object being written or deleted."""
    return _translated(uri, _WRITING)


def accessing(path: str) -> AbstractContextManager[None]:
    """Translate an ``OSError`` about the data file being read, written or deleted."""
    return _translated(path, _DATA_FILE)


@contextmanager
def _translated(place: str, kinds: Kinds) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        kind, what = kinds.get(_code(error, kinds), _OTHER)
        said = redacted(error.strerror or str(error))
        raise kind(f"{place} {what} ({said})") from error


def _code(error: OSError, kinds: Kinds) -> int:
    if error.errno in kinds:
        return error.errno or 0
    text = str(error)
    return next((code for word, code in _CODES_IN_TEXT.items() if word in text), 0)
