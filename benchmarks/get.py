"""Rows looked up by key in a primary-key table, against engines that read the same base files.

1. The table: days of rows, each in ``BUCKETS`` buckets, compacted to base files: 10 million rows in
   16 files. Keys are random numbers; each is in one file. The files are in the page cache.
2. The ways: ``Table.get``, ``Table.scan(where=...)``, and DuckDB, Polars and ``pyarrow.dataset``
   with a condition on the key over the same files. These know of no tombstones and merge nothing.
3. Each round asks each way for the same keys, in turn, with an open table. Reported are medians of
   seconds and of processor time. All must agree. Rounds before these warm up; a peer, which takes
   longer and varies less, has fewer rounds for one key.
4. Two sets of columns: all, and two. A page of a column is the least that can be read of it, so
   many random keys cost most pages of each column.

Usage: ``python benchmarks/get.py [--quick] [--rounds N] [--days N] [--rows N] [--keep DIR]
[--json]``.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from results import Result, report

from airflow_provider_segtable import Table

DAY = 86_400_000_000
START = 1_700_006_400_000_000
BUCKETS = 4
PAGES = pa.array([f"/p/{each}" for each in range(1_000)])
TWO = ["id", "price"]
COUNTS = (1, 10, 100, 1_000, 100_000)
OURS = ("get", "where")
GOALS = {("get", 1): 0.005, ("where", 1): 0.005, ("get", 1_000): 0.050}
"""Seconds on an idle machine, of two columns."""


def rows_of_day(day: int, days: int, rows: int) -> pa.Table:
    """Return the rows of a day, in any order; keys of all days alternate."""
    random = np.random.default_rng(day)
    ids = np.arange(rows, dtype=np.int64) * days + day
    random.shuffle(ids)
    times = START + day * DAY + random.integers(0, DAY, rows)
    return pa.table(
        {
            "id": ids,
            "at": pa.array(times, pa.timestamp("us", "UTC")),
            "seq": random.integers(0, 1_000, rows),
            "price": random.random(rows),
            "user": random.integers(0, 1_000_000, rows),
            "page": PAGES.take(pa.array(random.integers(0, len(PAGES), rows))),
        }
    )


def made(place: str, days: int, rows: int) -> Table:
    """Return the table, made if it is not there."""
    if Path(place).exists():
        return Table.open(place)
    schema = rows_of_day(0, days, 1).schema
    table = Table.create(
        place,
        schema=schema,
        time_column="at",
        primary_key="id",
        buckets=BUCKETS,
        ordering="seq",
        zookeeper="memory://get",
    )
    for day in range(days):
        table.append(rows_of_day(day, days, rows))
    table.compact("semi-major")
    return table


Way = Callable[[Sequence[int], Sequence[str]], int]
"""Takes keys and columns, and returns the number of rows."""


def ways(table: Table) -> dict[str, Way]:
    """Return how to ask each way."""
    files = [str(Path(table.ports.uri) / segment.path) for segment in table.snapshot().segments()]
    dataset, database = ds.dataset(files), duckdb.connect()
    listed = ", ".join(f"'{file}'" for file in files)

    def by_duckdb(keys: Sequence[int], columns: Sequence[str]) -> int:
        wanted = pa.table({"wanted": keys})  # noqa: F841 - DuckDB reads it by its name
        names = ", ".join(f'"{name}"' for name in columns)
        query = f"SELECT {names} FROM read_parquet([{listed}])"  # noqa: S608 - ours
        test = f"= {keys[0]}" if len(keys) == 1 else "IN (SELECT wanted FROM wanted)"
        return database.sql(f"{query} WHERE id {test}").to_arrow_table().num_rows

    def by_polars(keys: Sequence[int], columns: Sequence[str]) -> int:
        test = pl.col("id") == keys[0] if len(keys) == 1 else pl.col("id").is_in([*keys])
        return pl.scan_parquet(files).filter(test).select(columns).collect().height

    def by_dataset(keys: Sequence[int], columns: Sequence[str]) -> int:
        test = ds.field("id") == keys[0] if len(keys) == 1 else ds.field("id").isin([*keys])
        return dataset.to_table(columns=[*columns], filter=test).num_rows

    def where(keys: Sequence[int], columns: Sequence[str]) -> int:
        test = f"id = {keys[0]}" if len(keys) == 1 else f"id IN ({', '.join(map(str, keys))})"
        return table.scan(where=test, columns=[*columns]).to_arrow().num_rows

    return {
        "get": lambda keys, columns: table.get([*keys], columns=[*columns]).num_rows,
        "where": where,
        "DuckDB": by_duckdb,
        "Polars": by_polars,
        "pyarrow.dataset": by_dataset,
    }


@dataclass(frozen=True, slots=True)
class Measured:
    """The medians of one way, in seconds."""

    way: str
    keys: int
    columns: int
    seconds: float
    processor: float

    @property
    def goal(self) -> float | None:
        """Return the goal, if there is one."""
        return GOALS.get((self.way, self.keys)) if self.columns == len(TWO) else None


def measured(table: Table, total: int, rounds: int, counts: Sequence[int]) -> Iterator[Measured]:
    """Yield what each way took, and check that all agree."""
    asking, every = ways(table), table.schema.names
    random = np.random.default_rng(1)
    for columns in (every, TWO):
        for count in counts:
            found: dict[str, list[tuple[float, float]]] = {name: [] for name in asking}
            turns = rounds if count > 1 else 8 * rounds
            warm = turns // 2 + 1
            for turn in range(warm + turns):
                keys = random.choice(total, count, replace=False).tolist()
                for name, way in asking.items():
                    if name not in OURS and not warm - 1 <= turn < warm + rounds:
                        continue
                    began, used = time.perf_counter(), time.process_time()
                    rows = way(keys, columns)
                    took = time.perf_counter() - began, time.process_time() - used
                    if rows != count:
                        raise SystemExit(f"{name}: {rows} rows for {count} keys")
                    if turn >= warm:
                        found[name].append(took)
            for name, some in found.items():
                seconds, used = (statistics.median(each) for each in zip(*some, strict=True))
                yield Measured(name, count, len(columns), seconds, used)


@contextmanager
def workplace(keep: str | None) -> Iterator[Path]:
    """Yield a directory, removed afterwards unless it was named."""
    if keep:
        Path(keep).mkdir(parents=True, exist_ok=True)
        yield Path(keep)
        return
    with tempfile.TemporaryDirectory(prefix="segtable-get-") as folder:
        yield Path(folder)


def results(found: Sequence[Measured], *, quick: bool) -> Iterator[Result]:
    """Yield the result of each look-up: against its goal, and against the fastest peer."""
    for each in found:
        if each.way not in OURS:
            continue
        alike = [p for p in found if (p.keys, p.columns) == (each.keys, each.columns)]
        best = min((p for p in alike if p.way not in OURS), key=lambda p: p.seconds)
        what = f"{each.way}, {each.keys:,} keys, {each.columns} columns"
        ours = 1e3 * each.seconds
        yield Result(
            benchmark="get",
            what=what,
            ours=ours,
            unit="ms",
            peer=1e3 * best.seconds,
            against=best.way,
        )
        if each.goal is not None and not quick:
            yield Result(benchmark="get", what=what, ours=ours, unit="ms", most=1e3 * each.goal)


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="few rows, one round")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--days", type=int, default=4)
    parser.add_argument("--rows", type=int, default=2_500_000, help="rows a day")
    parser.add_argument("--keep", help="a directory for the table, kept for later runs")
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(argv)
    rows, rounds = (50_000, 1) if asked.quick else (asked.rows, asked.rounds)
    counts = COUNTS[:-1] if asked.quick else COUNTS
    with workplace(asked.keep) as folder:
        table = made(str(folder / f"get-{asked.days}-{rows}"), asked.days, rows)
        found = [*measured(table, asked.days * rows, rounds, counts)]
    report([*results(found, quick=asked.quick)], as_json=asked.json)
    return 0


if __name__ == "__main__":
    sys.exit(main())
