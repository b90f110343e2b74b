"""Streams of clients of a log store: a connection, and a thread that hears what comes.

1. Each writer and each reader has a connection of its own, so that none waits for another's.
2. A stream ends after ``stream_s``: the server then frees its thread, even if the client hangs.
3. Threads end with their stream, and keep no process from ending.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeAlias

import pyarrow as pa
from pyarrow import flight

from airflow_provider_segtable.core.errors import LogStoreUnavailable
from airflow_provider_segtable.core.log_store.position import Offset
from airflow_provider_segtable.core.secret import redacted
from airflow_provider_segtable.logstore import flight_messages as messages
from airflow_provider_segtable.logstore.flight_messages import Message, encoded
from airflow_provider_segtable.logstore.flight_security import FlightSecurity
from airflow_provider_segtable.ports.log_store import RecordBatch

CALL_S = 20.0
FINISH_S = 5.0
MOST_WAITING = 64
MOST_BYTES = 16 << 20
BROKEN = (flight.FlightError, pa.ArrowException, OSError)
Hear: TypeAlias = "Callable[[OutStream, Message | None], None]"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    """A batch with its sequence number."""

    sequence: Offset
    batch: RecordBatch
    size: int


class Connection:
    """A connection to one store."""

    def __init__(self, address: str, security: FlightSecurity, stream_s: float) -> None:
        self.address, self.stream_s = address, stream_s
        self._security = security
        with self.faults():
            self._client = security.client(address)

    def act(self, name: str, message: Message) -> list[Any]:
        """Return the answers to an action, which may be repeated."""
        action = flight.Action(name, encoded(message))
        with self.faults():
            options = self._security.call_options(CALL_S)
            return [result.body for result in self._client.do_action(action, options)]

    def put(self, message: Message, schema: Any) -> tuple[Any, Any]:
        """Open a writer's stream: return its batches' end, and its answers' end."""
        descriptor = flight.FlightDescriptor.for_command(encoded(message))
        options = self._security.call_options(self.stream_s)
        writer, answers = self._client.do_put(descriptor, schema, options)
        return writer, answers

    def get(self, message: Message) -> Any:
        """Open a reader's stream."""
        with self.faults():
            options = self._security.call_options(self.stream_s)
            return self._client.do_get(flight.Ticket(encoded(message)), options)

    def close(self) -> None:
        """Close the connection."""
        self._client.close()

    @contextmanager
    def faults(self) -> Iterator[None]:
        """Raise ``LogStoreUnavailable`` in place of the library's errors."""
        try:
            yield
        except BROKEN as error:
            reason = redacted(str(error)).partition(". gRPC client debug context")[0]
            raise LogStoreUnavailable(
                f"no log store answers at {self.address} ({reason}): look up its address and token"
            ) from error


class OutStream:
    """A writer's stream; ``start`` begins to hear its answers."""

    def __init__(self, connection: Connection, name: Message, schema: Any) -> None:
        self.alive = True
        self._sending = threading.Lock()
        self._begun = time.monotonic()
        self._thread: threading.Thread | None = None
        try:
            self._writer, self._answers = connection.put(name, schema)
        except BROKEN:
            self.alive = False

    @property
    def age_s(self) -> float:
        """Return how long the stream has been open."""
        return time.monotonic() - self._begun

    def start(self, hear: Hear) -> None:
        """Hear the answers in another thread."""
        if self.alive:
            self._thread = threading.Thread(target=self._listen, args=(hear,), daemon=True)
            self._thread.start()

    def write(self, sent: Sent, wait_s: float) -> None:
        """Send a batch; if the stream is broken, it is no longer alive."""
        if self.alive:
            message = encoded({"sequence": sent.sequence, "wait_s": wait_s})
            try:
                with self._sending:
                    self._writer.write_with_metadata(sent.batch, message)
            except BROKEN:
                self.alive = False

    def finish(self) -> None:
        """End the stream, after the answers to all that was sent."""
        if self._thread:
            self._send_no_more()
            self._thread.join(FINISH_S)
        self.alive = False

    def _listen(self, hear: Hear) -> None:
        with suppress(*BROKEN):
            while (data := self._answers.read()) is not None:
                message = messages.decoded(data)
                hear(self, message)
                if messages.refused(message):
                    self._send_no_more()
        self.alive = False
        with suppress(*BROKEN), self._sending:
            self._writer.close()
        hear(self, None)

    def _send_no_more(self) -> None:
        with suppress(*BROKEN), self._sending:
            self._writer.done_writing()


class InStream:
    """A reader's stream, and the little that has come and was not taken yet."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream
        self._changed = threading.Condition()
        self._come: deque[tuple[Message, Any]] = deque()
        self._bytes = 0
        self._ended = False
        threading.Thread(target=self._listen, daemon=True).start()

    def take(self, wait_s: float) -> tuple[Message, Any] | None:
        """Return the next message with its batch; None if there is none in time."""
        with self._changed:
            self._changed.wait_for(lambda: self._come or self._ended, wait_s)
            if not self._come:
                return None
            message, batch = self._come.popleft()
            self._bytes -= batch.nbytes
            self._changed.notify_all()
            return message, batch

    @property
    def ended(self) -> bool:
        """Return whether nothing more will come."""
        return self._ended and not self._come

    def close(self) -> None:
        """End the stream."""
        with self._changed:
            self._ended = True
            self._changed.notify_all()
        self._stream.cancel()

    def _listen(self) -> None:
        with suppress(StopIteration, *BROKEN):
            while not self._ended:
                chunk = self._stream.read_chunk()
                with self._changed:
                    self._changed.wait_for(lambda: self._ended or self._has_room())
                    self._come.append((messages.decoded(chunk.app_metadata), chunk.data))
                    self._bytes += chunk.data.nbytes
                    self._changed.notify_all()
        with self._changed:
            self._ended = True
            self._changed.notify_all()

    def _has_room(self) -> bool:
        return len(self._come) < MOST_WAITING and self._bytes < MOST_BYTES
