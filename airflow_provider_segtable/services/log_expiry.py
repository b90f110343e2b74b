"""Log expiry: which part of a table's log no kept version needs, and its deletion.

1. The log expires before the newest readable checkpoint that is no newer than the oldest kept
   version: first the marker is put, then events are deleted from the oldest on, then checkpoints
   (``table.log.event_log``).
2. Checkpoints of tags whose versions are not kept go with it.
3. A marker that was overtaken while this process was paused, by another cleaning or by the end of
   the log, means nothing: its author deletes it. A drop that put its marker later has listed it.
"""

import contextlib
from collections.abc import Iterator, Sequence

from airflow_provider_segtable.core.errors import AlreadyExists
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.table.context import TableContext
from airflow_provider_segtable.table.log.event_log import (
    CHECKPOINTS,
    EXPIRED,
    TAGS,
    TIMELINE,
    EventLog,
    expired_path,
    number,
)


def expirable(log: EventLog, after: State) -> tuple[int, tuple[str, ...]]:
    """Return the number before which the log may expire, and the log files to delete."""
    fit = [n for n in log.checkpoints() if 0 < n <= after.retained_from]
    log_from, going = 0, tuple(_unnamed_tags(log, after))
    for n in fit:
        behind = tuple(_behind(log, n))
        if not behind:
            log_from = n
            break
        if log.readable(n):
            log_from, going = n, (*behind, *going)
            break
    return max(log_from, log.first()), going


def _behind(log: EventLog, n: int) -> Iterator[str]:
    """Yield the log files before checkpoint ``n``, in the order of deletion."""
    for folder in (TIMELINE, CHECKPOINTS, EXPIRED):
        for entry in log.storage.list(folder):
            at = number(entry.path)
            if at is not None and at >= n:
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
            ports.storage.settle(EXPIRED)
            ports.storage.delete(expired_path(log_from))
    for folder in (TIMELINE, CHECKPOINTS, EXPIRED):  # before any deletion
        ports.storage.settle(folder)
    for path in paths:
        ports.storage.delete(path)
