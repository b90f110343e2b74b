"""A log store over Arrow Flight, beside its writer or as a process of its own.

Every store has the same rules of records (``core.log_store``).

The server, with one thread of gRPC for each stream:

1. A writer's stream (DoPut) hands each batch to its bucket, and answers when readers can see it. It
   waits for room there, and meanwhile gRPC's flow control holds the writer up.
2. A reader's stream (DoGet) waits at the bucket, and sends new records. It buffers nothing: a slow
   reader is a position that falls behind. While nothing new arrives, it looks from time to time
   whether the reader is still there.
3. Batches keep the buffers that they arrived in. Nothing is decoded, and nothing copied but the
   batches that a late reader gets as one: each message costs its threads more than this copy.
4. ``close`` ends all streams: buckets wake the threads that wait there, and idle writers are asked
   to leave. Clients limit the duration of each stream, so one that hangs cannot hold a thread for
   ever.

The writer of a bucket:

5. Batches go out on one stream, and a thread hears the answers, which come in order and wait in a
   queue; all else belongs to the writer's own thread. Unanswered batches stay here, up to
   ``MOST_UNANSWERED``; ``send`` then waits for answers.
6. If the stream breaks, another one is opened, and all unanswered batches are sent again with the
   same sequence numbers. The store recognises the ones that it has.
7. Streams end after some time, so that none can hang for ever. A writer renews its own at half of
   that; an answer that takes longer is asked for again.
8. ``LogStoreFull`` leaves a writer usable: ``append`` takes its batch back, sent ones stay. So does
   ``InvalidInput``. Any other refusal, and a store that cannot be reached, end the writer.

The reader of a bucket:

9. The server pushes new records. If the stream ends, after its time or because it broke, another
   one begins at the reader's position: nothing is lost or repeated.
10. ``Behind`` ends the stream. The next read asks again, from the same position or that of
    ``seek``.
"""

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, closing, nullcontext
from queue import Empty
from typing import Any, NoReturn
from uuid import uuid4

import pyarrow as pa
from pyarrow import flight

from airflow_provider_segtable.core.dataclass import dataclass
from airflow_provider_segtable.core.errors import (
    InvalidInput,
    LogStoreFull,
    LogStoreUnavailable,
    SegtableError,
)
from airflow_provider_segtable.core.log_store.manifest import CommittedEnd, Epoch, Offset, Position
from airflow_provider_segtable.core.log_store.reading import (
    Behind,
    BucketStatus,
    Found,
    Reset,
    Whence,
)
from airflow_provider_segtable.log_store import flight_streams as messages
from airflow_provider_segtable.log_store.buckets import Bucket, Buckets, checked_schema
from airflow_provider_segtable.log_store.flight_streams import (
    ANSWER,
    CALL_S,
    RECORDS,
    Connection,
    FlightSecurity,
    InStream,
    Message,
    OutStream,
    Sent,
    empty_batch,
    encoded,
)
from airflow_provider_segtable.log_store.memory_store import MemoryLogClient
from airflow_provider_segtable.ports.log_store import (
    DeployMode,
    LogContext,
    RecordBatch,
    Records,
)

MESSAGE_SIZE = 1 << 20
"""Size below which a reader that is late gets batches as one."""
LOOK_S = 1.0
"""How often a stream without records looks for its reader."""
CLOSE_S = 5.0
"""How long ``close`` waits for streams whose clients do not react."""


# The server
class FlightLogServer(flight.FlightServerBase):
    """Serves buckets to writers and readers."""

    def __init__(self, location: str, buckets: Buckets, **options: Any) -> None:
        super().__init__(location, **options)
        self._buckets = buckets
        self._empty = empty_batch(buckets.context.schema)
        self._writers: set[_Answers] = set()
        self._closing = threading.Lock()

    def do_action(self, _: Any, action: Any) -> Iterator[bytes]:
        """Begin an epoch, or answer with the status, or with the version of a checkpoint."""
        asked = messages.decoded(action.body)
        actions: dict[str, Callable[[Message], list[Any]]] = {
            messages.BEGIN: self._begin,
            messages.STATUS: self._status,
            messages.CHECKPOINT: self._checkpoint,
        }
        try:
            return iter(actions[action.type](asked))
        except SegtableError as error:
            return iter([encoded(messages.refusal(error))])

    def do_put(self, _: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """Append the batches of a writer, and answer each."""
        asked = messages.decoded(descriptor.command)
        answers = _Answers(writer)
        with self._closing:
            self._writers.add(answers)
        try:
            bucket = self._buckets.bucket(asked["bucket"])
            self._buckets.check_schema(reader.schema)
            for chunk in reader:
                answers.write(_appended(bucket, asked["epoch"], chunk))
        except SegtableError as error:
            answers.write(encoded(messages.refusal(error)))
        finally:
            with self._closing:
                self._writers.discard(answers)

    def do_get(self, context: Any, ticket: Any) -> Any:
        """Send a reader the records from its position on."""
        asked = messages.decoded(ticket.ticket)
        return flight.GeneratorStream(self._buckets.context.schema, self._events(context, asked))

    def close(self) -> None:
        """End all streams, and stop listening."""
        self._buckets.close()
        gone = LogStoreUnavailable("the log store was shut down: connect to its successor")
        with self._closing:
            for answers in self._writers:
                answers.write(encoded(messages.refusal(gone)))
        ending = threading.Thread(target=self.shutdown, daemon=True)
        ending.start()
        ending.join(CLOSE_S)

    def _begin(self, asked: Message) -> list[Any]:
        """Answer with the offset of the epoch, and the table's schema."""
        end = self._buckets.bucket(asked["bucket"]).begin(
            epoch=asked["epoch"],
            writer=asked["writer"],
            committed=messages.committed_end(asked["committed"]),
        )
        return [encoded({"end": end}), self._buckets.context.schema.serialize()]

    def _status(self, _: Message) -> list[Any]:
        found = self._buckets.status().values()
        return [encoded({"buckets": [*map(messages.status_message, found)]})]

    def _checkpoint(self, asked: Message) -> list[Any]:
        return [encoded({"version": self._buckets.request_checkpoint(asked["wait_s"])})]

    def _events(self, context: Any, asked: Message) -> Iterator[tuple[Any, bytes]]:
        try:
            bucket = self._buckets.bucket(asked["bucket"])
            at = _start(bucket, asked)
            yield self._empty, encoded({"at": messages.pair(at)})
            while not context.is_cancelled():
                match bucket.read(at, wait_s=LOOK_S, most_size=MESSAGE_SIZE):
                    case Found() as found:
                        at = found.next
                        yield (
                            _together(found),
                            RECORDS.encoded(found.first, at.epoch, at.offset, found.size),
                        )
                    case Reset() as reset:
                        at = reset.position
                        yield self._empty, encoded({"reset": messages.pair(at)})
                    case Behind(first_available=first):
                        yield self._empty, encoded({"behind": first})
                        return
        except SegtableError as error:
            yield self._empty, encoded(messages.refusal(error))


class _Answers:
    """The answers to one writer: its own thread writes them, and ``close`` may write one more."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer
        self._mutex = threading.Lock()

    def write(self, message: bytes) -> None:
        """Write one answer; a disconnected writer needs none."""
        with self._mutex:
            try:
                self._writer.write(message)
            except (flight.FlightError, pa.ArrowException, OSError):
                return


def _appended(bucket: Bucket, epoch: int, chunk: Any) -> bytes:
    """Append one batch; return the answer."""
    asked = messages.decoded(chunk.app_metadata)
    answer = bucket.append(
        chunk.data, epoch=epoch, sequence=asked["sequence"], wait_s=asked["wait_s"]
    )
    return ANSWER.encoded(answer.first, answer.committed)


def _together(found: Found[Any]) -> Any:
    """Return the rows at a reader's position."""
    parts = [batch.content for batch in found.batches]
    rows = pa.concat_batches(parts) if len(parts) > 1 else parts[0]
    return rows.slice(found.skip) if found.skip else rows


def _start(bucket: Bucket, asked: Message) -> Position | None:
    if "whence" in asked:
        return bucket.position_of(Whence(asked["whence"]))
    return messages.position(asked["at"])


MOST_UNANSWERED = 64
MOST_BYTES = 16 << 20
RECONNECT_S = 10.0
"""How long a writer tries to reach its store again."""
ANSWER_S = 20.0
"""How much longer than an append may wait for room its answer may take."""
PAUSE_S = 0.05


# The writer of a bucket
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
        """Wait until few enough answers are missing; resend records that a broken stream lost."""
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
        """Take the received answers."""
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


# The reader of a bucket
class FlightLogReader:
    """A reader of one bucket."""

    def __init__(self, connection: Connection, bucket: int, start: Position | Whence) -> None:
        self._connection, self._bucket = connection, bucket
        self._stream: InStream | None = None
        self.position: Position | None = None
        self.seek(start)

    def read(self, *, wait_s: float) -> Records | Reset | Behind | None:
        """Return the next batch; None if there is none in time."""
        deadline = time.monotonic() + wait_s
        while True:
            stream = self._stream or self._opened({"at": messages.pair(self.position)})
            come = stream.take(max(0.0, deadline - time.monotonic()))
            if come is not None:
                return self._taken(*come)
            if not stream.ended:
                return None
            self._drop()

    def seek(self, start: Position | Whence) -> None:
        """Go on from another position."""
        self._drop()
        if isinstance(start, Whence):
            self._opened({"whence": start.value})
        else:
            self._opened({"at": messages.pair(start)})

    def close(self) -> None:
        """Release the reader."""
        self._drop()
        self._connection.close()

    def _opened(self, start: Message) -> InStream:
        """Open a stream; its first message is the position at which it begins."""
        stream = InStream(self._connection.get({"bucket": self._bucket, **start}))
        come = stream.take(CALL_S)
        if come is None:
            stream.close()
            raise LogStoreUnavailable(
                f"the log store at {self._connection.address} sends nothing: read again, or look "
                "up its address"
            )
        self._raise_refusal(come[0])
        self._stream, self.position = stream, messages.position(come[0]["at"])
        return stream

    def _taken(self, message: Message, batch: RecordBatch) -> Records | Reset | Behind:
        self._raise_refusal(message)
        if "behind" in message:
            self._drop()
            return Behind(first_available=message["behind"])
        if "reset" in message:
            epoch, offset = message["reset"]
            reset = Reset(epoch=epoch, offset=offset)
            self.position = reset.position
            return reset
        self.position = Position(epoch=message["epoch"], offset=message["offset"])
        return Records(first=message["first"], batch=batch)

    def _raise_refusal(self, message: Message) -> None:
        refusal = messages.refused(message)
        if refusal is not None:
            self._drop()
            raise refusal

    def _drop(self) -> None:
        stream, self._stream = self._stream, None
        if stream:
            stream.close()


OPEN = FlightSecurity()


# The store and its clients
@dataclass(frozen=True, slots=True, kw_only=True)
class FlightLogStoreProvider:
    """Creates stores that listen at ``host``, and connects to stores at any address.

    ``port`` 0 takes a free one. Clients reach the store at ``advertise``, by default at ``host``.
    No stream of a client lasts longer than ``stream_s``.
    """

    host: str = "127.0.0.1"
    port: int = 0
    advertise: str = ""
    deploy_mode: DeployMode = DeployMode.EMBEDDED
    security: FlightSecurity = OPEN
    stream_s: float = 60.0

    def create(self, context: LogContext) -> "FlightLogStore":
        """Return a store that is not started yet."""
        return FlightLogStore(context, self)

    def connect(self, address: str) -> "FlightLogClient":
        """Return a client of the store at an address."""
        return FlightLogClient(address, self.security, self.stream_s)


class FlightLogStore(Buckets):
    """The buckets of a context, served over Arrow Flight."""

    def __init__(self, context: LogContext, provider: FlightLogStoreProvider) -> None:
        super().__init__(context)
        self.deploy_mode = provider.deploy_mode
        self._provider = provider
        self._server: FlightLogServer | None = None

    @property
    def address(self) -> str:
        """Return the address for clients, once started."""
        if self._server is None:
            raise LogStoreUnavailable("this log store has no address yet: start it")
        host = self._provider.advertise or self._provider.host
        return f"{self._provider.security.scheme}://{host}:{self._server.port}"

    def start(self) -> None:
        """Begin to serve."""
        host, security = self._provider.host, self._provider.security
        options = security.server_options(host)
        location = f"{security.scheme}://{host}:{self._provider.port}"
        try:
            self._server = FlightLogServer(location, self, **options)
        except (pa.ArrowException, OSError) as error:
            raise LogStoreUnavailable(
                f"no log store can listen at {location} ({error}): choose another port"
            ) from error

    def client(self) -> MemoryLogClient:
        """Return a client in this process: its records do not go through the network."""
        return MemoryLogClient(self)

    def shutdown(self) -> None:
        """Stop serving, and end all streams."""
        self.close()
        if self._server:
            self._server.close()


@dataclass(frozen=True, slots=True, eq=False)
class FlightLogClient:
    """Access to the store at an address; it can be sent to another process."""

    address: str
    security: FlightSecurity
    stream_s: float

    def _connect(self) -> Connection:
        return Connection(self.address, self.security, self.stream_s)

    def writer(self, bucket: int, *, epoch: Epoch, committed: CommittedEnd) -> FlightLogWriter:
        """Begin an epoch of a bucket."""
        connection = self._connect()
        asked = {
            "bucket": bucket,
            "epoch": epoch,
            "writer": uuid4().hex,
            "committed": messages.end_message(committed),
        }
        begun, *schemas = connection.act(messages.BEGIN, asked)
        schema = pa.ipc.read_schema(schemas[0])
        return FlightLogWriter(connection, schema, bucket, epoch, begun["end"])

    def reader(self, bucket: int, *, start: Position | Whence) -> FlightLogReader:
        """Read a bucket."""
        return FlightLogReader(self._connect(), bucket, start)

    def status(self) -> dict[int, BucketStatus]:
        """Return the status of all buckets."""
        with closing(self._connect()) as connection:
            (answer,) = connection.act(messages.STATUS, {})
        found = map(messages.status, answer["buckets"])
        return {each.bucket: each for each in found}

    def checkpoint(self, *, wait_s: float) -> int | None:
        """Have a checkpoint made."""
        with closing(self._connect()) as connection:
            (answer,) = connection.act(messages.CHECKPOINT, {"wait_s": wait_s}, wait_s=wait_s)
        version: int | None = answer["version"]
        return version

    def together(
        self,
        sizes: Mapping[int, int],  # noqa: ARG002 - the port's form
        *,
        wait_s: float,  # noqa: ARG002 - the port's form
    ) -> AbstractContextManager[bool]:
        """Do nothing: each bucket has a stream of its own."""
        return nullcontext(enter_result=False)
