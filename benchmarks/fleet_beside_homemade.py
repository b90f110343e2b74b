"""A fleet beside what a team would write itself: the same tables, looked after in four ways.

1. Time is simulated: a step is a minute of the tables' clock, with all writes of that minute
   (``fleet_stream.py``). There are 60 steps, one after another as fast as they go.
2. In each step two processes work at the same time: one writes, the other does what maintenance is
   due in that minute (``fleet_ways.py``). The step ends when both have.
3. After each step is counted: the files that a reader of today opens, in each table; bytes that
   maintenance and deletes have written (``wchar`` of their process, logs included) and the
   processor time of maintenance, of deletes and of appends; lost races and failures.
4. What Airflow itself costs is in none of them. The number of tasks that it would start is said.
5. In the end the rows of each table are compared with the stream.

Usage: ``python benchmarks/fleet_beside_homemade.py [--quick] [--only fleet,nightly]
[--rows N] [--plot FILE.svg]``.
"""

import argparse
import multiprocessing
import os
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from fleet_plot import Panel, drawn
from fleet_stream import FILLING, Append, Size, expected, writes
from fleet_ways import WAYS, Done, Way

from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper

MIB = 1 << 20
QUICK = Size(busy=1, late=1, quiet=1, minutes=8, rows=50, fill=500)
APPENDS, DELETES, MAINTENANCE = "appends", "deletes", "maintenance"


@dataclass(slots=True)
class Work:
    """What one sort of work has cost so far."""

    cpu_s: float = 0.0
    bytes: int = 0
    done: Done = field(default_factory=Done)

    def add(self, other: "Work") -> None:
        """Add more of it."""
        self.cpu_s += other.cpu_s
        self.bytes += other.bytes
        self.done.add(other.done)


@dataclass(frozen=True, slots=True)
class Sample:
    """One way at the end of a minute: files by table, and what all work has cost until then."""

    files: Mapping[str, int]
    rewritten: int
    maintained_s: float


@dataclass(frozen=True, slots=True)
class Measured:
    """All samples of a way, its work, and the tables whose rows are not those of the stream."""

    title: str
    samples: Sequence[Sample]
    work: Mapping[str, Work]
    wrong: Sequence[str]


# In the processes
class OfProcess:
    """The way that a process serves."""

    way: Way


def _begin(name: str, root: Path, zookeeper: str) -> None:
    OfProcess.way = WAYS[name](root, zookeeper)


def _fill(size: Size) -> None:
    for table in size.names():
        OfProcess.way.create(table)
    for write in writes(size, FILLING):
        OfProcess.way.write(write, 0)


def _written(size: Size, minute: int) -> dict[str, Work]:
    found = {APPENDS: Work(), DELETES: Work()}
    for write in [*writes(size, minute)]:
        sort = APPENDS if isinstance(write, Append) else DELETES
        found[sort].add(_measured(lambda w=write: OfProcess.way.write(w, minute)))
    return found


def _maintained(size: Size, minute: int) -> dict[str, Work]:
    return {MAINTENANCE: _measured(lambda: OfProcess.way.maintain(size, minute))}


def _counted(size: Size) -> dict[str, int]:
    return {table: OfProcess.way.files(table) for table in size.names()}


def _contents(size: Size) -> dict[str, tuple[int, int]]:
    return {table: OfProcess.way.content(table) for table in size.names()}


def _measured(act: Callable[[], Done]) -> Work:
    cpu_s, written = _spent()
    done = act()
    cpu_after, written_after = _spent()
    return Work(cpu_after - cpu_s, written_after - written, done)


def _spent() -> tuple[float, int]:
    """Return this process's seconds of processor time, and the bytes that it has written."""
    counts = dict(line.split(": ") for line in Path("/proc/self/io").read_text().splitlines())
    return sum(os.times()[:4]), int(counts["wchar"])


# Steps
@contextmanager
def processes(name: str, root: Path, zookeeper: str) -> Iterator[list[ProcessPoolExecutor]]:
    """Yield the writer and the maintenance of a way."""
    context = multiprocessing.get_context("spawn")
    pools = [
        ProcessPoolExecutor(1, context, initializer=_begin, initargs=(name, root, zookeeper))
        for _ in range(2)
    ]
    try:
        yield pools
    finally:
        for pool in pools:
            pool.shutdown()


def measure(name: str, size: Size, root: Path, zookeeper: str) -> Measured:
    """Let a way's tables live through all minutes."""
    work = {sort: Work() for sort in (APPENDS, DELETES, MAINTENANCE)}
    samples = []
    with processes(name, root, zookeeper) as (writer, maintenance):
        writer.submit(_fill, size).result()
        for minute in range(size.minutes):
            steps = [writer.submit(_written, size, minute)]
            steps.append(maintenance.submit(_maintained, size, minute))
            for step in steps:
                for sort, more in step.result().items():
                    work[sort].add(more)
            files = writer.submit(_counted, size).result()
            rewritten = work[MAINTENANCE].bytes + work[DELETES].bytes
            samples.append(Sample(files, rewritten, work[MAINTENANCE].cpu_s))
        contents = writer.submit(_contents, size).result()
    wanted = expected(size)
    wrong = [table for table, found in contents.items() if found != wanted[table]]
    return Measured(WAYS[name].title, samples, work, wrong)


# What is said
HEADER = (
    "way",
    "files of today, median table",
    "worst table",
    "rewritten by maintenance, MiB",
    "by deletes, MiB",
    "CPU of maintenance, s",
    "of deletes, s",
    "of appends, s",
    "lost races: maintenance, writer",
    "failed",
    "tasks",
    "rows",
)


def line(found: Measured) -> tuple[str, ...]:
    """Return a way's line of the table."""
    appends, deletes, kept = (found.work[each] for each in (APPENDS, DELETES, MAINTENANCE))
    return (
        found.title,
        _span([statistics.median(each.files.values()) for each in found.samples]),
        _span([max(each.files.values()) for each in found.samples]),
        f"{kept.bytes / MIB:.0f}",
        f"{deletes.bytes / MIB:.0f}",
        f"{kept.cpu_s:.1f}",
        f"{deletes.cpu_s:.1f}",
        f"{appends.cpu_s:.1f}",
        f"{kept.done.lost}, {appends.done.lost + deletes.done.lost}",
        f"{kept.done.failed + appends.done.failed + deletes.done.failed}",
        f"{kept.done.tasks}",
        f"**{', '.join(found.wrong)}**" if found.wrong else "right",
    )


def _span(files: Sequence[float]) -> str:
    """Return the mean over the time, and the most."""
    return f"{statistics.fmean(files):.0f} (at most {max(files):.0f})"


def table(lines: Sequence[Sequence[str]]) -> str:
    """Return Markdown."""
    rows = [HEADER, ["---"] * len(HEADER), *lines]
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def panels(found: Sequence[Measured]) -> Iterator[Panel]:
    """Yield the parts of the picture; each has a line for each way."""
    views: tuple[tuple[str, Callable[[Sample], float]], ...] = (
        ("files of today, median of the tables", lambda s: statistics.median(s.files.values())),
        ("files of today, worst table", lambda s: max(s.files.values())),
        ("MiB rewritten, with deletes", lambda s: s.rewritten / MIB),
        ("seconds of CPU in maintenance", lambda s: s.maintained_s),
    )
    for title, view in views:
        yield Panel(title, [[view(sample) for sample in each.samples] for each in found])


def versions() -> str:
    """Return what was compared."""
    own = f"segtable {version('airflow-provider-segtable')}"
    return f"{own}, deltalake {version('deltalake')}, pyarrow {version('pyarrow')}"


def main(argv: Sequence[str] | None = None) -> int:
    """Measure each way, one after another; print the table, and draw the picture."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="three tables, eight minutes")
    parser.add_argument("--only", default=",".join(WAYS), help=f"some of {', '.join(WAYS)}")
    parser.add_argument("--rows", type=int, default=Size().rows, help="rows of an append")
    parser.add_argument("--plot", type=Path, help="draw the picture into this file")
    given = parser.parse_args(argv)
    size = QUICK if given.quick else Size(rows=given.rows)
    found = []
    with (
        tempfile.TemporaryDirectory() as made,
        EmbeddedZooKeeper(Path(made) / "zookeeper") as server,
    ):
        for name in given.only.split(","):
            found.append(measure(name, size, Path(made) / name, server.hosts))
            print(f"  {found[-1].title}: measured", file=sys.stderr, flush=True)
    print(versions(), table([*map(line, found)]), sep="\n\n")
    if given.plot:
        titles = [each.title for each in found]
        given.plot.write_text(drawn([*panels(found)], titles, versions()))
    return any(each.wrong for each in found)


if __name__ == "__main__":
    sys.exit(main())
