"""A reader of a bucket over Arrow Flight.

1. The server pushes what comes. If the stream ends, after its time or because it broke, another
   one begins at the reader's position: nothing is lost or repeated.
2. ``Behind`` ends the stream. The next read asks again, from the same position or that of ``seek``.
"""

import time

from airflow_provider_segtable.core.errors import LogStoreUnavailable
from airflow_provider_segtable.core.log_store.manifest import Position
from airflow_provider_segtable.core.log_store.reading import Behind, Reset, Whence
from airflow_provider_segtable.logstore import flight_messages as messages
from airflow_provider_segtable.logstore.flight_messages import Message
from airflow_provider_segtable.logstore.flight_streams import CALL_S, Connection, InStream
from airflow_provider_segtable.ports.log_store import RecordBatch, Records


class FlightLogReader:
    """A reader of one bucket."""

    def __init__(self, connection: Connection, bucket: int, start: Position | Whence) -> None:
        self._connection, self._bucket = connection, bucket
        self._stream: InStream | None = None
        self.position: Position | None = None
        self.seek(start)

    def read(self, *, wait_s: float) -> Records | Reset | Behind | None:
        """Return what is next; None if nothing comes in time."""
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
