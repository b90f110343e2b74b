"""Wide tables, long lists and long texts: ours against pyarrow's own writing and reading.

1. *Widths*: three rows are appended to a table of 10, 100, 1,000 and 4,000 columns, and read;
   pyarrow writes and reads one Parquet file of the same rows with the same settings.
2. *Lists*: ``IN`` of 1,000 and 100,000 numbers, and of as many texts, over 100,000 rows in one
   file: read with the condition, without the time that a read of the column takes anyway.
3. *Texts*: hashing a column of short texts, and of the same with one text of many megabytes.
4. Measured is processor time, the median of some rounds in which every way runs once: other work
   on the machine distorts it least.

Usage: ``python benchmarks/wide.py [--quick] [--rounds N] [--json]``.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from results import Result, report

from airflow_provider_segtable.data.jobs.segment_writer import PARQUET
from airflow_provider_segtable.data.sketches import value_hashes
from airflow_provider_segtable.library.table import Table

NAME = "wide"
GOAL_WRITE = 2.0
GOAL_LIST_S = 0.3
FIRST_US = 1_767_225_600_000_000
VALUES: tuple[Callable[[int], list], ...] = (
    lambda at: [at, at + 1, None],
    lambda at: [at / 2, None, at + 0.25],
    lambda at: [f"text {at}", "same", None],
)


def processor_time(run: Callable[[], object]) -> float:
    """Return the processor seconds that a call takes, in all threads."""
    began = time.process_time()
    run()
    return time.process_time() - began


def medians(ways: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """Return the median seconds of each way; every round runs each once, and one warms up."""
    taken: dict[str, list[float]] = {name: [] for name in ways}
    for number in range(rounds + 1):
        for name, run in ways.items():
            seconds = processor_time(run)
            taken[name] += [seconds] if number else []
    return {name: statistics.median(found) for name, found in taken.items()}


def made(place: str, rows: pa.Table) -> Table:
    """Make a table for rows, coordinated in memory."""
    return Table.create(place, schema=rows.schema, time_column="at", zookeeper=f"memory://{place}")


def wide_rows(width: int) -> pa.Table:
    """Make three rows of an event time, and columns of numbers and texts in turns."""
    at = pa.array([FIRST_US, FIRST_US + 1, FIRST_US + 2], pa.timestamp("us", "UTC"))
    columns = {f"c{n}": pa.array(VALUES[n % len(VALUES)](n)) for n in range(width - 1)}
    return pa.table({"at": at, **columns})


def widths(folder: str, width: int, rounds: int) -> Iterator[Result]:
    """Measure a table of so many columns."""
    rows, file = wide_rows(width), f"{folder}/{width}.parquet"
    table, once = (made(f"{folder}/{name}-{width}", rows) for name in ("many", "once"))
    once.append(rows)
    found = medians(
        {
            "append": lambda: table.append(rows),
            "write": lambda: pq.write_table(rows, file, **PARQUET),
            "scan": lambda: once.scan().to_arrow(),
            "read": lambda: pq.read_table(file),
        },
        rounds,
    )
    wide = width >= 1_000  # a narrow append is its commit, which pyarrow has not
    yield Result(
        benchmark=NAME,
        what=f"append 3 rows of {width:,} columns",
        ours=found["append"],
        unit="s",
        peer=found["write"],
        against="pyarrow",
        most=GOAL_WRITE if wide else None,
    )
    yield Result(
        benchmark=NAME,
        what=f"scan 3 rows of {width:,} columns",
        ours=found["scan"],
        unit="s",
        peer=found["read"],
        against="pyarrow",
        most=GOAL_WRITE if wide else None,
    )


def listed(folder: str, count: int, rounds: int) -> Iterator[Result]:
    """Measure ``IN`` of so many values."""
    draw = np.random.default_rng(7)
    numbers, some = draw.permutation(1_000_000)[:100_000], draw.permutation(1_000_000)[:count]
    rows = pa.table(
        {
            "at": pa.array(FIRST_US + np.arange(len(numbers))).cast(pa.timestamp("us", "UTC")),
            "n": numbers,
            "s": pa.array([f"v{number}" for number in numbers]),
        }
    )
    table = made(f"{folder}/in-{count}", rows)
    table.append(rows)
    for column, values in (("n", map(str, some)), ("s", (f"'v{number}'" for number in some))):
        condition = f"{column} IN ({', '.join(values)})"
        expected = len(np.intersect1d(numbers, some))

        def ask(column: str = column, condition: str = condition, expected: int = expected) -> None:
            found = table.scan(columns=[column], where=condition).to_arrow().num_rows
            if found != expected:
                raise SystemExit(f"{found} rows, not {expected}")

        found = medians(
            {
                "with": ask,
                "without": lambda column=column: table.scan(columns=[column]).to_arrow(),
            },
            rounds,
        )
        yield Result(
            benchmark=NAME,
            what=f"IN of {count:,} {'numbers' if column == 'n' else 'texts'}",
            ours=max(0.0, found["with"] - found["without"]),
            unit="s",
            most=GOAL_LIST_S,
        )


def texts(long: int, rounds: int) -> Iterator[Result]:
    """Measure hashing short texts, and the same with one of ``long`` bytes."""
    short = [f"a text of some length {number}" for number in range(100_000)]
    without, beside = pa.array(short), pa.array([*short, "x" * long])
    found = medians(
        {"without": lambda: value_hashes(without), "with": lambda: value_hashes(beside)}, rounds
    )
    yield Result(
        benchmark=NAME,
        what=f"hashing one text of {long:,} bytes among short ones",
        ours=long / 1e6 / max(found["with"] - found["without"], 1e-4),
        unit="MB/s",
        least=500,
    )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="few columns, values and rounds")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print results as lines of JSON")
    given = parser.parse_args(argv)
    rounds = 1 if given.quick else given.rounds
    found: list[Result] = []
    with tempfile.TemporaryDirectory(prefix="segtable-wide-") as folder:
        for width in (10, 100) if given.quick else (10, 100, 1_000, 4_000):
            found += widths(folder, width, rounds)
        for count in (1_000,) if given.quick else (1_000, 100_000):
            found += listed(folder, count, rounds)
        found += texts(10_000 if given.quick else 20_000_000, rounds)
    report(found, as_json=given.json)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
