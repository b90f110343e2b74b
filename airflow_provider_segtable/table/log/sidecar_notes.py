"""What a service found in the sidecars of a large table, kept for its next run.

1. A sidecar never changes, so what holds of its chunks holds as long as a checkpoint lists it. A
   service keeps a note for each sidecar in ``_segtable/notes/<service>``, and looks at those alone
   that it has no note of. So its cost follows what changed since its last run, in any process.
2. A note may depend on more than the sidecar, such as a policy. That is the *basis* of the file:
   notes of another basis, or of another version of segtable, are not used.
3. The file is a cache of one run. One that is absent or damaged is ignored; then each sidecar is
   looked at. Failing to write it is no error. Of two runs at once, the last one's notes stay.
4. Only runs over tables with sidecars read or write it. It is written if its notes changed.
"""

import json
import zlib
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from airflow_provider_segtable import __version__
from airflow_provider_segtable.core.errors import SegtableError
from airflow_provider_segtable.core.paths import digest
from airflow_provider_segtable.ports.storage import Storage

NOTES = "_segtable/notes"

Notes = Mapping[str, Any]
"""JSON by the path of a sidecar."""


def notes_path(service: str) -> str:
    """Return the path of a service's notes."""
    return f"{NOTES}/{service}"


def read_notes(storage: Storage, service: str, basis: str) -> Notes:
    """Return the notes of a service's last run; none if they cannot be used (rules 2 and 3)."""
    with suppress(SegtableError, ValueError, zlib.error):
        checksum, _, packed = storage.read(notes_path(service)).partition(b"\n")
        if checksum == digest(packed).encode():
            body = json.loads(zlib.decompress(packed))
            if body["head"] == [__version__, basis]:
                found: Notes = body["notes"]
                return found
    return {}


def write_notes(storage: Storage, service: str, basis: str, notes: Notes) -> None:
    """Keep notes for the service's next run, if they can be written."""
    body = {"head": [__version__, basis], "notes": {**notes}}
    packed = zlib.compress(json.dumps(body, separators=(",", ":")).encode(), 1)
    with suppress(SegtableError):
        storage.replace(notes_path(service), digest(packed).encode() + b"\n" + packed)
