"""Sorting and rollup against Spark, deltalake, DuckDB and Polars, in one run.

1. The rows and the ways are those of ``sort_ways``: 250 segments of 40,000 rows.
2. Each round runs every way once on the same files, so that a drift of the machine hits all.
   Reported are medians, and their ratios to ours in Spark tasks. Ours syncs its files; the peers
   do not. Inputs are in the page cache.
3. Each result is checked: as many rows as went in, or as there are groups.
4. Peak memory is measured apart, each way once in a process of its own: the sum of the high-water
   marks of that process and all its children (JVM, Python workers), and the largest of these.
   Ours is measured with a quarter of the rows, all, and twice as many, too.

Usage: ``python benchmarks/sort_and_rollup.py [--quick] [--rounds N] [--keep DIR] [--only WAY]``.
"""

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import pyarrow.parquet as pq
import results
from pyspark.sql import SparkSession
from sort_ways import ALONE, OURS, TASKS, Data, Way, generate

from airflow_provider_segtable.spark.driver.session import session

MIB = 1 << 20
FILE_ROWS = 40_000
ROLLUP_GOAL = 1.2


def measure(way: Way, data: Data, work: Path, spark: SparkSession | None) -> float:
    """Run one way once, check and remove its result, and return the seconds it took."""
    out = Path(tempfile.mkdtemp(dir=work))
    way.prepare(data, out)
    os.sync()  # nobody pays for the pages of the one before
    run = way.run(spark)
    began = time.perf_counter()
    results = run(data, out)
    took = time.perf_counter() - began
    rows = sum(pq.read_metadata(path).num_rows for path in results)
    if rows != data.result:
        raise SystemExit(f"{way.name}: {rows} rows, not {data.result}")
    for path in results:
        path.unlink()
    shutil.rmtree(out)
    return took


def started() -> SparkSession:
    """Return a session of two task slots whose Python workers are up."""
    spark = session("segtable-benchmark", "local[2]", {"spark.driver.memory": "4g"})
    spark.sparkContext.parallelize(range(2), 2).map(str).collect()
    return spark


def peaks(root: int) -> list[int]:
    """Return the high-water marks of a process and all its descendants, in bytes."""
    parents: dict[int, int] = {}
    marks: dict[int, int] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            status = dict(
                line.split(":", 1) for line in (entry / "status").read_text().splitlines()
            )
        except OSError:
            continue  # it has ended
        parents[int(entry.name)] = int(status["PPid"])
        marks[int(entry.name)] = int(status.get("VmHWM", "0 kB").split()[0]) * 1024
    family = {root}
    while more := {child for child, parent in parents.items() if parent in family} - family:
        family |= more
    return [marks[member] for member in family if member in marks]


def run_alone(task: str, name: str, root: Path, files: int) -> None:
    """Run one way once in this process and print its peak memory as JSON."""
    make, ways = TASKS[task]
    way = next(way for way in ways if way.name == name)
    spark = started() if way.spark else None
    measure(way, generate(root, make, files, FILE_ROWS), root.parent, spark)
    found = peaks(os.getpid())
    print(json.dumps({"sum": sum(found), "workers": sorted(found)[:-1], "largest": max(found)}))
    if spark:
        spark.stop()


def memory(task: str, name: str, root: Path, files: int) -> dict[str, int]:
    """Run one way in a process of its own and return its peaks."""
    command = [sys.executable, __file__, "--alone", task, name, str(root), str(files)]
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, int] = json.loads(done.stdout.splitlines()[-1])
    return found


@contextmanager
def workplace(keep: str | None) -> Iterator[Path]:
    """Yield a directory, removed afterwards unless it was named."""
    if keep:
        Path(keep).mkdir(parents=True, exist_ok=True)
        yield Path(keep).resolve()
        return
    with tempfile.TemporaryDirectory(prefix="segtable-bench-") as made:
        yield Path(made)


def compare(task: str, work: Path, args: argparse.Namespace, spark: SparkSession) -> dict:
    """Measure all ways of a task, and print and return what was found."""
    make, ways = TASKS[task]
    ways = [way for way in ways if args.only in way.name or way.name == OURS]
    root = work / f"{task}-{args.files}"
    data = generate(root, make, args.files, FILE_ROWS)
    times: dict[str, list[float]] = {way.name: [] for way in ways}
    for _ in range(args.rounds):
        for way in ways:
            times[way.name].append(measure(way, data, work, spark))
    seconds = {name: statistics.median(taken) for name, taken in times.items()}
    peak = {way.name: memory(task, way.name, root, args.files) for way in ways if args.memory}
    if not args.json:
        show(task, data, seconds, peak)
    found = {"rows": data.rows, "bytes": data.size, "result": data.result, "seconds": seconds}
    return found | {"memory": peak}


def show(task: str, data: Data, seconds: dict[str, float], peak: dict[str, dict]) -> None:
    """Print medians, ratios and peaks."""
    print(f"\n{task}: {data.rows:,} rows, {data.size / 1e6:,.0f} MB -> {data.result:,} rows")
    print(f"{'way':<28}{'s':>8}{'x segtable':>12}{'peak MiB':>10}{'largest':>10}")
    for name, median in seconds.items():
        some = peak.get(name, {"sum": 0, "largest": 0})
        print(
            f"{name:<28}{median:>8.2f}{median / seconds[OURS]:>12.2f}"
            f"{some['sum'] // MIB:>10,}{some['largest'] // MIB:>10,}"
        )


def judged(task: str, found: dict) -> Iterator[results.Result]:
    """Yield ours in one process against each other tool, and a rollup's goal by the fastest."""
    seconds: dict[str, float] = found[task]["seconds"]
    others = {name: took for name, took in seconds.items() if not name.startswith("segtable")}
    fastest = min(others, key=lambda name: others[name], default="")
    for name, took in others.items():
        goal = ROLLUP_GOAL if task == "rollup" and name == fastest else None
        yield results.Result(
            benchmark="sort_and_rollup",
            what=f"{task} in one process",
            ours=seconds.get(ALONE, seconds[OURS]),
            unit="s",
            peer=took,
            against=name,
            most=goal,
        )


def growth(work: Path, args: argparse.Namespace) -> dict[int, dict[str, int]]:
    """Measure how much memory ours needs for fewer and for more rows."""
    make, _ = TASKS["sort"]
    found = {}
    for files in (max(1, args.files // 4), args.files, args.files * 2):
        root = work / f"sort-{files}"
        generate(root, make, files, FILE_ROWS)
        found[files * FILE_ROWS] = memory("sort", ALONE, root, files)
        if not args.json:
            peak = found[files * FILE_ROWS]["largest"] // MIB
            print(f"{ALONE}: {files * FILE_ROWS:>12,} rows, peak {peak:,} MiB")
    return found


def main(argv: Sequence[str] | None = None) -> int:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="8 files, one round, no memory")
    parser.add_argument("--files", type=int, default=250, help=f"of {FILE_ROWS:,} rows each")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--task", choices=TASKS, action="append", help="default: both")
    parser.add_argument("--only", default="", help="ways whose name contains this, and ours")
    parser.add_argument("--no-memory", dest="memory", action="store_false")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--keep", help="work here and leave the small files")
    parser.add_argument("--alone", nargs=4, help=argparse.SUPPRESS)
    args = parser.parse_args(argv)
    if args.alone:
        task, name, root, files = args.alone
        run_alone(task, name, Path(root), int(files))
        return 0
    if args.quick:
        args.files, args.rounds, args.memory = 8, 1, False
    with workplace(args.keep) as work:
        spark = started()
        found = {task: compare(task, work, args, spark) for task in args.task or TASKS}
        spark.stop()
        if args.memory:
            found["growth"] = growth(work, args)
        if args.json:
            results.report(
                [each for task in args.task or TASKS for each in judged(task, found)], as_json=True
            )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
