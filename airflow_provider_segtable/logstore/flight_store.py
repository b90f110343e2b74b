"""A log store over Arrow Flight: beside its writer, or as a process of its own.

Rules of the records are those of every store (``core.log_store``); ``flight_server`` serves them.
"""

from collections.abc import Callable, Collection, Mapping
from contextlib import AbstractContextManager, closing, nullcontext
from dataclasses import dataclass
from uuid import uuid4

import pyarrow as pa

from airflow_provider_segtable.core.errors import LogStoreUnavailable
from airflow_provider_segtable.core.log_store.manifest import CommittedEnd, Epoch, Position
from airflow_provider_segtable.core.log_store.reading import BucketStatus, Whence
from airflow_provider_segtable.logstore import flight_messages as messages
from airflow_provider_segtable.logstore.buckets import Buckets
from airflow_provider_segtable.logstore.flight_reader import FlightLogReader
from airflow_provider_segtable.logstore.flight_security import FlightSecurity
from airflow_provider_segtable.logstore.flight_server import FlightLogServer
from airflow_provider_segtable.logstore.flight_streams import Connection
from airflow_provider_segtable.logstore.flight_writer import FlightLogWriter
from airflow_provider_segtable.logstore.memory_store import MemoryLogClient
from airflow_provider_segtable.ports.log_store import (
    Cut,
    DeployMode,
    LogContext,
    ServeCheckpoint,
)

OPEN = FlightSecurity()


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
        return FlightLogClient(lambda: Connection(address, self.security, self.stream_s))


class FlightLogStore:
    """The buckets of a context, served over Arrow Flight."""

    def __init__(self, context: LogContext, provider: FlightLogStoreProvider) -> None:
        self.deploy_mode = provider.deploy_mode
        self._provider = provider
        self._buckets = Buckets(context)
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
            self._server = FlightLogServer(location, self._buckets, **options)
        except (pa.ArrowException, OSError) as error:
            raise LogStoreUnavailable(
                f"no log store can listen at {location} ({error}): choose another port"
            ) from error

    def checkpoint(self) -> Cut:
        """Cut every bucket."""
        return self._buckets.checkpoint()

    def committed(self, cut: Cut) -> None:
        """Record that the table's log has the cut."""
        self._buckets.committed(cut)

    def abandon(self, cut: Cut) -> None:
        """Return the records of a cut to the next one."""
        self._buckets.abandon(cut)

    def fence(self, bucket: int, epoch: Epoch) -> None:
        """Give a bucket up."""
        self._buckets.fence(bucket, epoch)

    def confirming(self, lease_s: float) -> AbstractContextManager[None]:
        """Answer writers until so many seconds after the begin of a block that reads the log."""
        return self._buckets.confirming(lease_s)

    def client(self) -> MemoryLogClient:
        """Return a client in this process: its records do not go through the network."""
        return MemoryLogClient(self._buckets)

    def status(self) -> dict[int, BucketStatus]:
        """Return the status of all buckets."""
        return self._buckets.status()

    def seal(self, buckets: Collection[int]) -> None:
        """Take no more records into some buckets."""
        self._buckets.seal(buckets)

    def serve(self, buckets: Collection[int]) -> None:
        """Serve these buckets and no others."""
        self._buckets.serve(buckets)

    def serve_checkpoints(self, serve: ServeCheckpoint) -> None:
        """Let requests for a checkpoint be served."""
        self._buckets.serve_checkpoints(serve)

    def shutdown(self) -> None:
        """Stop serving, and end all streams."""
        self._buckets.close()
        if self._server:
            self._server.close()


class FlightLogClient:
    """Access to the store at an address."""

    def __init__(self, connect: Callable[[], Connection]) -> None:
        self._connect = connect

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
