"""The server of a log store over Arrow Flight: one thread of gRPC for each stream.

1. A writer's stream (DoPut) hands each batch to its bucket, and answers when readers can see it. It
   waits for room there, and meanwhile gRPC's flow control holds the writer up.
2. A reader's stream (DoGet) waits at the bucket, and sends what comes. It buffers nothing: a slow
   reader is a position that falls behind. While nothing comes it looks from time to time whether
   the reader is still there.
3. Batches keep the buffers that they arrived in. Nothing is decoded, and nothing copied but the
   batches that a late reader gets as one: each message costs its threads more than this copy.
4. ``close`` ends all streams: buckets wake those that wait there, and writers that send nothing are
   asked to leave. Clients limit the duration of each stream, so one that hangs cannot hold a thread
   for ever.
"""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
from pyarrow import flight

from airflow_provider_segtable.core.errors import LogStoreUnavailable, SegtableError
from airflow_provider_segtable.core.log_store.manifest import Position
from airflow_provider_segtable.core.log_store.reading import Behind, Found, Reset, Whence
from airflow_provider_segtable.logstore import flight_messages as messages
from airflow_provider_segtable.logstore.bucket import Bucket
from airflow_provider_segtable.logstore.buckets import Buckets
from airflow_provider_segtable.logstore.flight_messages import ANSWER, RECORDS, Message, encoded
from airflow_provider_segtable.logstore.flight_streams import empty_batch

MESSAGE_SIZE = 1 << 20
"""Size below which a reader that is late gets batches as one."""
LOOK_S = 1.0
"""How often a stream without records looks for its reader."""
CLOSE_S = 5.0
"""How long ``close`` waits for streams whose clients do not react."""


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
        """Send a reader what comes at its position."""
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
        """Write one answer; a writer that has gone needs none."""
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
