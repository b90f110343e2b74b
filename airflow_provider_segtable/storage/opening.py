"""Open a table's storage from its URI and options, and check that it supports put-if-absent.

URIs and options:

1. One form of URI for log and data files: a path, or a URI of a scheme in ``core.schemes``. A
   store of ``memory://name`` is one per process, shared by all its users; for tests.
2. Options have obstore's names; the environment (``AWS_*``, ``GOOGLE_*``, ``AZURE_*``) supplies
   missing ones, and profiles of AWS do (``aws_profiles``). Nothing is read from the store or
   written to it before the first call.
3. obstore is imported for object stores only: a local table opens faster without it.
4. A URI is shown in messages, logs and command lines, so credentials belong in the options. A URI
   with credentials is refused, and the message omits them.

The start-up check:

5. Create a probe under a fresh name, then create it again with other bytes. The second create must
   fail, and a read must return the first bytes. Otherwise two writers could own one event, and the
   store is refused.
6. A lost reply proves nothing: the check is repeated under another name, a few times. Nor does a
   probe that fails once: dropping an earlier table of this place deletes probes. A store that
   does not keep put-if-absent fails each time.
7. The probe is deleted at the end; a failure to delete it is harmless.
"""

import contextlib
import re
import threading
from datetime import timedelta
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import SplitResult, unquote, urlsplit

from airflow_provider_segtable.core.errors import (
    AlreadyExists,
    InvalidName,
    NotFound,
    OutcomeUnknown,
    StorageError,
    UnsafeStorage,
)
from airflow_provider_segtable.core.schemes import (
    NO_TABLES,
    S3,
    SCHEMES,
    Memory,
    ObjectStore,
    Options,
    examples,
)
from airflow_provider_segtable.core.secret import SecretOptions, redacted
from airflow_provider_segtable.ports.clock import Randomness
from airflow_provider_segtable.ports.storage import Storage
from airflow_provider_segtable.storage.aws_profiles import profile_credentials
from airflow_provider_segtable.storage.local import LocalStorage, SystemClock, SystemRandomness
from airflow_provider_segtable.storage.memory_storage import MemoryStorage
from airflow_provider_segtable.storage.table_paths import checked

_RETRY: Any = {"max_retries": 5, "retry_timeout": timedelta(seconds=60)}
_ONCE: Any = {"max_retries": 0, "retry_timeout": timedelta(seconds=60)}
_LIKE_A_SCHEME = re.compile(r"[a-z][a-z0-9+.-]*:/*", re.IGNORECASE)
_MEMORY: dict[str, MemoryStorage] = {}
_MEMORY_MUTEX = threading.Lock()


# Storage from a URI and options
def open_storage(uri: str, storage_options: Options | None = None) -> Storage:
    """Open the storage of the table at ``uri``.

    Args:
        uri: the table's root; see the module's header for its forms.
        storage_options: e.g. ``aws_access_key_id``, ``endpoint``, ``region``, ``allow_http``,
            ``virtual_hosted_style_request``, ``account_name``, ``account_key``.

    Raises:
        InvalidName: for an unknown scheme, a missing bucket or container, or an unknown option.
    """
    parts = _parts(uri)
    if parts is None:
        return LocalStorage(Path(uri))
    match SCHEMES[parts.scheme]:
        case ObjectStore() as kind:
            return _opened(uri, parts, kind, storage_options or {})
        case Memory():
            return _memory(uri, parts)
        case _:
            return _local(uri, parts)


def check_uri(uri: str) -> str:
    """Return the URI of a table, without opening it.

    Raises:
        InvalidName: for an unknown scheme, a query, or credentials in the URI.
    """
    _parts(uri)
    return uri


def _parts(uri: str) -> SplitResult | None:
    """Return the parts of a URI; None for a path."""
    if "://" not in uri:
        scheme = _LIKE_A_SCHEME.match(uri)
        if not uri or "\0" in uri or (scheme and scheme[0].rstrip(":/") in SCHEMES):
            raise _invalid(uri, "it is neither a path nor scheme://...")
        return None
    try:
        parts = urlsplit(uri)
    except ValueError as error:
        raise _invalid(uri, str(error)) from None
    if parts.scheme not in SCHEMES:
        known = f"scheme {parts.scheme!r} is not supported"
        raise _invalid(uri, NO_TABLES.get(parts.scheme, known))
    if parts.query or parts.fragment:
        raise _invalid(uri, "'?' and '#' have no meaning here; write them as %3F and %23")
    if ":" in parts.netloc.rpartition("@")[0]:
        raise _invalid(uri, "it holds credentials; give them as storage options")
    return parts


def _local(uri: str, parts: SplitResult) -> Storage:
    if parts.netloc not in {"", "localhost"} or not parts.path:
        raise _invalid(uri, "a file URI has three slashes, then the absolute path")
    return LocalStorage(Path(unquote(parts.path)))


def _memory(uri: str, parts: SplitResult) -> Storage:
    name = f"{parts.netloc}{unquote(parts.path)}".rstrip("/")
    if not name:
        raise _invalid(uri, "a memory store needs a name")
    root = f"{parts.scheme}://{name}"
    with _MEMORY_MUTEX:
        return _MEMORY.setdefault(root, MemoryStorage(root, clock=SystemClock()))


def _opened(uri: str, parts: SplitResult, kind: ObjectStore, options: Options) -> Storage:
    from obstore import store as stores
    from obstore.exceptions import BaseError

    from airflow_provider_segtable.storage.objects import ObjectStorage

    client = kind.client(parts)
    if not client.bucket:
        raise _invalid(uri, "it names no bucket or container")
    prefix = unquote(parts.path).strip("/")
    place: dict[str, Any] = {"prefix": checked(prefix, uri)} if prefix else {}
    if isinstance(kind, S3) and (found := profile_credentials(kind.bare(options))):
        place["credential_provider"] = found
    made = partial(getattr(stores, client.kind), client.bucket, **place)
    given = {**options, **client.options}
    try:
        store = made(retry_config=_RETRY, **given)
        once = made(retry_config=_ONCE, **given)
    except (BaseError, ValueError, TypeError) as error:
        reason = " ".join(str(error).partition("Debug source")[0].split())
        reason = redacted(SecretOptions(options).hidden_in(reason))
        raise InvalidName(
            f"{uri!r} cannot be opened with the storage options {sorted(options)}: {reason}"
        ) from None  # the cause may repeat an option's value
    return ObjectStorage(store, uri, once=once)


def _invalid(uri: str, why: str) -> InvalidName:
    return InvalidName(f"{redacted(uri)!r} is not a table location: {why}. Supported: {examples()}")


ATTEMPTS = 3
FIRST, SECOND = b"first", b"second"


# The start-up check
def probe(storage: Storage, randomness: Randomness | None = None) -> None:
    """Refuse a store on which commits would be lost.

    Raises:
        UnsafeStorage: if a second create of one name succeeds, or changes the object, each time.
        OutcomeUnknown: if replies were lost at every attempt.
        StorageError: if the store cannot be written at all.
    """
    source = randomness or SystemRandomness()
    for attempt in range(1, ATTEMPTS + 1):
        path = f"_segtable/probe-{source.token()}"
        try:
            _create_twice(storage, path)
        except (OutcomeUnknown, UnsafeStorage):
            if attempt == ATTEMPTS:
                raise
        else:
            return
        finally:
            with contextlib.suppress(StorageError):
                storage.delete(path)


def _create_twice(storage: Storage, path: str) -> None:
    with contextlib.suppress(AlreadyExists):  # the name is unique: this request was retried
        storage.create(path, FIRST)
    try:
        storage.create(path, SECOND)
    except AlreadyExists:
        pass
    else:
        raise _unsafe(storage, "it let one name be created twice")
    try:
        found = storage.read(path)
    except NotFound as error:
        raise _unsafe(storage, "it lost an object it had accepted") from error
    if found != FIRST:
        raise _unsafe(storage, "a refused create changed the object")


def _unsafe(storage: Storage, why: str) -> UnsafeStorage:
    return UnsafeStorage(
        f"{storage.uri} does not keep put-if-absent: {why}, so commits would be lost. Use a store "
        "with conditional writes (S3, GCS, Azure, recent MinIO or Ceph) or a local disk"
    )
