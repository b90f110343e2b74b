"""Streams to readers over a network that loses them, as ``log_store/flight_streams`` has them.

1. A stream holds some results that its reader has not taken yet. So what a reader takes may be old:
   the store may have ended, or its bucket may be another one's by then.
2. A lost connection loses these. The stream is opened again at the reader's position, at the same
   address: there may be another store by now, which was started anew. Or nothing answers.
3. A refusal, and that a reader is behind, end the stream.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from airflow_provider_segtable.core.errors import LogStoreUnavailable, SegtableError
from airflow_provider_segtable.core.log_store.reading import Behind, Reset
from airflow_provider_segtable.ports.log_store import Records

if TYPE_CHECKING:
    from collections.abc import Callable

    from airflow_provider_segtable.core.log_store.manifest import Position
    from airflow_provider_segtable.ports.log_store import LogClient, LogReader
    from tests.simulation.faults.faulty_storage import Faults
    from tests.simulation.simulator import Actor

MOST_WAITING = 4
LOOK_S = 0.25
Result = Records | Reset | Behind


@dataclass(eq=False)
class StreamClient:
    """A client of the stores at one address, for a reader's process."""

    connect: Callable[[], LogClient]
    actor: Actor
    faults: Faults

    def reader(self, bucket: int, *, start: Position) -> Stream:
        """Open a stream."""
        stream = Stream(self, bucket)
        stream.seek(start)
        return stream

    def __getattr__(self, name: str) -> Any:
        """Return what the client of the store has."""
        return getattr(self.connect(), name)


@dataclass(eq=False)
class Stream:
    """A reader's stream; its position is behind what was taken."""

    client: StreamClient
    bucket: int
    position: Position | None = None
    _server: LogReader | None = None
    _come: deque[tuple[Result | SegtableError, Position | None]] = field(default_factory=deque)
    _over: bool = False

    def read(self, *, wait_s: float) -> Result | None:
        """Return the next result; None if there is none in time."""
        actor = self.client.actor
        until = actor.monotonic() + wait_s
        while True:
            self._pump()
            if self._come:
                return self._taken(*self._come.popleft())
            if (left_s := until - actor.monotonic()) <= 0:
                return None
            actor.sleep(min(left_s, LOOK_S))

    def seek(self, start: Position) -> None:
        """Go on from another position."""
        self._open(start)

    def close(self) -> None:
        """Release the stream."""
        self._server = None
        self._come.clear()

    def _open(self, at: Position | None) -> None:
        self.close()
        self.client.faults.boundary(self.client.actor, f"open a stream of bucket {self.bucket}")
        if self.client.faults.happens("error"):
            raise LogStoreUnavailable(f"bucket {self.bucket}: injected: nothing answers")
        self._server = self.client.connect().reader(self.bucket, start=at)  # type: ignore[arg-type]
        self.position, self._over = at, False

    def _pump(self) -> None:
        """Let the store send, or the connection break."""
        client = self.client
        client.faults.boundary(client.actor, f"read the stream of bucket {self.bucket}")
        if self._server is None or client.faults.happens("lost_reply"):
            self._open(self.position)
        many = 1 + int(client.actor.uniform() * MOST_WAITING)
        while self._server and len(self._come) < many and not self._over and self._sent():
            pass

    def _sent(self) -> bool:
        """Let the store send a result; return whether it had one."""
        assert self._server is not None
        try:
            found = self._server.read(wait_s=0)
        except SegtableError as error:
            self._come.append((error, None))
            self._over = True
            return False
        if found is not None:
            self._come.append((found, self._server.position))
            self._over = isinstance(found, Behind)
        return found is not None

    def _taken(self, found: Result | SegtableError, after: Position | None) -> Result:
        if isinstance(found, SegtableError):
            self.close()
            raise found
        if isinstance(found, Behind):
            self.close()
        else:
            self.position = after
        return found
