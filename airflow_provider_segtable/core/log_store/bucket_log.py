"""The state of one bucket in a log store.

::

    in the table only │ kept │ being committed │ buffered │
    ──────────────────┼──────┼─────────────────┼──────────┼─▶ offsets
                    start  committed        pending.end  end

1. Records are appended at ``end`` by the writer of the newest epoch. Readers see them at once.
2. A cut takes the records from ``committed`` to ``end`` for a checkpoint. One cut is pending at a
   time, until it is committed or abandoned.
3. Committed records are kept for readers that are a little behind, for the last
   ``kept_checkpoints``, as long as there is room. No other record is evicted, ever.
4. A new epoch goes on from the table's last committed snapshot and discards what followed it.
5. All functions here are pure: they return a new state, or raise a typed error.
"""

from dataclasses import dataclass, field
from itertools import pairwise
from typing import Generic, TypeVar

from airflow_provider_segtable.core.counted import MIB, describe_size
from airflow_provider_segtable.core.errors import InvalidInput
from airflow_provider_segtable.core.log_store.buffer import Batch, Buffer
from airflow_provider_segtable.core.log_store.position import (
    BEGINNING,
    NO_EPOCHS,
    CommittedEnd,
    Epoch,
    Lineage,
    Offset,
    Position,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """How much a bucket may buffer, and for how many checkpoints it keeps committed records."""

    bucket_bytes: int = 64 * MIB
    kept_checkpoints: int = 2

    def __post_init__(self) -> None:
        if self.bucket_bytes < 1 or self.kept_checkpoints < 0:
            raise InvalidInput(
                f"limits of {describe_size(self.bucket_bytes)} a bucket and "
                f"{self.kept_checkpoints} kept checkpoints: give at least 1 byte and 0 checkpoints"
            )


DEFAULT_LIMITS = Limits()


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketCut(Generic[T]):
    """The records of a bucket that a checkpoint writes into the table."""

    bucket: int
    epoch: Epoch
    start: Offset
    end: Offset
    lineage: Lineage
    batches: tuple[Batch[T], ...]

    @property
    def committed_end(self) -> CommittedEnd:
        """Return what the table's commit records beside the files, for the next writer."""
        return CommittedEnd(position=self.position, lineage=self.lineage)

    @property
    def position(self) -> Position:
        """Return the position of a reader that has read all records of the cut."""
        return Position(epoch=self.epoch, offset=self.end)


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketLog(Generic[T]):
    """One bucket: its newest epoch, what is committed, and the records in memory.

    ``epoch`` is 0 before the first writer. ``writer`` is a token of the epoch's writer.
    ``origin`` is where the first of these epochs began. ``committed`` is the last known commit, by
    the epoch that made it. ``kept`` has the start of each checkpoint whose records are kept.
    """

    bucket: int = 0
    epoch: Epoch = 0
    writer: str = ""
    origin: Position = BEGINNING
    end: Offset = 0
    committed: Position = BEGINNING
    lineage: Lineage = NO_EPOCHS
    buffer: Buffer[T] = field(default_factory=Buffer)
    kept: tuple[Offset, ...] = ()
    pending: BucketCut[T] | None = None

    @property
    def start(self) -> Offset:
        """Return the first offset in memory."""
        first = self.buffer.first
        return self.end if first is None else first


def violations(log: BucketLog[T]) -> list[str]:
    """Return the broken invariants of a bucket."""
    batches = log.buffer.batches()
    ends = [log.start, *(batch.end for batch in batches)]
    begins = log.lineage.begins
    cut = log.pending
    checks = {
        "a batch has no records": all(batch.count > 0 for batch in batches),
        "offsets have a gap": [batch.first for batch in batches] == ends[:-1],
        "the buffer does not reach the end": ends[-1] == log.end,
        "the size is not that of the batches": log.buffer.size == sum(b.size for b in batches),
        "an uncommitted record was evicted": log.start <= log.committed.offset <= log.end,
        "a commit divides a batch": not log.buffer.divides(log.committed.offset),
        "the lineage does not ascend": all(
            a.epoch < b.epoch and a.offset < b.offset for a, b in pairwise(begins)
        ),
        "the epoch is not the last of the lineage": not log.epoch or begins[-1].epoch == log.epoch,
        "a pending cut is not of this epoch and commit": cut is None
        or (cut.epoch, cut.start) == (log.epoch, log.committed.offset),
    }
    return [what for what, holds in checks.items() if not holds]
