"""The writer of a bucket over Arrow Flight.

1. Batches go out on one stream, and a thread hears the answers, which come in order. What is not
   answered stays here, up to ``MOST_UNANSWERED`` batches; ``send`` then waits for answers.
2. If the stream breaks, another one is opened, and all that was not answered is sent again with the
   same sequence numbers. The store recognises what it has.
3. Streams end after some time, so that none can hang for ever. A writer renews its own at half of
   that; an answer that takes longer is asked for again.
4. ``LogStoreFull`` leaves a writer usable: ``append`` takes its batch back, sent ones stay. So does
   ``InvalidInput``. Any other refusal, and a store that cannot be reached, end the writer.
"""

import threading
import time
from collections import deque
from typing import Any, NoReturn

from airflow_provider_segtable.core.errors import (
    InvalidInput,
    LogStoreFull,
    LogStoreUnavailable,
    SegtableError,
)
from airflow_provider_segtable.core.log_store.position import Epoch, Offset
from airflow_provider_segtable.logstore import flight_messages as messages
from airflow_provider_segtable.logstore.buckets import checked_schema
from airflow_provider_segtable.logstore.flight_messages import Message
from airflow_provider_segtable.logstore.flight_streams import Connection, OutStream, Sent
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
        self.epoch, self.end = epoch, end
        self._connection, self._schema = connection, schema
        self._name = {"bucket": bucket, "epoch": epoch}
        self._changed = threading.Condition()
        self._unanswered: deque[Sent] = deque()
        self._bytes = 0
        self._stream: OutStream | None = None
        self._refusal: SegtableError | None = None
        self._over: SegtableError | None = None
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
        first = self.end
        if not batch.num_rows:
            return first
        sent = Sent(sequence=first, batch=batch, size=batch.nbytes)
        with self._changed:
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

    def close(self) -> None:
        """Release the writer."""
        self._over = self._over or LogStoreUnavailable("this writer was closed: begin a new epoch")
        if self._stream:
            self._stream.finish()
        self._connection.close()

    def _wait(self, most: int, most_bytes: int, wait_s: float) -> None:
        """Wait until few enough answers are missing; send again what a broken stream lost."""
        deadline = time.monotonic() + wait_s
        while True:
            left_s = deadline - time.monotonic()
            with self._changed:
                self._changed.wait_for(
                    lambda: not (self._lacks(most, most_bytes) and self._is_sending()),
                    max(0.0, left_s) + ANSWER_S,
                )
                if self._lacks(most, most_bytes) and self._is_sending():
                    self._end(f"no answer came within {wait_s + ANSWER_S} s")
                self._raise_refusal(deadline)
                if not self._lacks(most, most_bytes):
                    return
            self._reopen(max(0.0, deadline - time.monotonic()))

    def _lacks(self, most: int, most_bytes: int) -> bool:
        return len(self._unanswered) > most or (self._bytes > most_bytes)

    def _is_sending(self) -> bool:
        return not (self._refusal or self._over) and bool(self._stream and self._stream.alive)

    def _raise_refusal(self, deadline: float) -> None:
        """Raise what ended the writer, or the stream; there may be room before the deadline."""
        refusal, self._refusal = self._refusal, None
        if refusal is None and self._over is None:
            return
        if isinstance(refusal, LogStoreFull) and time.monotonic() < deadline:
            self._stream = None
            return
        if not isinstance(refusal, LogStoreFull | InvalidInput):
            self._over = self._over or refusal
        self._stream = None
        raise self._over or refusal or AssertionError

    def _fresh_stream(self) -> OutStream | None:
        """Return the stream, if it is alive and will be for a while."""
        stream = self._stream
        if stream and stream.alive and stream.age_s > self._renew_s:
            stream.finish()
        return stream if stream and stream.alive else None

    def _reopen(self, wait_s: float) -> None:
        """Open a stream, and send all that was not answered."""
        if self._trouble_since is None:
            self._trouble_since = time.monotonic()
        elif time.monotonic() - self._trouble_since > RECONNECT_S:
            self._end(f"it could not be reached for {RECONNECT_S} s")
        else:
            time.sleep(PAUSE_S)
        self._stream = stream = OutStream(self._connection, self._name, self._schema)
        stream.start(self._hear)
        for sent in tuple(self._unanswered):
            stream.write(sent, min(wait_s, self._renew_s))

    def _hear(self, stream: OutStream, message: Message | None) -> None:
        """Take one answer; None at the end of the stream."""
        with self._changed:
            if stream is self._stream and message is not None:
                self._trouble_since = None
                self._refusal = messages.refused(message)
                if self._refusal is None:
                    self._bytes -= self._unanswered.popleft().size
            self._changed.notify_all()

    def _take_back(self, batch: RecordBatch, first: Offset) -> None:
        """Forget a batch that the store refused, if it was the last."""
        with self._changed:
            if self._unanswered and self._unanswered[-1].batch is batch:
                self._bytes -= self._unanswered.pop().size
                self.end = first

    def _end(self, why: str) -> NoReturn:
        self._over = LogStoreUnavailable(
            f"the log store at {self._connection.address} is lost to this writer, because {why}: "
            "read the table's last version, and begin a new epoch"
        )
        raise self._over
