"""Start-up check that a store supports put-if-absent.

1. Create a probe under a fresh name, then create it again with other bytes. The second create must
   fail, and a read must return the first bytes. Otherwise two writers could own one event, and the
   store is refused.
2. A lost reply proves nothing: the check is repeated under another name, a few times. Nor does a
   probe that fails once: whoever drops an earlier table of this place deletes probes. A store that
   does not keep put-if-absent fails each time.
3. The probe is deleted at the end; a failure to delete it is harmless.
"""

import contextlib

from airflow_provider_segtable.core.errors import (
    AlreadyExists,
    NotFound,
    OutcomeUnknown,
    StorageError,
    UnsafeStorage,
)
from airflow_provider_segtable.ports.clock import Randomness
from airflow_provider_segtable.ports.storage import Storage
from airflow_provider_segtable.storage.system_clock import SystemRandomness

ATTEMPTS = 3
FIRST, SECOND = b"first", b"second"


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


def _unsafe(storage: Storage, what: str) -> UnsafeStorage:
    return UnsafeStorage(
        f"{storage.uri} does not keep put-if-absent: {what}, so commits would be lost. Use a store "
        "with conditional writes (S3, GCS, Azure, recent MinIO or Ceph) or a local disk"
    )
