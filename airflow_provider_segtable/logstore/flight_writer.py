"""The writer of a bucket over Arrow Flight.

1. Batches go out on one stream, and a thread hears the answers, which come in order and wait in a
   queue; all else belongs to the writer's own thread. What is not answered stays here, up to
   ``MOST_UNANSWERED`` batches; ``send`` then waits for answers.
2. If the stream breaks, another one is opened, and all that was not answered is sent again with the
   same sequence numbers. The store recognises what it has.
3. Streams end after some time, so that none can hang for ever. A writer renews its own at half of
   that; an answer that takes longer is asked for again.
4. ``LogStoreFull`` leaves a writer usable: ``append`` takes its batch back, sent ones stay. So does
   ``InvalidInput``. Any other refusal, and a store that cannot be reached, end the writer.
"""

import time
from collections import deque
from queue import Empty
from typing import Any, NoReturn

from airflow_provider_segtable.core.errors import (
    InvalidInput,
    LogStoreFull,
    LogStoreUnavailable,
    SegtableError,
)
from airflow_provider_segtable.core.log_store.manifest import Epoch, Offset
from airflow_provider_segtable.logstore import flight_messages as messages
from airflow_provider_segtable.logstore.buckets import checked_schema
from airflow_provider_segtable.logstore.flight_streams import (
    Connection,
    OutStream,
    Sent,
    empty_batch,
)
from airflow_provider_segtable.ports.log_store import RecordBatch

MOST_UNANSWERED = 64
MOST_BYTES = 16 << 20
RECONNECT_S = 10.0
"""How long a writer tries to reach its store again."""
ANSWER_S = 20.0
"""How much longer than an append may wait for room its answer may take."""
PAUSE_S = 0.05


class FlightLogWriter:
    """The one writer of a bucket, in one epoch."""

    def __init__(
        self, connection: Connection, schema: Any, bucket: int, epoch: Epoch, end: Offset
    ) -> None:
        self.epoch, self.end, self.committed = epoch, end, end
        self._connection, self._schema = connection, schema
        self._name = {"bucket": bucket, "epoch": epoch}
        self._unanswered: deque[Sent] = deque()
        self._bytes = 0
        self._stream: OutStream | None = None
        self._over: SegtableError | None = None
        self._left = ""
        self._trouble_since: float | None = None
        self._renew_s = connection.stream_s / 2

    def append(self, batch: RecordBatch, *, wait_s: float) -> Offset:
        """Append records and return the offset of the first; readers can see them."""
        first = self.send(batch, wait_s=wait_s)
        try:
            self.flush(wait_s=wait_s)
        except (LogStoreFull, InvalidInput):
            self._take_back(batch, first)
            raise
        return first

    def send(self, batch: RecordBatch, *, wait_s: float) -> Offset:
        """Append records without waiting for the answer, as long as few answers are missing."""
        checked_schema(batch.schema, self._schema)
        self._wait(MOST_UNANSWERED - 1, MOST_BYTES, wait_s)
        return self._put(batch, wait_s) if batch.num_rows else self.end

    def _put(self, batch: RecordBatch, wait_s: float) -> Offset:
        first = self.end
        sent = Sent(sequence=first, batch=batch, size=batch.nbytes)
        self._unanswered.append(sent)
        self._bytes += sent.size
        self.end += batch.num_rows
        stream = self._fresh_stream()
        if stream is None:
            self._reopen(wait_s)
        else:
            stream.write(sent, min(wait_s, self._renew_s))
        return first

    def flush(self, *, wait_s: float) -> Offset:
        """Wait until readers can see all records; return the offset after the last."""
        self._wait(0, 0, wait_s)
        return self.end

    def check(self, *, wait_s: float) -> None:
        """Wait for all answers, and one to no records; raise ``Fenced`` if the epoch is over."""
        self._wait(0, 0, wait_s)
        self._put(empty_batch(self._schema), wait_s)
        self._wait(0, 0, wait_s)

    def leave(self, why: str) -> None:
        """End the writer from another thread."""
        self._left = why
        if stream := self._stream:
            stream.answers.put(None)  # wakes a call that waits for an answer

    def close(self) -> None:
        """Release the writer."""
        self._over = self._over or LogStoreUnavailable("this writer was closed: begin a new epoch")
        if self._stream and not self._left:
            self._stream.finish()
        self._connection.close()

    def _wait(self, most: int, most_bytes: int, wait_s: float) -> None:
        """Wait until few enough answers are missing; send again what a broken stream lost."""
        deadline = time.monotonic() + wait_s
        self._take_answers(deadline)
        if self._over:
            raise self._over
        if self._left:
            self._end(self._left)
        while len(self._unanswered) > most or self._bytes > most_bytes:
            if self._stream is None:
                self._reopen(max(0.0, deadline - time.monotonic()))
            self._take_answer(deadline, max(0.0, deadline - time.monotonic()) + ANSWER_S)

    def _take_answers(self, deadline: float) -> None:
        """Take the answers that have come."""
        while self._stream and not self._stream.answers.empty():
            self._take_answer(deadline, 0.0)

    def _take_answer(self, deadline: float, wait_s: float) -> None:
        """Take one answer; raise a refusal, unless there may be room before the deadline."""
        if self._stream is None:
            return
        try:
            message = self._stream.answers.get(timeout=wait_s)
        except Empty:
            self._end(f"no answer came within {wait_s:.0f} s")
        if self._left:
            self._end(self._left)
        if message is None:
            if self._trouble_since is None or self._stream.age_s > RECONNECT_S:
                self._trouble_since = time.monotonic()
            self._stream = None
            return
        self._trouble_since = None
        refusal = messages.refused(message)
        if refusal is None:
            self._bytes -= self._unanswered.popleft().size
            self.committed = message["committed"]
            return
        self._stream = None
        if isinstance(refusal, LogStoreFull) and time.monotonic() < deadline:
            return
        if not isinstance(refusal, LogStoreFull | InvalidInput):
            self._over = refusal
        raise refusal

    def _fresh_stream(self) -> OutStream | None:
        """Return the stream; an old one is finished first."""
        if self._stream and self._stream.age_s > self._renew_s:
            self._stream.finish()
        return self._stream

    def _reopen(self, wait_s: float) -> None:
        """Open a stream, and send all that was not answered."""
        trouble_s = time.monotonic() - (self._trouble_since or time.monotonic())
        if trouble_s > RECONNECT_S:
            self._end(f"it could not be reached for {RECONNECT_S:.0f} s")
        if trouble_s > PAUSE_S:
            time.sleep(PAUSE_S)
        self._stream = OutStream(self._connection, self._name, self._schema)
        for sent in self._unanswered:
            self._stream.write(sent, min(wait_s, self._renew_s))

    def _take_back(self, batch: RecordBatch, first: Offset) -> None:
        """Forget a batch that the store refused, if it was the last."""
        if self._unanswered and self._unanswered[-1].batch is batch:
            self._bytes -= self._unanswered.pop().size
            self.end = first

    def _end(self, why: str) -> NoReturn:
        self._over = LogStoreUnavailable(
            f"the log store at {self._connection.address} is lost to this writer, because {why}: "
            "read the table's last version, and begin a new epoch"
        )
        raise self._over
