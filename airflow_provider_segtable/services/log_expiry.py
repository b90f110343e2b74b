"""Expire the log of a table: which of its files may go, and their deletion in order.

1. The log expires before the newest readable checkpoint that is no newer than the oldest kept
   version. The marker is put first. Then events are deleted from the oldest on, then checkpoints
   (``table.log.event_log``), and with them checkpoints of tags whose versions are not kept.
2. A marker is void if another cleaning or the end of the log overtook it while this process was
   paused; its author deletes it. A drop that put its marker later has listed it.
3. *Sidecars* of checkpoints are deleted when no kept checkpoint lists them and they are as old as
   orphans have to be (``table.log.sidecars``).
"""

import contextlib
from collections.abc import Collection, Iterator, Sequence

from airflow_provider_segtable.core.errors import AlreadyExists
from airflow_provider_segtable.core.log.log_paths import (
    CHECKPOINTS,
    EXPIRED,
    TAGS,
    TIMELINE,
    expired_path,
    number,
)
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.time import Instant
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.event_log import EventLog
from airflow_provider_segtable.table.log.sidecar_files import readable, unlisted_sidecars
from airflow_provider_segtable.table.log.sidecars import SIDECARS


def expirable(log: EventLog, after: State) -> tuple[int, tuple[str, ...]]:
    """Return the number before which the log may expire, and the log files to delete."""
    fit = [n for n in log.checkpoints() if 0 < n <= after.retained_from]
    log_from, going = 0, tuple(_unnamed_tags(log, after))
    for n in fit:
        behind = tuple(_behind(log, n))
        if not behind:
            log_from = n
            break
        if readable(log, n):
            log_from, going = n, (*behind, *going)
            break
    return max(log_from, log.first()), going


def _behind(log: EventLog, n: int) -> Iterator[str]:
    """Yield the log files before checkpoint ``n``, in the order of deletion.

    The file that has event ``n`` stays, so that its time can be read.
    """
    event = log.event(n)
    first = event.joined[0] if event and event.joined else n
    for place, end in ((TIMELINE, first), (CHECKPOINTS, n), (EXPIRED, n)):
        for entry in log.storage.list(place):
            at = number(entry.path)
            if at is not None and at >= end:
                break
            if at is not None:
                yield entry.path


def _unnamed_tags(log: EventLog, after: State) -> Iterator[str]:
    """Yield tag checkpoints of versions that are not kept: no later tag can name them."""
    for entry in log.storage.list(TAGS):
        digits = entry.path.removesuffix(".parquet").rpartition("-")[2]
        if digits.isdigit() and not after.keeps(int(digits)) and int(digits) < after.n:
            yield entry.path


def expire(ports: TableContext, log_from: int, paths: Sequence[str]) -> None:
    """Put the marker, then delete the log files, in order."""
    if not paths:
        return
    if log_from:
        with contextlib.suppress(AlreadyExists):
            ports.storage.create(expired_path(log_from), b"")
        if ports.log.first() > log_from:
            ports.storage.flush(EXPIRED)
            ports.storage.delete(expired_path(log_from))
    for place in (TIMELINE, CHECKPOINTS, EXPIRED, SIDECARS):  # before any deletion
        ports.storage.flush(place)
    for path in paths:
        ports.storage.delete(path)


def delete_sidecars(ports: TableContext, found: Collection[str], before: Instant) -> None:
    """Delete sidecars that no checkpoint lists now, either.

    The markers are there by now: an author whose checkpoint lists them anew takes it back.
    """
    if found:
        ports.storage.flush(CHECKPOINTS)
        for path in unlisted_sidecars(ports.log, 0, before):
            if path in found:
                ports.storage.delete(path)
