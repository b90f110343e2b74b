"""Storage on S3, GCS and Azure, over obstore.

1. ``create`` is a conditional put on a store that does not retry by itself. So each answer is about
   one request, and an outcome is reported as certain only if it is.

   | answer                         | means                                          |
   |--------------------------------|------------------------------------------------|
   | 2xx                            | created                                        |
   | 412, Azure's 409 BlobAlready…  | ``AlreadyExists``                              |
   | any other 409                  | undecided: sent again, a few times             |
   | 429                            | not done: sent again, then ``StorageError``    |
   | a token has ended              | ``CredentialsExpired``                         |
   | any other 401, 403             | ``ReadOnlyStorage``                            |
   | 507, quota                     | ``StorageFull``                                |
   | 501                            | ``UnsafeStorage``: no conditional writes       |
   | other 4xx                      | ``StorageError``                               |
   | other 5xx, no answer           | ``OutcomeUnknown``                             |

2. All other requests may be repeated without harm and go through a store that retries. Requests
   that the store still refuses for their number (429, 503) are named as such.
3. A missing bucket is a ``StorageError``, never ``NotFound``: "cannot tell" is not "none".
4. A store that lists out of order (S3 directory buckets) is refused rather than misread.
"""

import contextlib
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext

import obstore
from obstore.exceptions import (
    AlreadyExistsError,
    BaseError,
    PermissionDeniedError,
    UnauthenticatedError,
)
from obstore.store import AzureStore, GCSStore, S3Store

from airflow_provider_segtable.core.errors import (
    AlreadyExists,
    CredentialsExpired,
    NotFound,
    OutcomeUnknown,
    ReadOnlyStorage,
    StorageError,
    StorageFull,
    UnsafeStorage,
)
from airflow_provider_segtable.core.secret import redacted
from airflow_provider_segtable.ports.clock import Clock, Randomness
from airflow_provider_segtable.ports.storage import Entry, NoTurn, Turn
from airflow_provider_segtable.storage.local import SystemClock, SystemRandomness
from airflow_provider_segtable.storage.table_paths import checked, folder, named_folders

Store = S3Store | GCSStore | AzureStore

UNDECIDED_ATTEMPTS = 6
FIRST_PAUSE_S = 0.05
PAGE = 1000

_STATUS = re.compile(r"status code: (\d{3})")
_UNAUTHENTICATED, _FORBIDDEN, _NO_SUCH_RANGE = 401, 403, 416
_CONFLICT, _TOO_MANY, _NOT_IMPLEMENTED, _UNAVAILABLE, _FULL = 409, 429, 501, 503, 507
_DENIED_IN_BULK, _SLOW_DOWN = "(code: AccessDenied)", "<Code>SlowDown</Code>"
_NO_BUCKET = ("NoSuchBucket", "ContainerNotFound", "bucket does not exist")
_QUOTA = ("QuotaExceeded", "StorageFull")
_EXPIRED = (
    "ExpiredToken",  # S3, Google Cloud Storage
    "TokenRefreshRequired",  # S3
    "not valid in the specified time frame",  # Azure, a shared access signature
    "token is expired",  # Azure, OAuth
)
_OTHER_TIME = ("RequestTimeTooSkewed", "RequestTimeSkewed")
_CREDENTIAL_SERVICE = ("169.254.169.254", "169.254.170.2", "metadata.google.internal")
_Failure = (BaseError, FileNotFoundError, PermissionError, ValueError, OSError)


class ObjectStorage:
    """``ports.storage.Storage`` in an object store."""

    def __init__(
        self,
        store: Store,
        uri: str,
        *,
        once: Store | None = None,
        clock: Clock | None = None,
        randomness: Randomness | None = None,
    ) -> None:
        """Wrap obstore stores whose prefix is the table's root.

        Args:
            store: the store for requests that may be repeated.
            uri: the table's root, for messages.
            once: the same store without retries, for ``create``; ``store`` by default.
            clock: for pauses after an undecided answer.
            randomness: for the pauses' jitter.
        """
        self._store = store
        self._once = once or store
        self._uri = uri.rstrip("/")
        self._clock = clock or SystemClock()
        self._chance = randomness or SystemRandomness()

    @property
    def uri(self) -> str:
        """Return the table's root URI."""
        return self._uri

    @property
    def remote(self) -> bool:
        """Return True: a request costs a round trip."""
        return True

    def read(self, path: str) -> bytes:
        """Return an object's bytes."""
        try:
            return bytes(obstore.get(self._store, checked(path, self._uri)).bytes())
        except _Failure as error:
            raise _not_read(error, self._full(path)) from error

    def exists(self, path: str) -> bool:
        """Return whether there is such an object."""
        try:
            self._size(checked(path, self._uri))
        except NotFound:
            return False
        return True

    def read_range(self, path: str, offset: int, length: int | None) -> tuple[bytes, int]:
        """Return bytes of an object, and its size: see ``ports.files.RangeReader``."""
        checked(path, self._uri)
        try:
            if length is None:
                found = obstore.get(self._store, path)
            else:
                found = obstore.get(self._store, path, options={"range": (offset, offset + length)})
            return bytes(found.bytes()), found.meta["size"]
        except _Failure as error:
            if _status(error) == _NO_SUCH_RANGE:
                return b"", self._size(path)
            raise _not_read(error, self._full(path)) from error

    def _size(self, path: str) -> int:
        try:
            return obstore.head(self._store, path)["size"]
        except _Failure as error:
            raise _not_read(error, self._full(path)) from error

    def create(self, path: str, data: bytes, *, ready: Callable[[], None] | None = None) -> None:
        """Create an object that must not exist yet."""
        if ready is not None:
            ready()
        checked(path, self._uri)
        decided = True
        for attempt in range(UNDECIDED_ATTEMPTS):
            try:
                obstore.put(self._once, path, data, mode="create", use_multipart=False)
            except _Failure as error:
                if not _undecided(error):
                    raise _not_created(error, self._full(path)) from error
                decided &= _status(error) == _TOO_MANY
            else:
                return
            self._clock.sleep(FIRST_PAUSE_S * 2**attempt * (0.5 + self._chance.uniform() / 2))
        if decided:
            raise _too_many(self._full(path), f"429, {UNDECIDED_ATTEMPTS} times")
        raise OutcomeUnknown(
            f"{self._full(path)}: the store answered 409 {UNDECIDED_ATTEMPTS} times without "
            "a decision; run the command again"
        )

    def replace(self, path: str, data: bytes) -> None:
        """Create or overwrite a hint."""
        try:
            obstore.put(self._store, checked(path, self._uri), data, use_multipart=False)
        except _Failure as error:
            raise _not_written(error, self._full(path)) from error

    def flush(self, prefix: str) -> None:
        """Do nothing: an object store answers when the object is durable."""
        folder(prefix, self._uri)

    def list(self, prefix: str, *, after: str | None = None) -> Iterator[Entry]:
        """Yield objects below a folder, ascending."""
        below = folder(prefix, self._uri)
        return self._pages(below, after or None)

    def folders(self, prefix: str) -> tuple[str, ...]:
        """Return the names of the folders directly below a folder."""
        below = folder(prefix, self._uri)
        try:
            found = obstore.list_with_delimiter(self._store, below or None)["common_prefixes"]
        except _Failure as error:
            raise _not_read(error, self._full(below), missing=StorageError) from error
        return named_folders(path.rstrip("/").rpartition("/")[2] for path in found)

    def delete(self, path: str) -> None:
        """Delete an object; no error if it is missing."""
        try:
            with contextlib.suppress(FileNotFoundError):
                obstore.delete(self._store, checked(path, self._uri))
        except _Failure as error:
            raise _not_written(error, self._full(path)) from error

    def turn(
        self,
        prefix: str,  # noqa: ARG002
        *,
        wait_s: float,  # noqa: ARG002
        offer: Callable[[], bytes | None] | None = None,  # noqa: ARG002
    ) -> AbstractContextManager[Turn]:
        """Take no turns: object stores have no locks."""
        return nullcontext(NoTurn())

    def prune(self, prefix: str) -> None:
        """Do nothing: an object store has no folders."""
        folder(prefix, self._uri)

    def _full(self, path: str) -> str:
        return f"{self._uri}/{path}"

    def _pages(self, below: str, after: str | None) -> Iterator[Entry]:
        last = ""
        stream = obstore.list(self._store, below or None, offset=after, chunk_size=PAGE)
        while True:
            try:
                page = next(stream)
            except StopIteration:
                return
            except _Failure as error:
                raise _not_read(error, self._full(below), missing=StorageError) from error
            for found in page:
                path = found["path"]
                if path < last:
                    raise StorageError(
                        f"{self._full(below)} is listed out of order ({path!r} after {last!r}): "
                        "use a general purpose bucket"
                    )
                if path > last and (after is None or path > after):
                    modified = int(found["last_modified"].timestamp() * 1_000_000)
                    yield Entry(path=path, size=found["size"], modified=modified)
                last = path


def _undecided(error: Exception) -> bool:
    status = _status(error)
    return status == _TOO_MANY or (status == _CONFLICT and "BlobAlreadyExists" not in str(error))


def _not_created(error: Exception, full: str) -> StorageError:
    if isinstance(error, AlreadyExistsError):
        return AlreadyExists(f"{full} exists already")
    known = _known(error, full)
    if known is not None:
        return known
    return OutcomeUnknown(
        f"{full}: it is unknown whether it was created ({_line(error)}); run the command again"
    )


def _not_written(error: Exception, full: str) -> StorageError:
    if _busy(error):
        return _too_many(full, _line(error))
    return _known(error, full) or StorageError(
        f"{full} could not be written: check the endpoint and the network ({_line(error)})"
    )


def _known(error: Exception, full: str) -> StorageError | None:
    """Return the error if an answer decides a write's outcome, else None."""
    status, text = _status(error), str(error)
    if _is_about_credentials(text) or _names_no_bucket(error):
        return _unreachable(text, full, error)
    refused = _refused_for_time(text, full, error)
    if refused is not None:
        return refused
    if status == _FULL or any(word in text for word in _QUOTA):
        return StorageFull(f"{full} does not fit: free space or raise the quota ({_line(error)})")
    if isinstance(error, PermissionError) or _denied(error):
        return ReadOnlyStorage(
            f"{full} may not be written: check the credentials, whether they have expired, and "
            f"their right to put objects ({_line(error)})"
        )
    if status == _NOT_IMPLEMENTED:
        return UnsafeStorage(
            f"{full}: the store has no conditional writes, so commits would be lost; use one that "
            f"has ({_line(error)})"
        )
    if status is not None and 400 <= status < 500:
        return StorageError(f"{full} was refused ({_line(error)})")
    return None


def _not_read(
    error: Exception, full: str, *, missing: type[StorageError] = NotFound
) -> StorageError:
    text = str(error)
    if _is_about_credentials(text) or _names_no_bucket(error):
        return _unreachable(text, full, error)
    refused = _refused_for_time(text, full, error)
    if refused is not None:
        return refused
    if isinstance(error, FileNotFoundError):
        return missing(f"{full} is not there")
    if _busy(error):
        return _too_many(full, _line(error))
    if _denied(error):
        return StorageError(
            f"{full} may not be read: check the credentials, and whether they have expired "
            f"({_line(error)})"
        )
    return StorageError(
        f"{full} could not be read: check the endpoint and the network ({_line(error)})"
    )


def _refused_for_time(text: str, full: str, error: Exception) -> StorageError | None:
    """Return the error for credentials or a clock that the store refuses, else None."""
    if any(word in text for word in _EXPIRED):
        return CredentialsExpired(
            f"{full}: the credentials have expired; renew them in the storage options or in the "
            f"environment, then run the command again ({_line(error)})"
        )
    if any(word in text for word in _OTHER_TIME):
        return StorageError(
            f"{full}: this host's clock is too far off the store's; set it (NTP) and run the "
            f"command again ({_line(error)})"
        )
    return None


def _too_many(full: str, answer: str) -> StorageError:
    return StorageError(
        f"{full}: the store refuses so many requests; run the command again later, or with fewer "
        f"writers ({answer})"
    )


def _denied(error: Exception) -> bool:
    """Return whether the store refused access; a deletion in bulk has no class for that."""
    return (
        isinstance(error, PermissionDeniedError | UnauthenticatedError)
        or _status(error) in {_UNAUTHENTICATED, _FORBIDDEN}
        or _DENIED_IN_BULK in str(error)
    )


def _busy(error: Exception) -> bool:
    """Return whether the store refused a request, or one of a bulk, for their number."""
    return _status(error) in {_TOO_MANY, _UNAVAILABLE} or _SLOW_DOWN in str(error)


def _status(error: Exception) -> int | None:
    found = _STATUS.search(str(error))
    return int(found[1]) if found else None


def _names_no_bucket(error: Exception) -> bool:
    return any(word in str(error) for word in _NO_BUCKET)


def _is_about_credentials(text: str) -> bool:
    return any(host in text for host in _CREDENTIAL_SERVICE)


def _unreachable(text: str, full: str, error: Exception) -> StorageError:
    if _is_about_credentials(text):
        return StorageError(
            f"{full}: no credentials were found; give them as storage options or in the "
            f"environment, or pip install boto3 for profiles of AWS ({_line(error)})"
        )
    return StorageError(f"{full}: there is no such bucket; create it first ({_line(error)})")


def _line(error: Exception) -> str:
    """Return the error in one line, without obstore's debug output and signed URLs."""
    return redacted(" ".join(str(error).partition("Debug source")[0].split()))[:300]
