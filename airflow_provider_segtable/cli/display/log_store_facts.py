"""Turn what a table's log knows of its log store into facts and words."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from airflow_provider_segtable.cli.display.output import Facts
from airflow_provider_segtable.core.counted import counted
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.time import Instant

if TYPE_CHECKING:
    from airflow_provider_segtable.library.log_stores import LogBucket

SECOND_US = 1_000_000


def log_store_facts(state: State) -> list[Facts]:
    """Return the buckets of the log store: epoch, owner, and number of committed records."""
    return [
        {
            "bucket": bucket,
            "epoch": known.epoch,
            "owner": known.owner or None,
            "committed": known.end,
        }
        for bucket, known in sorted(state.log_store.items())
    ]


def served_facts(found: "LogBucket", now: Instant) -> Facts:
    """Return a bucket, its service and what waits there, as plain values.

    ``end`` and ``uncommitted_...`` are null if no service says.
    """
    at, status = found.at, found.status
    since = found.waiting_since
    return {
        "bucket": found.bucket,
        "epoch": found.epoch,
        "committed": found.committed,
        "service": at.service if at else None,
        "address": at.address if at else None,
        "deploy_mode": at.deploy_mode.value if at else None,
        "end": status.end.offset if status else None,
        "uncommitted_records": found.waiting if status else None,
        "uncommitted_bytes": status.uncommitted_bytes if status else None,
        "uncommitted_s": None if since is None else max(0, now - since) / SECOND_US,
        "trouble": found.trouble or None,
    }


def log_store_line(buckets: Sequence[Facts]) -> str:
    """Return the buckets in a line."""
    records = sum(each["committed"] for each in buckets)
    newest = max(buckets, key=lambda each: each["epoch"])
    owner = f" of {newest['owner']}" if newest["owner"] else ", begun by a restore"
    return (
        f"{counted(len(buckets), 'bucket')}, {counted(records, 'committed record')}; "
        f"newest epoch {newest['epoch']}{owner}"
    )
