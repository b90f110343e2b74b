"""Writers beside the build of an index: what they lose, and how the index catches up.

1. The table has ``--rows`` rows in files of 500,000, a day each. A writer, a process of its own,
   appends batches of 1,000 rows, one after the other.
2. Each round has three spells. In the first the table has no index. In the second it has one that
   nobody builds, so that the writer feeds it. In the third another process builds it, too.
3. Reported are the writer's appends a second in each spell, their medians, and the ratios of these
   to the spells without; with ``--lag`` what the index lacks over time, as an SVG picture.
4. Then two primary-key tables get the same upserts of 1,000 keys in turn, one of them with an index
   of records: of new keys, of keys in the time chunk where they are, of keys that move, and of keys
   that are spread over all time chunks. After ``WARM`` turns, in which the process loads the index,
   their medians are reported.

Usage: ``python benchmarks/indexing.py [--quick] [--rows N] [--rounds N]
[--seconds S] [--lag FILE] [--json]``.
"""

import argparse
import multiprocessing
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from lag_plot import Sample, drawn
from results import Result, report

from airflow_provider_segtable.coordination.embedded_zookeeper import EmbeddedZooKeeper
from airflow_provider_segtable.core.catch_up import chunks_lacking
from airflow_provider_segtable.core.time import DAY_US, parse_instant
from airflow_provider_segtable.library.table import Table

START = parse_instant("2026-01-01")
FILE_ROWS, BATCH_ROWS = 500_000, 1_000
NAME = "numbers"
LOOK_S = 0.2
DAYS = 10
WARM = 2
"""Turns that are not counted: after them the index of records is in memory."""
Numbers = npt.NDArray[np.int64]
GOAL_FED, GOAL_ROUTED = 0.9, 1.5
"""Least throughput of a writer that feeds an index, and most time of a routed upsert, as ratios."""
SPAWN = multiprocessing.get_context("spawn")


def rows(day: int, count: int) -> pa.Table:
    """Make rows of a day."""
    randomness = np.random.default_rng(day)
    at = START + day * DAY_US + np.arange(count)
    return pa.table(
        {
            "at": pa.array(at, pa.timestamp("us", "UTC")),
            "n": randomness.integers(0, 1 << 40, count),
            "price": randomness.random(count),
        }
    )


def write(uri: str, address: str, seconds: float, done: Callable[[int], None]) -> None:
    """Append batches for some time; tell how many."""
    table, batch = Table.open(uri, zookeeper=address), rows(0, BATCH_ROWS)
    table.append(batch)  # everything is imported and open
    count, until = 0, time.monotonic() + seconds
    while time.monotonic() < until:
        table.append(batch)
        count += 1
    done(count)


def build(uri: str, address: str) -> None:
    """Build the index until it lacks nothing."""
    table = Table.open(uri, zookeeper=address)
    while not table.index(NAME).current:
        table.run_index(NAME)


def spell(table: Table, address: str, seconds: float, lag: list[Sample] | None = None) -> float:
    """Return the writer's appends a second; with ``lag`` beside a build, which is watched."""
    here, there = SPAWN.Pipe(duplex=False)
    uri = table.ports.uri
    writer = SPAWN.Process(target=write, args=(uri, address, seconds, there.send))
    builder = SPAWN.Process(target=build, args=(uri, address))
    running = [writer] if lag is None else [writer, builder]
    begun = time.monotonic()
    for process in running:
        process.start()
    while any(process.is_alive() for process in running):
        time.sleep(LOOK_S)
        if lag is not None:
            state = table.ports.log.load()
            left = chunks_lacking(state.indexes[NAME], state)
            lag.append((time.monotonic() - begun, left))
            if not left:
                lag = None
    return int(here.recv()) / seconds


def keyed(uri: Path, keys: int, address: str) -> Table:
    """Create a table of keys in ten days."""
    table = Table.create(
        str(uri),
        schema=reports(range(1), 0).schema,
        time_column="at",
        granularity="day",
        primary_key="key",
        zookeeper=address,
    )
    for day in range(DAYS):
        table.upsert(reports(range(day * keys // DAYS, (day + 1) * keys // DAYS), day))
    return table


def reports(keys: Sequence[int] | Numbers, day: int) -> pa.Table:
    """Make a row for each key, on a day."""
    return rows(day, len(keys)).append_column("key", pa.array(keys, pa.int64()))


def routing(place: Path, keys: int, rounds: int, address: str) -> Iterator[Result]:
    """Yield what an index of records costs an upsert."""
    plain, routed = (keyed(place / name, keys, address) for name in ("plain", "routed"))
    routed.create_index("keys", "record_index")
    routed.run_index("keys")
    found: dict[str, list[list[float]]] = {}
    half = keys // DAYS // 2  # keys of the upper half of each day are spread, no others
    upper = np.concatenate([np.arange(half, 2 * half) + day * 2 * half for day in range(DAYS)])
    for turn in range(rounds):
        at, step = turn * BATCH_ROWS, max(1, len(upper) // BATCH_ROWS)
        for what, some, day in (
            ("new", range(keys + at, keys + at + BATCH_ROWS), 3),
            ("there", range(at, at + BATCH_ROWS), 0),
            ("moving", range(at, at + BATCH_ROWS), DAYS),
            ("spread", upper[turn % step :: step][:BATCH_ROWS], DAYS + 1),
        ):
            batch, took = reports(some, day), []
            for table in (plain, routed):
                begun = time.perf_counter()
                table.upsert(batch)
                took.append(time.perf_counter() - begun)
            found.setdefault(what, []).append(took)
    for what, turns in found.items():
        warm = turns[WARM:] or turns
        without, ours = (statistics.median(took[which] for took in warm) for which in (0, 1))
        yield Result(
            benchmark="indexing",
            what=f"upsert of {what} keys, routed",
            ours=1000 * ours,
            unit="ms",
            peer=1000 * without,
            against="without an index",
            most=GOAL_ROUTED,
        )


def writing(spells: list[tuple[float, float, float]]) -> Iterator[Result]:
    """Yield what a writer keeps of its throughput beside an index."""
    for number, what, least in ((1, "fed by its writer", GOAL_FED), (2, "being built", None)):
        yield Result(
            benchmark="indexing",
            what=f"writer beside an index {what}",
            ours=statistics.median(each[number] for each in spells),
            unit="appends/s",
            peer=statistics.median(each[0] for each in spells),
            against="without an index",
            least=least,
        )


def main() -> None:
    """Measure and print."""
    made = argparse.ArgumentParser(description=__doc__)
    made.add_argument("--rows", type=int, default=20_000_000)
    made.add_argument("--rounds", type=int, default=3)
    made.add_argument("--seconds", type=float, default=20.0)
    made.add_argument("--lag", type=Path)
    made.add_argument("--quick", action="store_true")
    made.add_argument("--json", action="store_true", help="results as lines of JSON")
    given = made.parse_args()
    if given.quick:
        given.rows, given.rounds, given.seconds = 40_000, 1, 0.1
    file_rows = min(FILE_ROWS, given.rows // 2)
    spells: list[tuple[float, float, float]] = []
    lags: list[list[Sample]] = []
    with tempfile.TemporaryDirectory() as place, EmbeddedZooKeeper(Path(place) / "zk") as server:
        uri = str(Path(place) / "table")
        table = Table.create(
            uri, schema=rows(0, 1).schema, time_column="at", zookeeper=server.address
        )
        for day in range(given.rows // file_rows):
            table.append(rows(day, file_rows))
        for _ in range(given.rounds):
            without = spell(table, server.address, given.seconds)
            table.create_index(NAME, columns=["n", "price"])
            fed = spell(table, server.address, given.seconds)
            lags.append([])
            built = spell(table, server.address, given.seconds, lags[-1])
            table.drop_index(NAME)
            spells.append((without, fed, built))
            sys.stdout.write(f"appends/s: {without:.1f}, fed {fed:.1f}, built {built:.1f}\n")
        rounds = 1 if given.quick else 5 * given.rounds
        routed = [*routing(Path(place), given.rows // 20, rounds, server.address)]
    report([*writing(spells), *routed], as_json=given.json)
    if given.lag:
        given.lag.write_text(drawn(lags))


if __name__ == "__main__":
    main()
