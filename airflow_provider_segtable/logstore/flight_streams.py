"""Streams of clients of a log store: a connection, and a thread that hears what comes.

1. Each writer and each reader has a connection of its own, so that none waits for another's.
2. A stream ends after ``stream_s``: the server then frees its thread, even if the client hangs.
3. Threads end with their stream, and keep no process from ending.
"""

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Any
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import flight

from airflow_provider_segtable.core.errors import LogStoreGone, LogStoreUnavailable
from airflow_provider_segtable.core.log_store.manifest import Offset
from airflow_provider_segtable.core.secret import redacted
from airflow_provider_segtable.logstore import flight_messages as messages
from airflow_provider_segtable.logstore.flight_messages import APPEND, Message, encoded
from airflow_provider_segtable.logstore.flight_security import FlightSecurity
from airflow_provider_segtable.ports.log_store import RecordBatch

CALL_S = 20.0
FINISH_S = 5.0
PROBE_S = 2.0
MOST_WAITING = 64
MOST_BYTES = 16 << 20
BROKEN = (flight.FlightError, pa.ArrowException, OSError)


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

    def act(self, name: str, message: Message, *, wait_s: float = 0.0) -> tuple[Any, ...]:
        """Return the answer to an action, and what follows it; raise a refusal.

        The action may be repeated. The store may take ``wait_s`` longer than for a call that waits
        for nothing.
        """
        action = flight.Action(name, encoded(message))
        with self.faults():
            options = self._security.call_options(CALL_S + wait_s)
            answer, *more = [each.body for each in self._client.do_action(action, options)]
        return messages.accepted(messages.decoded(answer)), *more

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
        """Raise ``LogStoreUnavailable`` in place of the library's errors.

        Raises:
            LogStoreGone: the host answers, and nothing listens at the port.
        """
        try:
            yield
        except BROKEN as error:
            reason = redacted(str(error)).partition(". gRPC client debug context")[0]
            kind = LogStoreGone if _refuses(self.address) else LogStoreUnavailable
            raise kind(
                f"no log store answers at {self.address} ({reason}): look up its address and token"
            ) from error


def empty_batch(schema: Any) -> pa.RecordBatch:
    """Return no records. They are nulls, as pyarrow imports pandas to convert Python lists."""
    return pa.record_batch([pa.nulls(0, field.type) for field in schema], schema=schema)


def _refuses(address: str) -> bool:
    """Return whether the host of an address refuses connections to its port."""
    parts = urlsplit(address)
    try:
        with socket.create_connection((parts.hostname, parts.port), PROBE_S):
            return False
    except ConnectionRefusedError:
        return True
    except (OSError, ValueError):
        return False


class OutStream:
    """A writer's stream. ``answers`` has what was heard; None stands for its end."""

    def __init__(self, connection: Connection, name: Message, schema: Any) -> None:
        self.answers: SimpleQueue[Message | None] = SimpleQueue()
        self._begun = time.monotonic()
        self._sending = threading.Lock()
        self._thread = threading.Thread(target=self._listen, daemon=True)
        try:
            self._writer, self._heard = connection.put(name, schema)
        except BROKEN:
            self.answers.put(None)
        else:
            self._thread.start()

    @property
    def age_s(self) -> float:
        """Return how long the stream has been open."""
        return time.monotonic() - self._begun

    def write(self, sent: Sent, wait_s: float) -> None:
        """Send a batch; if the stream is broken, its answers end."""
        if self._thread.is_alive():
            message = APPEND.encoded(sent.sequence, wait_s)
            with suppress(*BROKEN), self._sending:
                self._writer.write_with_metadata(sent.batch, message)

    def finish(self) -> None:
        """End the stream, after the answers to all that was sent."""
        if self._thread.is_alive():
            self._send_no_more()
            self._thread.join(FINISH_S)

    def _listen(self) -> None:
        with suppress(*BROKEN):
            while (data := self._heard.read()) is not None:
                message = messages.decoded(data)
                self.answers.put(message)
                if messages.refused(message):
                    self._send_no_more()
        with suppress(*BROKEN), self._sending:
            self._writer.close()
        self.answers.put(None)

    def _send_no_more(self) -> None:
        with suppress(*BROKEN), self._sending:
            self._writer.done_writing()


class InStream:
    """A reader's stream, and the little that has come and was not taken yet.

    Each of its two threads counts for itself what it put or took, so neither needs a lock.
    """

    def __init__(self, stream: Any) -> None:
        self.ended = False
        self._stream = stream
        self._come: SimpleQueue[tuple[Message, Any, int] | None] = SimpleQueue()
        self._room = threading.Event()
        self._closed = False
        self._put_bytes = self._taken_bytes = 0
        threading.Thread(target=self._listen, daemon=True).start()

    def take(self, wait_s: float) -> tuple[Message, Any] | None:
        """Return the next message with its batch; None if there is none in time, or at the end."""
        try:
            come = None if self.ended else self._come.get(timeout=wait_s)
        except Empty:
            return None
        if come is None:
            self.ended = True
            return None
        message, batch, size = come
        self._taken_bytes += size
        self._room.set()
        return message, batch

    def close(self) -> None:
        """End the stream."""
        self._closed = True
        self._room.set()
        self._stream.cancel()

    def _listen(self) -> None:
        with suppress(StopIteration, *BROKEN):
            while not self._closed:
                chunk = self._stream.read_chunk()
                self._wait_for_room()
                message = messages.decoded(chunk.app_metadata)
                size = message.get("size", 0)
                self._put_bytes += size
                self._come.put((message, chunk.data, size))
        self._come.put(None)

    def _wait_for_room(self) -> None:
        while self._is_full() and not self._closed:
            self._room.clear()
            if self._is_full() and not self._closed:
                self._room.wait()

    def _is_full(self) -> bool:
        waiting_bytes = self._put_bytes - self._taken_bytes
        return waiting_bytes >= MOST_BYTES or self._come.qsize() >= MOST_WAITING
