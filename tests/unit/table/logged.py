"""A writer of a log store over a table in memory, and the list of what it has committed."""

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from airflow_provider_segtable.core.log_store.bucket import Batch, BucketCut
from airflow_provider_segtable.core.log_store.manifest import (
    BEGINNING,
    NO_EPOCHS,
    Epoch,
    Offset,
    Position,
)
from airflow_provider_segtable.core.log_store.reading import Reset
from airflow_provider_segtable.ports.log_store import Cut
from airflow_provider_segtable.table.log_store.checkpointing import begin_epoch, commit_cut
from airflow_provider_segtable.table.log_store.file_reader import Expired, read_committed
from airflow_provider_segtable.table.table import Table
from tests.unit.table.conftest import SCHEMA

HOUR_US = 3_600_000_000


def rows_of(numbers: Sequence[int]) -> pa.Table:
    """Return rows in this order; their event times go back and forth over three hours."""
    given = [
        {"at": (n * 7 % 3) * HOUR_US + 1000 - n % 10, "row": n, "name": f"n{n}", "price": n / 2}
        for n in numbers
    ]
    return pa.Table.from_pylist(given, SCHEMA)


def bucket_cut(
    bucket: int, epoch: Epoch, start: Offset, rows: pa.Table
) -> BucketCut[pa.RecordBatch]:
    """Return a cut of a bucket, in batches of at most two records."""
    batches, at = [], start
    for batch in rows.to_batches(max_chunksize=2):
        batches.append(Batch(first=at, count=batch.num_rows, size=batch.nbytes, content=batch))
        at += batch.num_rows
    return BucketCut(
        bucket=bucket,
        epoch=epoch,
        start=start,
        end=at,
        lineage=NO_EPOCHS,
        batches=tuple(batches),
    )


@dataclass
class Logged:
    """A service over a table: its epoch, and by bucket where it stands."""

    table: Table
    epoch: Epoch = 0
    ends: dict[int, Offset] = field(default_factory=dict)
    written: int = 0

    def begin(self, *buckets: int) -> None:
        """Take buckets."""
        begun = begin_epoch(self.table.ports, buckets, owner="host:7")
        self.epoch = begun.epoch
        self.ends = {bucket: each.position.offset for bucket, each in begun.ends.items()}

    def cut(self, **counts: int) -> Cut:
        """Return a cut with so many new records of each bucket: ``b0=3``."""
        buckets = {}
        for name, count in counts.items():
            bucket = int(name[1:])
            numbers = [*range(self.written, self.written + count)]
            self.written += count
            rows = rows_of(numbers)
            buckets[bucket] = bucket_cut(bucket, self.epoch, self.ends[bucket], rows)
        return Cut(buckets=buckets)

    def commit(self, cut: Cut) -> int:
        """Commit a cut; return its event."""
        done = commit_cut(self.table.ports, cut)
        assert done is not None
        self.ends |= {bucket: each.end for bucket, each in cut.buckets.items()}
        return done.n

    def checkpoint(self, **counts: int) -> int:
        """Commit new records; return the event."""
        return self.commit(self.cut(**counts))


def numbers_in(cut: Cut, bucket: int) -> list[int]:
    """Return the row numbers of a cut's bucket, in order."""
    batches = cut.buckets[bucket].batches
    return [n for each in batches for n in each.content.column("row").to_pylist()]  # type: ignore[attr-defined]


def tail(table: Table, bucket: int, start: Position | Offset = BEGINNING) -> list[int]:
    """Return the row numbers that a reader finds from a position on; all are committed in order."""
    state = table.state()
    at = start if isinstance(start, Position) else Position(epoch=10**6, offset=start)
    found, offset = [], at.offset
    for each in read_committed(table.ports, bucket, at, state=state):
        assert not isinstance(each, Reset | Expired), each
        assert each.first == offset
        assert each.rows.num_rows == each.after.offset - offset
        found += each.rows.column("row").to_pylist()
        offset = each.after.offset
    return found
