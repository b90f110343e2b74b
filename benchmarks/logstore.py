"""The log store over Arrow Flight: how soon readers see an append, and how much goes through.

1. Server, writer and each of three readers are processes of their own, on loopback. Beside the log
   store, the same goes through its embedded form, the commits of a table, and Redis streams
   (``logstore_ways``). They do not promise the same: README.md says what is durable when.
2. *Latency*: appends of one row, acknowledged, at 200 and at 1,000 a second. Each row has the time
   of its append; the clock is that of the whole machine. ``p50`` and ``p99`` are over all readers.
3. *Throughput*: batches of 1,000 rows, 100 bytes each. ``acknowledged`` waits for each answer,
   ``pipelined`` sends ahead; with and without readers. ``read`` is the share of the rows that the
   readers got: a reader of a log store that is behind goes on at the end, without the rest, and
   Redis trims its stream under slow ones. ``bare`` is the same batches on a bare Flight stream,
   with an answer for each, or with none; ``loopback`` is the processor time of their bytes on a
   plain socket, the floor of any store of several processes.
4. ``processor`` is the time of writer, server and one reader for an append. It says more than the
   rates on a busy machine. ``MiB`` is the most memory (``VmHWM``) of the same three.
5. Rounds take turns. Medians are reported.

Usage: ``python benchmarks/logstore.py [--quick] [--rounds N] [--seconds S] [--ways A,B]``.
"""

import argparse
import os
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parent))

import results
from logstore_ways import ROW, SCHEMA, SPAWN, WAYS, Writer, batch_of, missing
from pyarrow import flight

RATES = (200, 1000)
READERS = 3
BATCH = 1000
OURS = "log store"
P50_MS, P99_MS = 1.0, 5.0
LEAST_MB = {"acknowledged": 150.0, "pipelined": 500.0}


class Spent(NamedTuple):
    """What a process used: processor time, and the most memory at one time."""

    processor_s: float
    rss_mib: float

    @classmethod
    def by(cls, pid: int) -> "Spent":
        """Return what a process used so far; nothing for process 0."""
        if not pid:
            return cls(0.0, 0.0)
        stat = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
        status = dict(line.split(":", 1) for line in lines)
        ticks = int(stat[11]) + int(stat[12])
        return cls(ticks / os.sysconf("SC_CLK_TCK"), int(status["VmHWM"].split()[0]) / 1024)

    def since(self, earlier: "Spent") -> "Spent":
        """Return the time since then, and the memory."""
        return Spent(self.processor_s - earlier.processor_s, self.rss_mib)


@dataclass(frozen=True)
class Work:
    """Appends of one row at a rate; or of batches, as many as go."""

    seconds: float
    rate: int = 0
    pipelined: bool = False

    def run(self, writer: Writer) -> tuple[int, int, float]:
        """Return the number of appends, of rows, and the seconds that they took."""
        return self._at_rate(writer) if self.rate else self._through(writer)

    def _at_rate(self, writer: Writer) -> tuple[int, int, float]:
        n, begin = 0, time.perf_counter()
        while (now := time.perf_counter() - begin) < self.seconds:
            if now < n / self.rate:
                time.sleep(n / self.rate - now)
            writer.append(batch_of(1))
            n += 1
        return n, n, time.perf_counter() - begin

    def _through(self, writer: Writer) -> tuple[int, int, float]:
        n, batch, begin = 0, batch_of(BATCH), time.perf_counter()
        call = writer.send if self.pipelined else writer.append
        while time.perf_counter() - begin < self.seconds:
            call(batch)
            n += 1
        writer.flush()
        return n, n * BATCH, time.perf_counter() - begin


def writer_process(way: str, address: str, work: Work, pipe: Any) -> None:
    """Open a writer; when told, do the work and report it."""
    with WAYS[way].writer(address) as (writer, readers_address):
        pipe.send(readers_address)
        pipe.recv()
        before = Spent.by(os.getpid())
        done = work.run(writer)
        pipe.send((done, Spent.by(os.getpid()).since(before)))
        pipe.recv()


def reader_process(way: str, address: str, pipe: Any) -> None:
    """Tail until told to stop and nothing comes; report rows, delays in ms, and what was used."""
    reader = WAYS[way].reader(address)
    pipe.send("ready")
    before, rows, delays = Spent.by(os.getpid()), 0, []
    while True:
        found = reader.read(0.2)
        if found is not None:
            now = time.monotonic_ns()
            rows += found.num_rows
            sent = found.column("sent_ns").slice(0, 8).to_pylist()
            delays += [(now - each) / 1e6 for each in sent]
        elif pipe.poll():
            break
    pipe.send((rows, delays, Spent.by(os.getpid()).since(before)))


@contextmanager
def process(target: Any, *args: Any) -> Iterator[Any]:
    """Run a process; yield its pipe, and wait for its end."""
    ours, theirs = SPAWN.Pipe()
    started = SPAWN.Process(target=target, args=(*args, theirs))
    started.start()
    try:
        yield ours
    finally:
        started.join(30)
        started.kill()


@dataclass(frozen=True)
class Measured:
    """One run: appends, MB/s, delays and shares of readers, and what each kind of process used."""

    appends: int
    per_second: float
    mb_per_second: float
    delays_ms: list[float]
    read: float
    spent: tuple[Spent, Spent, Spent]


def measured(way: str, work: Work, readers: int) -> Measured:
    """Run a way with so many readers."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        address, pid = stack.enter_context(WAYS[way].serve(Path(folder)))
        writer = stack.enter_context(process(writer_process, way, address, work))
        address = writer.recv()
        tails = [stack.enter_context(process(reader_process, way, address)) for _ in range(readers)]
        for each in tails:
            each.recv()
        before = Spent.by(pid)
        writer.send("go")
        (appends, rows, took), by_writer = writer.recv()
        server = Spent.by(pid).since(before)
        for each in tails:
            each.send("stop")
        heard = [each.recv() for each in tails]
        writer.send("stop")
    by_readers = [spent for _, _, spent in heard] or [Spent(0.0, 0.0)]
    return Measured(
        appends=appends,
        per_second=appends / took,
        mb_per_second=rows * ROW / took / 1e6,
        delays_ms=[delay for _, delays, _ in heard for delay in delays],
        read=sum(got for got, _, _ in heard) / max(1, rows * readers),
        spent=(by_writer, server, max(by_readers)),
    )


class BareServer(flight.FlightServerBase):
    """Takes batches, and answers each if asked to."""

    def do_put(self, _: Any, descriptor: Any, reader: Any, writer: Any) -> None:
        """Read all batches of a stream."""
        for chunk in reader:
            if descriptor.command == b"answers":
                writer.write(chunk.app_metadata)


def bare_process(pipe: Any) -> None:
    """Serve bare streams until told to stop."""
    server = BareServer("grpc://127.0.0.1:0")
    pipe.send(f"grpc://127.0.0.1:{server.port}")
    pipe.recv()
    server.shutdown()


def bare(seconds: float, *, pipelined: bool) -> float:
    """Return MB/s of a bare Flight stream."""
    with process(bare_process) as server:
        client = flight.connect(server.recv())
        command = b"none" if pipelined else b"answers"
        put = flight.FlightDescriptor.for_command(command)
        writer, answers = client.do_put(put, SCHEMA)
        batch, sent, begin = batch_of(BATCH), 0, time.perf_counter()
        while time.perf_counter() - begin < seconds:
            writer.write_with_metadata(batch, b"12345678")
            if not pipelined:
                answers.read()
            sent += BATCH * ROW
        writer.close()
        rate = sent / (time.perf_counter() - begin) / 1e6
        server.send("stop")
    return rate


def loopback_process(pipe: Any) -> None:
    """Receive a stream of bytes; report how many, and the processor time."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        pipe.send(server.getsockname()[1])
        stream, _ = server.accept()
    buffer, got, before = bytearray(BATCH * ROW), 0, time.process_time()
    with stream:
        while count := stream.recv_into(buffer):
            got += count
    pipe.send((got, time.process_time() - before))


def loopback(seconds: float) -> tuple[float, float]:
    """Return microseconds of processor time to send, and to receive, the bytes of one batch."""
    with process(loopback_process) as server:
        data, sent = bytes(BATCH * ROW), 0
        with socket.create_connection(("127.0.0.1", server.recv())) as stream:
            begin, before = time.perf_counter(), time.process_time()
            while time.perf_counter() - begin < seconds:
                stream.sendall(data)
                sent += 1
            used = time.process_time() - before
        got, received = server.recv()
    return 1e6 * used / sent, 1e6 * received * len(data) / got


def latency(
    ways: list[str], rounds: int, seconds: float, rates: Sequence[int]
) -> Iterator[results.Result]:
    """Print delays from append to reader; yield them with their goals."""
    found: dict[tuple[str, int], list[Measured]] = {}
    for _ in range(rounds):
        for way in ways:
            for rate in rates:
                one = measured(way, Work(seconds, rate=rate), READERS)
                found.setdefault((way, rate), []).append(one)
    print(f"{'way':<16}{'asked':>8}{'reached':>9}{'p50 ms':>9}{'p99 ms':>9}   {HEADER}")
    for (way, rate), runs in found.items():
        p50 = _median(statistics.median(run.delays_ms) for run in runs)
        p99 = _median(statistics.quantiles(run.delays_ms, n=100)[98] for run in runs)
        reached = _median(run.per_second for run in runs)
        print(f"{way:<16}{rate:>6}/s{reached:>7,.0f}/s{p50:>9.2f}{p99:>9.2f}   {_spent(runs)}")
        for name, delay, most in (("p50", p50, P50_MS), ("p99", p99, P99_MS)):
            yield results.Result(
                benchmark="logstore",
                what=f"{way}, {rate:,} appends/s, visible, {name}",
                ours=delay,
                unit="ms",
                most=most if way == OURS else None,
            )


def throughput(
    ways: list[str], rounds: int, seconds: float, readers_of: Sequence[int]
) -> Iterator[results.Result]:
    """Print MB/s, ratios to a bare stream, and the share of the rows that readers got."""
    found: dict[tuple[str, str, int], list[Measured]] = {}
    bares: dict[str, list[float]] = {}
    for _ in range(rounds):
        for name, pipelined in (("acknowledged", False), ("pipelined", True)):
            bares.setdefault(name, []).append(bare(seconds, pipelined=pipelined))
            work = Work(seconds, pipelined=pipelined)
            for way in ways:
                for readers in readers_of:
                    one = measured(way, work, readers)
                    found.setdefault((name, way, readers), []).append(one)
    sent, received = loopback(seconds)
    print(f"a plain socket: {sent:.0f} us to send a batch, {received:.0f} us to receive it")
    for name, rates in bares.items():
        print(f"a bare stream, {name}: {_median(rates):,.0f} MB/s")
    print(f"{'':<14}{'way':<16}{'readers':>7}{'MB/s':>8}{'of bare':>9}{'read':>7}   {HEADER}")
    for (name, way, readers), runs in found.items():
        rate = _median(run.mb_per_second for run in runs)
        read = f"{_median(run.read for run in runs):>7.0%}" if readers else f"{'':>7}"
        of_bare = rate / _median(bares[name])
        print(f"{name:<14}{way:<16}{readers:>7}{rate:>8,.0f}{of_bare:>9.2f}{read}   {_spent(runs)}")
        yield results.Result(
            benchmark="logstore",
            what=f"{way}, {name}, {readers} readers",
            ours=rate,
            unit="MB/s",
            least=LEAST_MB[name] if way == OURS and readers else None,
        )


HEADER = "processor us: writer, server, reader;  MiB"


def _spent(runs: list[Measured]) -> str:
    """Return processor time for an append, and the most memory, of writer, server and reader."""
    used, most = [], []
    for role in range(3):
        processor_s = _median(run.spent[role].processor_s / max(1, run.appends) for run in runs)
        used.append(f"{1e6 * processor_s:>6.0f}")
        most.append(f"{max(run.spent[role].rss_mib for run in runs):>5.0f}")
    return f"{''.join(used)}; {''.join(most)}"


def _median(values: Any) -> float:
    return statistics.median(list(values))


def main(argv: list[str]) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each measurement")
    parser.add_argument("--ways", help="by commas; with --quick the first by default")
    parser.add_argument("--quick", action="store_true", help="does it still work?")
    parser.add_argument("--json", action="store_true", help="print results as lines of JSON, too")
    options = parser.parse_args(argv)
    rounds, seconds = (1, 0.3) if options.quick else (options.rounds, options.seconds)
    ways = options.ways.split(",") if options.ways else [*WAYS][: 1 if options.quick else None]
    if missing():
        print(f"without Redis: {missing()} is not installed here")
        ways = [way for way in ways if not way.startswith("redis")]
    found = [*latency(ways, rounds, seconds, RATES[:1] if options.quick else RATES)]
    readers_of = (READERS,) if options.quick else (0, READERS)
    found += throughput(ways, rounds, seconds, readers_of)
    if options.json:
        results.report(found, as_json=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
