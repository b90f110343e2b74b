"""Sidecars in a table's storage: whether they are there and sound, and which are not listed.

See ``table.log.sidecars``.
"""

from collections.abc import Collection, Sequence

from airflow_provider_segtable.core.errors import CorruptTable, NotFound
from airflow_provider_segtable.core.log.log_paths import checkpoint_path
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.ports.storage import Storage
from airflow_provider_segtable.table.log.checkpoint import (
    listed_sidecars,
    read_checkpoint,
    read_sidecar,
)
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.log.opening import Opening
from airflow_provider_segtable.table.log.sidecars import SIDECARS, Sidecar


def check_sidecars(storage: Storage, checkpoint: bytes, known: set[str]) -> None:
    """Read the sidecars of a checkpoint, except those known to be sound; note the others there.

    Raises:
        CorruptTable: one is damaged or lost.
    """
    for each in listed_sidecars(checkpoint):
        if each.path in known:
            continue
        try:
            read_sidecar(storage.read(each.path), each, Opening())
        except NotFound as error:
            raise CorruptTable(f"checkpoint lists {each.path}, which is gone") from error
        known.add(each.path)


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


def readable(log: EventLog, n: int) -> bool:
    """Return whether checkpoint ``n`` and its sidecars exist and are readable.

    The checkpoint of the newest marker was proved before, so its sidecars are not read again.
    """
    try:
        listed = listed_sidecars(log.storage.read(checkpoint_path(n)))
    except (NotFound, CorruptTable):
        return False
    known = sidecars_of(log.storage, checkpoint_path(log.first())) if listed else None
    return log.at_checkpoint(n) is not None and all_sound(log.storage, listed, known or ())


def proved(log: EventLog, n: int, known: set[str] | None = None) -> State:
    """Return the state of checkpoint ``n`` after reading all its sidecars.

    Args:
        log: the table's log.
        n: the event of the checkpoint.
        known: sidecars that were proved before; those that this call proves are added.

    Raises:
        NotFound: it does not exist.
        CorruptTable: it, or one of its sidecars, is damaged or lost.
    """
    data = log.storage.read(checkpoint_path(n))
    check_sidecars(log.storage, data, set() if known is None else known)
    return read_checkpoint(data, log.sidecar_files())


def unlisted_sidecars(log: EventLog, least: int, before: Instant) -> list[str]:
    """Return the sidecars that no checkpoint from ``least`` on lists; none in doubt.

    Those younger than ``before`` are left out: their checkpoint may be about to be written.
    Sidecars are listed before checkpoints: a later one lists those of earlier ones, or young ones.
    Checkpoints are read from the newest on, which lists nearly all, while any sidecar is left.
    """
    left = [each.path for each in log.storage.list(SIDECARS) if each.modified <= before]
    kept = (n for n in log.checkpoints() if n >= least) if left else iter(())
    while left and (n := next(kept, None)) is not None:
        listed = sidecars_of(log.storage, checkpoint_path(n))
        if listed is None:
            return []
        left = [path for path in left if path not in listed]
    return left
