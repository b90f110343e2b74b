"""The log store over Arrow Flight: how soon readers see an append, and how much goes through.

1. The store, its writer and each of three readers are processes of their own, on loopback. The
   store commits what it has every 50 ms, as a checkpoint without a table would, so that its buffers
   have room.
2. *Latency*: appends of one row, acknowledged, at 200 and at 1,000 a second. Each row has the time
   of its append; the clock is that of the whole machine. ``p50`` and ``p99`` are over all readers.
3. *Throughput*: batches of 1,000 rows, 100 bytes each. ``acknowledged`` waits for each answer,
   ``pipelined`` for none; both with and without readers. ``bare`` is the same batches on a bare
   Flight stream, with an answer for each, or with none: the ratios are to that, within one run.
4. Rounds take turns. Medians are reported.

Usage: ``python benchmarks/logstore.py [--quick] [--rounds N] [--seconds S]``. Three minutes.
"""

import argparse
import multiprocessing
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import psutil
import pyarrow as pa
from pyarrow import flight

from airflow_provider_segtable.core.log_store.bucket_log import Limits
from airflow_provider_segtable.core.log_store.position import CommittedEnd
from airflow_provider_segtable.core.log_store.reading import Behind, Whence
from airflow_provider_segtable.logstore.flight_store import FlightLogStoreProvider
from airflow_provider_segtable.ports.log_store import LogContext, Records

SCHEMA = pa.schema([("sent_ns", pa.int64()), ("payload", pa.binary(92))])
RATES = (200, 1000)
READERS = 3
COMMIT_S = 0.05
BATCH = 1000
LIMITS = Limits(bucket_bytes=256 << 20, kept_checkpoints=1)
PROVIDER = FlightLogStoreProvider()
SPAWN = multiprocessing.get_context("spawn")


def batch_of(count: int) -> pa.RecordBatch:
    """Return rows that know when they were made."""
    sent = pa.array(np.full(count, time.monotonic_ns()))
    return pa.record_batch([sent, pa.array([b"x" * 92] * count, pa.binary(92))], schema=SCHEMA)


def store_process(pipe: Any) -> None:
    """Serve a store, and commit what it has, until told to stop; report the memory in use."""
    store = PROVIDER.create(LogContext(table="b", schema=SCHEMA, buckets=(0,), limits=LIMITS))
    store.start()
    pipe.send(store.address)
    most = 0
    while not pipe.poll(COMMIT_S):
        store.committed(store.checkpoint())
        most = max(most, psutil.Process().memory_info().rss)
    store.shutdown()
    pipe.send(most)


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
    pipe.send(0)


def reader_process(address: str, pipe: Any) -> None:
    """Tail a store until told to stop; report delays in ns, and how often it was behind."""
    reader = PROVIDER.connect(address).reader(0, start=Whence.LATEST)
    pipe.send("ready")
    delays, behind = [], 0
    while not pipe.poll():
        match reader.read(wait_s=0.2):
            case Records(batch=batch):
                delays.append(time.monotonic_ns() - batch.column(0)[0].as_py())
            case Behind():
                behind += 1
                reader.seek(Whence.LATEST)
    reader.close()
    pipe.send((delays, behind))


@contextmanager
def process(target: Callable[..., None], *args: Any) -> Iterator[Any]:
    """Run a process; yield its pipe, and stop it at the end."""
    ours, theirs = SPAWN.Pipe()
    started = SPAWN.Process(target=target, args=(*args, theirs))
    started.start()
    try:
        yield ours
    finally:
        started.join(30)
        started.kill()


class Bench:
    """One store with some readers, and its results."""

    def __init__(self, readers: int) -> None:
        self.delays_ms: list[float] = []
        self.behind = 0
        self.most_rss = 0
        self.readers = readers

    def run(self, work: Callable[[Any], float]) -> float:
        """Run work with a writer; return what it returns."""
        with process(store_process) as store:
            address = store.recv()
            readers = [process(reader_process, address) for _ in range(self.readers)]
            pipes = [each.__enter__() for each in readers]
            for pipe in pipes:
                pipe.recv()
            writer = PROVIDER.connect(address).writer(0, epoch=1, committed=CommittedEnd())
            result = work(writer)
            writer.close()
            for each, pipe in zip(readers, pipes, strict=True):
                pipe.send("stop")
                delays, behind = pipe.recv()
                self.delays_ms += [delay / 1e6 for delay in delays]
                self.behind += behind
                each.__exit__(None, None, None)
            store.send("stop")
            self.most_rss = store.recv()
        return result


def at_rate(rate: int, seconds: float) -> Callable[[Any], float]:
    """Return work that appends single rows at a rate, and returns the rate that it reached."""

    def work(writer: Any) -> float:
        begin = time.perf_counter()
        for n in range(int(rate * seconds)):
            time.sleep(max(0.0, begin + n / rate - time.perf_counter()))
            writer.append(batch_of(1), wait_s=30)
        return rate * seconds / (time.perf_counter() - begin)

    return work


def through(seconds: float, *, pipelined: bool) -> Callable[[Any], float]:
    """Return work that appends batches, and returns MB/s."""

    def work(writer: Any) -> float:
        batch, sent, begin = batch_of(BATCH), 0, time.perf_counter()
        call = writer.send if pipelined else writer.append
        while time.perf_counter() - begin < seconds:
            call(batch, wait_s=30)
            sent += batch.nbytes
        writer.flush(wait_s=30)
        return sent / (time.perf_counter() - begin) / 1e6

    return work


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
            sent += batch.nbytes
        writer.close()
        rate = sent / (time.perf_counter() - begin) / 1e6
        server.send("stop")
        server.recv()
    return rate


def latency(rounds: int, seconds: float) -> None:
    """Print delays from append to reader."""
    for rate in RATES:
        p50, p99, reached = [], [], []
        for _ in range(rounds):
            bench = Bench(READERS)
            reached.append(bench.run(at_rate(rate, seconds)))
            p50.append(statistics.median(bench.delays_ms))
            p99.append(statistics.quantiles(bench.delays_ms, n=100)[98])
        print(
            f"{rate:>5} appends/s asked, {statistics.median(reached):>6,.0f} reached: visible to "
            f"{READERS} readers after p50 {statistics.median(p50):.2f} ms, "
            f"p99 {statistics.median(p99):.2f} ms"
        )


def throughput(rounds: int, seconds: float) -> None:
    """Print MB/s and the ratios to a bare stream."""
    found: dict[tuple[str, str], list[float]] = {}
    rss, behind = 0, 0
    for _ in range(rounds):
        for name, pipelined in (("acknowledged", False), ("pipelined", True)):
            rates = {"bare": bare(seconds, pipelined=pipelined)}
            for readers in (0, READERS):
                bench = Bench(readers)
                rates[f"{readers} readers"] = bench.run(through(seconds, pipelined=pipelined))
                rss, behind = max(rss, bench.most_rss), behind + bench.behind
            for way, rate in rates.items():
                found.setdefault((name, way), []).append(rate)
    for (name, way), rates in found.items():
        ratio = statistics.median(rates) / statistics.median(found[name, "bare"])
        print(f"{name:<13}{way:<10}{statistics.median(rates):>8,.0f} MB/s{ratio:>7.2f} x bare")
    print(f"the store used up to {rss >> 20} MiB; readers were behind {behind} times")


def main(argv: list[str]) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=4.0, help="of each measurement")
    parser.add_argument("--quick", action="store_true", help="does it still work?")
    options = parser.parse_args(argv)
    rounds, seconds = (1, 1.0) if options.quick else (options.rounds, options.seconds)
    latency(rounds, seconds)
    throughput(rounds, seconds)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
