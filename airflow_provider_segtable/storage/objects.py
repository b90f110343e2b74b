"""Objects in cloud stores, by obstore, with put-if-absent.

1. ``create`` is one conditional put. "Exists" may answer our own first
   attempt; "aborted, try again" decides nothing and is tried again; a lost reply is
   ``OutcomeUnknown``.
2. Whatever the library raises leaves here as one of ``core.errors``, with the full URI.
"""

import contextlib
import errno
import os
from collections.abc import Iterator
from typing import Any

import obstore
from obstore import exceptions as failed
from obstore.store import ObjectStore

from airflow_provider_segtable.core.errors import (
    AlreadyExists,
    NotFound,
    OutcomeUnknown,
    ReadOnlyStorage,
    StorageError,
)
from airflow_provider_segtable.core.interval import instant
from airflow_provider_segtable.ports.storage import Entry
from airflow_provider_segtable.storage.local import translated

UNDECIDED_TRIES = 5


class ObjectStorage:
    """``ports.storage.Storage`` over an object store of obstore's."""

    def __init__(self, uri: str, store: ObjectStore) -> None:
        """Speak to ``store``, whose root is ``uri``."""
        self._uri = uri.rstrip("/")
        self._store = store

    @property
    def uri(self) -> str:
        """Return the root URI."""
        return self._uri

    def read(self, path: str) -> bytes:
        """Return an object's bytes."""
        with self._translated(path):
            return bytes(obstore.get(self._store, path).bytes())

    def create(self, path: str, data: bytes) -> None:
        """Create an object that must not exist yet."""
        for _ in range(UNDECIDED_TRIES):
            try:
                with self._translated(path, writing=True):
                    obstore.put(self._store, path, data, mode="create", use_multipart=False)
            except _Undecided:
                continue
            return
        raise OutcomeUnknown(f"{self._uri}/{path}: the store decided nothing, repeatedly")

    def replace(self, path: str, data: bytes) -> None:
        """Create or overwrite a hint."""
        with self._translated(path, writing=True):
            obstore.put(self._store, path, data, use_multipart=False)

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[Entry]:
        """Yield objects below a folder, ascending."""
        found: list[Entry] = []
        with self._translated(prefix):
            for batch in obstore.list(self._store, prefix or None, offset=after):
                found.extend(
                    Entry(
                        path=meta["path"],
                        size=meta["size"],
                        modified=instant(meta["last_modified"]),
                    )
                    for meta in batch
                )
        named = (e for e in found if not after or e.path > after)
        yield from sorted(named, key=lambda entry: entry.path)

    def delete(self, path: str) -> None:
        """Delete an object; no error if it is not there."""
        with contextlib.suppress(NotFound), self._translated(path):
            obstore.delete(self._store, path)

    @contextlib.contextmanager
    def _translated(self, path: str, *, writing: bool = False) -> Iterator[None]:
        where = f"{self._uri}/{path}"
        try:
            yield
        except (failed.NotFoundError, FileNotFoundError):
            raise NotFound(f"{where} is not there") from None
        except failed.AlreadyExistsError:
            raise AlreadyExists(f"{where} exists already") from None
        except (failed.PermissionDeniedError, failed.UnauthenticatedError, PermissionError) as e:
            way_out = "check the credentials and policy of the store"
            raise ReadOnlyStorage(f"{where}: {_short(e)}; {way_out}") from e
        except (failed.BaseError, OSError) as error:
            raise _other(where, error, writing=writing) from error


class _Undecided(Exception):
    """The store says that nothing was decided; try again."""


def _other(where: str, error: Exception, *, writing: bool) -> Exception:
    if isinstance(error, OSError) and error.errno:
        return translated(where, error)
    text = str(error)
    if "409" in text or "ConditionalRequestConflict" in text:
        return _Undecided()
    for number in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES):
        if os.strerror(number) in text:
            return translated(where, OSError(number, ""))
    if writing:
        return OutcomeUnknown(f"{where}: {_short(error)}")
    return StorageError(f"{where}: {_short(error)}")


def _short(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:300] if str(error).strip() else repr(error)
