"""Translation of operating system errors into segtable's errors, for data files."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager

from airflow_provider_segtable.core.errors import (
    AlreadyExists,
    NotFound,
    ReadOnlyStorage,
    StorageError,
    StorageFull,
)
from airflow_provider_segtable.core.secret import redacted

_KINDS: dict[int, tuple[type[StorageError], str]] = {
    errno.ENOENT: (NotFound, "is not there"),
    errno.ENOTDIR: (NotFound, "is not there"),
    errno.EEXIST: (AlreadyExists, "exists already; data files are never overwritten"),
    errno.ENOSPC: (StorageFull, "does not fit: free space on the device"),
    errno.EDQUOT: (StorageFull, "does not fit: raise the quota or free space"),
    errno.EMFILE: (StorageFull, "cannot be opened: raise this process's limit of open files"),
    errno.ENFILE: (StorageFull, "cannot be opened: raise the system's limit of open files"),
    errno.EROFS: (ReadOnlyStorage, "is on a read-only file system"),
    errno.EACCES: (ReadOnlyStorage, "may not be accessed: check permissions"),
    errno.EPERM: (ReadOnlyStorage, "may not be accessed: check permissions"),
}
_CODES_IN_TEXT = {  # object stores answer in text, which pyarrow passes on
    "NO_SUCH_BUCKET": errno.ENOENT,
    "NoSuchBucket": errno.ENOENT,
    "ACCESS_DENIED": errno.EACCES,
    "AccessDenied": errno.EACCES,
    "Permission denied": errno.EACCES,
}


@contextmanager
def translated(path: str) -> Iterator[None]:
    """Translate an ``OSError`` about the data file at ``path``."""
    try:
        yield
    except OSError as error:
        raise translate(error, path) from error


def translate(error: OSError, path: str) -> StorageError:
    """Return the ``StorageError`` for an ``OSError`` about ``path``."""
    code = error.errno
    if code not in _KINDS:
        text = str(error)
        code = next((known for word, known in _CODES_IN_TEXT.items() if word in text), None)
    kind, what = _KINDS.get(code or 0, (StorageError, "failed"))
    return kind(f"{path} {what} ({redacted(str(error))})")
