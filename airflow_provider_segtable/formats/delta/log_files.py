"""The files of a Delta log: names, and what is there.

1. ``_delta_log/<n, 20 digits>.json`` is version n, a line for each action. Versions have no gaps.
2. ``_delta_log/<n>.checkpoint.parquet`` is the state in version n. With it, older versions are not
   needed to read n and what follows. ``_last_checkpoint`` is a hint that names one of them.
3. ``dv/deletion_vector_<uuid>.bin`` has all vectors of one version.
4. Checkpoints in parts or with other names, which other writers make, are neither read nor deleted.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from airflow_provider_segtable.core.errors import CorruptTable, NotFound
from airflow_provider_segtable.ports.storage import Entry, Storage

LOG = "_delta_log"
VECTORS = "dv"
HINT = f"{LOG}/_last_checkpoint"

Json = dict[str, Any]

_OBJECT = (dict, type(None))
_READ: Mapping[str, Mapping[str, Any]] = {
    "add": {"path": str, "size": int, "tags": _OBJECT, "deletionVector": _OBJECT},
    "remove": {"path": str},
    "txn": {"appId": str, "version": int},
    "metaData": {"configuration": _OBJECT},
    "protocol": {"readerFeatures": (list, type(None))},
}
_NUMBER = r"0000\d{16}"
_COMMIT = re.compile(rf"{LOG}/({_NUMBER})\.json")
_CHECKPOINT = re.compile(rf"{LOG}/({_NUMBER})\.checkpoint\.parquet")
_NUMBERED = re.compile(rf"{LOG}/({_NUMBER})\..+")
_VECTORS = re.compile(
    rf"{VECTORS}/deletion_vector_[0-9a-f]{{8}}(?:-[0-9a-f]{{4}}){{3}}-[0-9a-f]{{12}}\.bin"
)


def written(value: Json) -> str:
    """Return a value as JSON of one line.

    Characters are not escaped: readers that use Arrow's parser take the escapes of those above
    U+FFFF, which are pairs, for other characters, and then skip files by wrong bounds.
    """
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def commit_path(number: int) -> str:
    """Return the path of a version."""
    return f"{LOG}/{number:020d}.json"


def checkpoint_path(number: int) -> str:
    """Return the path of the checkpoint of a version."""
    return f"{LOG}/{number:020d}.checkpoint.parquet"


def is_own(path: str) -> bool:
    """Return whether a path is one that this format gives."""
    return path == HINT or any(each.fullmatch(path) for each in (_COMMIT, _CHECKPOINT, _VECTORS))


def is_vectors(path: str) -> bool:
    """Return whether a path is one of a file of vectors."""
    return _VECTORS.fullmatch(path) is not None


@dataclass(frozen=True, slots=True)
class Listing:
    """Versions and checkpoints that are there, ascending."""

    commits: Mapping[int, Entry]
    checkpoints: tuple[int, ...]

    @property
    def checkpoint(self) -> int:
        """Return the newest checkpoint; -1 if there is none."""
        return self.checkpoints[-1] if self.checkpoints else -1

    @property
    def newest(self) -> int:
        """Return the newest version; -1 if there is none."""
        return max(self.checkpoint, *self.commits, -1)

    def through(self, number: int) -> "Listing":
        """Return the part up to a version."""
        return Listing(
            {n: entry for n, entry in self.commits.items() if n <= number},
            tuple(n for n in self.checkpoints if n <= number),
        )

    def gap(self, number: int) -> int:
        """Return the first version after one that is missing before later ones; else -1."""
        later = (n for n in self.commits if n > number)
        return next((at for at, n in enumerate(later, start=number + 1) if at != n), -1)

    def after(self, number: int, uri: str) -> tuple[int, ...]:
        """Return the versions after one.

        Raises:
            Disordered: one of them is missing.
        """
        missing = self.gap(number)
        if missing >= 0:
            raise Disordered(
                f"{uri}/{commit_path(missing)} is missing, but later versions are there: "
                f"{way_out()}"
            )
        return tuple(n for n in self.commits if n > number)


def highest(storage: Storage) -> int:
    """Return the highest version that a file of any writer is named after; -1 if none is."""
    found = (_NUMBERED.fullmatch(entry.path) for entry in storage.list(LOG))
    return max((int(match[1]) for match in found if match), default=-1)


def has_number(storage: Storage, number: int) -> bool:
    """Return whether a file of any writer is named after a version."""
    listed = storage.list(LOG, after=f"{LOG}/{number:020d}")
    first = next(iter(listed), None)
    return first is not None and first.path.startswith(f"{LOG}/{number:020d}.")


def listed(storage: Storage, since: int = 0) -> Listing:
    """List the versions and checkpoints from a version on."""
    after = f"{LOG}/{since:020d}" if since else None
    commits: dict[int, Entry] = {}
    checkpoints = []
    for entry in storage.list(LOG, after=after):
        if found := _COMMIT.fullmatch(entry.path):
            commits[int(found[1])] = entry
        elif found := _CHECKPOINT.fullmatch(entry.path):
            checkpoints.append(int(found[1]))
    return Listing(commits, tuple(checkpoints))


def listed_from_checkpoint(storage: Storage) -> Listing:
    """List what is needed to read the newest version, and perhaps more."""
    hinted = hint(storage)
    if hinted > 0:
        found = listed(storage, hinted)
        if hinted in found.checkpoints:
            return found
    return listed(storage)


def hint(storage: Storage) -> int:
    """Return the version whose checkpoint the hint names; -1 if it names none."""
    try:
        found = json.loads(storage.read(HINT))
        return int(found["version"])
    except (NotFound, ValueError, KeyError, TypeError):
        return -1


def decoded(data: bytes, where: str) -> list[Json]:
    """Return the actions of a version.

    Raises:
        CorruptTable: its lines are no actions.
    """
    try:
        actions = [json.loads(line) for line in data.split(b"\n") if line.strip()]
        if all(map(_is_action, actions)):
            return actions
    except ValueError:
        pass
    raise CorruptTable(f"{where} is not a version of a Delta table: {way_out()}")


def _is_action(found: Any) -> bool:
    """Return whether all that is read of an action has its type."""
    if not isinstance(found, dict):
        return False
    return all(
        isinstance(body, dict)
        and all(isinstance(body.get(name), types) for name, types in _READ.get(kind, {}).items())
        for kind, body in found.items()
    )


class Disordered(CorruptTable):
    """A log whose newest version does not follow from the ones before it: removed meanwhile."""


def way_out() -> str:
    """Return how a damaged target is made anew."""
    return (
        "publish it anew: segtable publish TABLE --format delta --full; or remove it: segtable "
        "publish TABLE --format delta --remove"
    )
