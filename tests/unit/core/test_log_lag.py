"""How far a reader is behind, as the table's log and a service show it."""

from airflow_provider_segtable.core.log_store.manifest import BucketManifest, Lineage, Position
from airflow_provider_segtable.core.log_store.reading import BucketStatus, LogEnd, LogLag, lag_of


def at(epoch: int, offset: int) -> Position:
    return Position(epoch=epoch, offset=offset)


KNOWN = BucketManifest(epoch=2, committed=at(2, 60), lineage=Lineage(begins=(at(1, 0), at(2, 50))))


def status(epoch: int, end: int) -> BucketStatus:
    return BucketStatus(
        bucket=0,
        epoch=epoch,
        start=40,
        end=at(epoch, end),
        committed=at(epoch, 60),
        uncommitted_bytes=0,
        uncommitted_since=7_000_000,
    )


def test_discarded_records_are_read_again() -> None:
    """They count from where they were discarded, and services that were replaced do not count."""
    stale = lag_of(0, at(1, 70), LogEnd(known=KNOWN), committed_at=4_000_000, now=9_000_000)
    assert (stale.records, stale.seconds, stale.served) == (10, 5.0, False)
    zombie = LogEnd(known=KNOWN, status=status(1, 99))
    assert (zombie.offset, zombie.served) == (60, None)


def test_uncommitted_records_are_as_old_as_the_oldest() -> None:
    """A reader at the end has no lag; the lag of many buckets is their sum, and the oldest."""
    end = LogEnd(known=KNOWN, status=status(2, 90))
    lags = {
        offset: lag_of(0, at(2, offset), end, committed_at=None, now=9_000_000)
        for offset in (80, 90)
    }
    assert [(each.records, each.seconds) for each in lags.values()] == [(10, 2.0), (0, 0.0)]
    whole = LogLag(buckets=lags)
    assert (whole.records, whole.seconds, whole.served) == (10, 2.0, True)
