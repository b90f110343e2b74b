"""The state of one bucket in a log store, and its changes by writers and checkpoints.

::

    in the table only │ kept │ being committed │ buffered │
    ──────────────────┼──────┼─────────────────┼──────────┼─▶ offsets
                    start  committed        pending.end  end

1. Records are appended at ``end`` by the writer of the newest epoch. Readers see them at once.
2. A cut takes the records from ``committed`` to ``end`` for a checkpoint. One cut is pending at a
   time, until it is committed or abandoned.
3. Committed records are kept for readers that are a little behind, for the last
   ``kept_checkpoints``, as long as there is room. No other record is evicted, ever.
4. A new epoch goes on from the table's last committed snapshot and discards the records after it.
5. All functions here are pure: they return a new state, or raise a typed error.

The buffer of a bucket has adjacent batches of records, in the order of their offsets:

6. A batch is kept whole. Its content is opaque here: adapters put Arrow batches into it.
7. Batches lie in blocks of at most ``BLOCK``, so that an addition copies one block and the list of
   blocks, however many batches wait for a checkpoint. Lookups are by bisection.
8. A buffer only grows at its end, and loses whole batches at either end.

A writer begins an epoch, and appends records:

9. ``begin``: a writer of a higher epoch goes on from the last committed snapshot, as the table's
   log has it. Records in the bucket below that offset are kept only if they are known to be the
   same: the bucket has recorded this very commit, or it is a cut of the bucket's own newest epoch,
   whose news was lost. All else is discarded. Repeating the call of one writer changes nothing.
10. ``append``: the *sequence number* of an append is the offset that its writer expects, counted
    from the answer to ``begin``. A higher number than the end means that an append before it is
    missing. A lower one means that it is a repetition, which gets the same answer, however late.
    So a bucket needs no memory of earlier appends.
11. An append of an older epoch is refused: ``Fenced``.
12. ``fence``: the table's log has given the bucket away, so no commit of this epoch can come. Its
    uncommitted records are dropped. Its writer is refused, and so are readers, which find them
    elsewhere; until another epoch begins here.
13. An append that does not fit evicts committed records, oldest first. If this is not enough, the
    answer is ``Full``; the caller waits for a commit and tries again.

A checkpoint cuts the bucket, and commits or abandons the cut:

14. ``cut`` takes the records that no commit holds. The caller writes them into the table. While the
    cut is pending, appends and reads go on.
15. ``commit`` follows the table's commit, and evicts records before the kept checkpoints. The
    table decides: a cut of this epoch is believed even after ``abandon``. A repeated or late call
    for a commit that the bucket knows changes nothing. A cut of an epoch that was replaced without
    its commit is refused: its records were discarded.
16. ``abandon`` returns the records to the next cut. It changes nothing if the cut is not pending.

The service decides when a checkpoint is due:

17. A checkpoint is due when the oldest waiting record is ``seconds`` old, or when ``nbytes`` or
    ``records`` wait, whichever comes first; or when one is requested.
18. After a failure nothing is tried for a pause, which doubles with each failure in a row. The
    records wait, and writers wait behind them for room: nothing is lost.
19. Times are seconds of a clock that never goes back, so that a host's clock may be set.
"""

import math
from bisect import bisect_right
from collections.abc import Callable
from dataclasses import field, replace
from itertools import chain, pairwise
from typing import Generic, TypeAlias, TypeVar

from airflow_provider_segtable.core.counted import MIB, describe_size
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import CheckpointPending, Fenced, InvalidInput
from airflow_provider_segtable.core.log_store.manifest import (
    BEGINNING,
    NO_EPOCHS,
    CommittedEnd,
    Epoch,
    Lineage,
    Offset,
    Position,
)
from airflow_provider_segtable.core.time import Instant

# Batches, and the buffer of a bucket
T = TypeVar("T")
BLOCK = 256


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch(Generic[T]):
    """One or more records that were appended together, at an instant."""

    first: Offset
    count: int
    size: int
    content: T
    at: Instant = 0

    @property
    def end(self) -> Offset:
        """Return the offset after the last record."""
        return self.first + self.count


@dataclass(frozen=True, slots=True, kw_only=True)
class Buffer(Generic[T]):
    """Adjacent batches, and their size in bytes."""

    blocks: tuple[tuple[Batch[T], ...], ...] = ()
    size: int = 0

    @property
    def first(self) -> Offset | None:
        """Return the first offset; None if there is no batch."""
        return self.blocks[0][0].first if self.blocks else None

    def batches(self) -> tuple[Batch[T], ...]:
        """Return all batches."""
        return tuple(chain.from_iterable(self.blocks))

    def added(self, batch: Batch[T]) -> "Buffer[T]":
        """Return the buffer with one more batch at its end."""
        if self.blocks and len(self.blocks[-1]) < BLOCK:
            blocks = (*self.blocks[:-1], (*self.blocks[-1], batch))
        else:
            blocks = (*self.blocks, (batch,))
        return Buffer(blocks=blocks, size=self.size + batch.size)

    def batch_at(self, offset: Offset) -> Batch[T] | None:
        """Return the batch that holds an offset."""
        return next(iter(self.run_at(offset, 0)), None)

    def run_at(self, offset: Offset, most_size: int) -> tuple[Batch[T], ...]:
        """Return the batch that holds an offset, and the next ones of its block, below a size."""
        block = bisect_right(self.blocks, offset, key=lambda each: each[0].first) - 1
        if block < 0:
            return ()
        batches = self.blocks[block]
        at = bisect_right(batches, offset, key=_first) - 1
        if offset >= batches[at].end:
            return ()
        after, size = at + 1, batches[at].size
        while after < len(batches) and (size := size + batches[after].size) < most_size:
            after += 1
        return batches[at:after]

    def divides(self, offset: Offset) -> bool:
        """Return whether a batch has records on both sides of an offset."""
        batch = self.batch_at(offset)
        return batch is not None and batch.first < offset

    def since(self, offset: Offset) -> "Buffer[T]":
        """Return the buffer without the batches that end at or before an offset."""
        return self._part(lambda batch: batch.end > offset)

    def before(self, offset: Offset) -> "Buffer[T]":
        """Return the buffer without the batches that begin at or after an offset."""
        return self._part(lambda batch: batch.first < offset)

    def _part(self, stays: Callable[[Batch[T]], bool]) -> "Buffer[T]":
        """Return a part that holds the first or the last batches."""
        blocks, size = [], self.size
        for block in self.blocks:
            if stays(block[0]) and stays(block[-1]):
                blocks.append(block)
                continue
            kept = tuple(filter(stays, block))
            size -= sum(each.size for each in block) - sum(each.size for each in kept)
            blocks += [kept] if kept else []
        return Buffer(blocks=tuple(blocks), size=size)


def _first(batch: Batch[T]) -> Offset:
    return batch.first


# The state of a bucket
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
        """Return the end that the table's commit records beside the files, for the next writer."""
        return CommittedEnd(position=self.position, lineage=self.lineage)

    @property
    def position(self) -> Position:
        """Return the position of a reader that has read all records of the cut."""
        return Position(epoch=self.epoch, offset=self.end)


@dataclass(frozen=True, slots=True, kw_only=True)
class BucketLog(Generic[T]):
    """One bucket: its newest epoch, its commit, and the records in memory.

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
    return [fault for fault, holds in checks.items() if not holds]


# Changes by writers
@dataclass(frozen=True, slots=True, kw_only=True)
class Append(Generic[T]):
    """Records of one writer; ``sequence`` is the offset that it expects for the first."""

    epoch: Epoch
    sequence: Offset
    count: int
    size: int
    content: T
    at: Instant = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Stored(Generic[T]):
    """The bucket holds the records, now or since an earlier call."""

    log: BucketLog[T]
    repeated: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Full:
    """There is no room before a checkpoint is committed."""

    uncommitted_bytes: int


def begin(log: BucketLog[T], *, epoch: Epoch, writer: str, committed: CommittedEnd) -> BucketLog[T]:
    """Return the bucket with a new epoch, which goes on from ``committed``.

    Raises:
        Fenced: another writer has this epoch or a higher one.
        InvalidInput: the bucket knows of a later commit than ``committed``.
    """
    if epoch == log.epoch and writer == log.writer:
        return log
    newest = max(log.epoch, committed.position.epoch)
    if epoch <= newest:
        raise fenced(log, epoch, newest)
    at = committed.position
    if (at.epoch, at.offset) < (log.committed.epoch, log.committed.offset):
        raise InvalidInput(
            f"{named(log)} is committed up to offset {log.committed.offset}, but the writer of "
            f"epoch {epoch} begins at {at.offset}: read the table's last version again"
        )
    known = _is_known(log, at)
    begun = Position(epoch=epoch, offset=at.offset)
    return replace(
        log,
        epoch=epoch,
        writer=writer,
        origin=log.origin if log.epoch else begun,
        end=at.offset,
        committed=at,
        lineage=committed.lineage.begun(begun),
        buffer=log.buffer.before(at.offset) if known else Buffer(),
        kept=log.kept if known else (),
        pending=None,
    )


def append(log: BucketLog[T], new: Append[T], limits: Limits) -> Stored[T] | Full:
    """Return the bucket with more records, or that there is no room.

    Raises:
        Fenced: a newer epoch has begun.
        InvalidInput: the sequence number does not follow, or the batch never fits.
    """
    _check(log, new, limits)
    if new.sequence < log.end or not new.count:
        return Stored(log=log, repeated=new.sequence < log.end)
    buffer = _with_room(log, new.size, limits)
    if buffer is None:
        return Full(uncommitted_bytes=log.buffer.since(log.committed.offset).size)
    batch = Batch(first=log.end, count=new.count, size=new.size, content=new.content, at=new.at)
    return Stored(
        log=replace(log, buffer=buffer.added(batch), end=batch.end),
        repeated=False,
    )


def has_room(log: BucketLog[T], size: int, limits: Limits) -> bool:
    """Return whether batches of this size fit, if committed records are evicted."""
    return _with_room(log, size, limits) is not None


def fence(log: BucketLog[T], epoch: Epoch) -> BucketLog[T]:
    """Return the bucket without a writer, if its epoch is not a later one."""
    if log.epoch > epoch or is_fenced(log):
        return log
    return replace(log, writer="", end=log.committed.offset, buffer=Buffer(), kept=(), pending=None)


def is_fenced(log: BucketLog[T]) -> bool:
    """Return whether the bucket's newest writer was replaced elsewhere."""
    return log.epoch > 0 and not log.writer


def taken(log: BucketLog[T]) -> Fenced:
    """Return the refusal of a bucket that was given away."""
    return Fenced(
        f"{named(log)} was taken by another service or writer, so epoch {log.epoch} is over here: "
        "look up the bucket's address, or begin again with a higher epoch"
    )


def named(log: BucketLog[T]) -> str:
    """Return the name of a bucket in messages."""
    return f"bucket {log.bucket} of the log store"


def fenced(log: BucketLog[T], epoch: Epoch, newest: Epoch) -> Fenced:
    """Return the refusal of an epoch."""
    return Fenced(
        f"{named(log)} refuses epoch {epoch}, because epoch {newest} has begun: "
        "stop this writer, or begin again with a higher epoch"
    )


def _is_known(log: BucketLog[T], at: Position) -> bool:
    """Return whether the records in memory below a commit are the committed ones."""
    of_this_epoch = at.epoch == log.epoch and log.committed.offset <= at.offset <= log.end
    return at == log.committed or (of_this_epoch and not log.buffer.divides(at.offset))


def _check(log: BucketLog[T], new: Append[T], limits: Limits) -> None:
    if new.epoch < log.epoch:
        raise fenced(log, new.epoch, log.epoch)
    if is_fenced(log):
        raise taken(log)
    if new.epoch > log.epoch:
        raise InvalidInput(
            f"{named(log)} is in epoch {log.epoch}, the append is of epoch {new.epoch}: "
            "begin the epoch first"
        )
    if new.sequence > log.end or new.sequence < log.end < new.sequence + new.count:
        raise InvalidInput(
            f"{named(log)} ends at offset {log.end}, so an append of {new.count} records with "
            f"sequence number {new.sequence} does not follow: send the missing appends first"
        )
    if new.size > limits.bucket_bytes:
        raise InvalidInput(
            f"a batch of {describe_size(new.size)} exceeds the buffer of {named(log)} "
            f"({describe_size(limits.bucket_bytes)}): append smaller batches"
        )


def _with_room(log: BucketLog[T], size: int, limits: Limits) -> Buffer[T] | None:
    """Return the buffer after the eviction of enough committed batches; None if too few."""
    buffer = log.buffer
    while buffer.size + size > limits.bucket_bytes:
        oldest = buffer.blocks[0][0]
        if oldest.end > log.committed.offset:
            return None
        buffer = buffer.since(oldest.end)
    return buffer


# Changes by checkpoints
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


# Times of checkpoints
FIRST_PAUSE_S = 0.1
LONGEST_PAUSE_S = 10.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointPolicy:
    """Bounds of the records that wait for a checkpoint."""

    seconds: float = 10.0
    nbytes: float = 32 * MIB
    records: float = 1_000_000

    def __post_init__(self) -> None:
        """Refuse bounds that would ask for a checkpoint of nothing."""
        for name in ("seconds", "nbytes", "records"):
            if not getattr(self, name) > 0:
                raise InvalidInput(
                    f"checkpoints after {getattr(self, name)} {name}: give more than 0"
                )


ON_REQUEST = CheckpointPolicy(seconds=math.inf, nbytes=math.inf, records=math.inf)
"""Checkpoints are made on request alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Backlog:
    """Records that wait for a checkpoint, and since when."""

    nbytes: int
    records: int
    since_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Failures:
    """How many attempts in a row have failed, and when the last one did."""

    count: int = 0
    at_s: float = -math.inf

    @property
    def over_s(self) -> float:
        """Return when the pause after the last failure ends."""
        pause = FIRST_PAUSE_S * 2.0 ** min(self.count - 1, 10)
        return self.at_s + min(LONGEST_PAUSE_S, pause)


NO_FAILURES = Failures()


@dataclass(frozen=True, slots=True)
class Due:
    """A checkpoint is due, and why."""

    reason: str


@dataclass(frozen=True, slots=True)
class Wait:
    """Nothing is due for so many seconds, unless more records come."""

    seconds: float


Step: TypeAlias = Due | Wait


def next_step(
    policy: CheckpointPolicy,
    backlog: Backlog,
    failures: Failures,
    *,
    now_s: float,
    requested: bool = False,
) -> Step:
    """Return whether a checkpoint is due now, or for how long none is."""
    pause_s = failures.over_s - now_s
    age_s = now_s - backlog.since_s
    due = {
        "requested": requested,
        "size": backlog.nbytes >= policy.nbytes,
        "records": backlog.records >= policy.records,
        "age": backlog.records > 0 and age_s >= policy.seconds,
    }
    reason = next((name for name, holds in due.items() if holds), None)
    if reason is not None:
        return Wait(pause_s) if pause_s > 0 else Due(reason)
    return Wait(policy.seconds - age_s if backlog.records else policy.seconds)
