"""Point look-ups and selective scans over many files, with and without indexes.

1. The table: one time chunk of files, appended one by one. ``id`` is text in no order, of which
   there are Bloom filters; ``n`` grows with a little overlap, of which there are statistics of row
   groups. Each writer fed both indexes in its own event; then their own tables were compacted.
2. The questions: the row of an ``id``; an ``id`` that no file has; rows of a range of ``n``, by a
   column beside it. The answers of all ways must agree.
3. The ways: the same version without its indexes; with them, entries read anew (``first``) or kept
   in the process (``again``); ``pyarrow.dataset`` and DuckDB over the same files. Files are in the
   page cache.
4. Every round asks every question of every way once. Reported are medians of seconds, ratios to the
   read without indexes, and of segtable's ways the data files opened and bytes read of them, those
   of the indexes among them.

Usage: ``python benchmarks/pruning.py [--quick] [--files N] [--rows N] [--rounds N]``.
"""

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import results

from airflow_provider_segtable.core.time import parse_instant
from airflow_provider_segtable.library.table import Table
from airflow_provider_segtable.table.committer import forward_feeds
from airflow_provider_segtable.table.indexes.index_entries import index_ports
from airflow_provider_segtable.table.scan import Scan
from tests.watched_files import watched

START = parse_instant("2026-01-01")
COLUMNS = ["at", "id", "n", "price", "page"]


def name_of(number: int) -> str:
    """Return the ``id`` of a row: numbers mixed up, so that every file has ids of all ranges."""
    return f"{number * 0x9E3779B97F4A7C15 % 2**64:016x}"


def file_rows(number: int, rows: int) -> pa.Table:
    """Make the rows of one file."""
    randomness = np.random.default_rng(number)
    numbers = np.arange(number * rows, (number + 1) * rows)
    return pa.table(
        {
            "at": pa.array(START + numbers, pa.timestamp("us", "UTC")),
            "id": [name_of(int(each)) for each in numbers],
            "n": numbers + randomness.integers(-rows // 4, rows // 4, rows),
            "price": randomness.random(rows),
            "page": [f"/p/{each}" for each in randomness.integers(0, 100_000, rows)],
        }
    )


def made(place: str, files: int, rows: int) -> Table:
    """Make the table, and compact the indexes' own tables, as the planner's runs do."""
    table = Table.create(
        place, schema=file_rows(0, 1).schema, time_column="at", zookeeper="memory://a"
    )
    table.create_index("by_id", "bloom_filter", columns=["id"])
    table.create_index("by_n", "column_stats", columns=["n"])
    for number in range(files):
        table.append(file_rows(number, rows))
    forward_feeds(table.ports, table.state())
    for index in table.indexes().values():
        Table(index_ports(table.ports, index.definition)).compact("semi-major")
    return table


@dataclass(frozen=True, slots=True)
class Asked:
    """How a way was asked: its answer, the seconds, and what it opened and read, if known."""

    answer: int
    seconds: float
    files: int | None = None
    bytes: int | None = None


Way = Callable[[str], Asked]


def timed(count: Callable[[], int]) -> Asked:
    """Return the answer and its time."""
    began = time.perf_counter()
    return Asked(count(), time.perf_counter() - began)


def without(scan: Scan) -> Scan:
    """Return the scan of the same version without its indexes."""
    return replace(scan, state=replace(scan.state, indexes={}))


def scanned(uri: str, *, indexed: bool, kept: bool) -> Way:
    """Return how to ask a table, opened once or each time; files are counted in another read."""
    once = Table.open(uri)
    noted, noted_files = watched(Table.open(uri))

    def rows(table: Table, where: str) -> int:
        scan = table.scan(where=where, columns=COLUMNS)
        return (scan if indexed else without(scan)).to_arrow().num_rows

    def ask(where: str) -> Asked:
        table = once if kept else Table.open(uri)
        table.state()
        found = timed(lambda: rows(table, where))
        again, files = (noted, noted_files) if kept else watched(Table.open(uri))
        files.opened.clear()
        rows(again, where)
        ranges = [found for some in files.opened.values() for found in some]
        read = sum(last - first for first, last in ranges)
        return replace(found, files=len(files.opened), bytes=read)

    return ask


def ways(table: Table) -> Mapping[str, Way]:
    """Return how to ask each way."""
    uri = table.ports.uri
    files = [str(Path(uri) / segment.path) for segment in table.snapshot().segments()]
    database = duckdb.connect()
    names, listed = (
        ", ".join(f'"{name}"' for name in COLUMNS),
        ", ".join(f"'{path}'" for path in files),
    )

    def by_dataset(where: str) -> Asked:
        condition = {each.where: each.arrow for each in QUESTIONS}[where]
        found = ds.dataset(files)
        return timed(lambda: found.to_table(columns=COLUMNS, filter=condition).num_rows)

    def by_duckdb(where: str) -> Asked:
        query = f"SELECT {names} FROM read_parquet([{listed}]) WHERE {where}"  # noqa: S608 - ours
        return timed(lambda: database.sql(query).to_arrow_table().num_rows)

    return {
        "without indexes": scanned(uri, indexed=False, kept=True),
        "with indexes, first": scanned(uri, indexed=True, kept=False),
        AGAIN: scanned(uri, indexed=True, kept=True),
        "pyarrow.dataset": by_dataset,
        "DuckDB": by_duckdb,
    }


AGAIN = "with indexes, again"


@dataclass(frozen=True, slots=True)
class Question:
    """A question as SQL, and as Arrow's expression."""

    title: str
    where: str
    arrow: ds.Expression


QUESTIONS: list[Question] = []


def questions(files: int, rows: int) -> Iterator[Question]:
    """Yield the questions."""
    middle = files * rows // 2
    some = name_of(middle + 7)
    yield Question("an id", f"id = '{some}'", ds.field("id") == some)
    yield Question("an absent id", "id = '0'", ds.field("id") == "0")
    first, last = middle, middle + rows
    by_n = (ds.field("n") >= first) & (ds.field("n") < last) & (ds.field("price") < 0.01)
    yield Question("a range of n", f"n >= {first} AND n < {last} AND price < 0.01", by_n)


def measured(asking: Mapping[str, Way], rounds: int) -> dict[tuple[str, str], list[Asked]]:
    """Return what each way was asked; check the answers."""
    found: dict[tuple[str, str], list[Asked]] = {}
    for turn in range(rounds + 1):  # the first round warms up
        for question in QUESTIONS:
            given = {way: ask(question.where) for way, ask in asking.items()}
            if len({each.answer for each in given.values()}) > 1:
                raise SystemExit(f"{question.title}: {given}")
            for way, each in given.items():
                if turn:
                    found.setdefault((question.title, way), []).append(each)
    return found


def shown(found: Mapping[tuple[str, str], Sequence[Asked]]) -> None:
    """Print a row for each question and way."""
    print("\n| question | way | files | bytes | s | x without |\n|---|---|---|---|---|---|")
    for (question, way), some in found.items():
        base = statistics.median(each.seconds for each in found[question, "without indexes"])
        seconds, one = statistics.median(each.seconds for each in some), some[-1]
        files = "" if one.files is None else f"{one.files:,}"
        size = "" if one.bytes is None else f"{one.bytes:,}"
        print(f"| {question} | {way} | {files} | {size} | {seconds:.4f} | {seconds / base:.3f} |")


def judged(found: Mapping[tuple[str, str], Sequence[Asked]]) -> Iterator[results.Result]:
    """Yield a look-up by indexes against each other way."""
    seconds = {of: statistics.median(each.seconds for each in some) for of, some in found.items()}
    for (question, way), took in seconds.items():
        if way != AGAIN and (question, AGAIN) in seconds:
            yield results.Result(
                benchmark="pruning",
                what=question,
                ours=seconds[question, AGAIN],
                unit="s",
                peer=took,
                against=way,
            )


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--quick", action="store_true", help="few files, one round")
    parser.add_argument("--files", type=int, default=500)
    parser.add_argument("--rows", type=int, default=20_000, help="rows a file")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print results as lines of JSON, too")
    asked = parser.parse_args(argv)
    files, rows, rounds = (24, 2_000, 1) if asked.quick else (asked.files, asked.rows, asked.rounds)
    with tempfile.TemporaryDirectory(prefix="segtable-pruning-") as folder:
        began = time.perf_counter()
        table = made(f"{folder}/events", files, rows)
        size = sum(segment.size for segment in table.snapshot().segments())
        indexes = (each.definition for each in table.indexes().values())
        inner = [Table(index_ports(table.ports, each)).snapshot() for each in indexes]
        own = sum(segment.size for each in inner for segment in each.segments())
        print(
            f"{files} files of {rows:,} rows, {size:,} bytes, their indexes {own:,}; "
            f"made in {time.perf_counter() - began:.1f} s"
        )
        QUESTIONS[:] = questions(files, rows)
        answered = measured(ways(table), rounds)
        shown(answered)
        if asked.json:
            results.report([*judged(answered)], as_json=True)
        print(f"\n{table.scan(where=QUESTIONS[0].where, columns=COLUMNS).explain()}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
