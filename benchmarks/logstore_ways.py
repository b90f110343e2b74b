"""Ways to hand records from one writer to several readers: ours, and what one would take instead.

1. ``log store``: a process of its own, over Arrow Flight. Its records are in memory until it
   commits them; here it says so every 50 ms, without a table.
2. ``embedded``: the same store in its writer's process. Only readers use the network.
3. ``table``: durable commits (``Table.append``, fsync, ZooKeeper); readers wait for the next one,
   and read the rows that it added.
4. ``redis always``, ``redis everysec``: a Redis stream with the batches as Arrow IPC messages, one
   entry each, and an append-only file with fsync before each answer, or once a second. The stream
   is trimmed to about 256 MiB. Needs ``redis-server`` and the package ``redis``; neither is ours.

Each has a server (an address and a process), a writer, and readers that begin at the end.
"""

import importlib
import importlib.util
import multiprocessing
import shutil
import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa

import airflow_provider_segtable as segtable
from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper, free_port
from airflow_provider_segtable.core.log_store.bucket import Limits
from airflow_provider_segtable.core.log_store.manifest import CommittedEnd
from airflow_provider_segtable.core.log_store.reading import Behind, Whence
from airflow_provider_segtable.log_store.flight_store import FlightLogStoreProvider
from airflow_provider_segtable.ports.log_store import LogContext, LogStore, Records

SCHEMA = pa.schema(
    [
        pa.field("at", pa.timestamp("us", tz="UTC"), nullable=False),
        ("sent_ns", pa.int64()),
        ("payload", pa.binary(84)),
    ]
)
ROW = 100
START_US = 1_356_998_400_000_000
COMMIT_S = 0.05
KEPT = 256 << 20
PIPELINE = 64
WAIT_S = 30.0
STREAM = "records"
SPAWN = multiprocessing.get_context("spawn")
PROVIDER = FlightLogStoreProvider()
LIMITS = Limits(bucket_bytes=KEPT, kept_checkpoints=1)


def batch_of(count: int) -> pa.RecordBatch:
    """Return rows that know when they were made."""
    values = (
        np.full(count, START_US),
        np.full(count, time.monotonic_ns()),
        np.full(84 * count, ord("x"), np.uint8),
    )
    columns = [
        pa.Array.from_buffers(field.type, count, [None, pa.py_buffer(each)])
        for field, each in zip(SCHEMA, values, strict=True)
    ]
    return pa.record_batch(columns, schema=SCHEMA)


class Writer(Protocol):
    """Appends batches: acknowledged, or sent ahead."""

    def append(self, batch: pa.RecordBatch) -> None:
        """Append, and wait until the way says that it has the records."""

    def send(self, batch: pa.RecordBatch) -> None:
        """Append without waiting, as far as the way can."""

    def flush(self) -> None:
        """Wait for all that was sent."""


class Reader(Protocol):
    """Reads what is appended from now on."""

    def read(self, wait_s: float) -> pa.RecordBatch | pa.Table | None:
        """Return the next records; None if there are none in time."""


class LogWriter:
    """Writes a log store's bucket."""

    def __init__(self, client: Any) -> None:
        self._writer = client.writer(0, epoch=1, committed=CommittedEnd())
        self.close = self._writer.close

    def append(self, batch: pa.RecordBatch) -> None:
        """Append, and wait for the answer."""
        self._writer.append(batch, wait_s=WAIT_S)

    def send(self, batch: pa.RecordBatch) -> None:
        """Append, and wait only if many answers are missing."""
        self._writer.send(batch, wait_s=WAIT_S)

    def flush(self) -> None:
        """Wait for all answers."""
        self._writer.flush(wait_s=WAIT_S)


class LogTail:
    """Reads a log store's bucket; after ``Behind`` it goes on at the end."""

    def __init__(self, address: str) -> None:
        self._reader = PROVIDER.connect(address).reader(0, start=Whence.LATEST)

    def read(self, wait_s: float) -> pa.RecordBatch | None:
        """Return the next batch."""
        match self._reader.read(wait_s=wait_s):
            case Records(batch=batch):
                return batch
            case Behind():
                self._reader.seek(Whence.LATEST)
        return None


@contextmanager
def committing_store() -> Iterator[LogStore]:
    """Run a store that commits what it has, without a table."""
    context = LogContext(table="b", schema=SCHEMA, buckets=(0,), limits=LIMITS)
    store, over = PROVIDER.create(context), threading.Event()

    def commit() -> None:
        while not over.wait(COMMIT_S):
            store.committed(store.checkpoint())

    store.start()
    thread = threading.Thread(target=commit)
    thread.start()
    yield store
    over.set()
    thread.join()
    store.shutdown()


def store_process(pipe: Any) -> None:
    """Serve a store until told to stop."""
    with committing_store() as store:
        pipe.send(store.address)
        pipe.recv()


class External:
    """The log store as a process of its own."""

    @contextmanager
    def serve(self, _: Path) -> Iterator[tuple[str, int]]:
        """Yield the address and the server's process id."""
        ours, theirs = SPAWN.Pipe()
        server = SPAWN.Process(target=store_process, args=(theirs,))
        server.start()
        try:
            yield ours.recv(), server.pid
        finally:
            ours.send("stop")
            server.join(WAIT_S)
            server.kill()

    @contextmanager
    def writer(self, address: str) -> Iterator[tuple[Writer, str]]:
        """Yield a writer, and the address for readers."""
        with closing(LogWriter(PROVIDER.connect(address))) as writer:
            yield writer, address

    def reader(self, address: str) -> Reader:
        """Return a reader."""
        return LogTail(address)


class Embedded(External):
    """The log store in its writer's process."""

    @contextmanager
    def serve(self, _: Path) -> Iterator[tuple[str, int]]:
        """Yield nothing: the writer serves."""
        yield "", 0

    @contextmanager
    def writer(self, address: str) -> Iterator[tuple[Writer, str]]:
        """Yield a writer, and the address for readers."""
        del address
        with committing_store() as store:
            yield LogWriter(store.client()), store.address


class Commits:
    """Commits of a table, which are durable."""

    @contextmanager
    def serve(self, folder: Path) -> Iterator[tuple[str, int]]:
        """Yield the table and its ZooKeeper."""
        with EmbeddedZooKeeper(folder / "zookeeper") as zk:
            uri = str(folder / "table")
            segtable.Table.create(
                uri, schema=SCHEMA, time_column="at", granularity="day", zookeeper=zk.address
            )
            yield f"{uri} {zk.address}", zk.pid

    @contextmanager
    def writer(self, address: str) -> Iterator[tuple[Writer, str]]:
        """Yield a writer, and the address for readers."""
        writer = TableWriter(address)
        writer.append(batch_of(1))
        yield writer, address

    def reader(self, address: str) -> Reader:
        """Return a reader."""
        return TableTail(address)


class TableWriter:
    """Appends to a table."""

    def __init__(self, address: str) -> None:
        uri, zookeeper = address.split()
        self._table = segtable.Table.open(uri, zookeeper=zookeeper)

    def append(self, batch: pa.RecordBatch) -> None:
        """Commit."""
        self._table.append(pa.table(batch))

    send = append

    def flush(self) -> None:
        """All is committed."""


class TableTail:
    """Reads the rows of each new version of a table."""

    def __init__(self, address: str) -> None:
        uri, zookeeper = address.split()
        self._table = segtable.Table.open(uri, zookeeper=zookeeper)
        state = self._table.state()
        self._id, self._seen = state.table.table_id, state.n

    def read(self, wait_s: float) -> pa.Table | None:
        """Wait for a version, and read what was added since the last one."""
        coordinator = self._table.ports.coordinator
        coordinator.wait_head(self._id, beyond=self._seen, wait_s=wait_s)
        found = self._table.scan(since_version=self._seen)
        self._seen = found.state.n
        rows = found.to_arrow()
        return rows if rows.num_rows else None


@dataclass(frozen=True)
class Redis:
    """A Redis stream, with an append-only file."""

    fsync: str

    @contextmanager
    def serve(self, folder: Path) -> Iterator[tuple[str, int]]:
        """Yield the port and the server's process id."""
        port = free_port()
        options = {"port": port, "bind": "127.0.0.1", "dir": folder, "save": ""}
        options |= {"appendonly": "yes", "appendfsync": self.fsync}
        command = ["redis-server"]
        for name, value in options.items():
            command += [f"--{name}", str(value)]
        with subprocess.Popen(command, stdout=subprocess.DEVNULL) as server:
            _wait_for(connected(str(port)))
            yield str(port), server.pid
            server.terminate()

    @contextmanager
    def writer(self, address: str) -> Iterator[tuple[Writer, str]]:
        """Yield a writer, and the address for readers."""
        yield RedisWriter(address), address

    def reader(self, address: str) -> Reader:
        """Return a reader."""
        return RedisTail(address)


class RedisWriter:
    """Adds batches to a stream."""

    def __init__(self, address: str) -> None:
        self._redis = connected(address)
        self._ahead = self._redis.pipeline(transaction=False)

    def append(self, batch: pa.RecordBatch) -> None:
        """Add an entry."""
        self._add(self._redis, batch)

    def send(self, batch: pa.RecordBatch) -> None:
        """Add an entry with the next ones."""
        self._add(self._ahead, batch)
        if len(self._ahead) >= PIPELINE:
            self._ahead.execute()

    def flush(self) -> None:
        """Add the last entries."""
        self._ahead.execute()

    def _add(self, to: Any, batch: pa.RecordBatch) -> None:
        most = max(1, KEPT // batch.nbytes)
        to.xadd(STREAM, {"b": batch.serialize().to_pybytes()}, maxlen=most, approximate=True)


class RedisTail:
    """Reads a stream."""

    def __init__(self, address: str) -> None:
        self._redis = connected(address)
        newest = self._redis.xrevrange(STREAM, count=1)
        self._seen = newest[0][0] if newest else b"0"

    def read(self, wait_s: float) -> pa.Table | None:
        """Return the batches of the next entries."""
        found = self._redis.xread({STREAM: self._seen}, count=PIPELINE, block=int(1000 * wait_s))
        entries = [entry for each in _streams(found) for entry in each]
        if not entries:
            return None
        self._seen = entries[-1][0]
        messages = [pa.py_buffer(fields[b"b"]) for _, fields in entries]
        return pa.Table.from_batches([pa.ipc.read_record_batch(m, SCHEMA) for m in messages])


def connected(address: str) -> Any:
    """Return a connection to Redis."""
    redis = importlib.import_module("redis")
    return redis.Redis(host="127.0.0.1", port=int(address), protocol=2)


def missing() -> str:
    """Return what Redis needs and this machine has not; empty if nothing."""
    lacks = [] if shutil.which("redis-server") else ["redis-server"]
    lacks += [] if importlib.util.find_spec("redis") else ["the Python package redis"]
    return " and ".join(lacks)


def _streams(found: Any) -> list[Any]:
    return [entries for _, entries in found or []]


def _wait_for(redis: Any) -> None:
    for _ in range(200):
        with suppress(Exception):
            redis.ping()
            return
        time.sleep(0.05)
    raise SystemExit("redis-server does not answer")


WAYS = {
    "log store": External(),
    "embedded": Embedded(),
    "table": Commits(),
    "redis always": Redis("always"),
    "redis everysec": Redis("everysec"),
}
