"""What publishing costs: a version in full, a small change, loading, footers, and per append.

1. *Versions*: tables of 10, 1,000 and 100,000 files are published in each format, and then changed
   by one file more; by ten files less and two more, as a compaction; and by other hidden rows of a
   file. ``load`` is a fresh publisher that reads the newest version, ``follow`` one that knew the
   version before. ``slowest`` is the slowest of all these changes: formats that summarize their log
   do so among them. These data files do not exist: a target opens none.
2. *Difference*: of states of these sizes, the files that a version shows, and those that differ
   after an append, as a publisher computes them before it puts a version.
3. *Footers*: a table of 1,000 real files is published in full, statistics of its footers included,
   and then after each of some deletes in ten of them.
4. *Appends*: 100 rows each through ``Table.append``, coordinated in memory, without publishing,
   with each format, and with each format before the commit returns (``publish.lag_seconds=0``).
   Ways take turns, ``BLOCK`` appends each, until all are published. Reported are the median append,
   with the processor time of the whole block per append, publications included; medians over
   blocks; and ratios to the block without.
5. Each number is a median of milliseconds. In brackets is processor time, which a busy machine
   distorts less, and a slow disk not at all. Writes are durable; ``--on /dev/shm`` has no disk.

Goals, of a prototype that did not sync: a small change in less than 1 ms at 10 files, in 1 ms at
1,000, in 50 ms at 100,000. They are compared by processor time. An append takes at most 1.2 times
as long as one that publishes nothing; the publications come after it.

Usage: ``python benchmarks/publish.py [--quick] [--rounds N] [--on DIR] [--json]
[--only versions|difference|footers|appends]``.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import count, islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pyarrow as pa
from pyroaring import BitMap
from results import Result, report

from airflow_provider_segtable.coordination.memory import MemoryCoordinator, MemoryService
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.publishing import ShownFile, changed_files, shown_files
from airflow_provider_segtable.core.segment import ChunkKey, Segment, Shard
from airflow_provider_segtable.core.time import HOUR_US, Granularity, Interval, parse_instant
from airflow_provider_segtable.formats.format import (
    ColumnStats,
    FileStats,
    Format,
    NewFile,
    Published,
    Revision,
)
from airflow_provider_segtable.formats.formats import FORMATS
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.storage import LocalStorage
from tests.support.builders import DEFINITION, after, created

SIZES = (10, 1000, 100_000)
GOALS_MS = {10: 1.0, 1000: 1.0, 100_000: 50.0}
GOAL_APPEND = 1.2
START = parse_instant("2013-01-01")
IN_CHUNK = 100
CHANGES = ("add", "compact", "hide")
SCHEMA = pa.schema(
    [pa.field("at", pa.timestamp("us", tz="UTC"), nullable=False), ("n", pa.int64())]
)
Cost = tuple[float, float]
"""Milliseconds, and milliseconds of processor time."""
Measured = dict[str, dict[str, Cost]]


def segments(version: int) -> Iterator[Segment]:
    """Yield segments, chunk after chunk, as many as are asked for."""
    for number in count():
        start = START + number // IN_CHUNK * HOUR_US
        chunk = ChunkKey(Interval(start, start + HOUR_US), version)
        partition = number % IN_CHUNK
        yield Segment(
            id=chunk.segment(partition),
            shard=Shard.first_generation(partition),
            path=f"data/{chunk.interval.name}/{version}_{partition}-{number:016x}.parquet",
            rows=20_000,
            size=1 << 20,
            row_groups=1,
            time_min=start + partition,
            time_max=start + HOUR_US - 1 - partition,
            created=START,
        )


def shown(segment: Segment, clip: int = 0) -> NewFile:
    """Return a file with statistics of its columns; a clip hides a hundred rows."""
    times = ColumnStats(low=segment.time_min, high=segment.time_max, nulls=0, size=80_000)
    columns = {1: times}
    columns[2] = ColumnStats(low="AA", high="YV", nulls=3, size=20_000)
    clips = (Interval(segment.time_min + clip, segment.time_max),) if clip else ()
    return NewFile(
        shown=ShownFile(segment=segment, clips=clips),
        stats=FileStats(columns=columns, numbered=True, split_offsets=(4,)),
        hidden=BitMap(range(clip, clip + 100)) if clip else BitMap(),
    )


def revision(event: int, files: Sequence[NewFile], gone: Sequence[Segment] = ()) -> Revision:
    """Return a change of files."""
    return Revision(
        event=event,
        time=START + event,
        commit=f"c{event}",
        table=DEFINITION,
        gone=frozenset(each.path for each in gone),
        shown={each.shown.path: each for each in files},
        data_change=not gone,
    )


def timed(act: Callable[[], Any]) -> tuple[Any, Cost]:
    """Return what an act returns, and what it cost."""
    begin, spent = time.perf_counter(), time.process_time()
    found = act()
    return found, (1000 * (time.perf_counter() - begin), 1000 * (time.process_time() - spent))


def median(costs: Sequence[Cost]) -> Cost:
    """Return the medians of costs."""
    whole, spent = zip(*costs, strict=True)
    return statistics.median(whole), statistics.median(spent)


class Publisher:
    """A publisher of one table of files that do not exist; it times each put."""

    def __init__(self, kind: Format, root: Path, size: int) -> None:
        """Publish a first version in full."""
        self.storage = LocalStorage(str(root))
        self.target = kind.target(self.storage)
        self.kind, self.event = kind, 0
        made = segments(START)
        self.there, self.more = [*islice(made, size)], made
        self.known: Published | None = None
        self.full = self.put([shown(each) for each in self.there])

    def put(self, files: Sequence[NewFile], gone: Sequence[Segment] = ()) -> Cost:
        """Put the next version."""
        self.event += 1
        change = revision(self.event, files, gone)
        self.known, took = timed(lambda: self.target.put(self.known, change))
        if self.known is None:
            raise SystemExit("another publisher took the version")
        return took

    def add(self) -> Cost:
        """Publish an append."""
        self.there.append(next(self.more))
        return self.put([shown(self.there[-1])])

    def compact(self) -> Cost:
        """Publish a compaction of ten files, as far as there are so many, into two."""
        gone, self.there = self.there[:10], self.there[10:]
        new = [*islice(self.more, 2)]
        self.there += new
        return self.put([shown(each) for each in new], gone)

    def hide(self) -> Cost:
        """Publish a delete in one file."""
        return self.put([shown(self.there[self.event % len(self.there)], clip=self.event)])

    def follow(self) -> Cost:
        """Load the version after the known one."""
        known = self.known
        self.add()
        return timed(lambda: self.kind.target(self.storage).load(known))[1]

    def load(self) -> Cost:
        """Load the newest version, knowing none."""
        return timed(lambda: self.kind.target(self.storage).load())[1]

    def weight(self) -> float:
        """Return the kilobytes of all that is published."""
        return sum(each.size for each in self.storage.list("")) / 1000


def versions(root: Path, rounds: int, sizes: Sequence[int]) -> Measured:
    """Measure the targets of each format."""
    found: Measured = {}
    for name, size in ((name, size) for size in sizes for name in FORMATS):
        made = Publisher(FORMATS[name], root / f"{name}{size}", size)
        weight = made.weight()
        acts = (*CHANGES, "follow", "load")
        took = {act: [getattr(made, act)() for _ in range(rounds)] for act in acts}
        changes = [cost for act in CHANGES for cost in took[act]]
        found[f"{name}, {size:,} files, {weight:,.0f} kB"] = {
            "full": made.full,
            **{act: median(some) for act, some in took.items()},
            "slowest": max(changes),
        }
    return found


def difference(rounds: int, sizes: Sequence[int]) -> Measured:
    """Measure which files a version shows, and which an append changed."""
    found: Measured = {}
    for size in sizes:
        state = created(replace(DEFINITION, granularity=Granularity.HOUR))
        made = segments(state.base_version)
        for done in range(0, size, 5000):
            some = tuple(islice(made, min(5000, size - done)))
            state = after(state, Appended(segments=some))
        full, part = [], []
        for _ in range(rounds):
            later = after(state, Appended(segments=(next(made),)))
            full.append(timed(lambda now=later: shown_files(now))[1])
            part.append(timed(lambda now=later, was=state: changed_files(was, now))[1])
            state = later
        found[f"{size:,} files"] = {
            "shown_files": median(full),
            "changed_files": median(part),
        }
    return found


def new_table(root: Path, properties: Mapping[str, str] | None = None) -> Table:
    """Create an empty table, coordinated in memory."""
    made = Table.create(
        str(root), schema=SCHEMA, time_column="at", granularity="hour", properties=properties
    )
    coordinator = MemoryCoordinator(made.ports.clock, MemoryService())
    return Table(replace(made.ports, optional_coordinator=coordinator))


def some_rows(number: int, hours: int = 1) -> pa.Table:
    """Return a hundred rows for each of some hours."""
    at = [START + hour * HOUR_US + number * 100 + n for hour in range(hours) for n in range(100)]
    return pa.table({"at": at, "n": [*range(len(at))]}).cast(SCHEMA)


def footers(root: Path, rounds: int, files: int) -> Measured:
    """Measure publishing tables of real files."""
    table = new_table(root / "footers")
    for turn in range(10):
        table.append(some_rows(turn, files // 10))
    found: Measured = {}
    for name in FORMATS:
        full = timed(lambda one=name: table.publish(formats=[one], full=True))[1]
        deletes = []
        for n in range(rounds):
            table.delete(f"n = {n}")
            deletes.append(timed(lambda one=name: table.publish(formats=[one]))[1])
        found[f"{name}, {files:,} files"] = {
            "full": full,
            "after a delete in 10 files": median(deletes),
        }
    return found


BLOCK = 100
"""How many appends a way makes in its turn; fewer with ``--quick``."""


def block(table: Table, numbers: range) -> Cost:
    """Return the median append of a block, and the processor time of an append."""
    took, spent = [], time.process_time()
    for n in numbers:
        took.append(timed(lambda n=n: table.append(some_rows(n)))[1][0])
    table.ports.finish()
    return statistics.median(took), 1000 * (time.process_time() - spent) / len(numbers)


def appends(root: Path, rounds: int, each: int) -> Measured:
    """Measure appends with and without publishing, so many at a time, in turns."""
    on = {name: {f"publish.{name}": "on"} for name in FORMATS}
    on["all"] = {key: value for each in on.values() for key, value in each.items()}
    at_once = {f"{n}, in the call": {**o, "publish.lag_seconds": "0"} for n, o in on.items()}
    ways: dict[str, Mapping[str, str]] = {"without": {}, **on, **at_once}
    tables = {way: new_table(root / f"append-{way}", some) for way, some in ways.items()}
    took: dict[str, list[Cost]] = {way: [] for way in ways}
    for turn in range(rounds):
        for way, table in tables.items():
            took[way].append(block(table, range(turn * each, (turn + 1) * each)))
    return {
        way: {"append": median(some), "ratio": median([*map(ratios, some, took["without"])])}
        for way, some in took.items()
    }


def ratios(one: Cost, other: Cost) -> Cost:
    """Return the ratios of two costs."""
    return one[0] / other[0], one[1] / other[1]


def told(part: str, found: Measured) -> Iterator[str]:
    """Yield a table of medians, in milliseconds where the column names nothing else."""
    columns = [*next(iter(found.values()))]
    yield f"\n| {part}, ms | " + " | ".join(columns) + " |"
    yield "|---" * (len(columns) + 1) + "|"
    for name, row in found.items():
        yield (
            f"| {name} | " + " | ".join("{:,.2f} ({:,.2f})".format(*row[c]) for c in columns) + " |"
        )


def results(found: Mapping[str, Measured]) -> Iterator[Result]:
    """Yield the small changes and the appends, with their goals."""
    for name, row in found.get("versions", {}).items():
        size = int(name.split(", ")[1].removesuffix(" files").replace(",", ""))
        yield Result(
            benchmark="publish",
            what=f"a small change, {name}",
            ours=max(row[each][1] for each in CHANGES),
            unit="ms of processors",
            most=GOALS_MS[size],
        )
    some = found.get("appends", {})
    for way in (*FORMATS, "all") if some else ():
        yield Result(
            benchmark="publish",
            what=f"an append with {way}",
            ours=some[way]["append"][0],
            unit="ms",
            peer=some["without"]["append"][0],
            against="without publishing",
            most=GOAL_APPEND,
        )


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="fewer and smaller tables")
    parser.add_argument("--rounds", type=int, help="rounds (default 40; 2 with --quick)")
    parser.add_argument("--on", type=Path, help="a directory on the disk to measure")
    parser.add_argument("--json", action="store_true", help="results as lines of JSON")
    parts = ("versions", "difference", "footers", "appends")
    parser.add_argument("--only", choices=parts, help="one part")
    given = parser.parse_args(argv)
    sizes = SIZES[:1] if given.quick else SIZES
    rounds = given.rounds or (2 if given.quick else 40)
    with tempfile.TemporaryDirectory(dir=given.on) as folder:
        root = Path(folder)
        acts: dict[str, Callable[[], Measured]] = {
            "versions": lambda: versions(root, rounds, sizes),
            "difference": lambda: difference(3, sizes),
            "footers": lambda: footers(root, 3, 10 if given.quick else 1000),
            "appends": lambda: appends(root, *((1, 20) if given.quick else (5, BLOCK))),
        }
        found = {name: act() for name, act in acts.items() if given.only in (None, name)}
    for part, measured in found.items():
        print(*told(part, measured), sep="\n")
    print()
    report([*results(found)], as_json=given.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
