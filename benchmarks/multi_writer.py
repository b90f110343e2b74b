"""Many writers upsert the same keys: segtable beside optimistic merges of ``deltalake``.

1. A table of ``--keys`` rows with a key is filled. Then ``--writers`` processes write batches of
   ``--rows`` rows with keys at random for ``--seconds``, each as fast as it can. Of two rows of a
   key the higher number wins, whichever comes first.
2. *segtable*: ``Table.upsert``; no ZooKeeper. *deltalake*: ``merge``, with a condition on the
   number; if another commit was faster, the writer opens the table again and merges again, at most
   ``ATTEMPTS`` times, then it gives the batch up (aborted).
3. The rows of the table are compared with the batches that were acknowledged. Then all rows are
   read, and again after a base compaction (segtable) or ``optimize.compact`` (deltalake).
4. Every round runs both, one after the other; medians and ratios are of one run.

Usage: ``python benchmarks/multi_writer.py [--quick] [--rounds N] [--seconds S] [--json]``.
"""

import argparse
import multiprocessing
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any, Protocol

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import pyarrow as pa
from deltalake import DeltaTable, write_deltalake
from deltalake.exceptions import CommitFailedError
from results import Result, report

from airflow_provider_segtable import Table
from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper

ATTEMPTS = 20
BUCKETS = 4
START_US = 1_767_225_600_000_000
FILLER = -1
"""The number of the writer that fills the table."""
LOADS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Size:
    """How much is written."""

    keys: int
    rows: int
    writers: int
    seconds: float


def batch(writer: int, turn: int, size: Size) -> pa.Table:
    """Return one batch of a writer: some keys once each, with numbers at random."""
    random = np.random.default_rng([writer + 1, turn])
    if writer == FILLER:
        key, number = np.arange(size.keys), np.zeros(size.keys, np.int64)
    else:
        key = np.unique(random.integers(0, size.keys, size.rows))
        number = random.integers(1, 2**60, len(key))
    return pa.table(
        {
            "key": key,
            "at": pa.array(START_US + key, pa.timestamp("us", "UTC")),
            "number": number,
            "amount": random.normal(100, 20, len(key)),
            "kind": pa.array([f"kind-{k}" for k in random.integers(0, 8, len(key))]),
        }
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """One batch of a writer: how long it took, how often it was refused, and if it was given up."""

    writer: int
    turn: int
    rows: int
    took_s: float
    conflicts: int = 0
    aborted: bool = False


class Way(Protocol):
    """A kind of table that is written to; picklable, since writers are processes."""

    def make(self, root: str, filling: pa.Table) -> None:
        """Create a table with these rows."""
        ...

    def write(self, root: str, rows: pa.Table) -> tuple[int, bool]:
        """Write a batch; return how often it was refused, and whether it was given up."""
        ...

    def read(self, root: str) -> pa.Table:
        """Return all rows."""
        ...

    def compact(self, root: str) -> None:
        """Make it quick to read."""
        ...


@dataclass(frozen=True, slots=True)
class Segtable:
    """A primary-key table; ``zookeeper`` is needed by compactions alone."""

    zookeeper: str

    def make(self, root: str, filling: pa.Table) -> None:
        """Create it, with a base file in each bucket."""
        Table.create(
            root,
            schema=filling.schema.set(0, pa.field("key", pa.int64(), nullable=False)),
            time_column="at",
            granularity="all",
            primary_key="key",
            buckets=BUCKETS,
            ordering="number",
        ).upsert(filling)
        self.compact(root)

    def write(self, root: str, rows: pa.Table) -> tuple[int, bool]:
        """Upsert; nothing is ever refused."""
        Table.open(root).upsert(rows)
        return 0, False

    def read(self, root: str) -> pa.Table:
        """Merge on read."""
        return Table.open(root).scan().to_arrow()

    def compact(self, root: str) -> None:
        """Make base files."""
        table = Table.open(root, zookeeper=self.zookeeper)
        table.compact("semi-major")
        table.ports.coordinator.close()


class Delta:
    """A Delta table."""

    def make(self, root: str, filling: pa.Table) -> None:
        """Create it, of as many files as the other has buckets."""
        step = -(-filling.num_rows // BUCKETS)
        for start in range(0, filling.num_rows, step):
            write_deltalake(root, filling.slice(start, step), mode="append")

    def write(self, root: str, rows: pa.Table) -> tuple[int, bool]:
        """Merge; again while other commits are faster."""
        for conflicts in range(ATTEMPTS):
            found = DeltaTable(root).merge(
                rows, "t.key = s.key", source_alias="s", target_alias="t"
            )
            changed = found.when_matched_update_all("s.number > t.number")
            try:
                changed.when_not_matched_insert_all().execute()
            except CommitFailedError:
                continue
            return conflicts, False
        return ATTEMPTS, True

    def read(self, root: str) -> pa.Table:
        """Read its files."""
        return DeltaTable(root).to_pyarrow_table()

    def compact(self, root: str) -> None:
        """Join its files."""
        DeltaTable(root).optimize.compact()


def writer(
    way: Way,
    root: str,
    number: int,
    size: Size,
    ready: Barrier,
    told: "Queue[list[Written]]",
) -> None:
    """Write batches until the time is over, in a process of its own, which is warm by then."""
    own = f"{root}-{number}"
    way.make(own, batch(FILLER, 0, size).slice(0, size.rows))
    way.write(own, batch(number, 0, size))
    shutil.rmtree(own)
    done: list[Written] = []
    ready.wait()
    end = time.monotonic() + size.seconds
    while (began := time.monotonic()) < end:
        rows = batch(number, len(done), size)
        conflicts, aborted = way.write(root, rows)
        done.append(
            Written(
                writer=number,
                turn=len(done),
                rows=rows.num_rows,
                took_s=time.monotonic() - began,
                conflicts=conflicts,
                aborted=aborted,
            )
        )
    told.put(done)


def race(way: Way, root: str, size: Size) -> tuple[list[Written], float]:
    """Let all writers write; return what they wrote, and the seconds until the last was done."""
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["__main__", "pandas", "pyarrow.dataset"])
    ready, told = context.Barrier(size.writers + 1), context.Queue()
    processes = [
        context.Process(target=writer, args=(way, root, number, size, ready, told))
        for number in range(size.writers)
    ]
    for process in processes:
        process.start()
    ready.wait()
    began = time.monotonic()
    done = [each for _ in processes for each in told.get()]
    took = time.monotonic() - began
    for process in processes:
        process.join()
    return done, took


def check(found: pa.Table, done: Sequence[Written], size: Size) -> None:
    """Compare the numbers of all rows with those of the batches that were acknowledged."""
    expected = np.zeros(size.keys, np.int64)
    for each in done:
        if not each.aborted:
            rows = batch(each.writer, each.turn, size)
            key = rows.column("key").to_numpy()
            expected[key] = np.maximum(expected[key], rows.column("number").to_numpy())
    ordered = found.sort_by("key")
    keys, numbers = (ordered.column(name).to_numpy() for name in ("key", "number"))
    if not (np.array_equal(keys, np.arange(size.keys)) and np.array_equal(numbers, expected)):
        raise SystemExit(f"rows differ: {found.num_rows}, expected {size.keys}")


def timed(action: Callable[[], Any], times: int = 1) -> float:
    """Return the median seconds of an action."""
    seconds = []
    for _ in range(times):
        began = time.perf_counter()
        action()
        seconds.append(time.perf_counter() - began)
    return statistics.median(seconds)


def one_round(way: Way, root: str, size: Size) -> dict[str, float]:
    """Run the writers on a new table; return the numbers of the round."""
    way.make(root, batch(FILLER, 0, size))
    done, took = race(way, root, size)
    check(way.read(root), done, size)
    found = summary(done, took)
    found["read s"] = timed(lambda: way.read(root), LOADS)
    found["compact s"] = timed(lambda: way.compact(root))
    found["read compacted s"] = timed(lambda: way.read(root), LOADS)
    check(way.read(root), done, size)
    shutil.rmtree(root)
    return found


def summary(done: Sequence[Written], took: float) -> dict[str, float]:
    """Return the counts and speeds of a round."""
    kept = [each for each in done if not each.aborted]
    times = [each.took_s for each in kept] or [float("nan")]
    return {
        "commits": len(kept),
        "commits/s": len(kept) / took,
        "rows/s": sum(each.rows for each in kept) / took,
        "conflicts": sum(each.conflicts for each in done),
        "aborted": sum(each.aborted for each in done),
        "commit median s": statistics.median(times),
        "commit longest s": max(times),
    }


@dataclass
class Rounds:
    """The numbers of all rounds of one way."""

    found: dict[str, list[float]] = field(default_factory=dict)

    def add(self, numbers: dict[str, float]) -> None:
        """Add those of one round."""
        for name, value in numbers.items():
            self.found.setdefault(name, []).append(value)

    def median(self, name: str) -> float:
        """Return the median of all rounds."""
        return statistics.median(self.found[name])


def results(ours: Rounds, theirs: Rounds) -> Iterator[Result]:
    """Yield the medians of both; the last word of a name is the unit."""
    for name in ours.found:
        what, _, unit = name.rpartition(" ")
        yield Result(
            benchmark="multi_writer",
            what=what or unit,
            ours=ours.median(name),
            unit=unit,
            peer=theirs.median(name),
            against="deltalake",
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="small, one round: does it work?")
    parser.add_argument("--rounds", type=int, default=3, help="rounds (default 3)")
    parser.add_argument("--seconds", type=float, default=15.0, help="of writing (default 15)")
    parser.add_argument("--writers", type=int, default=8, help="writers (default 8)")
    parser.add_argument("--keys", type=int, default=200_000, help="keys (default 200000)")
    parser.add_argument("--rows", type=int, default=2_000, help="rows of a batch (default 2000)")
    parser.add_argument("--json", action="store_true", help="results as lines of JSON")
    given = parser.parse_args(argv)
    size = Size(keys=given.keys, rows=given.rows, writers=given.writers, seconds=given.seconds)
    if given.quick:
        size = Size(keys=1_000, rows=200, writers=2, seconds=0.2)
    ours, theirs = Rounds(), Rounds()
    with (
        tempfile.TemporaryDirectory(prefix="segtable-bench-") as made,
        EmbeddedZooKeeper(Path(made) / "zookeeper") as server,
    ):
        for _ in range(1 if given.quick else given.rounds):
            ours.add(one_round(Segtable(server.address), f"{made}/segtable", size))
            theirs.add(one_round(Delta(), f"{made}/delta", size))
    report([*results(ours, theirs)], as_json=given.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
