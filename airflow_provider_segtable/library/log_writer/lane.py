"""One bucket of a writer: the records that it has accepted, and that no commit has yet.

::

      committed │ sent to the store        │ accepted
      forgotten │ kept, to send them again │ kept
    ────────────┴──────────────────────────┴──────────▶ offsets

1. Offsets are given when records are accepted. They are dense, so after a failure the same records
   get the same offsets again: the new epoch begins at the committed end, which divides no batch.
2. What is committed is forgotten; the store says what that is with every answer. So a lane keeps no
   more than its bucket holds, plus what has not been answered.
"""

from collections import deque
from dataclasses import dataclass

from airflow_provider_segtable.core.errors import LogStoreFull
from airflow_provider_segtable.core.log_store.manifest import CommittedEnd, Epoch, Offset
from airflow_provider_segtable.ports.log_store import LogClient, LogWriter, RecordBatch


@dataclass(frozen=True, slots=True)
class Kept:
    """A batch, and the offset of its first record."""

    first: Offset
    batch: RecordBatch

    @property
    def end(self) -> Offset:
        """Return the offset after the last record."""
        return self.first + self.batch.num_rows


class Lane:
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
        """Send what was accepted; errors as ``LogWriter.send``."""
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
        """Wait until readers can see what was sent."""
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
        """End the bucket's writer, from another thread; what is kept is sent in the next epoch."""
        if writer := self._writer:
            writer.leave(why)

    def close(self) -> None:
        """Release the bucket's writer."""
        writer, self._writer = self._writer, None
        if writer is not None:
            writer.close()
