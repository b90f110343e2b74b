"""What a checkpoint does to a bucket: it cuts, and commits or abandons the cut.

1. ``cut`` takes the records that no commit holds. The caller writes them into the table. While the
   cut is pending, appends and reads go on.
2. ``commit`` follows the table's commit, and evicts what is older than the kept checkpoints. The
   table decides: a cut of this epoch is believed even after ``abandon``. A repeated or late call
   for a commit that the bucket knows changes nothing. A cut of an epoch that was replaced without
   its commit is refused: its records were discarded.
3. ``abandon`` returns the records to the next cut. It changes nothing if the cut is not pending.
"""

from dataclasses import replace
from typing import TypeVar

from airflow_provider_segtable.core.errors import CheckpointPending
from airflow_provider_segtable.core.log_store.bucket_log import BucketCut, BucketLog, Limits
from airflow_provider_segtable.core.log_store.writing import fenced, named

T = TypeVar("T")


def cut(log: BucketLog[T]) -> BucketLog[T]:
    """Return the bucket with a pending cut, or without if all records are committed.

    Raises:
        CheckpointPending: an earlier cut is neither committed nor abandoned.
    """
    if log.pending is not None:
        raise CheckpointPending(
            f"{named(log)} has a pending checkpoint up to offset {log.pending.end}: "
            "commit or abandon it first"
        )
    start = log.committed.offset
    if start == log.end:
        return log
    taken = BucketCut(
        bucket=log.bucket,
        epoch=log.epoch,
        start=start,
        end=log.end,
        lineage=log.lineage,
        batches=log.buffer.since(start).batches(),
    )
    return replace(log, pending=taken)


def commit(log: BucketLog[T], done: BucketCut[T], limits: Limits) -> BucketLog[T]:
    """Return the bucket after the table's commit of a cut.

    Raises:
        Fenced: a newer epoch has begun, and discarded the records of the cut.
    """
    if done.end <= log.committed.offset and log.lineage.left_at(done.position) is None:
        return log
    if done.epoch != log.epoch:
        raise fenced(log, done.epoch, log.epoch)
    kept = (*log.kept, log.committed.offset)
    kept = kept[max(0, len(kept) - limits.kept_checkpoints) :]
    return replace(
        log,
        committed=done.position,
        buffer=log.buffer.since(kept[0] if kept else done.end),
        kept=kept,
        pending=None,
    )


def abandon(log: BucketLog[T], given_up: BucketCut[T]) -> BucketLog[T]:
    """Return the bucket without a cut; its records are in the next one."""
    pending = log.pending
    same = pending is not None and pending.position == given_up.position
    return replace(log, pending=None) if same else log
