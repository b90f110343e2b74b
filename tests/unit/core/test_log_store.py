"""One bucket of a log store, by example."""

from dataclasses import replace
from functools import reduce

import pytest

from airflow_provider_segtable.core.errors import CheckpointPending, Fenced, InvalidInput
from airflow_provider_segtable.core.log_store import bucket, reading
from airflow_provider_segtable.core.log_store.bucket import (
    BLOCK,
    Append,
    Batch,
    BucketCut,
    BucketLog,
    Buffer,
    Full,
    Limits,
    Stored,
    violations,
)
from airflow_provider_segtable.core.log_store.manifest import (
    MOST_BEGINS,
    CommittedEnd,
    Lineage,
    Position,
)
from airflow_provider_segtable.core.log_store.reading import (
    LOOK_S,
    Behind,
    Following,
    Found,
    Reset,
    Silence,
    Source,
    Streamed,
    Whence,
    followed,
    status_of,
)

LIMITS = Limits(bucket_bytes=100, kept_checkpoints=2)
Log = BucketLog[str]


def at(epoch: int, offset: int) -> Position:
    return Position(epoch=epoch, offset=offset)


def begun(log: Log, epoch: int, committed: CommittedEnd | None = None, writer: str = "w") -> Log:
    return bucket.begin(log, epoch=epoch, writer=writer, committed=committed or CommittedEnd())


def appending(
    log: Log, count: int, *, size: int = 10, sequence: int | None = None
) -> Stored[str] | Full:
    first = log.end if sequence is None else sequence
    new = Append(epoch=log.epoch, sequence=first, count=count, size=size, content=f"from {first}")
    return bucket.append(log, new, LIMITS)


def appended(log: Log, *counts: int) -> Log:
    for count in counts:
        stored = appending(log, count)
        assert isinstance(stored, Stored)
        log = stored.log
    return log


def cut_of(log: Log) -> BucketCut[str]:
    assert log.pending
    return log.pending


def checkpointed(log: Log) -> Log:
    log = bucket.cut(log)
    return bucket.commit(log, cut_of(log), LIMITS)


NEW: Log = begun(BucketLog(), 1)


def test_the_last_two_checkpoints_are_kept() -> None:
    """The third commit evicts the records of the first, and a reader there is behind."""
    log = checkpointed(appended(NEW, 3))
    log = checkpointed(appended(log, 4))
    assert log.start == 0
    log = checkpointed(appended(log, 5))
    assert (log.start, log.committed.offset, log.end) == (3, 12, 12)
    assert reading.read(log, at(1, 2)) == Behind(first_available=3)
    assert isinstance(reading.read(log, at(1, 3)), Found)


def test_no_checkpoint_needs_to_be_kept() -> None:
    """With no kept checkpoints, a commit evicts what it holds."""
    log = bucket.cut(appended(NEW, 3))
    log = appended(log, 2)
    done = bucket.commit(log, cut_of(log), replace(LIMITS, kept_checkpoints=0))
    assert (done.start, done.end) == (3, 5)


def test_a_full_bucket_evicts_committed_records_first() -> None:
    """Kept records make room for new ones; uncommitted records do not."""
    log = appended(checkpointed(appended(NEW, *(1,) * 6)), *(1,) * 9)
    assert (log.start, log.end, log.buffer.size) == (5, 15, 100)
    full = appended(log, 1)
    assert (full.start, full.end) == (6, 16)
    assert appending(full, 1) == Full(uncommitted_bytes=100)


def test_a_sequence_with_a_gap_or_an_overlap_is_refused() -> None:
    """An append must follow, or lie within what is there; its message names both offsets."""
    log = appended(NEW, 3)
    for sequence in (2, 4):
        with pytest.raises(InvalidInput, match=f"ends at offset 3.*sequence number {sequence}"):
            appending(log, 2, sequence=sequence)
    assert appending(log, 0) == Stored(log=log, repeated=False)


def test_a_batch_above_the_limit_is_refused_at_once() -> None:
    """A batch that can never fit does not wait."""
    with pytest.raises(InvalidInput, match="101 B exceeds the buffer"):
        appending(NEW, 1, size=101)


def test_an_append_before_the_epoch_begins_is_refused() -> None:
    """A store that was restarted knows no epoch: its writer has to begin a new one."""
    new = Append(epoch=1, sequence=0, count=1, size=1, content="")
    with pytest.raises(InvalidInput, match="is in epoch 0, the append is of epoch 1"):
        bucket.append(BucketLog(), new, LIMITS)


def test_an_epoch_begins_once() -> None:
    """A writer may repeat its begin, even late; another one with its epoch is fenced."""
    log = appended(NEW, 3)
    assert begun(log, 1) is log
    with pytest.raises(Fenced, match="refuses epoch 1, because epoch 1 has begun"):
        begun(log, 1, writer="another")


def test_an_epoch_is_above_that_of_the_last_commit() -> None:
    """A restarted store learns from the table's log which epochs are over."""
    with pytest.raises(Fenced, match="epoch 7 has begun"):
        begun(BucketLog(), 7, CommittedEnd(position=at(7, 50)))


def test_a_snapshot_older_than_a_known_commit_is_refused() -> None:
    """A writer that read the table too early would discard committed records."""
    log = checkpointed(appended(NEW, 3))
    with pytest.raises(InvalidInput, match=r"committed up to offset 3.*begins at 0"):
        begun(log, 2)


def test_records_below_a_known_commit_stay_in_memory() -> None:
    """A new writer keeps what readers may still need, if news of the commit came or not."""
    log = bucket.cut(appended(checkpointed(appended(NEW, 3)), 4))
    lost_news = appended(log, 2)
    end = cut_of(log).committed_end
    for before in (lost_news, bucket.commit(lost_news, cut_of(log), LIMITS)):
        after = begun(before, 2, end)
        assert (after.start, after.committed, after.end) == (0, at(1, 7), 7)


def test_records_below_an_unknown_commit_are_dropped() -> None:
    """The same offset, committed by another epoch or elsewhere, stands for other records."""
    log = checkpointed(appended(NEW, 3))
    lineage = Lineage(begins=(at(1, 0), at(2, 1)))
    for end in (at(2, 3), at(2, 9)):
        after = begun(log, 3, CommittedEnd(position=end, lineage=lineage))
        assert (after.start, after.end, after.kept) == (end.offset, end.offset, ())
        assert reading.read(after, at(1, 3)) == Reset(epoch=3, offset=1)


def test_a_cut_is_believed_after_it_was_abandoned() -> None:
    """The table decides: news of a commit counts, whatever was said of the cut before."""
    log = bucket.cut(appended(NEW, 3))
    cut = cut_of(log)
    log = bucket.abandon(log, cut)
    assert log.pending is None
    assert bucket.abandon(log, cut) is log
    log = bucket.commit(log, cut, LIMITS)
    assert log.committed == at(1, 3)
    assert bucket.commit(log, cut, LIMITS) is log


def test_a_cut_of_discarded_records_is_refused() -> None:
    """News of a commit that the table cannot have made raises ``Fenced``."""
    log = bucket.cut(appended(NEW, 3))
    cut = cut_of(log)
    log = begun(log, 2)
    for later in (log, checkpointed(appended(log, 9))):
        with pytest.raises(Fenced, match="refuses epoch 1, because epoch 2 has begun"):
            bucket.commit(later, cut, LIMITS)


def test_one_cut_is_pending_at_a_time() -> None:
    """A second cut is refused, with the offset of the first; without new records there is none."""
    log = bucket.cut(appended(NEW, 3))
    with pytest.raises(CheckpointPending, match="up to offset 3"):
        bucket.cut(log)
    assert bucket.cut(NEW).pending is None


def test_a_reader_of_a_store_without_writers_waits() -> None:
    """Before the first epoch nothing is known; afterwards the reader begins where that did."""
    fresh: Log = BucketLog()
    assert reading.position_of(fresh, Whence.LATEST) is None
    assert reading.read(fresh, None) is None
    assert reading.read(fresh, at(5, 9)) is None
    log = appended(begun(fresh, 3, CommittedEnd(position=at(2, 50))), 4)
    log = begun(checkpointed(log), 4, CommittedEnd(position=at(3, 54)))
    found = reading.read(log, None)
    assert isinstance(found, Found)
    assert (found.first, found.next) == (50, at(4, 54))


def test_a_position_within_a_batch_gets_its_rest() -> None:
    """A reader may begin in the middle of what was appended together."""
    found = reading.read(appended(NEW, 3, 4), at(1, 5))
    assert isinstance(found, Found)
    assert (found.batches[0].first, found.skip, found.next) == (3, 2, at(1, 7))


def test_positions_that_never_were_are_refused() -> None:
    """An offset beyond its epoch is the caller's error; a later epoch means a replaced store."""
    with pytest.raises(InvalidInput, match=r"ends at offset 0 in epoch 1.*offset 1"):
        reading.read(NEW, at(1, 1))
    with pytest.raises(Fenced, match="has seen epoch 2"):
        reading.read(NEW, at(2, 0))


def test_a_long_lineage_errs_towards_reading_again() -> None:
    """Merged epochs send their readers back to the older of two begins, never too late."""
    begins = [at(n, 10 * n) for n in range(1, MOST_BEGINS + 3)]
    lineage = reduce(Lineage.begun, begins, Lineage())
    assert len(lineage.begins) == MOST_BEGINS
    assert lineage.left_at(at(1, 500)) == lineage.left_at(at(2, 500)) == 10
    assert lineage.left_at(at(3, 500)) == 40
    assert lineage.left_at(at(3, 40)) is None


def test_records_between_two_positions_are_those_that_were_not_discarded() -> None:
    """Epoch 2 replaced the records of epoch 1 from 50 on."""
    lineage = Lineage(begins=(at(1, 0), at(2, 50)))
    spans = {
        (at(1, 10), at(1, 40)): (10, 40),
        (at(1, 10), at(1, 80)): (10, 50),
        (at(1, 80), at(1, 90)): (50, 50),
        (at(1, 80), at(2, 60)): (50, 60),
        (at(1, 40), at(2, 60)): (40, 60),
        (at(2, 60), at(2, 90)): (60, 90),
        (at(1, 50), at(2, 50)): (50, 50),
    }
    assert {ends: lineage.span(*ends) for ends in spans} == spans


def test_many_batches_are_found_in_blocks() -> None:
    """A buffer finds any offset, and loses batches at either end, across its blocks."""
    buffer: Buffer[int] = Buffer()
    for n in range(3 * BLOCK):
        buffer = buffer.added(Batch(first=2 * n, count=2, size=1, content=n))
    assert [len(block) for block in buffer.blocks] == [BLOCK] * 3
    found = [buffer.batch_at(offset) for offset in range(6 * BLOCK)]
    assert [batch.content for batch in found if batch] == [n // 2 for n in range(6 * BLOCK)]
    assert buffer.batch_at(6 * BLOCK) is None
    middle = buffer.since(2 * BLOCK + 3).before(4 * BLOCK - 1)
    assert (middle.first, middle.batches()[-1].end) == (2 * BLOCK + 2, 4 * BLOCK)
    assert middle.size == len(middle.batches()) == BLOCK - 1


def test_limits_are_checked() -> None:
    """Limits that hold nothing are refused with their values."""
    with pytest.raises(InvalidInput, match="0 B a bucket"):
        Limits(bucket_bytes=0)


def test_the_status_counts_from_the_committed_end() -> None:
    """What waits is what no commit is known to have, since its oldest append."""
    log = appended(checkpointed(appended(NEW, 3)), 2)
    new = Append(epoch=1, sequence=5, count=4, size=7, content="", at=50)
    stored = bucket.append(log, new, LIMITS)
    assert isinstance(stored, Stored)
    cut = bucket.cut(log)
    log = bucket.commit(replace(stored.log, pending=cut.pending), cut_of(cut), LIMITS)
    found = status_of(log)
    assert (found.start, found.committed, found.end) == (0, at(1, 5), at(1, 9))
    assert (found.uncommitted_records, found.uncommitted_bytes) == (4, 7)
    assert found.uncommitted_since == 50
    assert status_of(checkpointed(log)).uncommitted_since is None


def test_a_fenced_bucket_drops_what_no_commit_can_hold() -> None:
    """Writer and readers are refused until another epoch begins here, from the new end."""
    log = bucket.cut(appended(checkpointed(appended(NEW, 3)), 2))
    left = bucket.fence(log, 1)
    assert violations(left) == []
    assert (left.start, left.end, left.pending) == (3, 3, None)
    assert bucket.fence(left, 1) is left
    refused = Append(epoch=1, sequence=3, count=1, size=1, content="")
    for call in (
        lambda: bucket.append(left, refused, LIMITS),
        lambda: reading.read(left, at(1, 3)),
        lambda: reading.read(left, None),
    ):
        with pytest.raises(Fenced, match=r"taken by another.*epoch 1 is over"):
            call()
    again = begun(left, 3, CommittedEnd(position=at(2, 9), lineage=Lineage(begins=(at(2, 3),))))
    assert appended(again, 1).end == 10


def test_news_of_an_old_epoch_fences_no_later_one() -> None:
    """A commit that was refused late leaves the writer that has replaced it here."""
    log = begun(appended(NEW, 1), 2)
    assert bucket.fence(log, 1) is log
    nothing: Log = BucketLog()
    assert bucket.fence(nothing, 0).end == 0


def test_late_readers_get_batches_together() -> None:
    """A read returns the batches that follow of a block, below a size, or one that is larger."""
    buffer: Buffer[int] = Buffer()
    for n in range(2 * BLOCK):
        buffer = buffer.added(Batch(first=2 * n, count=2, size=10, content=n))
    runs = [buffer.run_at(offset, size) for offset, size in ((7, 0), (7, 31), (2 * BLOCK - 1, 99))]
    assert [[batch.content for batch in run] for run in runs] == [[3], [3, 4, 5], [BLOCK - 1]]


def test_a_follower_looks_at_the_table_after_a_long_silence() -> None:
    """Short ones add up, until records come."""
    served = Following(position=at(1, 2), source=Source.SERVICE)
    silent = followed(served, Silence(seconds=LOOK_S / 2))
    assert (silent.source, silent.silent_s) == (Source.SERVICE, LOOK_S / 2)
    assert followed(silent, Silence(seconds=LOOK_S / 2)).source is Source.FILES
    assert followed(silent, Streamed(after=at(1, 3))) == replace(served, position=at(1, 3))


@pytest.mark.parametrize("second", [at(2, 0), at(1, 3), at(1, 0)])
def test_a_lineage_that_does_not_ascend_is_damage(second: Position) -> None:
    """Both its epochs and its offsets do."""
    log = replace(NEW, epoch=second.epoch, lineage=Lineage(begins=(at(1, 0), second)))
    assert violations(log) == ["the lineage does not ascend"]
