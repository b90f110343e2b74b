"""Connect clients and servers of a log store: messages, security, and streams over Arrow Flight.

Messages beside the records:

1. Every message is a small object. Records travel as Arrow batches, and never in messages. Those
   that come with each batch are packed, after a letter; all others are JSON.
2. ``begin`` is an action; its answer is the offset, then the schema of the table. ``status`` and
   ``checkpoint`` are actions, too.
3. A writer's stream names bucket and epoch. Each batch comes with its sequence number, and with how
   long it may wait for room. Each is answered by the offset of its first record and by the
   committed end, in order.
4. A reader's stream begins with the reader's position. Then follow batches with their first offset
   and the next position; resets; or that the reader is behind, which ends the stream.
5. A refusal is a message, too: the name of an error type, and its text. It ends the stream.

Access over the network (addresses, TLS and a token):

6. A store listens on loopback unless it is given another host. Beyond loopback it needs a token,
   and TLS, which hides the token.
7. With a certificate and its key, the store speaks TLS (``grpc+tls://``); clients are given the
   root certificates that they trust.
8. The token travels in a header of each call, and is compared in constant time.

Streams of clients (a connection, and a thread that hears the answers):

9. Each writer and each reader has a connection of its own, so that none waits for another's.
10. A stream ends after ``stream_s``: the server then frees its thread, even if the client hangs.
11. Threads end with their stream, and keep no process from ending.
"""

import hmac
import ipaddress
import json
import socket
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from queue import Empty, SimpleQueue
from struct import Struct
from typing import Any, TypeAlias
from urllib.parse import urlsplit

import pyarrow as pa
from pyarrow import flight

from airflow_provider_segtable.core import errors
from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import (
    InvalidInput,
    LogStoreGone,
    LogStoreUnavailable,
    SegtableError,
)
from airflow_provider_segtable.core.log_store.manifest import (
    CommittedEnd,
    Lineage,
    Offset,
    Position,
)
from airflow_provider_segtable.core.log_store.reading import BucketStatus
from airflow_provider_segtable.core.secret import Secret, redacted
from airflow_provider_segtable.ports.log_store import RecordBatch

Message: TypeAlias = Mapping[str, Any]
Pair: TypeAlias = list[int]
"""A position in a message: epoch, offset."""

BEGIN = "begin"
STATUS = "status"
CHECKPOINT = "checkpoint"
_PAIRS = ("end", "committed")
_SEPARATORS = (",", ":")


# Messages
@dataclass(frozen=True)
class Packed:
    """The layout of a message with fields of a fixed size."""

    letter: bytes
    fields: tuple[str, ...]
    layout: Struct

    def encoded(self, *values: float) -> bytes:
        """Return the bytes of a message."""
        return self.layout.pack(self.letter, *values)

    def decoded(self, data: bytes) -> dict[str, Any]:
        """Return the message in bytes."""
        return dict(zip(self.fields, self.layout.unpack(data)[1:], strict=True))


APPEND = Packed(b"a", ("sequence", "wait_s"), Struct("<cqd"))
ANSWER = Packed(b"o", ("first", "committed"), Struct("<cqq"))
RECORDS = Packed(b"r", ("first", "epoch", "offset", "size"), Struct("<cqqqq"))
_PACKED = {each.letter: each for each in (APPEND, ANSWER, RECORDS)}


def encoded(message: Message) -> bytes:
    """Return the bytes of a message that is not packed."""
    return json.dumps(message, separators=_SEPARATORS).encode()


def decoded(data: Any) -> dict[str, Any]:
    """Return the message in bytes or in an Arrow buffer."""
    found = bytes(data)
    if packed := _PACKED.get(found[:1]):
        return packed.decoded(found)
    message = json.loads(found)
    return message if isinstance(message, dict) else {}


def pair(position: Position | None) -> Pair | None:
    """Return a position for a message."""
    return None if position is None else [position.epoch, position.offset]


def position(found: Pair | None) -> Position | None:
    """Return the position of a message."""
    return None if found is None else Position(epoch=found[0], offset=found[1])


def end_message(committed: CommittedEnd) -> Message:
    """Return the end of a snapshot for a message."""
    begins = [pair(each) for each in committed.lineage.begins]
    return {"at": pair(committed.position), "begins": begins}


def committed_end(message: Message) -> CommittedEnd:
    """Return the end of a snapshot from a message."""
    begins = (Position(epoch=epoch, offset=offset) for epoch, offset in message["begins"])
    epoch, offset = message["at"]
    return CommittedEnd(
        position=Position(epoch=epoch, offset=offset), lineage=Lineage(begins=tuple(begins))
    )


def status_message(found: BucketStatus) -> Message:
    """Return the status of a bucket for a message."""
    return {
        "bucket": found.bucket,
        "epoch": found.epoch,
        "start": found.start,
        "end": pair(found.end),
        "committed": pair(found.committed),
        "uncommitted_bytes": found.uncommitted_bytes,
        "uncommitted_since": found.uncommitted_since,
    }


def status(message: Message) -> BucketStatus:
    """Return the status of a bucket from a message."""
    positions = {name: Position(epoch=e, offset=o) for name in _PAIRS for e, o in [message[name]]}
    return BucketStatus(**{**message, **positions})


def accepted(message: dict[str, Any]) -> dict[str, Any]:
    """Return an answer; raise the error of a refusal."""
    refusal = refused(message)
    if refusal:
        raise refusal
    return message


def refusal(error: SegtableError) -> Message:
    """Return an error as a message."""
    return {"error": type(error).__name__, "message": str(error)}


def refused(message: Message) -> SegtableError | None:
    """Return the error of a message; None if it is not a refusal."""
    if "error" not in message:
        return None
    kind = getattr(errors, str(message["error"]), LogStoreUnavailable)
    known = isinstance(kind, type) and issubclass(kind, SegtableError)
    return kind(str(message["message"])) if known else LogStoreUnavailable(str(message))


# Access: addresses, TLS and the token
HEADER = "authorization"


@dataclass(frozen=True, slots=True, kw_only=True)
class FlightSecurity:
    """Credentials of a store and of its clients. Certificates and key are PEM texts."""

    token: Secret | None = None
    certificate: str = ""
    key: Secret | None = None
    roots: str = ""

    @property
    def scheme(self) -> str:
        """Return the scheme of the store's addresses."""
        return "grpc+tls" if self.certificate else "grpc"

    def server_options(self, host: str) -> Mapping[str, Any]:
        """Return the keyword arguments of a Flight server at ``host``.

        Raises:
            InvalidInput: the host is not loopback and there is no token, or no certificate to hide
                it; or a key is missing.
        """
        if not self.token and not _is_loopback(host):
            raise InvalidInput(
                f"a log store at {host} can be reached from other hosts, and has no token: give a "
                "token, or listen on 127.0.0.1"
            )
        if not self.certificate and not _is_loopback(host):
            raise InvalidInput(
                f"a log store at {host} can be reached from other hosts, and its token would "
                "travel unencrypted: give a certificate and its key, or listen on 127.0.0.1"
            )
        options: dict[str, Any] = {}
        if self.certificate:
            if not self.key:
                raise InvalidInput("the log store has a certificate without its key: give both")
            options["tls_certificates"] = [(self.certificate, self.key.reveal())]
        if self.token:
            options["middleware"] = {"token": _TokenCheck(self.token)}
        return options

    def client(self, address: str) -> Any:
        """Return a Flight client for an address; it connects with its first call."""
        roots = {"tls_root_certs": self.roots} if self.roots else {}
        return flight.FlightClient(address, **roots)

    def call_options(self, timeout_s: float) -> Any:
        """Return the options of a client's call, which ends after a time."""
        token = self.token
        headers = [(HEADER.encode(), _bearer(token).encode())] if token else []
        return flight.FlightCallOptions(timeout=timeout_s, headers=headers)


class _TokenCheck(flight.ServerMiddlewareFactory):
    """Refuses calls without the token."""

    def __init__(self, token: Secret) -> None:
        super().__init__()
        self._expected = _bearer(token).encode()

    def start_call(self, _: Any, headers: Mapping[str, Sequence[str]]) -> None:
        """Compare a call's token."""
        given = [value for name, value in headers.items() if name.lower() == HEADER]
        if not given or not hmac.compare_digest(given[0][0].encode(), self._expected):
            raise flight.FlightUnauthenticatedError("the log store refuses this token")


def _bearer(token: Secret) -> str:
    return f"Bearer {token.reveal()}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host == "localhost"


# Streams of clients
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
        """Return the answer to an action, with its body; raise a refusal.

        The action may be repeated. The store may take ``wait_s`` longer than for a call that waits
        for nothing.
        """
        action = flight.Action(name, encoded(message))
        with self.faults():
            options = self._security.call_options(CALL_S + wait_s)
            answer, *more = [each.body for each in self._client.do_action(action, options)]
        return accepted(decoded(answer)), *more

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
    """A writer's stream. ``answers`` holds received answers; None stands for its end."""

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
                message = decoded(data)
                self.answers.put(message)
                if refused(message):
                    self._send_no_more()
        with suppress(*BROKEN), self._sending:
            self._writer.close()
        self.answers.put(None)

    def _send_no_more(self) -> None:
        with suppress(*BROKEN), self._sending:
            self._writer.done_writing()


class InStream:
    """A reader's stream, with the few batches that were received and not taken yet.

    Each of its two threads has its own count of batches, so neither needs a lock.
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
                message = decoded(chunk.app_metadata)
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
