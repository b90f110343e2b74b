"""What an application tells those who wait for it elsewhere, where the log does not tell it.

1. A driver on a cluster shares no file and no output with whoever submitted it. What it did, it
   commits, and the log tells. That there was nothing to do, or why it failed, it leaves here: one
   JSON object in ``_segtable/results/<name>.json``, under a name that the one who waits chose.
2. It is a message and no part of the table: whoever waits deletes it, nobody else reads it. What
   nobody fetched for a week, the next one to leave something deletes.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

from airflow_provider_segtable.core.errors import CorruptTable, InvalidName, NotFound
from airflow_provider_segtable.core.time.interval import Instant
from airflow_provider_segtable.ports.storage import Storage

FOLDER = "_segtable/results"
KEPT_US = 7 * 24 * 3600 * 1_000_000
_NAME = re.compile(r"[A-Za-z][A-Za-z0-9-]{0,99}")


def leave(storage: Storage, name: str, facts: Mapping[str, Any], *, now: Instant) -> None:
    """Leave a result, whole or not at all, and delete those that nobody fetched.

    Args:
        storage: the table's.
        name: that the one who waits looks under.
        facts: values of JSON.
        now: the time, by which others are old.

    Raises:
        InvalidName: the name is no name of a file.
        StorageError: it could not be left.
    """
    storage.replace(_path(name), json.dumps(facts).encode())
    for entry in [*storage.list(FOLDER)]:
        if entry.modified < now - KEPT_US:
            storage.delete(entry.path)


def fetch(storage: Storage, name: str) -> Mapping[str, Any] | None:
    """Return a result, or None while there is none.

    Raises:
        CorruptTable: it is no JSON object.
    """
    try:
        found = json.loads(storage.read(_path(name)))
    except NotFound:
        return None
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, Mapping):
        raise CorruptTable(
            f"{_path(name)} is no JSON object: delete it; it is no part of the table"
        )
    return found


def forget(storage: Storage, name: str) -> None:
    """Delete a result, if there is one."""
    storage.delete(_path(name))


def _path(name: str) -> str:
    if not _NAME.fullmatch(name):
        raise InvalidName(f"{name!r} is no name of a result: use letters, digits and '-'")
    return f"{FOLDER}/{name}.json"
