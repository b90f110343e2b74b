"""Application results that are not recorded in the log.

1. A driver on a cluster shares no file and no output with its submitter. Its changes are commits
   in the log. If there was nothing to do or it failed, it writes the reason here: one JSON object
   in ``_segtable/results/<name>.json``, under a name that the waiting submitter chose.
2. A result is a message, not part of the table: only the submitter reads it, and deletes it. The
   next driver that writes a result deletes results older than a week.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from airflow_provider_segtable.core.errors import CorruptTable, InvalidName, NotFound
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.ports.storage import Storage

FOLDER = "_segtable/results"
KEPT_US = 7 * 24 * 3600 * 1_000_000
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,99}")


def leave(storage: Storage, name: str, facts: Mapping[str, Any], *, now: Instant) -> None:
    """Write a result atomically, and delete old results that were never fetched.

    Args:
        storage: the table's storage.
        name: the name under which the submitter looks for the result.
        facts: JSON values.
        now: the current time, for the age of other results.

    Raises:
        InvalidName: the name is not a valid file name.
        StorageError: the result could not be written.
    """
    storage.replace(_path(name), json.dumps(facts).encode())
    for entry in [*storage.list(FOLDER)]:
        if entry.modified < now - KEPT_US:
            storage.delete(entry.path)


def fetch(storage: Storage, name: str) -> Mapping[str, Any] | None:
    """Return a result, or None if it does not exist yet.

    Raises:
        CorruptTable: the content is not a JSON object.
    """
    try:
        found = json.loads(storage.read(_path(name)))
    except NotFound:
        return None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, Mapping):
        raise CorruptTable(
            f"{_path(name)} is not a JSON object: delete it, the table does not need it"
        )
    return found


def forget(storage: Storage, name: str) -> None:
    """Delete a result if it exists."""
    storage.delete(_path(name))


def _path(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise InvalidName(f"{name!r} is not a name of a result: use letters, digits and '-'")
    return f"{FOLDER}/{name}.json"
