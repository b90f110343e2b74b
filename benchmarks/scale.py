"""What tables of 10^4 to 10^7 segments cost: opening, appends, checkpoints, planner runs, scans.

1. Two families of tables: chunks of 1,000 segments and chunks of 10. Their segments are full, as
   after compaction, except for what is appended (``scale_tables``). Data files do not exist:
   nothing here reads them.
2. The log has a checkpoint, 10,000 commits before it and 128 events after it. So opening a table
   folds as many as it does on average.
3. Each table is measured in a process of its own, which opens it as any process does, so that its
   peak memory (``VmHWM``) is that of the steps measured. Coordination is in memory.
4. ``append`` is the first of the process. ``plan`` is the first planner run over the table, brief
   as those of a fleet; ``anew`` is the first one of another process, which finds notes; ``replan``
   is one after another commit. ``checkpoint`` is written after that commit, and ``written`` are its
   bytes, sidecars included. ``fold`` is one event applied to the open state, the median of 200.
   ``clean`` and ``verify`` are those of a fleet's upkeep after a commit, by processes that have not
   looked at the table: ``clean`` after an earlier one, without data files to list; ``verify`` of
   what was written in the last minute (all of a table without sidecars), without footers. ``load``
   and ``publish`` are of published files (``scale_published``).
5. Each goal is printed with what was measured. Times are compared by processor time, which a busy
   machine distorts less. ``--plot`` draws each cost against the number of segments, with the slope
   of the line through the logarithms: 0 is flat, 1 is proportional.

Usage: ``python benchmarks/scale.py [--quick | --goals] [--only SHAPE] [--upto SEGMENTS]
[--plot FILE]``; ``--goals`` measures the largest table of each family.
"""

import argparse
import gc
import json
import math
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pyarrow as pa

from airflow_provider_segtable.coordination.memory import MemoryCoordinator, MemoryService
from airflow_provider_segtable.core.locks import Generation
from airflow_provider_segtable.core.log.events import Event
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.fold import apply
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.time import Interval
from airflow_provider_segtable.health.verified_part import Part
from airflow_provider_segtable.health.verify import verify
from airflow_provider_segtable.planning.properties import Policy
from airflow_provider_segtable.planning.selection import BRIEFLY
from airflow_provider_segtable.planning.table_plan import plan_all
from airflow_provider_segtable.ports.storage import Storage
from airflow_provider_segtable.services.cleaning import clean
from airflow_provider_segtable.services.planner import look_at
from airflow_provider_segtable.table.context import TableContext, open_context
from airflow_provider_segtable.table.table import Table
from benchmarks import scale_plot, scale_published
from benchmarks.scale_tables import FULL, HOUR_US, files_of, hour, make, segment

SHAPES = {
    "10 x 1000": (10, 1000),
    "100 x 1000": (100, 1000),
    "1000 x 1000": (1000, 1000),
    "10000 x 1000": (10_000, 1000),
    "1000 x 10": (1000, 10),
    "10000 x 10": (10_000, 10),
    "100000 x 10": (100_000, 10),
    "1000000 x 10": (1_000_000, 10),
}
LARGEST = ("10000 x 1000", "1000000 x 10")
GOALS = {
    "open_s": 1,
    "append_s": 1,
    "anew_s": 1,
    "replan_s": 0.05,
    "clean_s": 1,
    "fold_ms": 0.2,
    "peak_mib": 400,
}
"""The most seconds, milliseconds or MiB of each step, at any size."""
TIMES = (*("open", "append", "plan", "anew", "replan", "scan", "checkpoint", "clean", "verify"),)
PUBLISHED = {"delta": (10_000, 100_000, 1_000_000), "iceberg": (10_000, 100_000)}
"""Numbers of published files, by format."""
SCHEMA = pa.schema(
    [pa.field("at", pa.timestamp("us", tz="UTC"), nullable=False), ("n", pa.int64())]
)


def ports_of(folder: Path) -> TableContext:
    """Return the ports of a table in a folder, with coordination in memory."""
    ports = open_context(str(folder))
    return replace(ports, optional_coordinator=MemoryCoordinator(ports.clock, MemoryService()))


def made(folder: Path, chunks: int, each: int) -> None:
    """Make a table in a folder."""
    Table.create(str(folder), schema=SCHEMA, time_column="at", granularity="hour")
    make(ports_of(folder).storage, chunks, each, FULL)
    yesterday = time.time() - 86_400
    for path in folder.rglob("*"):
        os.utime(path, (yesterday, yesterday))


def timed(act: Callable[[], Any]) -> tuple[Any, tuple[float, float]]:
    """Return what an act returns, its seconds, and its seconds of processor time."""
    begin, spent = time.perf_counter(), time.process_time()
    found = act()
    return found, (time.perf_counter() - begin, time.process_time() - spent)


def measure(folder: Path, chunks: int) -> dict[str, Any]:
    """Measure one table, in this process; a pair is seconds and seconds of processor time."""
    pa.array([0])  # pyarrow imports pandas, if there is any, at the first conversion
    ports = ports_of(folder)
    state, open_s = timed(ports.log.load)
    newest, policy, now = hour(chunks - 1), Policy(), state.time + HOUR_US
    table, rows = Table(ports), pa.table({"at": [newest.start], "n": [1]}).cast(SCHEMA)
    done, append_s = timed(lambda: table.append(rows))
    fold = fold_ms(done.state, newest)
    _, scan_s = timed(lambda: done.state.timeline.visible_segments(hour(chunks // 2)))
    _, plan_s = timed(lambda: look_at(ports, done.state, policy, {}, explain=BRIEFLY))
    gc.collect()
    after = table.append(rows).state
    _, replan_s = timed(lambda: plan_all(after, policy, now, explain=BRIEFLY))
    other = ports_of(folder)
    _, anew_s = timed(lambda: look_at(other, other.log.load(), policy, {}, explain=BRIEFLY))
    before = dict(files_of(folder))
    _, checkpoint_s = timed(lambda: ports.log.checkpoint(after))
    written = sum(size for path, size in files_of(folder) if path not in before)
    peak, services = peak_mib(), kept_up(folder, table, rows)
    return {
        **services,
        "open_s": open_s,
        "append_s": append_s,
        "plan_s": plan_s,
        "replan_s": replan_s,
        "anew_s": anew_s,
        "scan_s": scan_s,
        "checkpoint_s": checkpoint_s,
        "written_kib": written / 1024,
        "fold_ms": fold,
        "peak_mib": peak,
    }


def kept_up(folder: Path, table: Table, rows: pa.Table) -> dict[str, Any]:
    """Measure a cleaning and a verification after a commit, each by ports of their own."""
    clean(ports_of(folder), whole=False)
    table.append(rows)
    now = int(time.time() * 1e6)
    part = Part(since=now - 60_000_000, now=now)
    found: dict[str, Any] = {}
    acts: dict[str, Callable[[TableContext], Any]] = {
        "clean": lambda ports: clean(ports, whole=False),
        "verify": lambda ports: verify(ports, part=part),
    }
    for name, act in acts.items():
        ports = ports_of(folder)
        reads = NotedReads(ports.storage)
        ports = replace(ports, storage=reads)
        _, found[f"{name}_s"] = timed(partial(act, ports))
        found[f"{name}_read"] = float(reads.count)
    return found


class NotedReads:
    """A storage that counts the objects read; else it is another one."""

    def __init__(self, storage: Storage) -> None:
        """Wrap a storage."""
        self._storage = storage
        self.count = 0

    def __getattr__(self, name: str) -> Any:
        """Return an attribute of the storage."""
        return getattr(self._storage, name)

    def read(self, path: str) -> bytes:
        """Return the bytes of an object."""
        self.count += 1
        return self._storage.read(path)


def fold_ms(state: State, newest: Interval) -> float:
    """Return the median of folding one append to the newest chunk."""
    took = []
    for n in range(200):
        (chunk,) = state.timeline.visible_chunks(newest)
        partition = state.id_space(chunk, Generation.FIRST).next
        event = Event(
            n=state.n + 1,
            time=state.time + 1,
            commit=f"fold-{n}",
            author="scale",
            action=Appended(segments=(segment(chunk, partition, FULL),)),
        )
        begin = time.perf_counter()
        state = apply(state, event)
        took.append(time.perf_counter() - begin)
    return 1000 * statistics.median(took)


def peak_mib() -> float:
    """Return the most memory that this process ever had."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM:"):
            return int(line.split()[1]) / 1024
    return 0.0


def cost(found: Mapping[str, Any], name: str) -> float:
    """Return a measured number; of a step, its processor time."""
    value = found[name]
    return float(value if isinstance(value, float) else value[1])


def goals(found: Mapping[str, Any]) -> Iterator[str]:
    """Yield the goals, each with what was measured, and whether it is met."""
    for name, most in GOALS.items():
        step, _, unit = name.rpartition("_")
        met = "✔" if cost(found, name) < most else "✗"
        yield f"  {step:<8}{cost(found, name):>9.3f} {unit} of {most:g} {unit}: {met}"


def measured(name: str) -> dict[str, Any]:
    """Make a table, and measure it in a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        made(Path(folder) / "t", *SHAPES[name])
        command = [sys.executable, __file__, "--only", name, "--measure", f"{folder}/t"]
        told = subprocess.run(command, check=True, capture_output=True, text=True)
    found: dict[str, Any] = json.loads(told.stdout)
    return found


def published() -> Iterator[tuple[str, int, Mapping[str, Any]]]:
    """Measure each format with some numbers of published files, each in a process of its own."""
    for name, counts in PUBLISHED.items():
        for count in counts:
            with tempfile.TemporaryDirectory() as folder:
                path = f"{folder}/t"
                Table.create(path, schema=SCHEMA, time_column="at", granularity="hour")
                command = [sys.executable, __file__, "--published", f"{name}:{count}:{path}"]
                told = subprocess.run(command, check=True, capture_output=True, text=True)
            yield name, count, json.loads(told.stdout)


def plot(
    every: Mapping[str, Mapping[str, Any]],
    formats: Sequence[tuple[str, int, Mapping[str, Any]]],
    file: Path,
) -> None:
    """Draw each cost against the number of segments, or of published files."""
    families: dict[int, list[tuple[int, Mapping[str, Any]]]] = {}
    for name, found in every.items():
        chunks, each = SHAPES[name]
        families.setdefault(each, []).append((chunks * each, found))
    panels = [
        scale_plot.Panel(
            title=title,
            lines=[
                [(segments, cost(found, name)) for segments, found in families[each]]
                for each in sorted(families, reverse=True)
            ],
        )
        for name, title in scale_plot.TITLES.items()
    ]
    panels += [
        scale_plot.Panel(
            title=title,
            lines=[
                [(count, found[step]) for name, count, found in formats if name == each]
                for each in PUBLISHED
            ],
        )
        for step, title in scale_plot.PUBLISHED.items()
    ]
    titles = [f"chunks of {each:,} segments" for each in sorted(families, reverse=True)]
    file.write_text(scale_plot.drawn(panels, titles))


def main(argv: Sequence[str] | None = None) -> int:
    """Make the tables, measure each in a process of its own, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the smallest table")
    parser.add_argument("--goals", action="store_true", help="the largest table of each family")
    parser.add_argument("--only", choices=SHAPES, help="one shape")
    parser.add_argument("--plot", type=Path, help="draw the costs into a file")
    parser.add_argument("--upto", type=int, default=10**7, help="segments of the largest table")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    parser.add_argument("--published", help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if given.published:
        form, count, folder = given.published.split(":", 2)
        print(json.dumps(scale_published.measured(Path(folder), form, int(count))))
        return 0
    if given.measure:
        print(json.dumps(measure(Path(given.measure), SHAPES[given.only][0])))
        return 0
    names = [given.only] if given.only else list(LARGEST if given.goals else SHAPES)
    names = names[:1] if given.quick else names
    names = [name for name in names if math.prod(SHAPES[name]) <= given.upto]
    print("seconds of processor time")
    print(f"{'shape':<14}{''.join(f'{step:>11}' for step in TIMES)}{'written':>13}{'fold':>10}")
    every: dict[str, dict[str, Any]] = {}
    for name in names:
        found = every[name] = measured(name)
        times = "".join(f"{cost(found, f'{step}_s'):>11.3f}" for step in TIMES)
        print(f"{name:<14}{times}{found['written_kib']:>9.0f} KiB{found['fold_ms']:>7.3f} ms")
        print(*goals(found), sep="\n", flush=True)
        reads = [int(found[f"{step}_read"]) for step in ("clean", "verify")]
        print(f"  read by clean and verify: {reads[0]} and {reads[1]} objects", flush=True)
    if given.plot:
        formats = [*published()]
        for form, count, found in formats:
            costs = f"load {found['load_s']:.3f} s, publish {1000 * found['publish_s']:.2f} ms"
            print(f"{form} with {count:,} files: {costs}")
        plot(every, formats, given.plot)
    return 0


if __name__ == "__main__":
    sys.exit(main())
