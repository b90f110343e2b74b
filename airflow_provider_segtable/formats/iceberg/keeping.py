"""Which data files readers of a published Iceberg table need, and which of its own files go.

1. The version before N was replaced when N's metadata was stored, by the store's clock.
2. Paths are those below the root where a version was put, which may be known by another URI here.
3. A data file left in the version whose manifests have it as deleted. So data files are needed if
   the newest version has them, or a version deleted them that was stored after the time. The
   metadata of a version has the snapshots of many before it, so few are read. A version that
   began anew, such as after a move, has nothing as deleted: all of the one before counts.
4. If files of the newest version itself are gone, no reader opens it: it needs nothing. Then the
   newest whole one is needed: if what was published was removed and put anew meanwhile, the
   publisher of the other one takes that back. So is the one before a version that does not follow
   it. A version that cannot be decoded, and was published over, needs nothing either.
5. Swept are the versions that were replaced before the time, and all files that were written for
   the oldest version that is left or for earlier ones, and that neither it nor the newest one
   names. What a version between them names was there before, or written since.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from itertools import pairwise
from typing import Any

from airflow_provider_segtable.core.errors import CorruptTable, NotFound
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.formats.iceberg import names
from airflow_provider_segtable.formats.iceberg.manifests.entries import DATA, DELETED, DELETES
from airflow_provider_segtable.formats.iceberg.metadata import VERSION, own_snapshot
from airflow_provider_segtable.formats.iceberg.versions import Versions
from airflow_provider_segtable.ports.storage import Storage

Json = dict[str, Any]


def needed(versions: Versions, since: Instant) -> frozenset[str]:
    """Return the paths of data files that readers may need."""
    stored = versions.stored()
    if not stored:
        return frozenset()
    oldest = _oldest(stored, since)
    shown = _shown_now(versions, stored)
    left = {
        path
        for there, snapshot in _snapshots(versions, {n for n in stored if n > oldest})
        for path in (*_deleted(there, snapshot), *_before(versions, snapshot, stored))
    }
    return frozenset({*shown, *left})


def _shown_now(versions: Versions, stored: Mapping[int, Instant]) -> tuple[str, ...]:
    """Return the data files of the newest version of which no part is gone (rule 4)."""
    shown: list[str] = []
    for number in sorted(stored, reverse=True):
        try:
            shown += _shown(versions, number)
            if _follows(versions, number):
                break
        except NotFound:
            if max(versions.stored(), default=0) != max(stored):
                raise  # it was replaced, and swept, meanwhile
        except CorruptTable:
            if number == max(stored):
                raise
    return (*shown,)


def _follows(versions: Versions, number: int) -> bool:
    """Return whether a version follows the one before, as far as can be known."""
    snapshot = own_snapshot(versions.metadata(number))
    return snapshot is None or versions.follows(number, snapshot)


def swept(
    versions: Versions, storage: Storage, since: Instant, *, dry_run: bool
) -> tuple[str, ...]:
    """Delete own files that no version needs any more; return their paths."""
    stored = versions.stored()
    if not stored:
        return ()
    oldest, newest = _oldest(stored, since), max(stored)
    try:
        named = {path for number in {oldest, newest} for path in _named(versions, number)}
    except (NotFound, CorruptTable):  # what it names is not known, so all may be
        return ()
    old = [names.version_path(number) for number in stored if number < oldest]
    written = [
        entry.path
        for folder in names.WRITTEN
        for entry in storage.list(folder)
        if (names.written_for(entry.path) or newest + 1) <= oldest and entry.path not in named
    ]
    for path in () if dry_run else (*old, *written):
        storage.delete(path)
    return (*old, *written)


def _oldest(stored: dict[int, Instant], since: Instant) -> int:
    """Return the oldest version that is the newest, or was replaced after a time."""
    late = (number for number, following in pairwise(stored) if stored[following] > since)
    return min(late, default=max(stored))


def _shown(versions: Versions, number: int) -> Iterator[str]:
    """Yield the paths of a version's data files."""
    metadata = versions.metadata(number)
    snapshot = own_snapshot(metadata)
    if snapshot is None:
        raise versions.foreign(names.version_path(number))
    for manifest in versions.where(metadata).manifests(snapshot):
        yield from manifest.keys


def _snapshots(versions: Versions, numbers: set[int]) -> Iterator[tuple[Versions, Json]]:
    """Yield the snapshots of some versions: each version's metadata has those of many others."""
    while numbers:
        last = max(numbers)
        try:
            metadata = versions.metadata(last)
        except CorruptTable:
            if last == max(versions.stored()):
                raise
            numbers.discard(last)  # it was published over
            continue
        for snapshot in metadata["snapshots"]:
            number = int(snapshot["summary"].get(VERSION, 0))
            if number in numbers:
                numbers.discard(number)
                yield versions.where(metadata), snapshot
        numbers.discard(last)


def _before(versions: Versions, snapshot: Json, stored: Mapping[int, Instant]) -> Iterator[str]:
    """Yield what the version before had, if a snapshot began anew: it deleted nothing of that."""
    number = int(snapshot["summary"][VERSION]) - 1
    if "parent-snapshot-id" not in snapshot and number in stored:
        with suppress(NotFound, CorruptTable):  # it was published over
            yield from _shown(versions, number)


def _deleted(versions: Versions, snapshot: Json) -> Iterator[str]:
    """Yield the paths of the data files that left with a snapshot."""
    if not int(snapshot["summary"].get("deleted-data-files", 0)):
        return
    with suppress(NotFound, CorruptTable):  # the newest version is whole, so no reader opens this
        for manifest in versions.manifests(snapshot):
            record = manifest.record
            own = record["added_snapshot_id"] == snapshot["snapshot-id"]
            if own and manifest.content == DATA and record["deleted_files_count"]:
                for entry in versions.entries(manifest):
                    if entry["status"] == DELETED:
                        yield versions.root.path(entry["data_file"]["file_path"])


def _named(versions: Versions, number: int) -> Iterator[str]:
    """Yield the paths of a version's own files."""
    metadata = versions.metadata(number)
    snapshot = own_snapshot(metadata)
    if snapshot is None:
        return
    versions = versions.where(metadata)
    yield versions.root.path(snapshot["manifest-list"])
    for manifest in versions.manifests(snapshot):
        yield versions.root.path(manifest.uri)
        if manifest.content == DELETES:
            for entry in versions.entries(manifest):
                yield versions.root.path(entry["data_file"]["file_path"])
