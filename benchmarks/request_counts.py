"""How many requests each operation sends to an object store, and how many of them in a row.

1. An S3 server runs on loopback: versitygw (``--gateway PATH``), or moto from the environment. A
   proxy in front of it counts requests by kind and bytes, and waits ``--wait`` ms before it passes
   a request on, as a network would.
2. *In a row* is the longest chain of requests of which each began after the one before had ended.
   It times the wait is what an operation cannot be faster than.
3. Tables of 10, 1,000 and 100,000 segments. All but ten segments are in the log's checkpoint only:
   their files do not exist, and nothing here reads them. The last chunk has ten real files, each
   of its own append, so that the log has ten events after its checkpoint.
4. Each operation runs once before it is counted, on the same table: connections are open, modules
   imported, clocks compared. ``open`` is always that of a new process: a table without caches.
5. ``scan`` reads two of four columns of the chunk of ten files. ``waste`` is the bytes received per
   byte of these column chunks. ``delete`` deletes some rows of that chunk, ``minor`` merges its
   files, ``upsert`` writes to a table with a primary key, and ``publish`` puts the version after
   one more append, in each format.
6. Beside it, deltalake and pyiceberg open, append to and scan a table of ten files.
7. ``--merge MB`` times a minor compaction of so many bytes without and with the wait, instead.

The script is not named after the requests themselves: a module of that name in this folder would
hide the package ``requests`` from all other benchmarks.

Usage: ``python benchmarks/request_counts.py [--quick] [--gateway PATH] [--wait MS] [--sizes N,N]
[--rows N] [--rivals] [--merge MB]``.
"""

import argparse
import asyncio
import contextlib
import json
import socket
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.request import urlopen

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from airflow_provider_segtable.coordination.memory import MemoryCoordinator, MemoryService
from airflow_provider_segtable.core.log.events import Event, encode
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.fold import apply
from airflow_provider_segtable.core.log.log_paths import event_path
from airflow_provider_segtable.core.segment import ChunkKey, Segment, Shard
from airflow_provider_segtable.core.time import HOUR_US, Granularity, Interval, iso
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.services.planner import plan_table
from airflow_provider_segtable.services.publishing import publish_all
from airflow_provider_segtable.table.context import open_context
from airflow_provider_segtable.table.log.checkpoint import read_checkpoint, write_checkpoint

BUCKET = "counted"
KEY, SECRET = "counting", "counting-secret"
START = Granularity.HOUR.chunk(1_356_998_400_000_000).start
REAL_FILES = 10
IN_CHUNK = 100
EVENT_SEGMENTS = 5000
KINDS = ("GET", "HEAD", "LIST", "PUT", "POST", "DELETE")
SCHEMA = pa.schema(
    [
        pa.field("at", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("n", pa.int64(), nullable=False),
        pa.field("word", pa.string()),
        pa.field("x", pa.float64()),
    ]
)


# The counting proxy, a process of its own
@dataclass(slots=True)
class Request:
    """One request: its kind, when it began and ended, and the bytes of both bodies."""

    kind: str
    path: str
    begin: float
    end: float = 0.0
    sent: int = 0
    received: int = 0


@dataclass
class Proxy:
    """Passes requests on to a server, after a wait, and counts them."""

    port: int
    wait_s: float = 0.0
    seen: list[Request] = field(default_factory=list)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one connection of a client through one connection to the server."""
        with contextlib.suppress(ConnectionError, asyncio.IncompleteReadError):
            behind = await asyncio.open_connection("127.0.0.1", self.port)
            try:
                while head := await _head(reader):
                    await self._one(head, (reader, writer), behind)
            finally:
                behind[1].close()
        writer.close()

    async def _one(self, head: bytes, client: Any, behind: Any) -> None:
        method, path, _ = head.split(b" ", 2)
        if path.startswith(b"/_proxy/"):
            await self._control(path.decode(), client[1])
            return
        kind = "LIST" if method == b"GET" and b"list-type=2" in path else method.decode()
        one = Request(kind, path.decode(), time.perf_counter())
        if b"100-continue" in head.lower():
            client[1].write(b"HTTP/1.1 100 Continue\r\n\r\n")
            head = b"\r\n".join(x for x in head.split(b"\r\n") if b"100-continue" not in x.lower())
        if self.wait_s:
            await asyncio.sleep(self.wait_s)
        behind[1].write(head)
        one.sent = await _body(head, client[0], behind[1])
        answer = await _head(behind[0])
        client[1].write(answer)
        status = answer.split(b" ", 2)[1]
        if kind != "HEAD" and status not in {b"204", b"304"}:
            one.received = await _body(answer, behind[0], client[1])
        one.end = time.perf_counter()
        self.seen.append(one)
        await client[1].drain()

    async def _control(self, path: str, writer: asyncio.StreamWriter) -> None:
        """Take the wait, and return the requests since the last call."""
        self.wait_s = float(path.rpartition("/")[2]) / 1000
        seen, self.seen = self.seen, []
        fields = [(r.kind, r.path, r.begin, r.end, r.sent, r.received) for r in seen]
        text = json.dumps(fields).encode()
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: %d\r\n\r\n" % len(text) + text)
        await writer.drain()


async def _head(reader: asyncio.StreamReader) -> bytes:
    """Return the lines before a body; empty at the end of the connection."""
    try:
        return await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return b""


async def _body(head: bytes, source: Any, target: Any) -> int:
    """Pass a body on; return its length."""
    lines = (line.partition(b":") for line in head.lower().split(b"\r\n")[1:])
    fields = {name: value.strip() for name, _, value in lines}
    if fields.get(b"transfer-encoding") == b"chunked":
        return await _chunks(source, target)
    left = length = int(fields.get(b"content-length", 0))
    while left:
        piece = await source.read(min(left, 1 << 18))
        if not piece:
            raise ConnectionResetError
        target.write(piece)
        await target.drain()
        left -= len(piece)
    return length


async def _chunks(source: Any, target: Any) -> int:
    total = 0
    while True:
        line = await source.readuntil(b"\r\n")
        length = int(line.partition(b";")[0], 16)
        target.write(line + await source.readexactly(length + 2))
        total += length
        if not length:
            return total


async def _run_proxy(port: int, behind: int) -> None:
    server = await asyncio.start_server(Proxy(behind).serve, "127.0.0.1", port, limit=1 << 20)
    async with server:
        await server.serve_forever()


# Server and proxy, as the operations see them
@dataclass(frozen=True, slots=True)
class Counts:
    """The requests of one operation."""

    requests: tuple[Request, ...]
    seconds: float

    @property
    def in_a_row(self) -> int:
        """Return the length of the longest chain of requests one after another."""
        count, until = 0, 0.0
        for one in sorted(self.requests, key=lambda each: each.end):
            if one.begin >= until:
                count, until = count + 1, one.end
        return count

    @property
    def kinds(self) -> Counter[str]:
        """Return the number of requests of each kind."""
        return Counter(one.kind for one in self.requests)

    def bytes(self) -> tuple[int, int]:
        """Return the bytes sent and received."""
        return sum(r.sent for r in self.requests), sum(r.received for r in self.requests)


@dataclass
class Store:
    """The bucket behind the proxy."""

    port: int
    wait_ms: float

    @property
    def options(self) -> dict[str, str]:
        """Return the storage options."""
        return {
            "endpoint": f"http://127.0.0.1:{self.port}",
            "allow_http": "true",
            "region": "us-east-1",
            "access_key_id": KEY,
            "secret_access_key": SECRET,
            "virtual_hosted_style_request": "false",
        }

    def wait(self, milliseconds: float) -> list[Request]:
        """Set the wait of each request; return the requests since the last call."""
        address = f"http://127.0.0.1:{self.port}/_proxy/{milliseconds}"
        with urlopen(address, timeout=60) as answer:
            return [Request(*fields) for fields in json.load(answer)]

    def counted(self, act: Callable[[], Any]) -> Counts:
        """Return the requests of an operation, each with the wait."""
        self.wait(self.wait_ms)
        begin = time.perf_counter()
        act()
        seconds = time.perf_counter() - begin
        return Counts(tuple(self.wait(0)), seconds)


@contextlib.contextmanager
def running(gateway: str, wait_ms: float) -> Iterator[Store]:
    """Yield the bucket of a new server behind a proxy."""
    with contextlib.ExitStack() as stack:
        behind, port = _free_port(), _free_port()
        folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="segtable-requests-"))
        if gateway:
            address = f"127.0.0.1:{behind}"
            ports = ["--port", address, "--access", KEY, "--secret", SECRET]
            command = [gateway, *ports, "posix", folder]
        else:
            command = [sys.executable, "-m", "moto.server", "-H", "127.0.0.1", "-p", str(behind)]
        proxy = [sys.executable, __file__, "--proxy", str(port), str(behind)]
        for each in (command, proxy):
            quiet = subprocess.DEVNULL
            process = subprocess.Popen(each, stdout=quiet, stderr=quiet)
            stack.callback(process.wait)
            stack.callback(process.terminate)
        for each in (behind, port):
            _await(each)
        _make_bucket(Store(port, 0))
        yield Store(port, wait_ms)


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def _await(port: int) -> None:
    for _ in range(600):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
            return
        time.sleep(0.1)
    raise SystemExit(f"nothing listens on port {port} after a minute")


def _make_bucket(store: Store) -> None:
    from pyarrow import fs

    client = fs.S3FileSystem(
        access_key=KEY,
        secret_key=SECRET,
        region="us-east-1",
        scheme="http",
        endpoint_override=f"127.0.0.1:{store.port}",
        allow_bucket_creation=True,
    )
    client.create_dir(BUCKET)


# Tables
def opened(store: Store, name: str) -> Table:
    """Open a table as a new process does, with coordination in memory."""
    ports = open_context(f"s3://{BUCKET}/{name}", storage_options=store.options)
    coordinator = MemoryCoordinator(ports.clock, MemoryService())
    return Table(replace(ports, optional_coordinator=coordinator))


def rows(hour: int, count: int, seed: int = 0) -> pa.Table:
    """Return rows of one hour; the values of ``word`` and ``x`` hardly repeat."""
    numbers = np.arange(count, dtype=np.int64)
    words = pc.utf8_lpad(pc.cast((seed + numbers) * 7919 % 100_003, pa.string()), 6, "0")
    return pa.table(
        {
            "at": START + hour * HOUR_US + numbers * (HOUR_US // count),
            "n": seed * count + numbers,
            "word": pc.binary_join_element_wise("word", words, " "),
            "x": (seed + numbers) * 104_729 % 1_000_003 / 7,
        }
    ).cast(SCHEMA)


def _segments(version: int, count: int) -> Iterator[Segment]:
    for number in range(count):
        hour, partition = divmod(number, IN_CHUNK)
        start = START + hour * HOUR_US
        key = ChunkKey(Interval(start, start + HOUR_US), version)
        yield Segment(
            id=key.segment(partition),
            shard=Shard.first_generation(partition),
            path=f"data/{key.interval.name}/{partition:05d}-{number:016x}.parquet",
            rows=20_000,
            size=1 << 28,  # not worth compacting
            row_groups=1,
            time_min=start,
            time_max=start + HOUR_US - 1,
            created=start,
        )


def last_hour(size: int) -> int:
    """Return the number of the hour that has the real files."""
    return size // IN_CHUNK + 1


def make(store: Store, name: str, size: int, file_rows: int) -> None:
    """Make a table of so many segments: those of the last chunk are real."""
    uri = f"s3://{BUCKET}/{name}"
    described = {"schema": SCHEMA, "time_column": "at", "granularity": "hour"}
    Table.create(uri, **described, storage_options=store.options)
    table = opened(store, name)
    log = table.ports.log
    state = log.load()
    left = _segments(state.base_version, size - REAL_FILES)
    while some := tuple(islice(left, EVENT_SEGMENTS)):
        event = Event(
            n=state.n + 1,
            time=state.time + 1,
            commit=f"append-{state.n}",
            author="requests",
            action=Appended(segments=some),
        )
        state = apply(state, event)
        table.ports.storage.create(event_path(event.n), encode(event))
    log.checkpoint(read_checkpoint(write_checkpoint(state)))
    log.remember(state)
    for seed in range(REAL_FILES):
        table.append(rows(last_hour(size), file_rows, seed))


# Operations
def operations(store: Store, size: int, file_rows: int) -> Iterator[tuple[str, Counts, str]]:
    """Yield the operations on a table of a size, each with its requests and a remark."""
    name = f"size-{size}"
    make(store, name, size, file_rows)
    hour = last_hour(size)
    begin = START + hour * HOUR_US
    chunk = Interval(begin, begin + HOUR_US)
    opened(store, name).state()
    yield "open", store.counted(lambda: opened(store, name).state()), ""
    table = opened(store, name)
    scan = table.scan(columns=["at", "n"], interval=chunk)
    scan.to_arrow()
    found = store.counted(scan.to_arrow)
    plan = scan.explain()
    wanted = sum(group.column_bytes for file in plan.files for group in file.groups)
    yield "scan of a chunk", found, f"waste {found.bytes()[1] / wanted:.2f}"
    one = rows(0, 100)
    table.append(one)
    yield "append", store.counted(lambda: table.append(one)), ""
    plan_table(table.ports, dry_run=True)
    yield "plan", store.counted(lambda: plan_table(table.ports, dry_run=True)), ""
    inside = f"at >= '{iso(begin)}' and n <"
    table.delete(where=f"{inside} 10")
    yield "delete", store.counted(lambda: table.delete(where=f"{inside} 20")), ""
    yield "minor", store.counted(lambda: table.compact("minor", interval=chunk)), ""
    yield from _published(store, table, one)


def _published(store: Store, table: Table, one: pa.Table) -> Iterator[tuple[str, Counts, str]]:
    if "size-10/" not in f"{table.ports.uri}/":
        return  # the files of larger tables do not exist, and publishing reads their footers
    for form in ("delta", "iceberg"):
        table.alter(set={f"publish.{form}": "on", "publish.on_commit": "off"})
        publish_all(table.ports)
        table.append(one)
        yield f"publish ({form})", store.counted(lambda: publish_all(table.ports)), ""
        table.alter(set={f"publish.{form}": "off"})


def keyed(store: Store, file_rows: int) -> Iterator[tuple[str, Counts, str]]:
    """Yield an upsert into a table with a primary key."""
    keys = {"primary_key": ["n"], "ordering": "x", "buckets": 1}
    described = {"schema": SCHEMA, "time_column": "at", "granularity": "hour", **keys}
    Table.create(f"s3://{BUCKET}/keyed", **described, storage_options=store.options)
    table = opened(store, "keyed")
    some = rows(0, file_rows)
    table.upsert(some)
    yield "upsert", store.counted(lambda: table.upsert(some)), ""


def rivals(store: Store, file_rows: int) -> Iterator[tuple[str, Counts, str]]:
    """Yield the operations of deltalake and pyiceberg on a table of ten files."""
    yield from _deltalake(store, file_rows)
    yield from _pyiceberg(store, file_rows)


def _deltalake(store: Store, file_rows: int) -> Iterator[tuple[str, Counts, str]]:
    from deltalake import DeltaTable, write_deltalake

    options = {f"aws_{name}": value for name, value in store.options.items()}
    where = f"s3://{BUCKET}/rival-delta"
    for seed in range(REAL_FILES):
        some = rows(0, file_rows, seed)
        write_deltalake(where, some, mode="append", storage_options=options)
    table = DeltaTable(where, storage_options=options)
    yield "deltalake: open", store.counted(lambda: DeltaTable(where, storage_options=options)), ""
    found = store.counted(lambda: table.to_pyarrow_table(columns=["at", "n"]))
    yield "deltalake: scan of ten files", found, ""
    one = rows(0, 100)
    yield (
        "deltalake: append",
        store.counted(lambda: write_deltalake(table, one, mode="append")),
        "",
    )


def _pyiceberg(store: Store, file_rows: int) -> Iterator[tuple[str, Counts, str]]:
    from pyiceberg.catalog.memory import InMemoryCatalog

    options = store.options
    catalog = InMemoryCatalog(
        "counted",
        **{
            "warehouse": f"s3://{BUCKET}/rival-iceberg",
            "s3.endpoint": options["endpoint"],
            "s3.access-key-id": KEY,
            "s3.secret-access-key": SECRET,
            "s3.region": options["region"],
        },
    )
    catalog.create_namespace("counted")
    table = catalog.create_table("counted.rival", schema=SCHEMA)
    for seed in range(REAL_FILES):
        table.append(rows(0, file_rows, seed))
    yield "pyiceberg: open", store.counted(lambda: catalog.load_table("counted.rival")), ""
    found = store.counted(lambda: table.scan(selected_fields=("at", "n")).to_arrow())
    yield "pyiceberg: scan of ten files", found, ""
    yield "pyiceberg: append", store.counted(lambda: table.append(rows(0, 100))), ""


def merged(store: Store, megabytes: int, *, trace: bool) -> Iterator[str]:
    """Yield the lines about a minor compaction of so many bytes, without and with the wait."""
    file_rows, files = 200_000, max(2, megabytes * 5 // 8)
    for wait_ms in (0.0, store.wait_ms):
        name = f"merge-{wait_ms:g}"
        uri = f"s3://{BUCKET}/{name}"
        described = {"schema": SCHEMA, "time_column": "at", "granularity": "hour"}
        Table.create(uri, **described, storage_options=store.options)
        table = opened(store, name)
        for seed in range(files):
            table.append(rows(0, file_rows, seed))
        found = replace(store, wait_ms=wait_ms).counted(lambda table=table: table.compact("minor"))
        sent, received = found.bytes()
        yield (
            f"minor of {files} files, {received / 1e6:.0f} MB read, {sent / 1e6:.0f} MB written, "
            f"wait {wait_ms:g} ms: {found.seconds:.2f} s, {len(found.requests)} requests, "
            f"{found.in_a_row} in a row"
        )
        if trace:
            _print_trace(found)


# The report
def line(size: str, name: str, counts: Counts, remark: str) -> str:
    """Return a line of the table."""
    kinds = counts.kinds
    sent, received = counts.bytes()
    cells = [size, name, str(len(counts.requests))]
    cells += [str(kinds[kind] or "") for kind in KINDS]
    cells += [str(counts.in_a_row), f"{sent / 1000:,.0f}", f"{received / 1000:,.0f}"]
    return f"| {' | '.join([*cells, f'{counts.seconds:.2f}', remark])} |"


def main() -> None:
    """Measure, and print one table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--gateway", default="", help="versitygw; moto without it")
    parser.add_argument("--wait", type=float, default=30.0, help="ms before each request")
    parser.add_argument("--sizes", default="10,1000,100000")
    parser.add_argument("--rows", type=int, default=200_000, help="rows of a file; 7.5 bytes each")
    parser.add_argument("--rivals", action="store_true")
    parser.add_argument("--merge", type=int, default=0, help="MB of a compaction to time instead")
    parser.add_argument("--trace", action="store_true", help="print each request")
    parser.add_argument("--proxy", nargs=2, type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.proxy:
        asyncio.run(_run_proxy(*given.proxy))
        return
    sizes = [10] if given.quick else [int(size) for size in given.sizes.split(",") if size]
    file_rows = 200 if given.quick else given.rows
    with running(given.gateway, 1.0 if given.quick else given.wait) as store:
        if given.merge:
            for text in merged(store, given.merge, trace=given.trace):
                print(text)
            return
        heads = ["segments", "operation", "requests", *KINDS, "in a row"]
        heads += ["kB sent", "kB received", "s", ""]
        print(f"| {' | '.join(heads)} |")
        print("|---" * len(heads) + "|")
        parts = [(f"{size:,}", operations(store, size, file_rows)) for size in sizes]
        parts.append(("10", keyed(store, file_rows)))
        if given.rivals:
            parts.append(("10", rivals(store, file_rows)))
        for size, part in parts:
            for name, counts, remark in part:
                print(line(size, name, counts, remark), flush=True)
                if given.trace:
                    _print_trace(counts)


def _print_trace(counts: Counts) -> None:
    first = min((one.begin for one in counts.requests), default=0.0)
    for one in sorted(counts.requests, key=lambda each: each.begin):
        times = f"{(one.begin - first) * 1000:7.1f} {(one.end - first) * 1000:7.1f}"
        print(f"    {times} {one.kind:6} {one.received:9} {one.path[:110]}")


if __name__ == "__main__":
    main()
