"""Make batches of records from a user's rows, and keep them until a commit has them.

Rows as a user gives them:

1. Rows are checked against the columns before any of them is sent, so that no checkpoint fails by
   them. Nullable columns may be left out.
2. Rows of a primary-key table go to the bucket of their key's hash: the records of a key stay in
   order. Records of an append table go to one bucket, in turn.
3. Batches are small beside a bucket, so that a large append waits for room piece by piece.

One bucket of a writer, a *queue*: the records that it has accepted, and that no commit has yet::

      committed │ sent to the store        │ accepted
      forgotten │ kept, to send them again │ kept
    ────────────┴──────────────────────────┴──────────▶ offsets

4. Offsets are given when records are accepted. They are dense, so after a failure the same records
   get the same offsets again: the new epoch begins at the committed end, which divides no batch.
5. Committed records are forgotten; every answer of the store has the committed end. So a queue
   keeps no more than its bucket holds, plus unanswered records.

Records beyond a writer's memory, in temporary files:

6. A writer with checkpoints by its caller alone gets no room by waiting. So its bucket takes any
   number of records. Those beyond a bound are written to a file and mapped into memory until their
   checkpoint. Readers, the checkpoint and a new epoch use them as all others, and the system drops
   their pages when it needs room.
7. A file is removed from its folder (``$TMPDIR``) when it is made, so nothing is left of a process
   that dies. Its space is free once its records are no longer used.
8. The records in memory since the last checkpoint stay below the bound, whatever arrives.
"""

import mmap
import os
import tempfile
from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from itertools import count

import pyarrow as pa

from airflow_provider_segtable.core.counted import MIB, describe_size
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import InvalidInput, LogStoreFull, StorageError
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.log_store.manifest import CommittedEnd, Epoch, Offset
from airflow_provider_segtable.core.tables.merge_rules import MergeRules
from airflow_provider_segtable.data.keyed.keyed_rows import buckets_of
from airflow_provider_segtable.data.rows import Rows, arrow_table
from airflow_provider_segtable.disk import writing
from airflow_provider_segtable.planning.properties import LogStoreSettings
from airflow_provider_segtable.ports.log_store import LogClient, LogWriter, RecordBatch
from airflow_provider_segtable.table.append import check_filled
from airflow_provider_segtable.table.definition import given_schema
from airflow_provider_segtable.table.load import check_for
from airflow_provider_segtable.table.log_store.checkpointing import DELETED, log_schema
from airflow_provider_segtable.table.upsert import records_of

LARGEST_BATCH = 8 * MIB
BATCHES_A_BUCKET = 4


# Rows as batches of records
class RecordSplitter:
    """Makes the batches of one writer.

    Args:
        state: the version whose columns the records have.
        uri: the table's place, for messages.
        settings: the settings of the log store.
        buckets: the buckets that the writer has.
    """

    def __init__(
        self, state: State, uri: str, settings: LogStoreSettings, buckets: Sequence[int]
    ) -> None:
        self.schema = log_schema(state, uri)
        self._state, self._uri, self._buckets = state, uri, tuple(buckets)
        self._count = settings.buckets
        self._room = settings.limits.bucket_bytes
        self._turns = count()

    def is_outdated(self, state: State) -> bool:
        """Return whether the table's columns were altered since."""
        return state.table.schema != self._state.table.schema

    def split(self, given: Rows, deleted: str | None) -> Mapping[int, list[pa.RecordBatch]]:
        """Return the batches of each bucket, in order.

        Args:
            given: the rows.
            deleted: in a primary-key table: the column that says which rows delete their key.

        Raises:
            SchemaMismatch, TimeOutOfRange: the rows do not fit.
            InvalidInput: a key is null or of a bucket that the writer does not have, a record is
                larger than a bucket, or the table has no keys to delete.
        """
        rules = self._state.table.kind.rules
        if rules is not None:
            parts = self._by_key(self._keyed(arrow_table(given), deleted), rules)
        elif deleted is None:
            table = self._state.table
            rows = check_filled(arrow_table(given), given_schema(table), table.time_column)
            parts = {self._buckets[next(self._turns) % len(self._buckets)]: rows}
        else:
            raise InvalidInput(
                f"column {deleted!r} is to delete keys, but {self._uri} has no primary key: delete "
                "the rows by a condition (Table.delete)"
            )
        return {n: [*self._batches(rows)] for n, rows in parts.items() if rows.num_rows}

    def _keyed(self, rows: pa.Table, deleted: str | None) -> pa.Table:
        """Return records with a mark of deletes."""
        state = self._state
        named = DELETED if deleted is None and DELETED in rows.column_names else deleted
        found = records_of(rows, state, named, check=check_for(state, named, check_filled))
        marked = found.rows.append_column(DELETED, pa.array(found.deleted))
        return marked.cast(self.schema)

    def _by_key(self, rows: pa.Table, rules: MergeRules) -> Mapping[int, pa.Table]:
        found = buckets_of(rows, rules.bucket_key, self._count)
        if self._count == 1:
            return {0: rows}
        parts = {n: rows.filter(pa.array(found == n)) for n in sorted({*found.tolist()})}
        for bucket in parts.keys() - set(self._buckets):
            raise InvalidInput(
                f"{parts[bucket].num_rows} of the rows have keys of bucket {bucket} of the log "
                f"store of {self._uri}, and this writer has {list(self._buckets)}: give them to "
                "the writer of that bucket, or open this one with all buckets"
            )
        return parts

    def _batches(self, rows: pa.Table) -> Iterator[pa.RecordBatch]:
        for batch in rows.combine_chunks().to_batches():
            yield from self._pieces(batch)

    def _pieces(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        if batch.nbytes <= min(LARGEST_BATCH, self._room // BATCHES_A_BUCKET):
            yield batch
        elif batch.num_rows > 1:
            half = batch.num_rows // 2
            yield from self._pieces(batch.slice(0, half))
            yield from self._pieces(batch.slice(half))
        elif batch.nbytes <= self._room:
            yield batch
        else:
            raise InvalidInput(
                f"a record of {describe_size(batch.nbytes)} exceeds a bucket of the log store of "
                f"{self._uri} ({describe_size(self._room)}): raise log_store.bucket_mb, or append "
                "it to the table"
            )


# One bucket of a writer
@dataclass(frozen=True, slots=True)
class Kept:
    """A batch, and the offset of its first record."""

    first: Offset
    batch: RecordBatch

    @property
    def end(self) -> Offset:
        """Return the offset after the last record."""
        return self.first + self.batch.num_rows


class BucketQueue:
    """The records of one bucket between their acceptance and their commit."""

    def __init__(self, bucket: int) -> None:
        self.bucket = bucket
        self.end: Offset = 0
        self.committed: Offset = 0
        self._writer: LogWriter | None = None
        self._kept: deque[Kept] = deque()
        self._sent = 0

    def begin(self, client: LogClient, epoch: Epoch, committed: CommittedEnd) -> None:
        """Begin an epoch: all that is not committed is to be sent again."""
        self.close()
        begun = client.writer(self.bucket, epoch=epoch, committed=committed)
        at = committed.position.offset
        self._sent = 0
        self.forget(at)
        if not self._kept:
            self.end = at
        self._writer = begun

    def accept(self, batch: RecordBatch) -> Offset:
        """Take a batch; return the offset of its first record."""
        first = self.end
        self._kept.append(Kept(first, batch))
        self.end += batch.num_rows
        return first

    def take_back(self, first: Offset) -> bool:
        """Drop the batch that begins at an offset, and all later ones, unless it was sent."""
        if self._sent and self._kept[self._sent - 1].end > first:
            return False
        while self._kept and self._kept[-1].first >= first:
            self._kept.pop()
        self.end = first
        return True

    def push(self, *, wait_s: float) -> None:
        """Send accepted records; errors as ``LogWriter.send``."""
        writer = self._writer
        while writer is not None and self._sent < len(self._kept):
            batch = self._kept[self._sent].batch
            before = writer.end
            try:
                writer.send(batch, wait_s=wait_s)
            except LogStoreFull:
                self._sent += writer.end > before
                raise
            self._sent += 1
            self.forget(writer.committed)

    def flush(self, *, wait_s: float) -> None:
        """Wait until readers can see the sent records."""
        if self._writer is not None:
            self._writer.flush(wait_s=wait_s)
            self.forget(self._writer.committed)

    def check(self, *, wait_s: float) -> None:
        """Raise ``Fenced`` if the bucket's epoch is over; all that was sent is readable."""
        if self._writer is not None:
            self._writer.check(wait_s=wait_s)
            self.forget(self._writer.committed)

    @property
    def waiting(self) -> bool:
        """Return whether there are records that are not known to be committed."""
        return bool(self._kept)

    def forget(self, committed: Offset) -> None:
        """Forget the records below the committed end."""
        self.committed = max(self.committed, committed)
        while self._kept and self._kept[0].end <= committed:
            self._kept.popleft()
            self._sent = max(0, self._sent - 1)

    def leave(self, why: str) -> None:
        """End the bucket's writer, from another thread; kept records are sent in the next epoch."""
        if writer := self._writer:
            writer.leave(why)

    def close(self) -> None:
        """Release the bucket's writer."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()


FILE_BYTES = 1024 * MIB
ALIGNMENT = 64


# Records in temporary files
class Overflow:
    """Where the batches of one writer are kept.

    Args:
        memory_bytes: how much of them is in memory.
    """

    def __init__(self, memory_bytes: int) -> None:
        self._most, self._used = memory_bytes, 0
        self._file: _MappedFile | None = None
        self.written = 0

    def kept(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return a batch, or the same records in a file.

        Raises:
            StorageFull, StorageError: the file cannot be written.
        """
        self._used += batch.nbytes
        if self._used <= self._most:
            return batch
        with writing(f"{tempfile.gettempdir()} (records beyond the memory of a log writer)"):
            return self._filed(batch)

    def emptied(self) -> None:
        """Begin anew: the kept records are committed."""
        self._used = 0
        self.close()

    def close(self) -> None:
        """Write to this file no more."""
        file, self._file = self._file, None
        if file is not None:
            file.close()

    def _filed(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        data = batch.serialize()
        if self._file is None or self._file.room < data.size:
            self.close()
            self._file = _MappedFile(max(FILE_BYTES, data.size))
        self.written += data.size
        return pa.ipc.read_record_batch(self._file.added(data), batch.schema)


class _MappedFile:
    """A file without a name, of a size that it need not fill, as a whole in the address space."""

    def __init__(self, size: int) -> None:
        self._end, self._size = 0, size
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by ``close``
        os.ftruncate(self._file.fileno(), size)
        self._seen = memoryview(mmap.mmap(self._file.fileno(), size, access=mmap.ACCESS_READ))

    @property
    def room(self) -> int:
        return self._size - self._end

    def added(self, data: pa.Buffer) -> pa.Buffer:
        """Write bytes; return them as they are in the file."""
        start, left = self._end, memoryview(data)
        while left:  # written, not mapped for writing: a full disk is an error then, not a signal
            count = os.pwrite(self._file.fileno(), left, self._end)
            if not count:
                raise StorageError("a temporary file takes no more: free space on the device")
            self._end, left = self._end + count, left[count:]
        found = pa.py_buffer(self._seen[start : self._end])
        self._end += -self._end % ALIGNMENT
        return found

    def close(self) -> None:
        self._file.close()
