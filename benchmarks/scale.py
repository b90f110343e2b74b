"""What a table of many segments costs: opening it, an append, a planner run, a scan of one chunk.

1. Tables of 10^4, 10^5 and 10^6 segments, of two shapes: chunks of 1,000 segments and chunks of 10.
   Their segments are small and equal, so every chunk is worth compacting: the worst case of a
   planner. Their data files do not exist: nothing here reads them.
2. Each shape is measured in a process of its own, which opens the table as any process does, so
   that its peak memory (``VmHWM``) is that of the steps measured. Coordination is in memory.
3. ``fold`` is one event applied to the open state, the median of 200; ``checkpoint`` is the writing
   of a checkpoint of the state that was opened.
4. After each shape with goals, each goal is printed with what was measured, and whether it is met.
   Times are compared by processor time, which a busy machine distorts less.

Usage: ``python benchmarks/scale.py [--quick | --goals] [--only SHAPE]``; ``--goals`` measures
the shapes that have goals except the largest, whose table takes longest to make.
"""

import argparse
import gc
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pyarrow as pa

from airflow_provider_segtable.coordination.memory import MemoryCoordinator, MemoryService
from airflow_provider_segtable.core.locks import Generation
from airflow_provider_segtable.core.log.events import Event, encode
from airflow_provider_segtable.core.log.families.append_events import Appended
from airflow_provider_segtable.core.log.fold import apply
from airflow_provider_segtable.core.log.state import State
from airflow_provider_segtable.core.segment import ChunkKey, Segment, Shard
from airflow_provider_segtable.core.time import Granularity, Interval
from airflow_provider_segtable.planning.properties import Policy
from airflow_provider_segtable.planning.table_plan import plan_all
from airflow_provider_segtable.table.context import TableContext, open_context
from airflow_provider_segtable.table.log.checkpoint import read_checkpoint, write_checkpoint
from airflow_provider_segtable.table.log.event_log import EventLog, event_path
from airflow_provider_segtable.table.table import Table

HOUR_US = 3_600_000_000
START = Granularity.HOUR.chunk(1_356_998_400_000_000).start
SHAPES = {
    "10 x 1000": (10, 1000),
    "100 x 1000": (100, 1000),
    "1000 x 1000": (1000, 1000),
    "1000 x 10": (1000, 10),
    "10000 x 10": (10_000, 10),
    "100000 x 10": (100_000, 10),
}
GOALS_S = {"1000 x 1000": 0.5, "10000 x 10": 0.5, "100000 x 10": 2.0}
"""The most seconds for each of opening, an append and a plan."""
GOAL_MIB = 500
GOAL_FOLD_MS = 0.2
EVENT_SEGMENTS = 5000
SCHEMA = pa.schema(
    [pa.field("at", pa.timestamp("us", tz="UTC"), nullable=False), ("n", pa.int64())]
)


def ports_of(folder: Path) -> TableContext:
    """Return the ports of a table in a folder, with coordination in memory."""
    ports = open_context(str(folder))
    return replace(ports, optional_coordinator=MemoryCoordinator(ports.clock, MemoryService()))


def segments(chunks: int, each: int, version: int) -> Iterator[Segment]:
    """Yield the segments of a table, chunk after chunk."""
    for hour in range(chunks):
        interval = Interval(START + hour * HOUR_US, START + (hour + 1) * HOUR_US)
        key = ChunkKey(interval, version)
        for partition in range(each):
            token = f"{hour * each + partition:016x}"
            yield Segment(
                id=key.segment(partition),
                shard=Shard.first_generation(partition),
                path=f"data/{interval.name}/{version}_{partition}-{token}.parquet",
                rows=20_000 + partition,
                size=1 << 20,
                row_groups=1,
                time_min=interval.start + partition,
                time_max=interval.end - 1 - partition,
                created=START + hour * HOUR_US,
            )


def make(folder: Path, chunks: int, each: int) -> None:
    """Make a table by appends of many segments each, with a checkpoint at the end.

    Only the last event is stored: the others are in the checkpoint, and nothing here reads them.
    """
    ports = ports_of(folder)
    Table.create(str(folder), schema=SCHEMA, time_column="at", granularity="hour")
    log = EventLog(ports.storage)
    state = log.load()
    left = segments(chunks, each, state.base_version)
    while some := tuple(islice(left, EVENT_SEGMENTS)):
        event = Event(
            n=state.n + 1,
            time=state.time + 1,
            commit=f"append-{state.n}",
            author="scale",
            action=Appended(segments=some),
        )
        state = apply(state, event)
        if state.n % 20 == 0:  # packed again, so that making a table needs little memory
            state = read_checkpoint(write_checkpoint(state))
    ports.storage.create(event_path(event.n), encode(event))
    log.checkpoint(state)


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
    hour = Interval(START + HOUR_US * (chunks // 2), START + HOUR_US * (chunks // 2 + 1))
    _, scan_s = timed(lambda: state.timeline.visible_segments(hour))
    now = state.time + 100 * 24 * HOUR_US
    planned, plan_s = timed(lambda: plan_all(state, Policy(), now))
    if not planned.chosen:
        raise SystemExit("the planner chose nothing")
    del planned
    gc.collect()
    table = Table(ports)
    rows = pa.table({"at": [hour.start], "n": [1]}).cast(SCHEMA)
    committed, append_s = timed(lambda: table.append(rows))
    _, checkpoint_s = timed(lambda: write_checkpoint(state))
    return {
        "checkpoint_s": checkpoint_s,
        "open_s": open_s,
        "append_s": append_s,
        "plan_s": plan_s,
        "scan_s": scan_s,
        "fold_ms": fold_ms(committed.state),
        "peak_mib": peak_mib(),
    }


def fold_ms(state: State) -> float:
    """Return the median of folding one append."""
    took = []
    for n in range(200):
        (chunk,) = state.timeline.visible_chunks(Interval(START, START + HOUR_US))
        partition = state.id_space(chunk, Generation.FIRST).next
        segment = replace(
            next(segments(1, 1, chunk.version)),
            id=chunk.segment(partition),
            shard=Shard.first_generation(partition),
        )
        event = Event(
            n=state.n + 1,
            time=state.time + 1,
            commit=f"fold-{n}",
            author="scale",
            action=Appended(segments=(segment,)),
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


def goals(name: str, found: dict[str, Any]) -> Iterator[str]:
    """Yield a shape's goals, each with what was measured, and whether it is met."""
    limits = [(f"{step}_s", GOALS_S[name], "s") for step in ("open", "append", "plan")]
    for key, most, unit in (
        *limits,
        ("fold_ms", GOAL_FOLD_MS, "ms"),
        ("peak_mib", GOAL_MIB, "MiB"),
    ):
        reached = found[key][1] if unit == "s" else found[key]
        met = "met" if reached < most else "NOT MET"
        yield f"  {key.rpartition('_')[0]:<8}{reached:>9.3f} {unit} of {most:g} {unit}: {met}"


def main(argv: Sequence[str] | None = None) -> int:
    """Make the tables, measure each in a process of its own, and print."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="the smallest table of each shape")
    parser.add_argument(
        "--goals", action="store_true", help="all shapes with goals but the largest"
    )
    parser.add_argument("--only", choices=SHAPES, help="one shape")
    parser.add_argument("--measure", help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if given.measure:
        print(json.dumps(measure(Path(given.measure), SHAPES[given.only][0])))
        return 0
    names = [given.only] if given.only else list(SHAPES)
    if given.quick:
        names = [next(iter(SHAPES))]
    if given.goals:
        names = list(GOALS_S)[:-1]
    steps = ("open", "append", "plan", "scan", "checkpoint")
    print("seconds, and seconds of processor time")
    print(f"{'shape':<14}{''.join(f'{step:>15}' for step in steps)}{'fold':>10}{'peak':>11}")
    for name in names:
        with tempfile.TemporaryDirectory() as folder:
            make(Path(folder) / "t", *SHAPES[name])
            command = [sys.executable, __file__, "--only", name, "--measure", f"{folder}/t"]
            told = subprocess.run(command, check=True, capture_output=True, text=True)
        found = json.loads(told.stdout)
        print(
            f"{name:<14}"
            + "".join("{:>8.3f} {:>6.3f}".format(*found[f"{step}_s"]) for step in steps)
            + f"{found['fold_ms']:>7.3f} ms{found['peak_mib']:>7.0f} MiB",
            *(goals(name, found) if name in GOALS_S else ()),
            sep="\n",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    sys.exit(main())
