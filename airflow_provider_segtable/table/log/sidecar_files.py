"""Sidecars in a table's storage: whether they are there and sound, and which are not listed.

See ``table.log.sidecars``; the log knows its checkpoints (``table.log.event_log``).
"""

from collections.abc import Callable, Collection, Iterable, Sequence

from airflow_provider_segtable.core.errors import CorruptTable, NotFound
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.ports.storage import Storage
from airflow_provider_segtable.table.log.checkpoint import listed_sidecars, read_sidecar
from airflow_provider_segtable.table.log.checkpoint_chunks import Opening
from airflow_provider_segtable.table.log.sidecars import SIDECARS, Sidecar


def check_sidecars(storage: Storage, checkpoint: bytes) -> None:
    """Read all sidecars of a checkpoint.

    Raises:
        CorruptTable: one is damaged or lost.
    """
    for each in listed_sidecars(checkpoint):
        try:
            read_sidecar(storage.read(each.path), each, Opening())
        except NotFound as error:
            raise CorruptTable(f"checkpoint lists {each.path}, which is gone") from error


def all_sound(storage: Storage, listed: Sequence[Sidecar], proved: Collection[str]) -> bool:
    """Return whether sidecars are there and readable; those proved before are not read again."""
    sizes = {each.path: each.size for each in storage.list(SIDECARS)} if listed else {}
    there = all(sizes.get(each.path) == each.size for each in listed)
    return there and all(each.path in proved or _sound(storage, each) for each in listed)


def _sound(storage: Storage, sidecar: Sidecar) -> bool:
    try:
        read_sidecar(storage.read(sidecar.path), sidecar, Opening())
    except (NotFound, CorruptTable):
        return False
    return True


def sidecars_of(storage: Storage, checkpoint: str) -> frozenset[str] | None:
    """Return the sidecars of a checkpoint, none if it is gone; None if it is damaged."""
    try:
        listed = listed_sidecars(storage.read(checkpoint))
    except NotFound:
        return frozenset()
    except CorruptTable:
        return None
    return frozenset(each.path for each in listed)


def unlisted(
    storage: Storage, before: Instant, checkpoints: Callable[[], Iterable[str]]
) -> list[str]:
    """Return the sidecars that are not listed; none in doubt.

    Args:
        storage: the table's.
        before: younger ones are left out: their checkpoint may be about to be written.
        checkpoints: returns the paths of the checkpoints. It is asked after the sidecars were
            listed: a later checkpoint lists the sidecars of earlier ones, or young ones.
    """
    old = [each.path for each in storage.list(SIDECARS) if each.modified <= before]
    every = [sidecars_of(storage, path) for path in checkpoints()] if old else []
    listed = {path for each in every for path in each or ()}
    return [] if None in every else [path for path in old if path not in listed]
